//! The arm64 binary, under emulation.

use std::fs;

use testkit::{World, arm64_binary, need};

/// Offset of `e_machine` in the header of an ELF file, and its value for arm64 (`elf(5)`).
const MACHINE: usize = 18;
const AARCH64: [u8; 2] = [183, 0];

#[test]
fn the_entrypoint_for_arm64_does_the_same() {
    let binary = arm64_binary("agent-sandbox-init");
    assert_eq!(fs::read(&binary).unwrap()[MACHINE..][..2], AARCH64);
    let world = World::new()
        .env("SESSION_TOKEN", "topsecret")
        .env("AGENT_USER", "1234:99")
        .env("AGENT_WORKDIR", "/");
    let line =
        [need("qemu-aarch64-static").into_os_string(), binary.clone().into(), "entrypoint".into()];
    let words = ["sh", "-c", "id -u; id -g; pwd; env; exit 7"].map(Into::into);
    let run = world.host(line.into_iter().chain(words)).code(7);
    run.stdout_contains("1234\n99\n/\n")
        .stdout_lacks("topsecret")
        .stdout_lacks("AGENT_")
        .stderr_contains("session token set");
    let line = [need("qemu-aarch64-static").into_os_string(), binary.into(), "entrypoint".into()];
    world.host(line).code(1).stderr_contains("[entrypoint] error: ");
}
