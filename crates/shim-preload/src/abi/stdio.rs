//! The C library's buffered files over sockets.
//!
//! # Safety
//! Files, formats and arguments are the program's. A file over our own calls keeps its descriptor
//! as its cookie.
#![allow(unsafe_code)]

use super::errno;
use super::stream::{read, write};
use crate::next::{self, CookieFunctions, ReadHook};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::FILE;
use m3ipc_shim::process::vfork;
use m3ipc_shim::{lifecycle, stdio};

/// Bytes in front of `_fileno` in the C library's `FILE`: part of its interface since 2.1.
const FILENO_OFFSET: usize = 112;
/// Words in front of `_IO_read_ptr` in the same structure; `_IO_read_end` follows.
const READ_WORD: usize = 1;

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if stdio::needs_own_calls(fd) {
        // SAFETY: the program keeps the contract of fdopen(3).
        return unsafe { over_own_calls(fd, mode, read_hook) };
    }
    // SAFETY: as above.
    let file = unsafe { next::fdopen(fd, mode) };
    if !file.is_null() {
        // SAFETY: the C library has read the mode.
        stdio::opened(fd, unsafe { CStr::from_ptr(mode) }.to_bytes());
    }
    file
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _IO_fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the same function.
    unsafe { fdopen(fd, mode) }
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
}

/// The standard input that the C library made.
static ORIGINAL_INPUT: AtomicPtr<FILE> = AtomicPtr::new(core::ptr::null_mut());
/// A replaced standard input that may have read ahead.
static INPUT_AHEAD: AtomicPtr<FILE> = AtomicPtr::new(core::ptr::null_mut());

/// Puts a file over our own calls in the place of the standard input, where bytes of a ring lie
/// behind it. This allocates.
///
/// The file stays for good, so it is made once. The child of a vfork makes none: `stdin` is its
/// parent's.
pub fn replace_input() {
    // SAFETY: the C library lets programs read `stdin`.
    let now = unsafe { stdin };
    if vfork::in_child()
        || now != ORIGINAL_INPUT.load(Ordering::Relaxed)
        || !stdio::input_needs_own_calls()
    {
        return;
    }
    // SAFETY: a live mode. The C library lets programs assign `stdin`; the old file stays valid.
    unsafe {
        let file = over_own_calls(0, c"r".as_ptr(), read_input_hook);
        if !file.is_null() {
            INPUT_AHEAD.store(now, Ordering::Relaxed);
            stdin = file;
        }
    }
}

/// Takes bytes that the replaced standard input has read ahead.
///
/// # Safety
/// The buffer has so many bytes.
unsafe fn take_ahead(buffer: *mut c_char, bytes: usize) -> usize {
    let file = INPUT_AHEAD.load(Ordering::Relaxed);
    if file.is_null() {
        return 0;
    }
    // SAFETY: the C library's own file is never freed; the two pointers lie at these words and
    // bound its unread bytes.
    unsafe {
        let from = file.cast::<*const c_char>().add(READ_WORD);
        let ahead = (*from.add(1)).addr().saturating_sub((*from).addr()).min(bytes);
        core::ptr::copy_nonoverlapping(*from, buffer, ahead);
        *from = (*from).add(ahead);
        ahead
    }
}

/// Opens a file over our own calls, for a socket whose ring holds bytes.
///
/// # Safety
/// As for fdopen(3).
unsafe fn over_own_calls(fd: c_int, mode: *const c_char, read: ReadHook) -> *mut FILE {
    let functions = CookieFunctions { read, write: write_hook, seek: no_seek, close: close_hook };
    let cookie =
        usize::try_from(fd).map_or(core::ptr::null_mut(), core::ptr::without_provenance_mut);
    // SAFETY: the caller promises the mode; the functions have the right types.
    let file = unsafe { next::fopencookie(cookie, mode, functions) };
    if !file.is_null() {
        // The answer of `fileno`. The C library keeps no descriptor for such files, and uses the
        // field for nothing else.
        // SAFETY: the file was just opened; the field lies at this offset.
        unsafe { file.cast::<u8>().add(FILENO_OFFSET).cast::<c_int>().write(fd) };
    }
    file
}

