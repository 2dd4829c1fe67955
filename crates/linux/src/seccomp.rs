//! System call filter, seccomp(2): refuses calls that agents do not need and that have been used to attack kernels.
//!
//! Written as a flat program, without a compiler crate, because two checks have to come first and must return an error
//! instead of killing: the architecture (i386 on amd64) and the x32 numbers. Where the kernel looks at only 32 bits of
//! an argument, so does the filter; otherwise a set high bit would slip past (CVE-2019-10063).

use std::io;

/// Returns the filter action that fails a call with `errno`.
const fn refuse(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | (errno.cast_unsigned() & libc::SECCOMP_RET_DATA)
}

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// Bit 30, which marks x32 system calls on amd64.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

// Offsets in `struct seccomp_data`. Arguments have 64 bits, low word first on both architectures: seccomp(2).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

/// Calls that fail with `ENOSYS`, so that libraries fall back to others.
const MISSING: &[libc::c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Its flags are in memory, which a filter cannot read. Libraries fall back to `clone`.
    libc::SYS_clone3,
    libc::SYS_nfsservctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
];

#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: libc::c_long = libc::SYS_kexec_file_load;
/// Number of `kexec_file_load` on arm64, which musl does not define.
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: libc::c_long = 294;

/// Calls that only administrators make.
const FORBIDDEN: &[libc::c_long] = &[
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_lookup_dcookie,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_quotactl,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Permission of nested sandboxes to create a cgroup namespace.
///
/// In one, they can mount the cgroup tree. Where the user may write to it, they could freeze or kill host processes of
/// the same group, such as the supervisor (`cgroup.kill`): cgroups(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupNamespaces {
    /// The tree is not writable, so this is harmless.
    Allowed,
    /// The tree is writable by the user.
    Refused,
}

/// `TIOCSTI` and `TIOCLINUX`, which can type into the caller's terminal: `ioctl_tty(2)`, `ioctl_console(2)`.
const INJECTING_IOCTLS: [u32; 2] = [0x5412, 0x541C];

/// Socket families that programs use. The rest are for special hardware or obsolete.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Netlink protocols that programs use: routes, socket lists, device events, generic families. Otherwise the packet
/// filter, `IPsec` and the crypto API would be reachable from a nested namespace.
const NETLINK: [i32; 4] = [
    libc::NETLINK_ROUTE,
    libc::NETLINK_SOCK_DIAG,
    libc::NETLINK_KOBJECT_UEVENT,
    libc::NETLINK_GENERIC,
];

/// BPF instruction in the kernel's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    value: u32,
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Returns the filter in the kernel's encoding, as `bwrap --seccomp` takes it.
pub fn program(cgroups: CgroupNamespaces) -> Vec<u8> {
    instructions(cgroups).into_iter().flat_map(encode).collect()
}

fn encode(instruction: Instruction) -> Vec<u8> {
    let Instruction { code, jump_true, jump_false, value } = instruction;
    [&code.to_ne_bytes()[..], &[jump_true, jump_false], &value.to_ne_bytes()].concat()
}

/// Applies the filter to this process and its future children. Needs `no_new_privs`.
pub fn apply(cgroups: CgroupNamespaces) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> = instructions(cgroups)
        .iter()
        .map(|i| libc::sock_filter { code: i.code, jt: i.jump_true, jf: i.jump_false, k: i.value })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` points to `len` instructions that live until the call returns.
    let done =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn instructions(cgroups: CgroupNamespaces) -> Vec<Instruction> {
    let mut filter = Filter::default();
    filter.push(LOAD, ARCHITECTURE);
    filter.unless_equal(ARCH, refuse(libc::ENOSYS));
    filter.push(LOAD, NUMBER);
    #[cfg(target_arch = "x86_64")]
    filter.test(ANY_BIT, X32_BIT, refuse(libc::ENOSYS));
    for number in MISSING {
        filter.test(EQUAL, call(*number), refuse(libc::ENOSYS));
    }
    for number in FORBIDDEN {
        filter.test(EQUAL, call(*number), refuse(libc::EPERM));
    }
    filter.on_call(libc::SYS_ioctl, |body| {
        body.push(LOAD, argument(1));
        for request in INJECTING_IOCTLS {
            body.test(EQUAL, request, refuse(libc::EPERM));
        }
    });
    if cgroups == CgroupNamespaces::Refused {
        filter.refuse_cgroup_namespaces();
    }
    filter.on_call(libc::SYS_socketpair, |body| {
        body.push(LOAD, argument(0));
        body.unless_equal(libc::AF_UNIX.cast_unsigned(), refuse(libc::EAFNOSUPPORT));
    });
    filter.on_call(libc::SYS_socket, |body| {
        body.push(LOAD, argument(0));
        body.unless_any(&FAMILIES, refuse(libc::EAFNOSUPPORT));
        body.unless_equal(libc::AF_NETLINK.cast_unsigned(), libc::SECCOMP_RET_ALLOW);
        body.push(LOAD, argument(2));
        body.unless_any(&NETLINK, refuse(libc::EPROTONOSUPPORT));
    });
    filter.push(RETURN, libc::SECCOMP_RET_ALLOW);
    filter.0
}

/// Converts a system call number, which is small and positive.
fn call(number: libc::c_long) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[derive(Default)]
struct Filter(Vec<Instruction>);

impl Filter {
    fn push(&mut self, code: u32, value: u32) {
        self.jump(code, value, 0, 0);
    }

    #[allow(clippy::cast_possible_truncation, reason = "operation codes have 16 bits")]
    fn jump(&mut self, code: u32, value: u32, jump_true: u8, jump_false: u8) {
        self.0.push(Instruction { code: code as u16, jump_true, jump_false, value });
    }

    /// Ends the call with `action` if the test holds.
    fn test(&mut self, code: u32, value: u32, action: u32) {
        self.jump(code, value, 0, 1);
        self.push(RETURN, action);
    }

    /// Ends the call with `action` unless the loaded word is `value`.
    fn unless_equal(&mut self, value: u32, action: u32) {
        self.jump(EQUAL, value, 1, 0);
        self.push(RETURN, action);
    }

    /// Ends the call with `action` unless the loaded word is one of `values`.
    #[allow(clippy::cast_possible_truncation, reason = "the lists above have four entries")]
    fn unless_any(&mut self, values: &[i32], action: u32) {
        for (index, value) in values.iter().enumerate() {
            self.jump(EQUAL, value.cast_unsigned(), (values.len() - index) as u8, 0);
        }
        self.push(RETURN, action);
    }

    fn refuse_cgroup_namespaces(&mut self) {
        for number in [libc::SYS_clone, libc::SYS_unshare] {
            self.on_call(number, |body| {
                body.push(LOAD, argument(0));
                body.test(ANY_BIT, libc::CLONE_NEWCGROUP.cast_unsigned(), refuse(libc::EPERM));
            });
        }
    }

    /// Adds instructions for one call. The call is allowed if none of them ends it.
    #[allow(clippy::cast_possible_truncation, reason = "bodies have a dozen instructions")]
    fn on_call(&mut self, number: libc::c_long, body: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        body(&mut inner);
        inner.push(RETURN, libc::SECCOMP_RET_ALLOW);
        self.jump(EQUAL, call(number), 0, inner.0.len() as u8);
        self.0.extend(inner.0);
    }
}

#[cfg(test)]
mod tests;
