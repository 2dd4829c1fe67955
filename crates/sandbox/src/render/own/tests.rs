//! Tests of the native rendering.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::plan::plan;
use sandbox_policy::config::{Access, Request};
use sandbox_policy::host::Host;

#[test]
fn writable_file_gets_a_separate_directory_when_home_is_read_only() {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().canonicalize().unwrap();
    for name in ["home/open", "project"] {
        fs::create_dir_all(base.join(name)).unwrap();
    }
    for name in ["home/notes", "home/open/notes"] {
        fs::write(base.join(name), "").unwrap();
    }
    let host = Host {
        cwd: Some(base.join("project")),
        home: Some(base.join("home")),
        env: BTreeMap::new(),
        exe: "/usr/bin/agent-sandbox".into(),
        uid: 1000,
        gid: 1000,
        inside: false,
    };
    let paths = ["~/notes", "~/open", "~/open/notes"].map(|path| (Access::Rw, path.to_owned()));
    let plan = plan(&host, &Request { paths: paths.into(), ..Request::default() }).unwrap();
    let place = Path::new("/run/agent-sandbox-files/0/notes");

    let steps = super::root(&plan, Hiding::Overlay, None).steps;
    let linked = (PathBuf::from("notes"), Hidden::Link(place.into()));
    assert!(steps.iter().any(
        |step| matches!(step, Step::HidingOverlay { hidden, .. } if hidden.contains(&linked))
    ));
    let mut expected = [base.join("home/open"), base.join("project"), place.into()];
    expected.sort();
    assert_eq!(writable(&steps, &base), expected);

    let steps = super::root(&plan, Hiding::Binds, None).steps;
    assert_eq!(
        writable(&steps, &base),
        ["home/notes", "home/open", "project"].map(|name| base.join(name))
    );
}

/// Returns the targets of writable mounts whose source is below `base`.
fn writable(steps: &[Step], base: &Path) -> Vec<PathBuf> {
    let writable = |step: &Step| match step {
        Step::Bind { source, target, read_only: false, .. } if source.starts_with(base) => {
            Some(target.clone())
        }
        _ => None,
    };
    let mut places: Vec<PathBuf> = steps.iter().filter_map(writable).collect();
    places.sort();
    places
}
