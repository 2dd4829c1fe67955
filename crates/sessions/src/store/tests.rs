use super::*;
use crate::session::{BackendKind, Name, NewSession, SessionId, Wanted};
use sandbox_protocol::Hint;

fn new(name: Option<&str>, project: &str) -> NewSession {
    NewSession {
        name: name.map(|name| Name::parse(name).unwrap()),
        project: project.into(),
        backend: BackendKind::Bwrap,
        request: "{}".into(),
        policy: "p".into(),
        cow: false,
    }
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("sessions.db")).unwrap();
    (dir, store)
}

fn claim(
    store: &mut Store,
    name: Option<&str>,
    project: &str,
) -> Result<(String, bool), &'static str> {
    let claimed = store.claim(&new(name, project), SessionId::generate().unwrap(), 1);
    claimed
        .map(|(session, is_new)| (session.name.as_str().to_owned(), is_new))
        .map_err(|error| error.code())
}

#[test]
fn claim_returns_the_existing_session_or_a_new_one() {
    let (_dir, mut store) = store();
    for (why, name, project, expected) in [
        ("the first", None, "/a/shop", Ok(("shop", true))),
        ("the same session", None, "/a/shop", Ok(("shop", false))),
        ("another project of that name", None, "/b/shop", Ok(("shop-2", true))),
        ("a name", Some("web"), "/a/shop", Ok(("web", true))),
        ("the name again", Some("web"), "/a/shop", Ok(("web", false))),
        ("the name elsewhere", Some("web"), "/b/shop", Err("name_taken")),
        ("by its derived name", Some("shop"), "/a/shop", Ok(("shop", false))),
    ] {
        let expected = expected.map(|(name, is_new)| (name.to_owned(), is_new));
        assert_eq!(claim(&mut store, name, project), expected, "{why}");
    }
}

#[test]
fn things_are_listed_in_order_of_creation_and_removed_one_by_one() {
    let (dir, mut store) = store();
    let (session, _) = store.claim(&new(None, "/p"), SessionId::generate().unwrap(), 1).unwrap();
    store.plan(&session.id, ThingKind::Directory, "/d").unwrap();
    store.made(&session.id, ThingKind::Directory, "/d").unwrap();
    store.plan(&session.id, ThingKind::Process, "supervisor").unwrap();
    store.plan(&session.id, ThingKind::Process, "supervisor").unwrap();
    // Another connection sees the same rows.
    let other = Store::open(&dir.path().join("sessions.db")).unwrap();
    let things = other.things(&session.id).unwrap();
    let told: Vec<_> = things.iter().map(|thing| (thing.kind, thing.made)).collect();
    assert_eq!(told, [(ThingKind::Directory, Made::Yes), (ThingKind::Process, Made::Planned)]);
    // A session with resources cannot be removed.
    assert!(store.forget(&session.id).is_err());
    for thing in things.iter().rev() {
        other.gone(&session.id, thing).unwrap();
    }
    store.want(&session.id, Wanted::Down).unwrap();
    store.forget(&session.id).unwrap();
    assert_eq!(store.get(&session.id).unwrap(), None);
}

#[test]
fn open_refuses_a_database_of_another_version() {
    let (dir, store) = store();
    drop(store);
    let path = dir.path().join("sessions.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, ControlError::Version { found: 99, .. }), "{error}");
    std::fs::write(&path, "not a database").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("move the file")), "{error}");
}
