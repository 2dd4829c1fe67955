//! Modules depend on each other in one direction, at every level, so that each can be read without later ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Segments of a path to a module or an item, from the crate's root.
type Segments = Vec<String>;

/// Sibling modules, each with the siblings that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Paths that each module of a crate names. Tests are exempt and left out.
#[derive(Default)]
struct Modules(BTreeMap<Segments, BTreeSet<Segments>>);

impl Modules {
    fn read(src: &Path) -> Self {
        let mut sources = BTreeMap::new();
        collect(src, &Segments::new(), &mut sources);
        let named =
            |module: &Segments, code: &String| (module.clone(), named(module, code, &sources));
        Self(sources.iter().map(|(module, code)| named(module, code)).collect())
    }

    /// Returns the module that a path refers to, through re-exports.
    fn resolve(&self, path: &[String], depth: usize) -> Segments {
        let end =
            (0..=path.len()).rev().find(|&end| self.0.contains_key(&path[..end])).unwrap_or(0);
        let (module, rest) = path.split_at(end);
        let exported =
            rest.first().filter(|_| depth < 8).and_then(|item| self.export(module, item));
        match exported {
            Some(target) if target != path => {
                self.resolve(&[target, rest[1..].to_vec()].concat(), depth + 1)
            }
            _ => module.to_vec(),
        }
    }

    /// Returns the path by which a module names an item that it does not define.
    fn export(&self, module: &[String], item: &String) -> Option<Segments> {
        let named = self.0.get(module)?.iter().filter(|path| path.last() == Some(item));
        let below = |path: &&Segments| path.starts_with(module) && path.len() > module.len() + 1;
        named.clone().find(below).or(named.clone().find(|path| !path.starts_with(module))).cloned()
    }

    /// Returns the uses among the children of each module.
    fn levels(&self) -> BTreeMap<Segments, Uses> {
        let mut levels: BTreeMap<Segments, Uses> = BTreeMap::new();
        for (module, paths) in &self.0 {
            for target in paths.iter().map(|path| self.resolve(path, 0)) {
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                if let (Some(user), Some(used)) = (module.get(common), target.get(common)) {
                    let level = levels.entry(module[..common].to_vec()).or_default();
                    level.entry(used.clone()).or_default();
                    level.entry(user.clone()).or_default().insert(used.clone());
                }
            }
        }
        levels
    }

    /// Returns every cycle of siblings, one for each level.
    fn cycles(&self) -> Vec<String> {
        let shown = |(parent, uses): (&Segments, &Uses)| {
            Some(format!("{}: {}", parent.join("::"), cycle(uses)?.join(" → ")))
        };
        self.levels().iter().filter_map(shown).collect()
    }
}

/// Reads the code of all modules below a folder.
fn collect(dir: &Path, parent: &Segments, sources: &mut BTreeMap<Segments, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = [parent.clone(), vec![name.clone()]].concat();
        if path.is_dir() && name != "tests" {
            collect(&path, &module, sources);
        } else if path.extension().is_some_and(|end| end == "rs") && name != "tests" {
            let root = parent.is_empty() && ["lib", "main"].contains(&name.as_str());
            sources.insert(if root { Segments::new() } else { module }, code(&path));
        }
    }
}

/// Returns the code of a file, without comments and without its tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Returns the paths inside the crate that a module names, from the crate's root.
fn named(module: &Segments, code: &str, all: &BTreeMap<Segments, String>) -> BTreeSet<Segments> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("::") {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let start = code[..at].rfind(|c| !is_name(c)).map_or(0, |before| before + 1);
        if code[..start].ends_with("::") {
            continue; // inside a path whose front was read
        }
        for path in expand(&mut &code[start..]) {
            found.extend(absolute(module, &path, all));
        }
    }
    found
}

/// Returns a path from the crate's root, if it is in the crate.
fn absolute(
    module: &Segments,
    path: &[String],
    all: &BTreeMap<Segments, String>,
) -> Option<Segments> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Segments::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        child => {
            let child = [module.clone(), vec![child.to_owned()]].concat();
            all.contains_key(&child).then_some(())?;
        }
    }
    while rest.first().is_some_and(|segment| segment == "super") {
        base.pop();
        rest = &rest[1..];
    }
    Some([base.as_slice(), rest].concat())
}

