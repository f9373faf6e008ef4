//! The constructor: everything before the program's first instruction.
//!
//! # Safety
//! The loader calls the constructor once, while there is one thread, with the arguments and the
//! environment of `main`. Both stay valid for the constructor.
#![allow(unsafe_code)]

use crate::abi::exec::{Strings, leave_environment, variable};
use crate::abi::stdio;
use crate::next;
use core::ffi::{CStr, c_int, c_void};
use m3ipc_shim::connection::ended;
use m3ipc_shim::exec::environment;
use m3ipc_shim::kernel::socket::{SleepingCalls, set_sleeping_calls};
use m3ipc_shim::kernel::{file, process};
use m3ipc_shim::policy::{COUNTERS_VARIABLE, VARIABLE};
use m3ipc_shim::process::{limits, policy, vfork};
use m3ipc_shim::{counters, prepare, prepare_tables, sockets};

#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(c_int, Strings, Strings) = start;

unsafe extern "C" fn start(_argc: c_int, argv: Strings, envp: Strings) {
    // SAFETY: the loader passes the arguments and the environment of `main`.
    unsafe { begin(argv, envp) };
    // SAFETY: the constructor, while there is one thread.
    unsafe { leave_environment() };
}

/// Prepares the library, where it is to do anything in this process.
///
/// # Safety
/// The arrays are those of `main`.
unsafe fn begin(argv: Strings, envp: Strings) {
    next::look_up_all();
    stdio::look_up();
    // A program with more rights than its caller takes no orders of the caller's environment.
    // SAFETY: getauxval(3) takes an integer.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    // SAFETY: the loader passes the environment of `main`.
    let find = |name: &str| unsafe { variable(envp, name) };
    environment::keep(find, own_path());
    let line = find(VARIABLE).map_or(&b""[..], CStr::to_bytes);
    // A filter may kill the program for a system call that it does not make by itself.
    if limits::filters() > policy::allowed_filters(line) {
        return;
    }
    let mut room = [0_u8; 256];
    // SAFETY: the loader passes the arguments of `main`.
    let name = program_name(&mut room, unsafe { first_argument(argv) });
    let Some(policy) = policy::store(line, name, process::user()) else { return };
    prepare_tables();
    if let Some(path) = find(COUNTERS_VARIABLE) {
        counters::share(path);
    }
    set_sleeping_calls(SleepingCalls { recvmsg, sendmsg, poll });
    prepare(policy.settings);
    if sockets::pin_standard() {
        stdio::replace_input();
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// The program exits.
extern "C" fn end() {
    if !vfork::in_child() {
        ended::exit();
    }
}

unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller keeps the contract of recvmsg(2).
    unsafe { next::recvmsg(fd, message, flags) }
}

unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the caller keeps the contract of sendmsg(2).
    unsafe { next::sendmsg(fd, message, flags) }
}

unsafe extern "C-unwind" fn poll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: the caller keeps the contract of poll(2).
    unsafe { next::poll(fds, count, timeout) }
}

/// The path of this library, as the loader knows it.
fn own_path() -> Option<&'static CStr> {
    // SAFETY: plain pointers, for which zeros are valid.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    let inside: *const c_void = (own_path as fn() -> Option<&'static CStr> as *const ()).cast();
    // SAFETY: an address of this library; the structure is live.
    if unsafe { libc::dladdr(inside, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader keeps the name for as long as the library is loaded, which is for good.
    Some(unsafe { CStr::from_ptr(found.dli_fname) })
}

/// # Safety
/// `argv` is the array of `main`.
unsafe fn first_argument<'a>(argv: Strings) -> &'a [u8] {
    // SAFETY: the caller promises the array, which may have no argument.
    unsafe {
        if argv.is_null() || (*argv).is_null() {
            return &[];
        }
        CStr::from_ptr(*argv).to_bytes()
    }
}

/// The name of the program's file; by its first argument where the kernel does not tell.
fn program_name<'a>(room: &'a mut [u8; 256], first_argument: &'a [u8]) -> &'a str {
    let length = file::read_link(c"/proc/self/exe", room).unwrap_or(0);
    let path = if length > 0 { &room[..length] } else { first_argument };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    core::str::from_utf8(name).unwrap_or("")
}
