//! K1 to K3, U7, FS16, R-D5, R-D6: system calls that the seccomp filter refuses by number and argument.

use testkit::World;

use super::{compile, inside, python_inside, python_outside};

/// Makes each call and prints its error. Where valid arguments would change this machine, they are invalid on purpose:
/// the error number shows whether the filter or the kernel refused.
const CALLS: &str = r"
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TRY(name, ...) do { errno = 0; long r = syscall(__VA_ARGS__); printf(name ` %s\n`, r >= 0 ? `works` : strerrorname_np(errno)); if (r > 2) close(r); } while (0)
int main(void) {
  char buffer[256] = {0};
  TRY(`io_uring_setup`, SYS_io_uring_setup, 1, buffer);
  TRY(`io_uring_enter`, SYS_io_uring_enter, -1, 0, 0, 0, 0, 0);
  TRY(`io_uring_register`, SYS_io_uring_register, -1, 0, 0, 0);
  TRY(`userfaultfd`, SYS_userfaultfd, 1);
  TRY(`keyctl`, SYS_keyctl, 0, -3, 0);
  TRY(`add_key`, SYS_add_key, `user`, `k`, `v`, 1, -2);
  TRY(`request_key`, SYS_request_key, `user`, `k`, 0, 0);
  TRY(`clone3`, SYS_clone3, 0, 0);
  TRY(`bpf`, SYS_bpf, 99, 0, 0);
  TRY(`perf_event_open`, SYS_perf_event_open, 0, 0, -1, -1, 0);
  TRY(`kexec_load`, SYS_kexec_load, 0, 99, 0, 0);
  TRY(`init_module`, SYS_init_module, 0, 0, 0);
  TRY(`finit_module`, SYS_finit_module, -1, 0, 0);
  TRY(`delete_module`, SYS_delete_module, 0, 0);
  TRY(`open_by_handle_at`, SYS_open_by_handle_at, -1, 0, 0);
  TRY(`quotactl`, SYS_quotactl, -1, 0, 0, 0);
  TRY(`swapon`, SYS_swapon, 0, -1);
  TRY(`syslog`, SYS_syslog, 10, 0, 0);
  TRY(`vhangup-skipped`, SYS_getpid);
  TRY(`AF_ALG`, SYS_socket, 38, SOCK_SEQPACKET, 0);
  TRY(`AF_VSOCK`, SYS_socket, 40, SOCK_STREAM, 0);
  TRY(`AF_PACKET`, SYS_socket, 17, SOCK_RAW, 0);
  TRY(`AF_KEY`, SYS_socket, 15, SOCK_RAW, 2);
  TRY(`AF_CAN`, SYS_socket, 29, SOCK_RAW, 1);
  TRY(`AF_BLUETOOTH`, SYS_socket, 31, SOCK_RAW, 1);
  TRY(`AF_TIPC`, SYS_socket, 30, SOCK_RDM, 0);
  TRY(`AF_XDP`, SYS_socket, 44, SOCK_RAW, 0);
  TRY(`AF_RDS`, SYS_socket, 21, SOCK_SEQPACKET, 0);
  TRY(`AF_UNIX high bits`, SYS_socket, 38 | 1L << 40, SOCK_SEQPACKET, 0);
  TRY(`NETLINK_NETFILTER`, SYS_socket, 16, SOCK_RAW, 12);
  TRY(`NETLINK_XFRM`, SYS_socket, 16, SOCK_RAW, 6);
  TRY(`NETLINK_AUDIT`, SYS_socket, 16, SOCK_RAW, 9);
  TRY(`NETLINK_ROUTE`, SYS_socket, 16, SOCK_RAW, 0);
  TRY(`AF_INET`, SYS_socket, 2, SOCK_STREAM, 0);
  int pair[2];
  TRY(`socketpair TIPC`, SYS_socketpair, 30, SOCK_STREAM, 0, pair);
  TRY(`socketpair UNIX`, SYS_socketpair, 1, SOCK_STREAM, 0, pair);
}
";

