//! Modules of a crate use each other in one direction, so that each can be read without those that follow it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules, each with the others that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Reads the modules at the top of a crate. Tests may use whatever they like.
fn read(src: &Path) -> Uses {
    let mut uses = Uses::new();
    for entry in fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !["lib", "main"].contains(&module.as_str()) {
            collect(&path, uses.entry(module).or_default());
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for (module, used) in &mut uses {
        used.retain(|name| name != module && modules.contains(name));
    }
    uses
}

fn collect(path: &Path, used: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            collect(&entry.unwrap().path(), used);
        }
    } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs") {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap()).collect();
        used.extend(code.join("\n").split("crate::").skip(1).flat_map(names));
    }
}

/// Returns the modules at the front of a text that stands behind `crate::`.
fn names(text: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    match text.strip_prefix('{') {
        Some(group) => group.split(';').next().unwrap().split(',').map(name).collect(),
        None => vec![name(text)],
    }
}

/// Returns modules that lead back to the first of them, if there are any.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    uses.keys().find_map(|module| follow(module, uses, &mut Vec::new(), &mut done))
}

fn follow(
    module: &str,
    uses: &Uses,
    way: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = way.iter().position(|passed| passed == module) {
        return Some([&way[at..], &[module.to_owned()]].concat());
    }
    if done.contains(module) {
        return None;
    }
    way.push(module.to_owned());
    let found = uses.get(module)?.iter().find_map(|used| follow(used, uses, way, done));
    way.pop();
    done.insert(module.to_owned());
    found
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let uses = read(&entry.unwrap().path().join("src"));
        seen += uses.len();
        assert_eq!(cycle(&uses), None, "these modules use each other in a circle");
    }
    assert!(seen > 100, "{seen} modules were read");
}

#[test]
fn a_circle_of_modules_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path();
    fs::create_dir(src.join("b")).unwrap();
    fs::write(src.join("lib.rs"), "mod a;\nmod b;\nmod c;\nuse crate::a::A;\n").unwrap();
    fs::write(src.join("a.rs"), "use crate::b;\n").unwrap();
    fs::write(src.join("b.rs"), "mod d;\n// crate::a\n").unwrap();
    fs::write(src.join("c.rs"), "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n").unwrap();
    fs::write(src.join("b/d.rs"), "use super::super::x;\n").unwrap();
    assert_eq!(cycle(&read(src)), None);
    fs::write(src.join("b/d.rs"), "use crate::{\n    c::C,\n    b,\n};\n").unwrap();
    assert_eq!(cycle(&read(src)), None);
    fs::write(src.join("c.rs"), "fn f() { crate::a::g() }\n").unwrap();
    let circle = cycle(&read(src)).map(|modules| modules.join(" "));
    assert_eq!(circle.as_deref(), Some("a b c a"));
}
