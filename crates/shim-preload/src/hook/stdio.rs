//! The C library's files over sockets: their reads, writes and closes are inside of it, where nothing can be seen.

use super::data;
use crate::look;
use crate::next;
use crate::table::{self, Entry};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::FILE;
use m3ipc_shim::engine::Pin;

/// From here on the C library writes by itself.
extern "C-unwind" fn to_stdio(fd: c_int) {
    let code = crate::errno();
    look::pin(fd, Pin::Stdio, false);
    crate::set_errno(code);
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if look::talk(fd).is_some() && !look::pin(fd, Pin::Stdio, false) {
        return over_hooks(fd, mode);
    }
    let file = next::fdopen(fd, mode);
    // `fclose` closes it unseen, and its number may come back as anything.
    if !file.is_null() && !matches!(table::get(fd), Entry::Unknown | Entry::Plain) {
        table::set_without_forgetting(fd, Entry::Pinned);
    }
    file
}

/// Bytes lie in the ring that only our functions can read: a file over those.
unsafe fn over_hooks(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions =
        Functions { read: read_hook, write: write_hook, seek: no_seek, close: close_hook };
    let file = next::fopencookie(fd as usize as *mut c_void, mode, functions);
    if !file.is_null() {
        // What `fileno` says; the C library keeps no descriptor for such files, and uses it for nothing else.
        file.cast::<u8>().add(FILENO).cast::<c_int>().write(fd);
    }
    file
}

/// Where `_fileno` lies in the C library's `FILE`, in bytes: part of its interface since 2.1.
const FILENO: usize = 112;

/// `cookie_io_functions_t`.
#[repr(C)]
pub struct Functions {
    read: unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, usize) -> isize,
    write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize) -> isize,
    seek: unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int,
    close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

unsafe extern "C-unwind" fn read_hook(fd: *mut c_void, buffer: *mut c_char, bytes: usize) -> isize {
    data::read(fd as usize as c_int, buffer.cast(), bytes)
}

unsafe extern "C-unwind" fn write_hook(
    fd: *mut c_void,
    buffer: *const c_char,
    bytes: usize,
) -> isize {
    // 0 is an error for such a file.
    data::write(fd as usize as c_int, buffer.cast(), bytes).max(0)
}

unsafe extern "C-unwind" fn no_seek(_fd: *mut c_void, _offset: *mut i64, _whence: c_int) -> c_int {
    crate::set_errno(libc::ESPIPE);
    -1
}

unsafe extern "C-unwind" fn close_hook(fd: *mut c_void) -> c_int {
    super::life::close(fd as usize as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if look::talk(fd).is_some() {
        to_stdio(fd);
    }
    next::vdprintf(fd, format, arguments)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if look::talk(fd).is_some() {
        to_stdio(fd);
    }
    next::__vdprintf_chk(fd, flag, format, arguments)
}

static DPRINTF: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DPRINTF_CHK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Keeps where the functions are that assembly goes on to.
pub fn look_up() {
    let (plain, checked) = next::dprintf_at();
    DPRINTF.store(plain, Ordering::Relaxed);
    DPRINTF_CHK.store(checked, Ordering::Relaxed);
}

extern "C-unwind" fn before_dprintf(fd: c_int) {
    if look::talk(fd).is_some() {
        to_stdio(fd);
    }
}

// The arguments, in registers of both kinds, go on untouched to the C library's function.
#[cfg(target_arch = "x86_64")]
macro_rules! printing {
    ($name:ident, $at:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "call {before}",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "mov r11, [rip + {at}]",
                "jmp r11",
                before = sym before_dprintf,
                at = sym $at,
            )
        }
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! printing {
    ($name:ident, $at:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-208]!",
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]", "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
                "bl {before}",
                "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]", "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]", "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #208",
                "adrp x16, {at}",
                "ldr x16, [x16, #:lo12:{at}]",
                "br x16",
                before = sym before_dprintf,
                at = sym $at,
            )
        }
    };
}
printing!(dprintf, DPRINTF);
printing!(__dprintf_chk, DPRINTF_CHK);
