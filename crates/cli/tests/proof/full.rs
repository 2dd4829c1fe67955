//! A full disk: the writer gets an error, nothing is damaged, and work continues once there is space.

use testkit::{Engine, Layered, Namespace, World, need};

#[test]
fn overlay_says_that_the_disk_is_full_and_loses_nothing() {
    fill(Engine::Overlay);
}

#[test]
fn agentfs_says_that_the_disk_is_full_and_loses_nothing() {
    fill(Engine::AgentFs);
}

fn fill(engine: Engine) {
    need("python3");
    let mut tree = Layered::new(&small_disk(), "small/tree", engine);
    tree.run(["python3", "-c", include_str!("full.py")]).succeeds();
    tree.unmount();
    if engine == Engine::AgentFs {
        tree.fs(["fsck", "tree"]).succeeds();
    }
    tree.mount();
    let big = "head -c 13M /dev/zero | tr '\\0' b";
    tree.run(["sh", "-c", &format!("{big} > big")]).succeeds();
    // More than half of the disk, so it cannot be copied into the database.
    tree.unmount();
    tree.mount();
    let again = format!(
        "{big} | cmp - big && rm big
         timeout 20 sh -c 'until head -c 8M /dev/zero > again; do sleep 0.1; done' 2> /dev/null
         head -c 8M /dev/zero | cmp - again && ls && wc -c < kept"
    );
    tree.run(["sh", "-c", &again]).succeeds().stdout("again\nkept\nold\n100000\n");
}

#[test]
fn agentfs_does_not_begin_on_a_full_disk_and_says_why() {
    let world = small_disk();
    let mut tree = Layered::unmounted(&world, "small/tree", Engine::AgentFs);
    let fill = world.path("small/fill");
    world.host(["sh", "-c", "! cat /dev/zero > \"$0\"", &fill.display().to_string()]).succeeds();
    tree.fs(["mount", "-f", "tree", "mnt"]).fails().stderr_contains("hint: the disk is full");
    // The control.
    world.host(["rm", &fill.display().to_string()]).succeeds();
    tree.mount();
    tree.run(["cat", "old"]).succeeds().stdout("old\n");
}

/// Creates a world with a disk of 24 MiB and a base on it.
fn small_disk() -> World {
    let world = World::new().dir("small");
    let small = world.path("small");
    let script = format!(
        "mount -t tmpfs -o size=24m,mode=755 tmpfs {0}
         mkdir -p {0}/tree/base
         echo old > {0}/tree/base/old",
        small.display()
    );
    let namespace = Namespace::with_powers(&world, &script);
    world.within(namespace)
}
