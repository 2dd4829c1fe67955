//! Signal dispositions that a session does not inherit from the caller of `up`.

use testkit::World;

use super::{Up, inside};

#[test]
fn signals_that_the_caller_ignores_or_blocks_are_not_ignored_in_a_session() {
    let world = World::new();
    let _guard = Up(&world);
    let env = testkit::need("env").display().to_string();
    let binary = world.binary().display().to_string();
    let signals = "INT,HUP,TERM,QUIT,USR1,CHLD,PIPE";
    let (ignored, blocked) =
        (format!("--ignore-signal={signals}"), format!("--block-signal={signals}"));
    let look = "grep -E 'SigBlk|SigIgn' /proc/self/status; kill -INT $$; echo survived";
    let plain = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n";
    for how in [&ignored, &blocked] {
        world.host([env.as_str(), how, &binary, "up"]).succeeds();
        world.run(inside(look)).code(130).stdout(plain);
        world.run(["down"]).succeeds();
    }
    // The control: a run inherits them.
    let run = world.host([env.as_str(), "--ignore-signal=INT", &binary, "sh", "-c", look]);
    run.succeeds().stdout_contains("survived");
}