#[test]
fn k1_u7_fs16_r_d5_calls_are_refused_by_number_and_argument() {
    let world = World::new();
    compile(&world, "calls", &CALLS.replace('`', "\""));
    let expected = "io_uring_setup ENOSYS\nio_uring_enter ENOSYS\nio_uring_register ENOSYS\nuserfaultfd ENOSYS\n\
        keyctl ENOSYS\nadd_key ENOSYS\nrequest_key ENOSYS\nclone3 ENOSYS\nbpf EPERM\nperf_event_open EPERM\nkexec_load EPERM\n\
        init_module EPERM\nfinit_module EPERM\ndelete_module EPERM\nopen_by_handle_at EPERM\nquotactl EPERM\nswapon EPERM\n\
        syslog EPERM\nvhangup-skipped works\nAF_ALG EAFNOSUPPORT\nAF_VSOCK EAFNOSUPPORT\nAF_PACKET EAFNOSUPPORT\n\
        AF_KEY EAFNOSUPPORT\nAF_CAN EAFNOSUPPORT\nAF_BLUETOOTH EAFNOSUPPORT\nAF_TIPC EAFNOSUPPORT\nAF_XDP EAFNOSUPPORT\n\
        AF_RDS EAFNOSUPPORT\nAF_UNIX high bits EAFNOSUPPORT\nNETLINK_NETFILTER EPROTONOSUPPORT\n\
        NETLINK_XFRM EPROTONOSUPPORT\nNETLINK_AUDIT EPROTONOSUPPORT\nNETLINK_ROUTE works\nAF_INET works\n\
        socketpair TIPC EAFNOSUPPORT\nsocketpair UNIX works\n";
    world.run(["./calls"]).succeeds().stdout(expected);
    // The filter also applies in new namespaces, where the process has every capability.
    world.run(["unshare", "-Urmn", "./calls"]).succeeds().stdout(expected);
    let control = world.host(["./calls"]).succeeds().output();
    for answered in ["add_key works", "open_by_handle_at EFAULT", "clone3 E", "AF_INET works"] {
        let answered = answered
            .replace("EFAULT", if control.contains("handle_at EPERM") { "EPERM" } else { "E" });
        assert!(control.contains(&answered), "{answered}\n{control}");
    }
    assert!(!control.contains("keyctl ENOSYS"), "{control}");
    assert_ne!(control, expected);
}

#[test]
fn k1_the_callers_keys_cannot_be_read() {
    let world = World::new();
    let call = "import ctypes, os, platform\n\
        keyctl, add = (250, 248) if platform.machine() == 'x86_64' else (219, 217)\n\
        l = ctypes.CDLL(None, use_errno=True)\n\
        key = l.syscall(add, b'user', b'attack', b's3cret', 6, -2)\n\
        b = ctypes.create_string_buffer(32); n = l.syscall(keyctl, 11, key, b, 32)\n\
        print(b.value.decode() if n > 0 else os.strerror(ctypes.get_errno()))";
    python_inside(&world, &[], call).stdout("Function not implemented\n");
    python_outside(&world, call).stdout("s3cret\n");
}

#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: &str = r#"
#include <stdio.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
  long i386, number = 20; /* getpid */
  __asm__ volatile("int $0x80" : "=a"(i386) : "a"(number) : "r8", "r9", "r10", "r11", "memory");
  printf("i386 %s\n", i386 == -ENOSYS ? "refused" : "works");
  long socketcall;
  unsigned int *args = 0;
  __asm__ volatile("int $0x80" : "=a"(socketcall) : "a"(102), "b"(1), "c"(args) : "r8", "r9", "r10", "r11", "memory");
  printf("i386 socketcall %s\n", socketcall == -ENOSYS ? "refused" : "works");
  errno = 0;
  long x32 = syscall(SYS_getpid | 0x40000000);
  printf("x32 %s\n", x32 > 0 ? "works" : errno == ENOSYS ? "refused" : "other");
}
"#;

#[cfg(target_arch = "x86_64")]
#[test]
fn k1_r_d6_numbers_of_other_architectures_are_refused() {
    let world = World::new();
    compile(&world, "numbers", OTHER_NUMBERS);
    world
        .run(["./numbers"])
        .succeeds()
        .stdout("i386 refused\ni386 socketcall refused\nx32 refused\n");
    let control = world.host(["./numbers"]);
    // If the kernel was built without one of these, the kernel refuses first.
    assert!(control.output().starts_with("i386 "), "{control}");
}

#[test]
fn k2_the_packet_filter_is_out_of_reach_from_a_nested_namespace() {
    let world = World::new();
    let code = "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)";
    let python = super::python();
    world
        .run(["unshare", "-Urn", &python, "-c", code])
        .fails()
        .stderr_contains("Protocol not supported");
    let control =
        world.host(["unshare", "-Urn", &python, "-c", "import socket; socket.socket(16, 3, 0)"]);
    control.succeeds();
}

#[test]
fn k3_no_file_system_of_its_own_by_fuse() {
    let world = World::new();
    inside(&world, "test -e /dev/fuse").fails();
    inside(&world, "unshare -Urm mknod /tmp/fuse c 10 229").fails();
}
