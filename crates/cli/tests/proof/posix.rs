//! pjdfstest: POSIX conformance of every engine, compared with a plain directory.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use testkit::{Engine, Layered, User, World, user};

use crate::dice::Dice;
use crate::differential::Generator;

/// Users that every Debian has. The suite switches between them and root.
const SETTINGS: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["games", "games"]] # words: quoted
"#;

/// The suite skips this if the C library does not know the file system's limit.
const UNKNOWN_LIMIT: &str = "link::link_count_max";

/// Result of a run of the suite.
#[derive(Debug, Default)]
struct Verdicts {
    passed: BTreeSet<String>,
    text: String,
}

#[test]
fn overlay_fails_no_check_of_pjdfstest_that_a_plain_directory_passes() {
    // Devices are refused in a sandbox's namespaces, with and without an overlay.
    compare(Engine::NativeInside, Engine::Overlay);
}

#[test]
fn agentfs_fails_no_check_of_pjdfstest_that_a_plain_directory_passes() {
    compare(Engine::Native, Engine::AgentFs);
}

fn compare(plain: Engine, engine: Engine) {
    let plain = run(plain, false);
    for populated in [false, true] {
        let found = run(engine, populated);
        let lost = plain.passed.difference(&found.passed);
        let excused =
            |name: &str| name == UNKNOWN_LIMIT || (engine == Engine::Overlay && is_limit(name));
        let lost: Vec<_> = lost.filter(|name| !excused(name)).collect();
        assert!(
            lost.is_empty(),
            "with populated base: {populated}, these pass natively: {lost:#?}\n{}",
            found.text
        );
    }
    let least = if user() == User::Root { 290 } else { 100 };
    assert!(plain.passed.len() > least, "too few to mean anything\n{}", plain.text);
}

/// Operations that overlayfs refuses, each named in the documentation. A device 0/0, which the suite uses as a device,
/// is a whiteout of overlayfs.
fn is_limit(name: &str) -> bool {
    name.ends_with("::char")
}

fn run(engine: Engine, populated: bool) -> Verdicts {
    let world = World::unseen().file("settings.toml", SETTINGS);
    // The suite's other users need access to the tree.
    fs::set_permissions(world.path(""), Permissions::from_mode(0o755)).unwrap();
    if populated {
        Generator { dice: Dice::new(1), engine, root: user() == User::Root }
            .base(&world.path("tree/base"));
    }
    let tree = Layered::new(&world, "tree", engine);
    let place = tree.seen().join(if populated { "x" } else { "" });
    let mut line = vec![suite().into_os_string(), "--configuration-file".into()];
    line.extend([
        world.path("settings.toml").into_os_string(),
        "--path".into(),
        place.into_os_string(),
    ]);
    let done = tree.start(line).wait_up_to(Duration::from_secs(300));
    read(&done.output())
}

fn read(text: &str) -> Verdicts {
    let mut verdicts = Verdicts { text: text.to_owned(), ..Verdicts::default() };
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some("ok")) = (words.next(), words.next()) {
            verdicts.passed.insert(name.to_owned());
        }
    }
    verdicts
}

/// Directory into which `./dev test` installs it: that of all build output, for any target.
fn suite() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().skip(2).take(3).map(|dir| dir.join("tools/bin/pjdfstest"));
    places
        .find(|path| path.is_file())
        .expect("this test needs `pjdfstest`; start it with: ./dev test posix")
}
