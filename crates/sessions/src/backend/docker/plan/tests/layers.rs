//! Tests of layers over writable directories.

use super::*;

#[test]
fn writable_directories_get_layers_with_cow() {
    let shared = "shared_dirs = { x = { host = 'ROOT/elsewhere', guest = '/x' } }\n";
    let ro = "mounts = [{ host = 'ROOT/home/data', container = '/ro' }]\n";
    for (key, expected) in
        [("cow = true", &["/x", "/workspace"][..]), ("workspace.cow = true", &["/workspace"])]
    {
        let world = World::new(&format!("{shared}{ro}agent.command = 'true'\n{key}"));
        let made = world.plan().unwrap();
        let mut targets: Vec<_> = made.layers.iter().map(|kept| kept.target.clone()).collect();
        targets.sort();
        let mut expected: Vec<_> = expected.iter().map(PathBuf::from).collect();
        expected.sort();
        assert_eq!(targets, expected, "{key}");
        for (number, kept) in made.layers.iter().enumerate() {
            let target = kept.target.to_str().unwrap();
            assert_eq!(at(&made, target).unwrap().source, Source::Layer(number));
            let below = at(&made, &format!("{PRIVATE_DIR}/base-{number}")).unwrap();
            assert_eq!(below.source, Source::Host(kept.base.clone()));
            assert!(
                below.access == Access::Ro && below.identity.is_some() && below.asked().is_none()
            );
        }
        assert_eq!(at(&made, "/ro").unwrap().asked(), Some(world.path("home/data").as_path()));
        assert_eq!(made.agent.start, Start::Supervise, "PID 1 checks the base");
    }
    let plain = World::new("agent.command = 'true'").plan().unwrap();
    assert!(plain.layers.is_empty() && plain.agent.start == Start::Exec);
}

#[test]
fn layers_are_refused_when_their_files_would_be_unreadable() {
    let podman = EngineFacts { podman: true, ..EngineFacts::default() };
    let error = World::new("cow = true").plan_with(&podman, &Image::default()).unwrap_err();
    assert!(error.to_string().contains("only rootful Docker"), "{error}");
    assert!(World::new("cow = 'agentfs'").said().contains("a container can outlive it"));
}
