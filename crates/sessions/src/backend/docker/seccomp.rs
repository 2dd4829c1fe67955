//! Seccomp filter of a container, the same for every engine and version. Like the engines' own filters it is an allow
//! list. It excludes calls that some of those allow: `io_uring`, user namespaces, keyrings, mounts.
//!
//! <https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#seccomp>

use serde_json::{Value, json};

use super::plan::Container;

/// System calls that every program can make.
const ALLOWED: &str = "\
    _llseek _newselect accept accept4 access adjtimex alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind \
    breakpoint brk cacheflush cachestat capget capset chdir chmod chown chown32 clock_adjtime clock_adjtime64 \
    clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep clock_nanosleep_time64 close \
    close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old \
    epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat \
    faccessat2 fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl \
    fcntl64 fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs \
    fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake \
    futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid getegid32 \
    geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp getpid getppid \
    getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname \
    getsockopt gettid gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init inotify_init1 \
    inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl \
    ioprio_get ioprio_set ipc kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lchown32 \
    lgetxattr link linkat listen listmount listxattr listxattrat llistxattr lremovexattr lseek lsetxattr \
    lsm_get_self_attr lsm_list_modules lsm_set_self_attr lstat lstat64 madvise map_shadow_stack mbind membarrier \
    memfd_create memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt \
    mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 \
    mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap name_to_handle_at nanosleep \
    newfstatat open openat openat2 pause pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free \
    pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_madvise process_mrelease \
    process_vm_readv process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead \
    readdir readlink readlinkat readv recv recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr \
    removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask \
    rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo \
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler \
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam \
    sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile \
    sendfile64 sendmmsg sendmsg sendto set_mempolicy set_mempolicy_home_node set_robust_list set_thread_area \
    set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32 setitimer \
    setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 \
    setrlimit setsid setsockopt setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaction \
    sigaltstack signal signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend socketcall socketpair splice \
    stat stat64 statfs statfs64 statmount statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs \
    sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime \
    timer_settime64 timerfd timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64 times \
    tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat utime utimensat utimensat_time64 utimes vfork \
    wait4 waitid waitpid write writev";

/// Additional system calls with which PID 1 mounts a layer. They need `CAP_SYS_ADMIN`.
const MOUNTS: &str = "\
    fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree setns umount umount2";

/// Error for other calls, `ENOSYS`, as on a kernel without them, so that libraries fall back.
const MISSING: u32 = 38;
const FORBIDDEN: u32 = 1;
/// `CLONE_NEWUSER`, and all flags that create a namespace: clone(2).
const NEW_USER: u64 = 0x1000_0000;
const NEW_ANY: u64 = 0x7E02_0000;
/// `AF_VSOCK`, vsock(7), which would give a container access to the hypervisor of a virtual machine.
const VSOCK: u64 = 40;
/// Values of personality(2) that engines allow by default: `PER_LINUX`, `PER_LINUX32`, each with `UNAME26`, and the
/// question for the current one. `ADDR_NO_RANDOMIZE` (0x40000) is refused: it would make addresses predictable.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];

/// Returns the profile of a container as JSON; `None` for a privileged container.
pub(super) fn profile(plan: &Container) -> Option<String> {
    if plan.privileged {
        return None;
    }
    let mounts = plan.capabilities.iter().any(|name| name == "SYS_ADMIN");
    let refused = if mounts { NEW_USER } else { NEW_ANY };
    let mut rules = vec![
        allow(&ALLOWED.split_whitespace().collect::<Vec<_>>(), None),
        // Allowed without the refused flags.
        allow(&["clone", "unshare"], Some((0, refused, Some(0), "SCMP_CMP_MASKED_EQ"))),
        allow(&["socket"], Some((0, VSOCK, None, "SCMP_CMP_NE"))),
        // Its flags are in memory, which a filter cannot read, seccomp(2). Libraries fall back to `clone`.
        refuse(&["clone3"], MISSING),
        refuse(&["io_uring_setup", "io_uring_enter", "io_uring_register"], MISSING),
        refuse(&["bpf", "keyctl", "add_key", "request_key", "userfaultfd"], FORBIDDEN),
    ];
    rules.extend(
        PERSONALITIES.map(|of| allow(&["personality"], Some((0, of, None, "SCMP_CMP_EQ")))),
    );
    if mounts {
        rules.push(allow(&MOUNTS.split_whitespace().collect::<Vec<_>>(), None));
    }
    let profile = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": FORBIDDEN,
        "archMap": [
            { "architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"] },
            { "architecture": "SCMP_ARCH_AARCH64", "subArchitectures": ["SCMP_ARCH_ARM"] },
        ],
        "syscalls": rules,
    });
    Some(profile.to_string())
}

/// Condition on an argument: its index, the value or mask, the expected result for a mask, and the operator.
type Argument = (u32, u64, Option<u64>, &'static str);

fn allow(names: &[&str], argument: Option<Argument>) -> Value {
    let args: Vec<Value> = argument
        .into_iter()
        .map(|(index, value, two, op)| {
            json!({ "index": index, "value": value, "valueTwo": two.unwrap_or(0), "op": op })
        })
        .collect();
    json!({ "names": names, "action": "SCMP_ACT_ALLOW", "args": args })
}

fn refuse(names: &[&str], errno: u32) -> Value {
    json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": errno, "args": [] })
}