/// Returns the paths at the start of a text: one, or each of a group such as `a::{b, c::d}`.
fn expand(text: &mut &str) -> Vec<Segments> {
    let mut path = Segments::new();
    loop {
        *text = text.trim_start();
        if let Some(inside) = text.strip_prefix('{') {
            *text = inside;
            return group(text).into_iter().map(|branch| [path.clone(), branch].concat()).collect();
        }
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
        if end == 0 {
            return if path.is_empty() { Vec::new() } else { vec![path] };
        }
        path.push(text[..end].to_owned());
        *text = &text[end..];
        match text.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => return vec![path],
        }
    }
}

fn group(text: &mut &str) -> Vec<Segments> {
    let mut branches = Vec::new();
    loop {
        *text = text.trim_start_matches([' ', '\n', ',', '*']);
        if text.is_empty() || text.starts_with('}') {
            *text = text.get(1..).unwrap_or_default();
            return branches;
        }
        let found = expand(text);
        if found.is_empty() {
            return branches; // no list of paths
        }
        branches.extend(found);
        *text = text
            .strip_prefix(" as ")
            .map_or(*text, |alias| alias.trim_start_matches(|c| c != ',' && c != '}'));
    }
}

/// Returns a cycle of modules, if there is one.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    uses.keys().find_map(|module| follow(module, uses, &mut Vec::new(), &mut done))
}

fn follow(
    module: &str,
    uses: &Uses,
    passed: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = passed.iter().position(|earlier| earlier == module) {
        return Some([&passed[at..], &[module.to_owned()]].concat());
    }
    if done.contains(module) {
        return None;
    }
    passed.push(module.to_owned());
    let found = uses.get(module)?.iter().find_map(|used| follow(used, uses, passed, done));
    passed.pop();
    done.insert(module.to_owned());
    found
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut read, mut cycles) = (0, Vec::new());
    for entry in fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let modules = Modules::read(&path.join("src"));
        read += modules.0.len();
        let name = path.file_name().unwrap().to_str().unwrap();
        cycles.extend(modules.cycles().iter().map(|cycle| format!("{name}::{cycle}")));
    }
    assert!(cycles.is_empty(), "modules use each other in a cycle:\n{}", cycles.join("\n"));
    assert!(read > 500, "{read} modules were read");
}

#[test]
fn a_cycle_of_modules_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let src = dir.path();
    let write = |file: &str, text: &str| fs::write(src.join(file), text).unwrap();
    let cycles = || Modules::read(src).cycles();
    fs::create_dir(src.join("b")).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");
    write("a.rs", "use crate::b;\nuse b::X;\n");
    write("b.rs", "mod d;\nmod e;\npub use d::D;\n// crate::a\nfn f() { d::f() }\n");
    write("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
    write("b/d.rs", "pub struct D;\nuse super::super::x;\n");
    write("b/e.rs", "use super::D;\n");
    assert_eq!(cycles(), [""; 0]);
    write("b/d.rs", "use crate::{\n    b,\n    c::{self, C as Other, *},\n};\n");
    assert_eq!(cycles(), [""; 0]);
    for (file, text, expected) in [
        ("c.rs", "fn f() { crate::a::g() }\n", ": a → b → c → a"),
        ("c.rs", "use crate::{x::Y, A};\n", ": a → b → c → a"),
        ("c.rs", "fn f() { super::A::new() }\n", ": a → b → c → a"),
        ("b/d.rs", "use super::e;\nuse crate::c;\n", "b: d → e → d"),
        ("b/d.rs", "use super::{e::E, f};\nuse crate::c;\n", "b: d → e → d"),
    ] {
        let before = fs::read_to_string(src.join(file)).unwrap();
        write(file, text);
        assert_eq!(cycles(), [expected], "{file}: {text}");
        write(file, &before);
    }
}
