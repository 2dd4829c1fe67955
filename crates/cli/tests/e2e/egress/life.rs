//! The proxy starts and stops. The sandbox waits for it, and nothing passes meanwhile.

use rustix::process::{Signal, kill_process};
use testkit::World;

use super::internet::Internet;

#[test]
fn proxy_that_is_killed_leaves_no_way_out_and_its_successor_does() {
    let internet = Internet::new();
    let script =
        "while read line; do curl -sS -m 3 https://api.example.com/hello || echo failed; done";
    let mut run = internet.world.spawn(["--allow-host", "api.example.com", "sh", "-c", script]);
    run.send("\n");
    run.wait_for("hello from api\n");
    // No process can start another one.
    let supervisor = supervisor(&internet);
    kill_process(supervisor, Signal::STOP).unwrap();
    let proxy = internet.proxy().expect("it serves");
    kill_process(proxy, Signal::KILL).unwrap();
    while internet.proxy().is_some() {
        std::thread::yield_now();
    }
    run.send("\n");
    run.wait_for("failed\n");
    kill_process(supervisor, Signal::CONT).unwrap();
    while internet.proxy().is_none() {
        std::thread::yield_now();
    }
    run.send("\n");
    run.wait_for("hello from api\n");
    run.wait().succeeds();
    assert_ne!(internet.proxy(), Some(proxy));
}

/// Requests must not hang: curl exits with 7 for a refused connection, and with 28 after its timeout.
#[test]
fn requests_are_refused_when_the_proxy_is_lost_for_good() {
    let internet = Internet::new();
    let script = "curl -sS https://api.example.com/hello; read line
        while :; do curl -s -m 1 https://api.example.com/hello; [ $? = 7 ] && break; done; echo refused";
    let mut run = internet.world.spawn(["--allow-host", "api.example.com", "sh", "-c", script]);
    run.wait_for("hello from api\n");
    let supervisor = supervisor(&internet);
    kill_process(supervisor, Signal::STOP).unwrap();
    kill_process(internet.proxy().expect("it serves"), Signal::KILL).unwrap();
    let state = internet.world.path("home/.local/state/agent-sandbox/proxy");
    std::fs::rename(&state, state.with_extension("away")).unwrap();
    std::fs::write(&state, "no proxy can start here").unwrap();
    kill_process(supervisor, Signal::CONT).unwrap();
    run.send("\n");
    run.wait_for("refused\n");
    run.wait()
        .succeeds()
        .stderr_contains("the proxy was lost")
        .stderr_contains("cannot start the proxy");
}

/// Returns the process beside the sandbox that waits: the only one of the binary that is not a proxy.
fn supervisor(internet: &Internet) -> rustix::process::Pid {
    let binary = internet.world.binary().display().to_string();
    let wanted = format!("{binary}\0--allow-host\0");
    let home = format!("HOME={}", internet.world.path("home").display());
    let processes = std::fs::read_dir("/proc").expect("every system has it").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        String::from_utf8_lossy(&read("cmdline")).starts_with(&wanted)
            && String::from_utf8_lossy(&read("environ")).contains(&home)
    };
    let pid = pids.into_iter().filter(is_it).min().expect("it runs");
    rustix::process::Pid::from_raw(pid).expect("a number of a process")
}

#[test]
fn one_proxy_serves_several_sandboxes_each_by_its_own_list() {
    let internet = Internet::new();
    let script = "read line; for host in api.example.com other.example.net; do
        curl -sS -o /dev/null -w '%{http_code}\\n' http://$host/hello; done";
    let start = |host: &str| internet.world.spawn(["--allow-host", host, "sh", "-c", script]);
    let (mut one, mut two) = (start("api.example.com"), start("other.example.net"));
    one.send("\n");
    two.send("\n");
    one.wait().succeeds().stdout("200\n403\n");
    two.wait().succeeds().stdout("403\n200\n");
}

#[test]
fn blocked_lists_what_the_last_run_was_refused() {
    let internet = Internet::new();
    internet.world.run(["blocked"]).succeeds().stdout("").stderr_contains("no run here");
    let line = ["curl", "-sS", "-o", "/dev/null", "https://other.example.net/hello"];
    internet.run(line).fails().stderr_contains("note: refused: other.example.net");
    let run = internet.world.run(["blocked"]).succeeds();
    run.stdout_contains("other.example.net:443")
        .stdout_contains("curl")
        .stdout_contains("not in `allowed_hosts`")
        .stdout_contains("agent-sandbox --allow-host other.example.net …");
    let json = internet.world.run(["blocked", "--json"]).succeeds().output();
    assert!(json.contains("\"by\": \"curl\"") && json.contains("\"allow_with\""), "{json}");
    internet.run(["true"]).succeeds();
    internet.world.run(["blocked"]).succeeds().stdout("").stderr_contains("no host was refused");
}

#[test]
fn fail_on_blocked_ends_with_4_when_the_command_succeeded() {
    let internet = Internet::new();
    let curl = |flag: &str, script: &str| {
        let line = ["--allow-host", "api.example.com", flag, "sh", "-c", script];
        internet.world.run(line.into_iter().filter(|word| !word.is_empty()))
    };
    let ignored = "curl -sS -o /dev/null https://other.example.net/ || true";
    curl("", ignored).code(0);
    curl("--fail-on-blocked", ignored).code(4).stderr_contains("other.example.net");
    curl("--fail-on-blocked", "curl -sS -o /dev/null https://api.example.com/hello").code(0);
    curl("--fail-on-blocked", "curl -sS https://other.example.net/; exit 7").code(7);
}

#[test]
fn a_list_inside_of_a_sandbox_is_refused() {
    let world = World::new();
    let inner =
        ["--network=false", "/run/agent-sandbox/agent-sandbox", "--allow-host", "a.io", "true"];
    world.run(inner).code(125).stderr_contains("inside a sandbox").stderr_contains("hint: ");
}
