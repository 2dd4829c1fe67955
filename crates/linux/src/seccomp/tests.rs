//! Interprets the filter instruction by instruction, as the kernel would.

use super::*;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const I386: u32 = 0x4000_0003;

/// Runs the encoded program on one call. Panics if the kernel would refuse to load it.
fn verdict(cgroups: CgroupNamespaces, arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = [0; 64];
    data[0..4].copy_from_slice(&number.to_ne_bytes());
    data[4..8].copy_from_slice(&arch.to_ne_bytes());
    for (index, argument) in arguments.iter().enumerate() {
        data[16 + 8 * index..24 + 8 * index].copy_from_slice(&argument.to_ne_bytes());
    }
    let word = |at: u32| {
        let at = usize::try_from(at).unwrap();
        assert!(at.is_multiple_of(4), "the kernel loads aligned words only");
        u32::from_ne_bytes(data[at..at + 4].try_into().unwrap())
    };
    let program = program(cgroups);
    let (instructions, rest) = program.as_chunks::<8>();
    assert!(rest.is_empty() && instructions.len() <= 4096);
    let (mut at, mut loaded) = (0, 0);
    loop {
        let [first, second, jump_true, jump_false, value @ ..] = instructions[at];
        let (code, value) = (u16::from_ne_bytes([first, second]), u32::from_ne_bytes(value));
        at += 1;
        match u32::from(code) {
            0x20 => loaded = word(value),
            0x15 => at += usize::from(if loaded == value { jump_true } else { jump_false }),
            0x45 => at += usize::from(if loaded & value != 0 { jump_true } else { jump_false }),
            0x06 => return value,
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn on(number: libc::c_long, arguments: [u64; 6]) -> u32 {
    verdict(CgroupNamespaces::Refused, ARCH, u32::try_from(number).unwrap(), arguments)
}

#[test]
fn filter_refuses_what_no_agent_needs_and_allows_the_rest() {
    let cases = [
        ("keyctl", libc::SYS_keyctl, refuse(libc::ENOSYS)),
        ("io_uring_setup", libc::SYS_io_uring_setup, refuse(libc::ENOSYS)),
        ("userfaultfd", libc::SYS_userfaultfd, refuse(libc::ENOSYS)),
        ("bpf", libc::SYS_bpf, refuse(libc::EPERM)),
        ("perf_event_open", libc::SYS_perf_event_open, refuse(libc::EPERM)),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, refuse(libc::EPERM)),
        ("kexec_load", libc::SYS_kexec_load, refuse(libc::EPERM)),
        ("init_module", libc::SYS_init_module, refuse(libc::EPERM)),
        ("read", libc::SYS_read, ALLOW),
        ("execve", libc::SYS_execve, ALLOW),
        ("mount", libc::SYS_mount, ALLOW),
        ("ptrace", libc::SYS_ptrace, ALLOW),
    ];
    for (name, number, expected) in cases {
        assert_eq!(on(number, [0; 6]), expected, "{name}");
        assert_eq!(on(number, [u64::MAX; 6]), expected, "{name} with other arguments");
    }
}

#[test]
fn filter_compares_the_low_half_of_an_argument() {
    const HIGH: u64 = 1 << 32;
    for (request, expected) in [
        (0x5412, refuse(libc::EPERM)),        // TIOCSTI
        (0x5412 | HIGH, refuse(libc::EPERM)), // CVE-2019-10063
        (0x541C, refuse(libc::EPERM)),        // TIOCLINUX
        (0x541C | HIGH << 31, refuse(libc::EPERM)),
        (0x5413, ALLOW), // TIOCGWINSZ
        (0x5401, ALLOW), // TCGETS
    ] {
        assert_eq!(on(libc::SYS_ioctl, [0, request, 0, 0, 0, 0]), expected, "{request:#x}");
    }
    // The filter ignores the other arguments.
    assert_eq!(on(libc::SYS_ioctl, [0x5412, 0, 0x5412, 0, 0, 0]), ALLOW);
}

#[test]
fn filter_knows_the_socket_families_that_programs_use() {
    let family = |family: libc::c_int| u64::from(family.cast_unsigned());
    let netlink = family(libc::AF_NETLINK);
    let no_family = refuse(libc::EAFNOSUPPORT);
    for (name, arguments, expected) in [
        ("unix", [family(libc::AF_UNIX), 0, 0], ALLOW),
        ("inet", [family(libc::AF_INET), 0, 6], ALLOW),
        ("inet6", [family(libc::AF_INET6), 0, 0], ALLOW),
        ("netlink route", [netlink, 0, 0], ALLOW),
        ("netlink device events", [netlink, 0, 15], ALLOW),
        ("netlink packet filter", [netlink, 0, 12], refuse(libc::EPROTONOSUPPORT)),
        ("netlink ipsec", [netlink, 0, 6], refuse(libc::EPROTONOSUPPORT)),
        ("netlink, high half set", [netlink, 0, 0xC | 1 << 40], refuse(libc::EPROTONOSUPPORT)),
        ("vsock", [family(libc::AF_VSOCK), 0, 0], no_family),
        ("alg", [family(libc::AF_ALG), 0, 0], no_family),
        ("packet", [family(libc::AF_PACKET), 0, 0], no_family),
        ("packet, high half set", [family(libc::AF_PACKET) | 1 << 63, 0, 0], no_family),
        ("unspecified", [0, 0, 0], no_family),
    ] {
        let [a, b, c] = arguments;
        assert_eq!(on(libc::SYS_socket, [a, b, c, 0, 0, 0]), expected, "{name}");
    }
    assert_eq!(on(libc::SYS_socketpair, [family(libc::AF_UNIX), 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(on(libc::SYS_socketpair, [family(libc::AF_INET), 0, 0, 0, 0, 0]), no_family);
}

#[test]
fn filter_refuses_foreign_numbers_of_any_call() {
    for number in [0, 1, 102, 360, 0x4000_0000, u32::MAX] {
        assert_eq!(
            verdict(CgroupNamespaces::Allowed, I386, number, [0; 6]),
            refuse(libc::ENOSYS),
            "{number:#x}"
        );
    }
    #[cfg(target_arch = "x86_64")]
    for number in [X32_BIT, X32_BIT | 16, X32_BIT | 512, u32::MAX] {
        assert_eq!(
            verdict(CgroupNamespaces::Allowed, ARCH, number, [0; 6]),
            refuse(libc::ENOSYS),
            "{number:#x}"
        );
    }
    assert_eq!(
        verdict(CgroupNamespaces::Allowed, ARCH, 0x3FFF_FFFF, [0; 6]),
        ALLOW,
        "the kernel refuses these"
    );
}

#[test]
fn filter_refuses_cgroup_namespaces_only_where_they_do_harm() {
    use CgroupNamespaces::{Allowed, Refused};
    let user = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let both = user | u64::from(libc::CLONE_NEWCGROUP.cast_unsigned());
    for (cgroups, number, flags, expected) in [
        (Refused, libc::SYS_clone, user, ALLOW),
        (Refused, libc::SYS_clone, both, refuse(libc::EPERM)),
        (Refused, libc::SYS_unshare, user, ALLOW),
        (Refused, libc::SYS_unshare, both, refuse(libc::EPERM)),
        (Refused, libc::SYS_clone3, 0, refuse(libc::ENOSYS)),
        (Allowed, libc::SYS_clone, both, ALLOW),
        (Allowed, libc::SYS_unshare, both, ALLOW),
        (Allowed, libc::SYS_clone3, 0, refuse(libc::ENOSYS)),
    ] {
        let number = u32::try_from(number).unwrap();
        let verdict = verdict(cgroups, ARCH, number, [flags, 0, 0, 0, 0, 0]);
        assert_eq!(verdict, expected, "{cgroups:?}, call {number}, flags {flags:#x}");
    }
}
