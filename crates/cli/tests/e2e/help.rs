//! Help pages: every command has one, and it fits a narrow terminal.

use testkit::{Run, World};

/// Widths that every page fits, of which the second is the default.
const WIDTHS: [usize; 2] = [50, 100];

/// Returns the words of every command without subcommands, and of those with subcommands, from the help pages.
pub(crate) fn commands(world: &World) -> (Vec<String>, Vec<String>) {
    let (mut leaves, mut above) = (Vec::new(), Vec::new());
    let overview = world.run(["--help"]).succeeds().output();
    let mut open: Vec<String> = rows(&overview, |line| GROUPS.contains(&line));
    assert!(open.len() > 30, "{overview}");
    while let Some(path) = open.pop() {
        let page = world.run(path.split(' ').chain(["--help"])).succeeds().output();
        let below = rows(&page, |line| line == "Commands:");
        open.extend(below.iter().map(|name| format!("{path} {name}")));
        if below.is_empty() { leaves.push(path) } else { above.push(path) }
    }
    (leaves, above)
}

const GROUPS: [&str; 7] = [
    "Run:",
    "Review:",
    "Sessions:",
    "Policy:",
    "Secrets and network:",
    "Filesystems and images:",
    "Setup:",
];

/// Returns the first words of the rows below the headings that are wanted.
fn rows(page: &str, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wanted = false;
    let mut names = Vec::new();
    for line in page.lines() {
        let is_row = line.starts_with("  ") && !line.starts_with("   ");
        match line.split_whitespace().next() {
            Some(name) if is_row && wanted => names.push(name.to_owned()),
            Some(_) if line.starts_with(' ') => {}
            _ => wanted = is_wanted(line),
        }
    }
    names
}

#[track_caller]
fn fits(run: &Run, width: usize) {
    for line in run.output().lines() {
        assert!(line.chars().count() <= width, "{width} columns: {line}\n{run}");
    }
}

#[test]
fn every_help_page_fits_fifty_columns() {
    let world = World::new();
    let (leaves, above) = commands(&world);
    for width in WIDTHS {
        let world = world.clone().env("COLUMNS", width.to_string());
        for path in leaves.iter().chain(&above) {
            let words = || path.split(' ');
            let page = world.run(words().chain(["--help"])).succeeds();
            fits(&page, width);
            fits(&world.run(words().chain(["-h"])).succeeds(), width);
            world.run(["help"].into_iter().chain(words())).succeeds().stdout(&page.output());
        }
        fits(&world.run(["--help"]).succeeds(), width);
    }
}

#[test]
fn help_follows_the_width_of_a_real_terminal() {
    let world = World::new();
    let binary = world.binary().display().to_string();
    for (columns, is_wide) in [("50", false), ("90", true)] {
        let script = format!("stty cols {columns} && \"$0\" help exec");
        let screen = world.host_terminal(["sh", "-c", &script, &binary]).wait().succeeds().output();
        let widest = screen.lines().map(|line| line.trim_end().chars().count()).max();
        assert_eq!(widest > Some(50), is_wide, "{columns}: {screen}");
    }
}

#[test]
fn overview_has_groups_of_at_most_eight_on_one_screen() {
    let world = World::new();
    let page = world.run(["--help"]).succeeds().output();
    assert!(page.lines().count() <= 60, "{page}");
    for group in GROUPS {
        let names = rows(&page, |line| line == group);
        assert!((1..=8).contains(&names.len()), "{group} {names:?}");
    }
    world.run(["help"]).succeeds().stdout(&page);
}

/// Only commands that build a policy show the flags of a policy.
#[test]
fn sandbox_flags_are_shown_where_they_mean_something() {
    let world = World::new();
    let (leaves, above) = commands(&world);
    for path in leaves.iter().chain(&above) {
        let page = world.run(path.split(' ').chain(["--help"])).succeeds().output();
        let builds_a_policy = ["exec", "up", "why", "config show"].contains(&path.as_str());
        for flag in ["Sandbox:", "--network", "--rw <PATH>", "--docker"] {
            assert_eq!(page.contains(flag), builds_a_policy, "{path} {flag}");
        }
    }
}

#[test]
fn help_of_an_unknown_command_suggests_a_near_one() {
    let world = World::new();
    world.run(["help", "docter"]).code(2).stderr_contains("did you mean `doctor`?");
    world.run(["help", "fs", "mnt"]).code(2).stderr_contains("unknown command `mnt`");
    world.run(["version"]).succeeds().stdout_contains("agent-sandbox ");
}
