//! Links between pages lead to a file.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn links_lead_to_a_file_when_they_stay_in_the_tree() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = pages(&root);
    for folder in ["docs", "docs/guide", "docs/concepts", "docs/reference"] {
        pages.extend(self::pages(&root.join(folder)));
    }
    assert!(pages.len() > 15, "where are the pages? {pages:?}");
    for page in pages {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            let target = page.with_file_name(link);
            assert!(target.try_exists().unwrap(), "{} links to {link}", page.display());
        }
    }
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of `[text](target)`, without those on the web and without `#heading`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

#[test]
fn links_are_found_with_and_without_a_heading() {
    let text = "[a](x.md), [b](y/z.md#there), [c](#here), [d](https://example.com)";
    assert_eq!(links(text).collect::<Vec<_>>(), ["x.md", "y/z.md"]);
}
