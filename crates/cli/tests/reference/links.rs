//! Hand-written pages: valid links, limited length, and transcripts that are run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::Page;

/// Maximum number of words of a page.
const WORDS: usize = 1200;
/// Maximum number of columns of a line of prose.
const COLUMNS: usize = 120;
/// Long pages, which are read by searching.
const LONG: [&str; 2] = ["docs/concepts/attacks.md", "CHANGELOG.md"];
/// Sources that name the pages they run.
const SUITES: [&str; 2] =
    ["crates/cli/tests/transcripts/main.rs", "crates/cli/tests/containers/transcripts.rs"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns every page by its path in the repository.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::new(), "docs".into()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() && folder.starts_with("docs") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(root().join(&path)).unwrap();
                pages.insert(path.display().to_string(), text);
            }
        }
    }
    assert!(pages.len() > 25, "where are the pages? {:?}", pages.keys());
    pages
}

#[test]
fn links_lead_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    for (page, text) in pages() {
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => root().join(&page),
                _ => root().join(&page).with_file_name("").join(path),
            };
            let headings = match fs::read_to_string(&target) {
                _ if target.is_dir() => Vec::new(),
                Ok(text) => anchors(&text),
                Err(_) => Vec::new(),
            };
            if !target.try_exists().unwrap()
                || !(anchor.is_empty() || headings.contains(&anchor.to_owned()))
            {
                broken.push(format!("{page} links to {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn paths_in_sources_lead_to_a_page() {
    let mut broken = Vec::new();
    let mut folders =
        ["crates", "deploy", "image", "bench", "fuzz", "xtask"].map(PathBuf::from).to_vec();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root().join(&folder)) else { continue };
        for entry in entries {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.extend((entry.file_name() != "target").then_some(path));
                continue;
            }
            let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
            for rest in text.split("docs/").skip(1) {
                let name = rest.split(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c)));
                let name = name.into_iter().next().unwrap_or_default().trim_end_matches('.');
                let is_page =
                    Path::new(name).extension().is_some_and(|extension| extension == "md")
                        && !rest.starts_with('/');
                if is_page && !root().join("docs").join(name).try_exists().unwrap() {
                    broken.push(format!("{} names docs/{name}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The last column of the attack table names the tests that show the verdict.
#[test]
fn attack_table_names_tests_that_exist() {
    let sources = sources(&root().join("crates"));
    let table = fs::read_to_string(root().join("docs/concepts/attacks.md")).unwrap();
    let missing = table
        .lines()
        .filter_map(|line| line.split_once("| stopped: "))
        .flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2))
        .filter(|name| name.matches('_').count() > 1)
        .filter(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
        .filter(|name| !sources.contains(&format!("fn {name}(")))
        .collect::<Vec<_>>();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns all Rust code below a directory.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| {
        let is_code = path.extension().is_some_and(|extension| extension == "rs");
        match () {
            () if path.is_dir() => sources(&path),
            () if is_code => fs::read_to_string(&path).unwrap(),
            () => String::new(),
        }
    });
    texts.collect()
}

#[test]
fn pages_are_short_in_words_and_lines() {
    let mut long = Vec::new();
    for (page, text) in pages() {
        if text.starts_with(super::GENERATED) {
            continue;
        }
        let words = prose(&text).map(|(_, line)| line.split_whitespace().count()).sum::<usize>();
        if words > WORDS && !LONG.contains(&&*page) {
            long.push(format!("{page} has {words} words; at most {WORDS}: split it"));
        }
        let wide = prose(&text).filter(|(_, line)| {
            !line.starts_with('|') && line.chars().count() > COLUMNS && line.contains(' ')
        });
        long.extend(
            wide.map(|(number, _)| format!("{page}:{number} is wider than {COLUMNS} columns")),
        );
    }
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn every_transcript_is_run_or_says_why_not() {
    let suites = SUITES.map(|path| fs::read_to_string(root().join(path)).unwrap());
    let hand_written = pages().into_iter().filter(|(_, text)| !text.starts_with(super::GENERATED));
    let missing: Vec<String> =
        hand_written.flat_map(|(name, text)| not_run(&name, &text, &suites)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Returns a line for each transcript that no suite runs and that has no reason, and for each command with a prompt
/// outside of transcripts.
fn not_run(name: &str, text: &str, suites: &[String; 2]) -> Vec<String> {
    let page = Page::parse(name, text);
    let suite = usize::from(page.suite.is_some());
    let is_listed = suites[suite].contains(&format!("\"{name}\""));
    let blocks = page.blocks().filter_map(|block| match &block.not_run {
        Some(reason) if reason.is_empty() => {
            Some(format!("{name}:{}: `not run` without a reason", block.line))
        }
        None if !is_listed => {
            Some(format!("{name}:{}: {} does not list the page", block.line, SUITES[suite]))
        }
        _ => None,
    });
    blocks.chain(outside_of_transcripts(name, text)).collect()
}

fn outside_of_transcripts(name: &str, text: &str) -> Vec<String> {
    let mut outside = Vec::new();
    let mut language = None;
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        match line.trim_start().strip_prefix("```") {
            Some("") if language.is_none() => {
                outside.push(format!("{place}: a block without a language"));
                language = Some("");
            }
            Some(word) if language.is_none() => language = Some(word),
            Some(_) => language = None,
            None if line.trim_start().starts_with("$ ") && language != Some("console") => {
                outside.push(format!("{place}: a command with a prompt outside of a transcript"));
            }
            None => {}
        }
    }
    outside
}

#[test]
fn a_page_with_a_transcript_that_nothing_runs_is_reported() {
    let suites = ["readme: \"listed.md\",".to_owned(), String::new()];
    let block = "```console\n$ true\n```\n";
    for (name, text, expected) in [
        ("listed.md", block.to_owned(), 0),
        ("other.md", block.to_owned(), 1),
        ("other.md", format!("<!-- not run: needs a key -->\n{block}"), 0),
        ("other.md", format!("<!-- not run: -->\n{block}"), 1),
        ("listed.md", format!("<!-- test: suite containers -->\n{block}"), 1),
        ("listed.md", "```text\n$ true\n```\n".to_owned(), 1),
        ("listed.md", "```\ntrue\n```\n".to_owned(), 1),
        ("listed.md", "```sh\ntrue\n```\n".to_owned(), 0),
    ] {
        assert_eq!(not_run(name, &text, &suites).len(), expected, "{name} {text}");
    }
}

/// Returns the lines outside of blocks of code and comments, numbered.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut code, mut comment) = (false, false);
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        comment |= line.starts_with("<!--");
        let shown = !code && !fence && !comment;
        comment &= !line.contains("-->");
        shown.then_some((index + 1, line))
    })
}

/// Returns the targets of `[text](target)`, without those on the web.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for (_, line) in prose(text) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(targets.filter(|target| !target.contains("://")));
    }
    links
}

/// Returns the anchors that GitHub gives to headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
    };
    headings.map(|(_, heading)| anchor(heading)).collect()
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A b, `C`\n[a](x.md), [b](y/z.md#there), [c](#here), [d](https://example.com)\n```\n[e](no)\n```\n";
    assert_eq!(links(text), ["x.md", "y/z.md#there", "#here"]);
    assert_eq!(anchors(text), ["a-b-c"]);
}