fn descriptor(cookie: *mut c_void) -> c_int {
    c_int::try_from(cookie.addr()).unwrap_or(-1)
}

unsafe extern "C-unwind" fn read_hook(
    cookie: *mut c_void,
    buffer: *mut c_char,
    bytes: usize,
) -> isize {
    // SAFETY: the C library gives a buffer of so many bytes.
    unsafe { read(descriptor(cookie), buffer.cast(), bytes) }
}

unsafe extern "C-unwind" fn read_input_hook(
    cookie: *mut c_void,
    buffer: *mut c_char,
    bytes: usize,
) -> isize {
    // SAFETY: the C library gives a buffer of so many bytes.
    unsafe {
        match take_ahead(buffer, bytes) {
            0 => read_hook(cookie, buffer, bytes),
            ahead => ahead.cast_signed(),
        }
    }
}

unsafe extern "C-unwind" fn write_hook(
    cookie: *mut c_void,
    buffer: *const c_char,
    bytes: usize,
) -> isize {
    // For such a file 0 is the error.
    // SAFETY: the C library gives a buffer of so many bytes.
    unsafe { write(descriptor(cookie), buffer.cast(), bytes) }.max(0)
}

unsafe extern "C-unwind" fn no_seek(_cookie: *mut c_void, _to: *mut i64, _whence: c_int) -> c_int {
    errno::fail(libc::ESPIPE)
}

unsafe extern "C-unwind" fn close_hook(cookie: *mut c_void) -> c_int {
    let fd = descriptor(cookie);
    let is_known = lifecycle::closing(fd);
    // SAFETY: close(2) takes an integer.
    let result = unsafe { next::close(fd) };
    if is_known {
        lifecycle::closed(fd);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    stdio::pin(fd);
    // SAFETY: the program keeps the contract of vdprintf(3).
    unsafe { next::vdprintf(fd, format, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    stdio::pin(fd);
    // SAFETY: the program keeps the contract of vdprintf(3).
    unsafe { next::__vdprintf_chk(fd, flag, format, arguments) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn backtrace_symbols_fd(
    addresses: *const *mut c_void,
    count: c_int,
    fd: c_int,
) {
    stdio::pin(fd);
    // SAFETY: the program keeps the contract of backtrace_symbols_fd(3).
    unsafe { next::backtrace_symbols_fd(addresses, count, fd) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __backtrace_symbols_fd(
    addresses: *const *mut c_void,
    count: c_int,
    fd: c_int,
) {
    // SAFETY: the same function.
    unsafe { backtrace_symbols_fd(addresses, count, fd) };
}

static DPRINTF: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DPRINTF_CHK: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Stores the addresses that the assembly jumps to, and the standard input. Called by the
/// constructor.
pub fn look_up() {
    // SAFETY: the C library lets programs read `stdin`.
    ORIGINAL_INPUT.store(unsafe { stdin }, Ordering::Relaxed);
    let (plain, checked) = next::dprintf_at();
    DPRINTF.store(plain, Ordering::Relaxed);
    DPRINTF_CHK.store(checked, Ordering::Relaxed);
}

extern "C-unwind" fn before_dprintf(fd: c_int) {
    stdio::pin(fd);
}

// The arguments, in registers of both kinds, go on to the C library's function untouched.
#[cfg(target_arch = "x86_64")]
macro_rules! printing {
    ($name:ident, $at:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() -> c_int {
            core::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1",
                "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5",
                "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "call {before}",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]",
                "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]",
                "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
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
                "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]", "stp x6, x7, [sp, #64]",
                "stp q0, q1, [sp, #80]", "stp q2, q3, [sp, #112]",
                "stp q4, q5, [sp, #144]", "stp q6, q7, [sp, #176]",
                "bl {before}",
                "ldp q0, q1, [sp, #80]", "ldp q2, q3, [sp, #112]",
                "ldp q4, q5, [sp, #144]", "ldp q6, q7, [sp, #176]",
                "ldp x0, x1, [sp, #16]", "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]", "ldp x6, x7, [sp, #64]",
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
