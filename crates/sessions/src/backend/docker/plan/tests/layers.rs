//! Layers over writable directories.

use super::*;

#[test]
fn writable_directories_get_layers_when_changes_are_kept_apart() {
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
        assert_eq!(made.agent.start, Start::Supervise, "somebody looks at the base");
    }
    let plain = World::new("agent.command = 'true'").plan().unwrap();
    assert!(plain.layers.is_empty() && plain.agent.start == Start::Exec);
}

#[test]
fn layers_are_refused_where_nobody_could_read_them() {
    let podman = Engine { podman: true, ..Engine::default() };
    let error = World::new("cow = true").plan_with(&podman, &Image::default()).unwrap_err();
    assert!(error.to_string().contains("only Docker as root"), "{error}");
    assert!(World::new("cow = 'agentfs'").said().contains("which a container outlives"));
}
