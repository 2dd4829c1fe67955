//! The public interface of the libraries is chosen: each public function and constant is used outside its crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Source files, each with the crate that it belongs to. Tests and examples of a crate count as its users.
fn sources(dir: &Path, owner: &str, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" {
            let uses = ["tests", "examples", "benches"].contains(&name);
            sources(&path, &if uses { format!("{owner}/{name}") } else { owner.to_owned() }, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push((owner.to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

/// Returns the names of the public functions and constants that a file defines.
fn public(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter_map(|line| {
        let mut words = words(line.trim_start().strip_prefix("pub ")?);
        let kinds = ["const", "static", "async", "unsafe", "fn"];
        let item = words.find(|word| !kinds.contains(word))?;
        let is_item = kinds.iter().any(|kind| line.contains(&format!("{kind} {item}")));
        is_item.then_some(item)
    })
}

#[test]
fn public_items_are_used_outside_their_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["crates", "bench", "fuzz"] {
        if folder != "crates" {
            sources(&root.join(folder), folder, &mut files);
            continue;
        }
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            sources(&path, path.file_name().unwrap().to_str().unwrap(), &mut files);
        }
    }
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (owner, text) in &files {
        for word in words(text) {
            users.entry(word).or_default().insert(owner);
        }
    }
    let binaries = ["cli", "init", "bench", "fuzz", "testkit"];
    let libraries = files.iter().filter(|(owner, _)| !binaries.contains(&owner.as_str()));
    let (mut read, mut unused) = (0, Vec::new());
    for (owner, text) in libraries.filter(|(owner, _)| !owner.contains('/')) {
        for item in public(text) {
            read += 1;
            if users[item].iter().all(|user| user == owner) {
                unused.push(format!("{owner}: {item}"));
            }
        }
    }
    assert!(unused.is_empty(), "no other crate uses:\n{}", unused.join("\n"));
    assert!(read > 800, "{read} items were read");
}
