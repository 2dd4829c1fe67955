//! Many sessions at once, and a full disk.

use testkit::{Namespace, World, rounds};

use super::{DATA, Up, inside, left_behind};

#[test]
fn many_sessions_come_up_at_once_serve_and_go() {
    let count = rounds(12, 100);
    let mut world = World::new();
    for number in 0..count {
        world = world.dir(format!("p{number}"));
    }
    let _guard = Up(&world);
    let each = |words: &[&str]| {
        let start = |number: usize| {
            let name = format!("s{number}");
            let words: Vec<String> = words.iter().map(|word| word.replace('@', &name)).collect();
            world.clone().cwd(format!("p{number}")).spawn(words)
        };
        let runs: Vec<_> = (0..count).map(start).collect();
        runs.into_iter()
            .map(|run| run.wait_up_to(std::time::Duration::from_secs(300)).succeeds().output())
            .collect::<Vec<_>>()
    };
    each(&["up", "--name", "@"]);
    let said = each(&[
        "exec",
        "-s",
        "@",
        "sh",
        "-c",
        "echo @ > mine; cat mine; echo @ > /tmp/mine-@; cat /tmp/mine-*",
    ]);
    for (number, text) in said.iter().enumerate() {
        assert_eq!(*text, format!("s{number}\n").repeat(2));
    }
    let list = world.run(["ps", "--json"]).succeeds().output();
    assert_eq!(list.matches("\"state\": \"running\"").count(), count, "{list}");
    each(&["down", "@"]);
    each(&["rm", "@"]);
    assert_eq!(left_behind(&world), Vec::<String>::new());
}

#[cfg(feature = "setup")]
#[test]
fn a_full_disk_is_told_and_leaves_a_record_that_can_be_used() {
    let world = World::new().dir(DATA);
    let data = world.path(DATA).display().to_string();
    let script = format!(
        "mount -t tmpfs -o size=512k,mode=700 tmpfs {data}\nhead -c 1000000 /dev/zero > {data}/fill 2>/dev/null || true"
    );
    let full = world.clone().within(Namespace::new(&world, &script));
    let _guard = Up(&full);
    full.run(["up"]).code(125).stderr_contains("is full: free some space");
    full.host(["rm", &format!("{data}/fill")]).succeeds();
    full.run(["up"]).succeeds();
    full.run(inside("echo served")).succeeds().stdout("served\n");
    full.run(["down"]).succeeds();
}
