//! `syscall`: programs that call the kernel by number where they could call by name.
//!
//! # Safety
//! The words are those of the call of the number, and go on to the hook of its name.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals, reason = "the numbers' own names")]

use super::errno;
use super::ready_by_number::MASK_BYTES;
use super::{
    epoll, exec, lifecycle, limits, many, message, option, process, ready, ready_by_number, signal,
    stream,
};
use core::ffi::{c_int, c_long, c_uint};
use libc::{
    SYS_accept, SYS_accept4, SYS_close, SYS_close_range, SYS_connect, SYS_dup, SYS_dup3,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_execve, SYS_execveat,
    SYS_exit_group, SYS_fcntl, SYS_getsockopt, SYS_io_submit, SYS_io_uring_setup, SYS_ioctl,
    SYS_pidfd_getfd, SYS_ppoll, SYS_prctl, SYS_preadv2, SYS_pselect6, SYS_pwritev2, SYS_read,
    SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_rt_sigaction, SYS_seccomp,
    SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_shutdown, SYS_socket,
    SYS_socketpair, SYS_splice, SYS_write, SYS_writev,
};
use m3ipc_shim::kernel;
use m3ipc_shim::process::policy as settings;

#[cfg(target_arch = "x86_64")]
use libc::{SYS_dup2, SYS_epoll_create, SYS_epoll_wait, SYS_poll, SYS_select};

/// Calls that this machine does not have, with numbers of no call.
#[cfg(target_arch = "aarch64")]
const SYS_dup2: c_long = c_long::MIN;
#[cfg(target_arch = "aarch64")]
const SYS_epoll_wait: c_long = c_long::MIN + 1;
#[cfg(target_arch = "aarch64")]
const SYS_poll: c_long = c_long::MIN + 2;
#[cfg(target_arch = "aarch64")]
const SYS_epoll_create: c_long = c_long::MIN + 3;
#[cfg(target_arch = "aarch64")]
const SYS_select: c_long = c_long::MIN + 4;

/// Whether a call has a hook.
extern "C" fn has_hook(number: c_long, first: usize, second: usize) -> bool {
    settings::is_on() && (process::is_fork(number, first, second) || has_name(number))
}

/// Whether a call of a number has a hook by its name.
fn has_name(number: c_long) -> bool {
    matches!(
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
            | SYS_ppoll
            | SYS_select
            | SYS_pselect6
            | SYS_epoll_create
            | SYS_epoll_pwait2
            | SYS_preadv2
            | SYS_pwritev2
            | SYS_shutdown
            | SYS_getsockopt
            | SYS_exit_group
            | SYS_execve
            | SYS_pidfd_getfd
            | SYS_io_uring_setup
            | SYS_rt_sigaction
            | SYS_prctl
            | SYS_seccomp
            | libc::SYS_unshare
            | SYS_execveat
            | SYS_io_submit
    )
}

/// An unsigned argument: the kernel takes the low 32 bits of a word.
fn uint(word: usize) -> c_uint {
    c_uint::try_from(word & 0xffff_ffff).unwrap_or(0)
}

/// An integer argument.
fn int(word: usize) -> c_int {
    uint(word).cast_signed()
}

/// An offset in a file.
fn offset(word: usize) -> libc::off_t {
    word.cast_signed() as libc::off_t
}

/// A pointer argument.
fn pointer<T>(word: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(word)
}

fn long(result: isize) -> c_long {
    c_long::try_from(result).unwrap_or(-1)
}

/// Makes a call by its hook. The seventh word of `syscall`, the sixth of the call, comes on the
/// stack.
unsafe extern "C-unwind" fn by_name(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if number == SYS_io_uring_setup && settings::refuses_uring() {
        return errno::fail(libc::ENOSYS).into();
    }
    // SAFETY: the program keeps the contract of the call of this number.
    unsafe {
        match number {
            SYS_read => long(stream::read(int(a), pointer(b), c)),
            SYS_write => long(stream::write(int(a), pointer(b), c)),
            SYS_readv => long(stream::readv(int(a), pointer(b), int(c))),
            SYS_writev => long(stream::writev(int(a), pointer(b), int(c))),
            SYS_sendto => long(stream::sendto(int(a), pointer(b), c, int(d), pointer(e), uint(f))),
            SYS_recvfrom => {
                long(stream::recvfrom(int(a), pointer(b), c, int(d), pointer(e), pointer(f)))
            }
            SYS_sendmsg => long(message::sendmsg(int(a), pointer(b), int(c))),
            SYS_recvmsg => long(message::recvmsg(int(a), pointer(b), int(c))),
            // The upper half of the offset, which is the fifth word, has no bits left.
            SYS_preadv2 => long(stream::preadv2(int(a), pointer(b), int(c), offset(d), int(f))),
            SYS_pwritev2 => long(stream::pwritev2(int(a), pointer(b), int(c), offset(d), int(f))),
            SYS_pselect6 => ready_by_number::pselect6([a, b, c, d, e, f]).into(),
            SYS_ppoll => ready_by_number::ppoll([a, b, c, d, e, f]).into(),
            // The hooks have no size of the mask.
            SYS_epoll_pwait | SYS_epoll_pwait2 if e != 0 && f != MASK_BYTES => {
                by_kernel(number, [a, b, c, d, e, f])
            }
            SYS_exit_group => process::_exit(int(a)),
            SYS_sendfile => long(many::sendfile(int(a), int(b), pointer(c), d)),
            SYS_splice => long(many::splice(int(a), pointer(b), int(c), pointer(d), e, uint(f))),
            SYS_prctl | SYS_seccomp => limits::limit_by_number(number, [a, b, c, d, e, f]),
            SYS_rt_sigaction => signal::change_by_number(int(a), [a, b, c, d, e, f]),
            SYS_io_submit => {
                many::pin_submitted(b.cast_signed() as c_long, pointer(c));
                by_kernel(number, [a, b, c, d, e, f])
            }
            _ if process::is_fork(number, a, b) => {
                process::fork_by_number(number, [a, b, c, d, e, f]).into()
            }
            _ => match by_name_small(number, [a, b, c, d, e]) {
                Some(result) => result.into(),
                None => by_kernel(number, [a, b, c, d, e, f]),
            },
        }
    }
}

