//! The tutorial docs/tutorial/agent-in-a-container.md as a test: Claude Code in a container without network and key,
//! with one host command and a workspace whose changes are applied at the end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::os::unix::fs::chown;

use testkit::{Authority, Docker, Run, World, agents};

use crate::provider::{LAST_WORDS, Provider};

const KEY: &str = "sk-ant-real-key-0123456789";

/// Commands of the model: the work, a host command, and a search for the key.
const WORK: &str = "sed -i 's/Helo/Hello/' greet.sh; sh greet.sh; mkdir -p notes; \
    echo \"greeted on $(uname -n)\" > notes/where; rm old.txt; \
    printf '#!/bin/sh\\necho planted\\n' > .envrc; env; \
    (exec 3<>/dev/tcp/192.0.2.1/443) 2>&1 || echo no network";

struct Tutorial {
    world: World,
    provider: Provider,
}

impl Tutorial {
    fn new() -> Self {
        let docker = Docker::new();
        let authority = Authority::default();
        let provider = Provider::secure(&authority, WORK);
        let claude = fs::canonicalize(agents().join("claude")).unwrap();
        let config = format!(
            "image = '{}'\nnetwork = 'none'\nworkspace.cow = true\n\n\
             [[mounts]]\nhost = '{}'\ncontainer = '/opt/claude'\n\n\
             [secrets.anthropic]\nmode = 'proxy'\nenv_var = 'ANTHROPIC_API_KEY'\nupstream_url = '{}'\n\n\
             [host_commands]\nenabled = true\nallowed = ['uname']\n",
            docker.debian(),
            claude.parent().unwrap().display(),
            provider.url()
        );
        let world = docker
            .world()
            .clone()
            .file("project/sandbox.toml", config)
            .file("project/greet.sh", "echo Helo, world\n")
            .file("project/old.txt", "no longer used\n")
            .file("home/authority.pem", authority.pem())
            .env("ANTHROPIC_API_KEY", KEY);
        for path in ["project", "project/greet.sh", "project/old.txt"] {
            chown(world.path(path), Some(1000), Some(1000)).unwrap();
        }
        let known = world.path("home/authority.pem");
        Self { world: world.env("SSL_CERT_FILE", known), provider }
    }

    #[track_caller]
    fn types(&self, line: &str) -> Run {
        self.world.run(line.split(' '))
    }
}

impl Drop for Tutorial {
    fn drop(&mut self) {
        self.types("rm --yes fix");
    }
}

#[test]
fn claude_works_in_a_container_and_its_changes_land_when_they_are_applied() {
    let tutorial = Tutorial::new();
    tutorial
        .types("--trust up --name fix")
        .succeeds()
        .stderr_contains("go to a copy-on-write layer");
    let claude = fs::canonicalize(agents().join("claude")).unwrap();
    let program = format!("/opt/claude/{}", claude.file_name().unwrap().display());
    let ask =
        ["exec", "-s", "fix", "--env", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", &program];
    let words = ["-p", "fix the greeting", "--dangerously-skip-permissions"];
    let run = tutorial.world.run(ask.into_iter().chain(words));
    run.succeeds().stdout_contains(LAST_WORDS);
    // The provider received the real key. The agent never had it, and reached nothing else.
    let heads = tutorial.provider.heads();
    let asked: Vec<_> = heads.iter().filter(|head| head.starts_with("POST")).collect();
    let keyed = |head: &&String| head.contains(&format!("x-api-key: {KEY}"));
    assert!(asked.len() > 1 && asked.iter().all(keyed), "{heads:?}");
    let result = tutorial.provider.result();
    assert!(result.contains("Hello, world") && result.contains("no network"), "{result}");
    assert!(result.contains("ANTHROPIC_API_KEY=session-"), "it holds a token: {result}");
    assert!(!tutorial.provider.heard().contains(KEY), "the agent has found the key");
    // The host is unchanged.
    assert_eq!(tutorial.world.read("project/greet.sh"), "echo Helo, world\n");
    assert!(tutorial.world.has("project/old.txt") && !tutorial.world.has("project/notes"));
    tutorial.types("down fix").succeeds();
    let diff = tutorial.types("diff -s fix --patch").succeeds();
    let machine = tutorial.world.host(["uname", "-n"]).output();
    diff.stdout_contains("-echo Helo, world\n+echo Hello, world\n")
        .stdout_contains(&format!("+greeted on {machine}"));
    // Files that can run code are applied only by name.
    tutorial.types("apply -s fix").succeeds().stderr_contains("held back: .envrc");
    assert_eq!(tutorial.world.read("project/greet.sh"), "echo Hello, world\n");
    assert_eq!(tutorial.world.read("project/notes/where"), format!("greeted on {machine}"));
    assert!(!tutorial.world.has("project/old.txt") && !tutorial.world.has("project/.envrc"));
    tutorial.types("rm --yes fix").succeeds();
}
