//! N8: an allowed host that accepts uploads from any user. Uploads have a limit, and registries are
//! read-only.

use testkit::{Run, need};

use super::internet::Internet;
use crate::probe::sh;

/// Sends a file in every way that the proxy passes, each to a host with its own line, and
/// prints the results.
const SEND: &str = r#"
send() { curl -sSk -o said -w '%{http_code}\n' --data-binary @"$file" "$@" 2>/dev/null; }
send http://plain.example.com/
send https://connect.example.com/
send --proxytunnel http://tunnel.example.com/
send --proxy socks5h://127.0.0.1:3128 http://socks.example.com/
send --proxy socks5h://127.0.0.1:3128 https://sockstls.example.com/
send --noproxy '*' http://direct.example.com/
send --noproxy '*' https://directtls.example.com/
true
"#;

const WAYS: [&str; 7] = ["plain", "connect", "tunnel", "socks", "sockstls", "direct", "directtls"];

const LIMIT: usize = 64 << 10;

fn internet(limit: &str) -> Internet {
    need("curl");
    let internet = Internet::new();
    let hosts: Vec<String> = WAYS.iter().map(|way| format!("'{way}.example.com'")).collect();
    let text =
        format!("network = {{ allowed_hosts = [{}, '*.example.net']{limit} }}\n", hosts.join(", "));
    internet.world.write("project/sandbox.toml", text);
    internet.world.write("project/small", "s".repeat(LIMIT / 4));
    internet.world.write("project/big", "b".repeat(3 * LIMIT));
    internet
}

impl Internet {
    #[track_caller]
    fn send(&self, script: &str) -> Run {
        self.world.run(sh(script)).succeeds()
    }

    /// Returns how many bytes of bodies arrived at each host.
    fn arrived(&self, host: &str) -> Vec<usize> {
        let log = self.log("uploads.log");
        let lines = log.lines().filter_map(|line| line.split_once(' '));
        lines
            .filter(|(of, _)| *of == host)
            .map(|(_, bytes)| bytes.parse().expect("a number"))
            .collect()
    }

    fn blocked(&self) -> Vec<(String, String)> {
        let text = self.world.run(["blocked", "--json"]).succeeds().output();
        let all: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let word =
            |line: &serde_json::Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let all = all["blocked"].as_array().expect("a list");
        all.iter().map(|line| (word(line, "host"), word(line, "rule"))).collect()
    }
}

#[test]
fn n8_no_more_than_the_limit_is_sent_to_a_host_in_any_way() {
    let open = internet("");
    open.send(&format!("file=big; {SEND}")).stdout(&"404\n".repeat(WAYS.len()));
    for way in WAYS {
        assert_eq!(open.arrived(&format!("{way}.example.com")), [3 * LIMIT], "{way}");
    }

    let limited = internet(", upload_limit = '64k'");
    limited.send(&format!("file=small; {SEND}")).stdout(&"404\n".repeat(WAYS.len()));
    assert!(limited.blocked().is_empty());
    let sent = limited.send(&format!("file=big; {SEND}"));
    let said: Vec<String> = sent.output().lines().map(str::to_owned).collect();
    assert!(
        said.len() == WAYS.len() && said.iter().all(|code| code == "403" || code == "000"),
        "{said:?}"
    );
    let blocked = limited.blocked();
    for way in WAYS {
        let host = format!("{way}.example.com");
        let arrived = limited.arrived(&host);
        assert!(
            arrived.len() <= 2 && arrived[1..].iter().all(|bytes| *bytes < LIMIT),
            "{way}: {arrived:?}"
        );
        let rule =
            blocked.iter().find(|(blocked, _)| *blocked == host).map(|(_, rule)| rule.as_str());
        let rule = rule.unwrap_or_else(|| panic!("{way} is not on record: {blocked:?}"));
        assert!(
            rule.contains("the upload limit of 65536 bytes") && rule.contains("sandbox.toml"),
            "{rule}"
        );
    }
}

/// A line with a star has one budget, however many names match it, and the budget lasts for the run.
#[test]
fn n8_many_requests_and_many_names_have_one_limit_together() {
    let internet = internet(", upload_limit = '64k'");
    let script = "for n in 1 2 3 4 5 6; do curl -sS -o said -w '%{http_code} ' --data-binary @small http://n$n.example.net/; done; cat said";
    let said = internet.send(script).output();
    assert!(said.starts_with("404 404 404 ") && said.contains("403 {"), "{said}");
    assert!(said.contains("upload_limit") && said.contains("`*.example.net`"), "{said}");
    let arrived: usize = (1..=6).flat_map(|n| internet.arrived(&format!("n{n}.example.net"))).sum();
    assert!(arrived < LIMIT, "{arrived}");
    // Other lines have their own budget, and the next run starts again.
    internet
        .send("curl -sS -o said -w '%{http_code}' --data-binary @small http://n1.example.net/")
        .stdout("404");
}

#[test]
fn n8_a_limit_can_be_lowered_by_a_stranger_and_not_raised() {
    let global = "network = { allowed_hosts = ['a.io'], upload_limit = '1m' }\n";
    let world = testkit::World::new().file("home/.config/agent-sandbox/config.toml", global);
    for (limit, code) in [("'2m'", 125), ("'512k'", 0), ("1048576", 0)] {
        let text = format!("network = {{ mode = 'allow', upload_limit = {limit} }}\n");
        world.write("project/sandbox.toml", text);
        world.run(["config", "show"]).code(code);
    }
    world.run(["config", "show"]).stdout_contains("upload_limit").stdout_contains("1048576 bytes");
    for (text, message) in [
        ("network = { mode = 'host', upload_limit = '1m' }\n", "does not use `upload_limit`"),
        ("network = { allowed_hosts = [], upload_limit = 'much' }\n", "invalid amount"),
        ("network = { upload_limit = '1m' }\n", "mode"),
    ] {
        world.write("project/sandbox.toml", text);
        world.run(["config", "show"]).code(125).stderr_contains(message);
    }
}

/// Registries are read-only where the proxy can see the request.
#[test]
fn n8_hosts_of_packages_are_only_read_where_that_can_be_seen() {
    let internet = Internet::new();
    internet.world.write("www/deb.debian.org/hello", "hello from debian\n");
    let curl = |allowed: &str, words: &str| {
        let script = format!("curl -sS -w '%{{http_code}}' {words} http://deb.debian.org/hello");
        internet.world.run(
            ["--allow-host", allowed]
                .into_iter()
                .map(str::to_owned)
                .chain(sh(&script).map(str::to_owned)),
        )
    };
    curl("@debian", "").succeeds().stdout("hello from debian\n200");
    curl("@debian", "--head -o /dev/null").succeeds();
    for words in ["-d secret", "-X PUT", "-X GET -d secret", "-X PROPFIND"] {
        let refused = curl("@debian", words).succeeds();
        refused.stdout_contains("is read-only").stdout_contains("--allow-host deb.debian.org");
    }
    assert!(internet.arrived("deb.debian.org").is_empty());
    curl("deb.debian.org", "-d secret").succeeds().stdout("hello from debian\n200");
    for tunnel in ["--proxytunnel", "--proxy socks5h://127.0.0.1:3128"] {
        curl("@debian", tunnel).fails();
        curl("deb.debian.org", tunnel).succeeds().stdout("hello from debian\n200");
    }
}