/// Makes the program's own call.
///
/// # Safety
/// The words are those of the call.
unsafe fn by_kernel(number: c_long, words: [usize; 6]) -> c_long {
    // SAFETY: the caller promises the words.
    let result = unsafe { kernel::call(number, words) };
    result.map_or_else(|code| errno::fail(code).into(), |result| long(result.cast_signed()))
}

/// Makes a call whose result is an integer; `None` where the call has no hook.
///
/// # Safety
/// The words are those of the call.
unsafe fn by_name_small(number: c_long, [a, b, c, d, e]: [usize; 5]) -> Option<c_int> {
    // SAFETY: the caller promises the words.
    let result = unsafe {
        match number {
            SYS_sendmmsg => many::sendmmsg(int(a), pointer(b), uint(c), int(d)),
            SYS_recvmmsg => many::recvmmsg(int(a), pointer(b), uint(c), int(d), pointer(e)),
            SYS_close => lifecycle::close(int(a)),
            SYS_close_range => lifecycle::close_range(uint(a), uint(b), int(c)),
            SYS_dup => lifecycle::dup(int(a)),
            SYS_dup2 => lifecycle::dup2(int(a), int(b)),
            SYS_dup3 => lifecycle::dup3(int(a), int(b), int(c)),
            SYS_fcntl => lifecycle::fcntl(int(a), int(b), c),
            SYS_ioctl => lifecycle::ioctl(int(a), b, c),
            SYS_socket => lifecycle::socket(int(a), int(b), int(c)),
            SYS_socketpair => lifecycle::socketpair(int(a), int(b), int(c), pointer(d)),
            SYS_accept => lifecycle::accept(int(a), pointer(b), pointer(c)),
            SYS_accept4 => lifecycle::accept4(int(a), pointer(b), pointer(c), int(d)),
            SYS_connect => lifecycle::connect(int(a), pointer(b), uint(c)),
            SYS_setsockopt => option::setsockopt(int(a), int(b), int(c), pointer(d), uint(e)),
            SYS_epoll_create1 => epoll::epoll_create1(int(a)),
            SYS_epoll_ctl => epoll::epoll_ctl(int(a), int(b), int(c), pointer(d)),
            SYS_epoll_wait => epoll::epoll_wait(int(a), pointer(b), int(c), int(d)),
            SYS_epoll_pwait => epoll::epoll_pwait(int(a), pointer(b), int(c), int(d), pointer(e)),
            SYS_poll => ready::poll(pointer(a), b as libc::nfds_t, int(c)),
            SYS_select => ready::select(int(a), pointer(b), pointer(c), pointer(d), pointer(e)),
            SYS_epoll_create => epoll::epoll_create(int(a)),
            SYS_epoll_pwait2 => {
                epoll::epoll_pwait2(int(a), pointer(b), int(c), pointer(d), pointer(e))
            }
            SYS_shutdown => lifecycle::shutdown(int(a), int(b)),
            SYS_getsockopt => option::getsockopt(int(a), int(b), int(c), pointer(d), pointer(e)),
            SYS_execve => exec::execve(pointer(a), pointer(b), pointer(c)),
            SYS_execveat => exec::execveat(int(a), pointer(b), pointer(c), pointer(d), int(e)),
            SYS_pidfd_getfd => lifecycle::pidfd_getfd(int(a), int(b), uint(c)),
            libc::SYS_unshare => limits::unshare(int(a)),
            _ => return None,
        }
    };
    Some(result)
}

extern "C" fn failed(code: c_int) -> c_long {
    errno::fail(code).into()
}

// A call without a hook goes to the kernel from assembly, as in the C library's own `syscall`: a
// call that returns twice, or on another stack, finds its way back as there.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn syscall() -> c_long {
    core::arch::naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9",
        "sub rsp, 8",
        "call {has_hook}",
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
        has_hook = sym has_hook,
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
        "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]", "str x6, [sp, #64]",
        "bl {has_hook}",
        "mov w16, w0",
        "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]", "ldr x6, [sp, #64]",
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
        has_hook = sym has_hook,
        by_name = sym by_name,
        failed = sym failed,
    )
}
