//! The library example in README equals the compiled one.

use std::fs;
use std::path::Path;

#[test]
fn readme_shows_the_example_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split("\n## As a library\n").nth(1).expect("README has the section");
    let shown = section.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = fs::read_to_string(root.join("crates/launch/examples/run.rs")).unwrap();
    let (_, compiled) = example.split_at(example.find("use std::error::Error;").unwrap());
    assert_eq!(shown, Some(compiled), "copy crates/launch/examples/run.rs into README.md");
}
