//! `syscall`: programs that call the kernel by number where they could call by name.

#![allow(non_upper_case_globals, reason = "the numbers' own names")]

use super::{data, epoll, life, many, process, ready};
use crate::{policy, set_errno};
use core::ffi::{c_int, c_long, c_uint};
use libc::{
    SYS_accept, SYS_accept4, SYS_close, SYS_close_range, SYS_connect, SYS_dup, SYS_dup3,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_execve, SYS_fcntl, SYS_io_uring_setup,
    SYS_ioctl, SYS_pidfd_getfd, SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg,
    SYS_rt_sigaction, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt,
    SYS_socket, SYS_socketpair, SYS_splice, SYS_write, SYS_writev,
};

#[cfg(target_arch = "x86_64")]
use libc::{SYS_dup2, SYS_epoll_wait, SYS_poll};

/// Calls that this machine does not have: numbers of none.
#[cfg(target_arch = "aarch64")]
const SYS_dup2: c_long = c_long::MIN;
#[cfg(target_arch = "aarch64")]
const SYS_epoll_wait: c_long = c_long::MIN + 1;
#[cfg(target_arch = "aarch64")]
const SYS_poll: c_long = c_long::MIN + 2;

/// Whether a call is one of those that have a hook.
extern "C" fn is_ours(number: c_long) -> bool {
    policy::on()
        && matches!(
            number,
            SYS_read
                | SYS_write
                | SYS_readv
                | SYS_writev
                | SYS_sendto
                | SYS_recvfrom
                | SYS_sendmsg
                | SYS_recvmsg
                | SYS_sendmmsg
                | SYS_recvmmsg
                | SYS_sendfile
                | SYS_splice
                | SYS_close
                | SYS_close_range
                | SYS_dup
                | SYS_dup2
                | SYS_dup3
                | SYS_fcntl
                | SYS_ioctl
                | SYS_socket
                | SYS_socketpair
                | SYS_accept
                | SYS_accept4
                | SYS_connect
                | SYS_setsockopt
                | SYS_epoll_create1
                | SYS_epoll_ctl
                | SYS_epoll_wait
                | SYS_epoll_pwait
                | SYS_poll
                | SYS_execve
                | SYS_pidfd_getfd
                | SYS_io_uring_setup
                | SYS_rt_sigaction
        )
}

/// The call by its hook. The seventh word of `syscall` is the sixth of the call, and comes on the stack.
unsafe extern "C-unwind" fn by_name(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let (fd, second) = (a as c_int, b as c_int);
    let small = |value: c_int| c_long::from(value);
    match number {
        SYS_read => data::read(fd, b as _, c) as c_long,
        SYS_write => data::write(fd, b as _, c) as c_long,
        SYS_readv => data::readv(fd, b as _, c as c_int) as c_long,
        SYS_writev => data::writev(fd, b as _, c as c_int) as c_long,
        SYS_sendto => data::sendto(fd, b as _, c, d as c_int, e as _, f as c_uint) as c_long,
        SYS_recvfrom => data::recvfrom(fd, b as _, c, d as c_int, e as _, f as _) as c_long,
        SYS_sendmsg => data::sendmsg(fd, b as _, c as c_int) as c_long,
        SYS_recvmsg => data::recvmsg(fd, b as _, c as c_int) as c_long,
        SYS_sendmmsg => small(many::sendmmsg(fd, b as _, c as c_uint, d as c_int)),
        SYS_recvmmsg => small(many::recvmmsg(fd, b as _, c as c_uint, d as c_int, e as _)),
        SYS_sendfile => many::sendfile(fd, second, c as _, d) as c_long,
        SYS_splice => many::splice(fd, b as _, c as c_int, d as _, e, f as c_uint) as c_long,
        SYS_close => small(life::close(fd)),
        SYS_close_range => small(life::close_range(a as c_uint, b as c_uint, c as c_int)),
        SYS_dup => small(life::dup(fd)),
        SYS_dup2 => small(life::dup2(fd, second)),
        SYS_dup3 => small(life::dup3(fd, second, c as c_int)),
        SYS_fcntl => small(life::fcntl(fd, second, c)),
        SYS_ioctl => small(life::ioctl(fd, b, c)),
        SYS_socket => small(life::socket(fd, second, c as c_int)),
        SYS_socketpair => small(life::socketpair(fd, second, c as c_int, d as _)),
        SYS_accept => small(life::accept(fd, b as _, c as _)),
        SYS_accept4 => small(life::accept4(fd, b as _, c as _, d as c_int)),
        SYS_connect => small(life::connect(fd, b as _, c as c_uint)),
        SYS_setsockopt => {
            small(super::option::setsockopt(fd, second, c as c_int, d as _, e as c_uint))
        }
        SYS_epoll_create1 => small(epoll::epoll_create1(fd)),
        SYS_epoll_ctl => small(epoll::epoll_ctl(fd, second, c as c_int, d as _)),
        SYS_epoll_wait => small(epoll::epoll_wait(fd, b as _, c as c_int, d as c_int)),
        SYS_epoll_pwait => small(epoll::epoll_pwait(fd, b as _, c as c_int, d as c_int, e as _)),
        SYS_poll => small(ready::poll(a as _, b as libc::nfds_t, c as c_int)),
        SYS_execve => small(process::execve(a as _, b as _, c as _)),
        SYS_pidfd_getfd => small(life::pidfd_getfd(fd, second, c as c_uint)),
        SYS_rt_sigaction => super::signal::changed(fd, [a, b, c, d, e, f]),
        _ if number == SYS_io_uring_setup && policy::refuses_uring() => {
            set_errno(libc::ENOSYS);
            -1
        }
        _ => crate::raw(number, [a, b, c, d, e, f]).map_or_else(
            |code| {
                set_errno(code);
                -1
            },
            |result| result as c_long,
        ),
    }
}

extern "C" fn failed(code: c_int) -> c_long {
    set_errno(code);
    -1
}

// What has no hook goes to the kernel as the C library's own `syscall` sends it: from assembly, so that a call that
// returns twice, or on another stack, finds its way back as it does there.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall() -> c_long {
    core::arch::naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
        "sub rsp, 8",
        "call {is_ours}",
        "add rsp, 8",
        "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "test al, al",
        "jnz {by_name}",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "neg eax",
        "mov edi, eax",
        "jmp {failed}",
        is_ours = sym is_ours,
        by_name = sym by_name,
        failed = sym failed,
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall() -> c_long {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "str x6, [sp, #64]",
        "bl {is_ours}",
        "mov w16, w0",
        "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldr x6, [sp, #64]",
        "ldp x29, x30, [sp], #80",
        "tbz w16, #0, 2f",
        "b {by_name}",
        "2:",
        "mov x8, x0",
        "mov x0, x1",
        "mov x1, x2",
        "mov x2, x3",
        "mov x3, x4",
        "mov x4, x5",
        "mov x5, x6",
        "svc #0",
        "cmn x0, #4095",
        "b.cs 3f",
        "ret",
        "3:",
        "neg w0, w0",
        "b {failed}",
        is_ours = sym is_ours,
        by_name = sym by_name,
        failed = sym failed,
    )
}
