use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::base::Hidden;
use super::dirs::Swaps;
use super::*;
use crate::RelPath;
use crate::diff::{Origin, Origins as _};
use crate::host::HostTree;

struct World {
    root: tempfile::TempDir,
    sessions: LayerSessions,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for project in ["one", "two", "one/sub"] {
            fs::create_dir(root.path().join(project)).unwrap();
        }
        Self { sessions: LayerSessions::at(root.path().join("data/agent-sandbox")), root }
    }

    fn project(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn create(&self, project: &str, name: Option<&str>) -> Result<LayerSession, SessionError> {
        let project = self.project(project);
        self.sessions.create(NewSession {
            name: name.map(str::to_owned),
            roots: vec![(project.clone(), RootKind::Dir)],
            project,
            engine: LayerEngine::Overlay,
        })
    }

    fn find(&self, at: &str, name: Option<&str>) -> Result<String, SessionError> {
        let selector = Selector { directory: self.project(at), name: name.map(str::to_owned) };
        self.sessions.find(&selector).map(|session| session.record().name.clone())
    }
}

#[test]
fn create_makes_a_private_directory_and_a_top_like_the_base() {
    let world = World::new();
    fs::set_permissions(world.project("one"), fs::Permissions::from_mode(0o751)).unwrap();
    let session = world.create("one", None).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(session.dir()), 0o700);
    assert_eq!(mode(session.dir().parent().unwrap()), 0o700);
    let upper = session.uppers(&session.record().roots[0]).remove(0);
    assert_eq!(mode(&upper), 0o751);
    assert_eq!(mode(upper.parent().unwrap()), 0o700);
}

#[test]
fn find_prefers_the_nearest_project() {
    let world = World::new();
    for (project, name) in
        [("one", Some("fix")), ("two", Some("fix")), ("two", None), ("two", Some("fixture"))]
    {
        world.create(project, name).unwrap();
        // IDs have a resolution of one millisecond.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    for (why, at, name, expected) in [
        ("by name, here", "one", Some("fix"), "fix"),
        ("below the project", "one/sub", None, "fix"),
        ("the latest", "two", None, "fixture"),
        ("by name, from elsewhere", "one", Some("fixture"), "fixture"),
        ("by its beginning", "one", Some("two"), "two-1"),
    ] {
        assert_eq!(world.find(at, name).unwrap(), expected, "{why}");
    }
    let elsewhere = world.find("data", Some("fix")).unwrap_err();
    assert!(matches!(elsewhere, SessionError::Ambiguous { matches, .. } if matches.len() == 2));
    assert!(matches!(world.find("data", None), Err(SessionError::None(_))));
    assert!(matches!(world.find("one", Some("no")), Err(SessionError::Unknown(_))));
}

#[test]
fn create_refuses_a_duplicate_or_invalid_name() {
    let world = World::new();
    world.create("one", Some("fix")).unwrap();
    assert!(matches!(world.create("one", Some("fix")), Err(SessionError::Taken(_))));
    for name in ["", "-x", "a/b", "a b", "..", "\u{1b}", &"x".repeat(65)] {
        assert!(matches!(world.create("one", Some(name)), Err(SessionError::Name(_))), "{name:?}");
    }
}

#[test]
fn lock_is_refused_while_another_process_has_it() {
    let world = World::new();
    let session = world.create("one", None).unwrap();
    assert_eq!(session.state(), RunState::Stopped);
    let lock = session.lock().unwrap();
    let pid = sandbox_linux::process::pid();
    assert_eq!(session.state(), RunState::Running(pid));
    assert!(
        matches!(session.lock(), Err(SessionError::Busy { pid: Some(held), .. }) if held == pid)
    );
    drop(lock);
    assert!(session.lock().is_ok());
}

#[test]
fn remove_deletes_layers_that_no_other_session_names() {
    let world = World::new();
    let (one, mut other) = (world.create("one", None).unwrap(), world.create("two", None).unwrap());
    let shared = one.record().roots[0].stack[0].clone();
    other.update(|record| record.roots[0].stack.insert(0, shared)).unwrap();
    let uppers = other.uppers(&other.record().roots[0]);
    let lock = one.lock().unwrap();
    world.sessions.remove(&one, lock).unwrap();
    assert!(uppers.iter().all(|upper| upper.is_dir()), "still named");
    let lock = other.lock().unwrap();
    world.sessions.remove(&other, lock).unwrap();
    assert!(uppers.iter().all(|upper| !upper.is_dir()), "no longer named");
    assert!(world.sessions.list().unwrap().is_empty());
}

#[test]
fn broken_names_a_record_that_leads_elsewhere() {
    let world = World::new();
    let session = world.create("one", None).unwrap();
    let file = session.dir().join("session.json");
    let text = fs::read_to_string(&file).unwrap();
    let layer = session.record().roots[0].stack[0].as_str();
    fs::write(&file, text.replace(layer, "../../elsewhere")).unwrap();
    assert!(world.sessions.list().unwrap().is_empty());
    assert_eq!(world.sessions.broken().unwrap().len(), 1);
}

#[test]
fn base_record_keeps_the_original_unless_the_host_changed_it() {
    let world = World::new();
    let base = world.project("one").canonicalize().unwrap();
    fs::write(base.join("old"), "old").unwrap();
    fs::create_dir(base.join("gone")).unwrap();
    fs::write(base.join("gone/below"), "x").unwrap();
    let session = world.create("one", None).unwrap();
    let host = HostTree::open(&base).unwrap();
    let mut record = session.base_record(0).unwrap();
    let path = |name: &str| RelPath::new(name).unwrap();
    let future = (i64::MAX, 0);
    assert!(!record.take(&host, &path("old"), future, false, || Ok(false)).unwrap());
    assert!(!record.take(&host, &path("new"), future, false, || Ok(false)).unwrap());
    let swaps = Swaps::new(&host, None, future);
    let below = record.take_below(&host, &path("gone"), future, &swaps, &Hidden::default());
    assert_eq!(below.unwrap(), []);
    fs::write(base.join("moved"), "x").unwrap();
    assert!(record.take(&host, &path("moved"), (0, 0), false, || Ok(false)).unwrap());
    assert!(record.take(&host, &path("removed"), (0, 0), false, || Ok(true)).unwrap());
    assert!(!record.take(&host, &path("perhaps"), (0, 0), false, || Ok(false)).unwrap());
    assert!(!record.take(&host, &path("made/new"), (0, 0), false, || Ok(false)).unwrap());
    record.write(0).unwrap();

    fs::write(base.join("old"), "newer").unwrap();
    let record = session.base_record(0).unwrap();
    assert_eq!(record.ancestor(&path("old")).unwrap().unwrap(), b"old");
    let origin = |name: &str| record.origin(&path(name)).unwrap();
    assert!(matches!(origin("old"), Origin::There(past) if past.stamp.size == 3));
    assert!(matches!(origin("gone/below"), Origin::There(past) if past.digest.is_none()));
    assert_eq!(origin("new"), Origin::Absent);
    assert_eq!(origin("moved"), Origin::Unknown);
    assert_eq!(origin("removed"), Origin::Unknown);
    assert_eq!(origin("perhaps"), Origin::Perhaps);
    assert_eq!(origin("made/new"), Origin::Absent);
    assert_eq!(origin("other"), Origin::Unknown);
}
