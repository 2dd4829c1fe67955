//! Comparison of `why` with a command's real access, for random rules and paths.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{Dice, World, seeds};

/// Files and directories of every world. The content of a file is its own name.
const FILES: [&str; 11] = [
    "home/k",
    "home/.ssh/k",
    "home/d/k",
    "home/d/e/k",
    "home/d/e/f/k",
    "project/k",
    "project/d/k",
    "project/d/e/k",
    "project/.git/config",
    "outside/k",
    "outside/d/k",
];

/// Prints the access to each path and the answer of `why`. The arguments are pairs: a path, and its content or `/`.
const PROBE: &str = r#"
while [ $# -gt 0 ]; do
    truth=hidden
    if [ "$2" = / ]; then
        mkdir "$1/made$#" 2>/dev/null
    elif [ "$(cat "$1" 2>/dev/null)" = "$2" ]; then
        truth=read-only
        if (: >> "$1") 2>/dev/null; then truth=writable; fi
    fi
    echo "$truth"
    agent-sandbox --json why "$1" | tr '\n' ' '
    echo
    shift 2
done
"#;

/// Location of the world, with its home and working directory.
fn place(dice: &mut Dice) -> (World, String) {
    let binary = World::new().binary().to_owned();
    let world = match dice.below(3) {
        0 => World::new(),
        1 => World::below(Path::new("/tmp"), binary),
        _ => World::below(Path::new("/dev/shm"), binary),
    };
    let world = FILES.into_iter().fold(world, |world, file| world.file(file, file));
    let world = world.symlink("linked", "home").symlink("outside/way", "../home/d");
    match dice.below(6) {
        0 => (world.clone().cwd("home"), "cwd = home".into()),
        1 => (world.clone().env("HOME", world.path("linked")), "linked home".into()),
        2 => (world.clone().env("HOME", "/"), "home = /".into()),
        // A test must not open the whole machine: without `@base`, `/` is not writable.
        3 => (world.clone().cwd("/"), "cwd = /".into()),
        4 => (world.clone().cwd("."), "cwd above home".into()),
        _ => (world, "plain".into()),
    }
}

/// Returns one to six rules for paths of the world or above it, as flags.
fn rules(dice: &mut Dice, world: &World) -> Vec<String> {
    let places = [
        "home",
        "home/d",
        "home/d/e",
        "home/d/e/f",
        "home/d/k",
        "home/d/e/k",
        "home/k",
        "project",
        "project/d",
        "project/d/e",
        "project/d/k",
        "outside",
        "outside/d",
        "outside/k",
        "outside/way",
        "linked/d/e",
        ".",
        "home/*/k",
        "**/e/k",
        "home/d/*",
    ];
    let above = ["/tmp", "/dev/shm", "/var/tmp"];
    let mut flags = Vec::new();
    for _ in 0..=dice.below(6) {
        flags.push(format!("--{}", dice.pick(&["rw", "ro", "exclude", "exclude"])));
        flags.push(if dice.one_in(8) {
            dice.pick(&above).to_owned()
        } else {
            world.path(dice.pick(&places)).display().to_string()
        });
    }
    flags
}

/// Returns the verdict of `why` in the words of the probe.
fn told(answer: &str) -> String {
    let answer: Value =
        serde_json::from_str(answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
    match answer["verdict"].as_str() {
        Some("own") => "hidden".to_owned(),
        verdict => verdict.unwrap_or("nothing").to_owned(),
    }
}

/// Returns the paths to ask about, each with its content, or `/` for a directory.
fn probed(world: &World) -> Vec<(String, &'static str)> {
    let dirs = ["home", "home/d", "home/d/e", "project", "project/d", "outside", "outside/way"];
    FILES
        .into_iter()
        .map(|file| (file, file))
        .chain([("linked/d/e/k", "home/d/e/k"), ("outside/way/k", "home/d/k")])
        .chain(dirs.map(|dir| (dir, "/")))
        .map(|(path, text)| (world.path(path).display().to_string(), text))
        .collect()
}

/// Compares every path of one world, outside and inside. Returns false when the rules allow no sandbox.
fn compare(seed: u64) -> bool {
    let mut dice = Dice::new(seed);
    let (world, name) = place(&mut dice);
    let tmp = dice.pick(&["private", "private", "host"]);
    let presets = if name == "cwd = /" { "\"!@base\"" } else { "" };
    world.write(
        "c.json",
        format!("{{\"tmp\": \"{tmp}\", \"filesystem\": {{\"presets\": [{presets}]}}}}"),
    );
    let mut flags = vec!["-c".to_owned(), world.path("c.json").display().to_string()];
    flags.extend(rules(&mut dice, &world));

    let pairs = probed(&world);
    // Asked before the run, because its end may move planted files aside.
    let outside: Vec<_> = pairs
        .iter()
        .map(|(path, _)| {
            let question = ["--json", "why", path].map(str::to_owned);
            world.run(flags.iter().cloned().chain(question))
        })
        .collect();
    let mut line = flags.clone();
    line.extend(["sh", "-c", PROBE, "sh"].map(str::to_owned));
    line.extend(pairs.iter().flat_map(|(path, text)| [path.clone(), (*text).to_owned()]));
    let run = world.run(&line);
    if run.output().is_empty() {
        run.code(125);
        return false;
    }
    let output = run.succeeds().output();
    let found: Vec<&str> = output.lines().collect();
    assert_eq!(found.len(), 2 * pairs.len(), "{output}");

    let mut wrong = String::new();
    for (index, ((path, text), found)) in pairs.iter().zip(found.chunks(2)).enumerate() {
        let made = Path::new(path).join(format!("made{}", 2 * (pairs.len() - index)));
        let is_dir = *text == "/";
        let truth = if is_dir && fs::remove_dir(made).is_ok() { "writable" } else { found[0] };
        let outside = told(&outside[index].clone().succeeds().output());
        for (side, told) in [("outside", outside), ("inside", told(found[1]))] {
            let agrees =
                if is_dir { (told == "writable") == (truth == "writable") } else { told == truth };
            if !agrees {
                let _ = writeln!(wrong, "{path}: {truth}, but `why` says {side}: {told}");
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{name}, tmp {tmp}, {flags:?}\n{wrong}again with: AGENT_SANDBOX_SEED={seed}"
    );
    true
}

#[test]
fn why_tells_what_a_command_finds_for_random_rules_and_places() {
    let seeds = seeds(12, 600);
    let compared = seeds.iter().filter(|seed| compare(**seed)).count();
    assert!(compared * 2 >= seeds.len(), "{compared} of {} sandboxes started", seeds.len());
}
