//! The unwinder's functions, looked up at their first use.
//!
//! Rust's standard library calls them where it panics, and where a thread is cancelled within a
//! hook. They are those of `libgcc_s.so.1`. A library that names it among its needs brings it into
//! each program, which is a quarter of what `libm3sock.so` costs a program at its start
//! ([ADR 80](../../../docs/adr/0080-the-library-loads-where-it-was-asked.md)). Here the linker
//! finds functions of the same names, which are hidden from the program. They load the library and
//! call its functions. The C library loads it, too, before it cancels a thread.
//!
//! # Safety
//! Each function has the contract of the unwinder's function of its name. Its types are those of
//! `unwind.h`.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A frame that is unwound. Only the unwinder knows its layout.
type Context = *mut c_void;
type Exception = *mut c_void;
type Trace = extern "C-unwind" fn(Context, *mut c_void) -> c_int;

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {function}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {function}"
    };
}

macro_rules! functions {
    ($($function:ident = $name:literal ($($argument:ident : $type:ty),*) -> $result:ty;)*) => {$(
        // A function with `no_mangle` would be exported, and take the place of the program's own.
        core::arch::global_asm!(
            ".pushsection .text, \"ax\", %progbits",
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            jump!(),
            ".popsection",
            function = sym $function,
        );

        unsafe extern "C-unwind" fn $function($($argument: $type),*) -> $result {
            static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL"),
            };
            let mut at = FOUND.load(Ordering::Relaxed);
            if at.is_null() {
                at = look_up(NAME);
                FOUND.store(at, Ordering::Relaxed);
            }
            let function: unsafe extern "C-unwind" fn($($type),*) -> $result =
                // SAFETY: the unwinder's function of this name has this type.
                unsafe { core::mem::transmute(at) };
            // SAFETY: the caller keeps the contract of the function.
            unsafe { function($($argument),*) }
        }
    )*};
}

functions! {
    backtrace = "_Unwind_Backtrace"(trace: Trace, argument: *mut c_void) -> c_int;
    data_base = "_Unwind_GetDataRelBase"(context: Context) -> usize;
    ip = "_Unwind_GetIP"(context: Context) -> usize;
    ip_info = "_Unwind_GetIPInfo"(context: Context, before: *mut c_int) -> usize;
    frame_data = "_Unwind_GetLanguageSpecificData"(context: Context) -> *mut c_void;
    region_start = "_Unwind_GetRegionStart"(context: Context) -> usize;
    text_base = "_Unwind_GetTextRelBase"(context: Context) -> usize;
    raise = "_Unwind_RaiseException"(exception: Exception) -> c_int;
    resume = "_Unwind_Resume"(exception: Exception) -> !;
    set_register = "_Unwind_SetGR"(context: Context, index: c_int, value: usize) -> ();
    set_ip = "_Unwind_SetIP"(context: Context, value: usize) -> ();
}

/// Looks a function of the unwinder up; ends the program where there is none.
fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: both names are live strings; the unwinder's constructor asks for the CPU's features.
    let at = unsafe {
        let library = libc::dlopen(c"libgcc_s.so.1".as_ptr(), libc::RTLD_LAZY);
        if library.is_null() { null_mut() } else { libc::dlsym(library, name.as_ptr()) }
    };
    if at.is_null() {
        let text = b"libm3sock.so: no libgcc_s.so.1, which unwinds a thread that panics or is \
            cancelled. Install the package libgcc-s1.\n";
        // SAFETY: a live buffer, and an end of the program.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::abort();
        }
    }
    at
}
