//! fork, vfork and exec.
//!
//! A forked child has a copy of the table, and shares what the engine keeps in shared memory. The child of a vfork has
//! its parent's memory itself, but its own descriptors: nothing of the table is written there. A program that exec leads to finds its sockets
//! again by asking for them (`look.rs`), if it has this library; if it cannot have it, sockets that it inherits
//! return to the kernel first.

use super::{VFORK, target};
use crate::look;
use crate::next;
use crate::policy;
use crate::start::variable;
use crate::table::{self, Entry};
use core::cell::Cell;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use libc::pid_t;
use m3ipc_shim::engine::Pin;
use m3ipc_shim::policy::{COUNTS_VARIABLE, DIRECTORY_VARIABLE, VARIABLE};

type Envp = *const *const c_char;

unsafe extern "C" {
    pub(super) static environ: Envp;
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fork() -> pid_t {
    crate::watch::before_fork();
    born(next::fork())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __fork() -> pid_t {
    fork()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Fork() -> pid_t {
    crate::watch::before_fork();
    born(next::_Fork())
}

fn born(pid: pid_t) -> pid_t {
    if pid == 0 {
        // The child of a child of a vfork has memory of its own.
        VFORK.set(false);
    }
    crate::watch::after_fork(pid);
    pid
}

// The child of a vfork returns from here first, on its parent's stack, and spoils what the stack held below: so the
// address to return to is kept in a register over the call, as the C library itself does it.
#[cfg(target_arch = "x86_64")]
macro_rules! vfork {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> pid_t {
            core::arch::naked_asm!(
                "sub rsp, 8",
                "call {enter}",
                "add rsp, 8",
                "pop rdi",
                "mov eax, 58",
                "syscall",
                "push rdi",
                "test rax, rax",
                "jz 2f",
                "mov rdi, rax",
                "sub rsp, 8",
                "call {leave}",
                "add rsp, 8",
                "2:",
                "ret",
                enter = sym enter_vfork,
                leave = sym leave_vfork,
            )
        }
    };
}
// There is no vfork here but clone(CLONE_VM | CLONE_VFORK | SIGCHLD) on the same stack. The link register, which the kernel keeps for
// each of both, holds the address over the call.
#[cfg(target_arch = "aarch64")]
macro_rules! vfork {
    ($name:ident) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> pid_t {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-16]!",
                "bl {enter}",
                "ldp x29, x30, [sp], #16",
                "mov x0, #0x4111",
                "mov x1, sp",
                "mov x2, xzr",
                "mov x3, xzr",
                "mov x4, xzr",
                "mov x8, #220",
                "svc #0",
                "cbz x0, 2f",
                "stp x29, x30, [sp, #-16]!",
                "bl {leave}",
                "ldp x29, x30, [sp], #16",
                "2:",
                "ret",
                enter = sym enter_vfork,
                leave = sym leave_vfork,
            )
        }
    };
}
vfork!(vfork);
vfork!(__vfork);

extern "C" fn enter_vfork() {
    DOUBLED.with(|doubled| doubled.iter().for_each(|cell| cell.set(-1)));
    VFORK.set(true);
}

extern "C" fn leave_vfork(result: isize) -> isize {
    VFORK.set(false);
    if result < 0 {
        crate::set_errno(-result as c_int);
        return -1;
    }
    result
}

/// Sockets that the child of a vfork may have doubled before its exec.
const KEPT: usize = 8;
thread_local! {
    static DOUBLED: [Cell<c_int>; KEPT] = const { [const { Cell::new(-1) }; KEPT] };
}

/// The child of a vfork has doubled a descriptor: the table cannot say so.
pub fn doubled(fd: c_int) {
    if look::known(fd).is_some() {
        let kept =
            DOUBLED.with(|all| all.iter().find(|cell| cell.get() < 0).map(|cell| cell.set(fd)));
        if kept.is_none() {
            look::pin(fd, Pin::Exec, false);
        }
    }
}

/// Descriptors that are looked through for sockets that nothing is known of yet, before a program without this library comes.
const LOOKED_THROUGH: c_int = 1024;

/// Whatever a program without this library inherits returns to the kernel.
unsafe fn give_up_inherited() {
    for fd in 0..table::top().max(LOOKED_THROUGH) {
        let ours = match table::get(fd) {
            Entry::Talk(_) => true,
            // This process may itself have inherited it, and used it for nothing but this.
            Entry::Unknown => {
                fd < LOOKED_THROUGH
                    && table::is_cloexec(fd) == Some(false)
                    && look::talk(fd).is_some()
            }
            _ => false,
        };
        if ours && table::is_cloexec(fd) == Some(false) {
            look::pin(fd, Pin::Exec, true);
        }
    }
    if super::in_vfork() {
        DOUBLED.with(|all| {
            for cell in all.iter().filter(|cell| cell.get() >= 0) {
                look::pin(cell.get(), Pin::Exec, true);
            }
        });
    }
}

/// Bytes of each variable that is kept for programs that are given an environment without it.
const ROOM: usize = 4096 + 64;
struct Kept {
    bytes: [AtomicU8; ROOM],
    length: AtomicUsize,
}
static KEPT_VARIABLES: [Kept; 4] =
    [const { Kept { bytes: [const { AtomicU8::new(0) }; ROOM], length: AtomicUsize::new(0) } }; 4];
const NAMES: [&str; 4] = ["LD_PRELOAD", VARIABLE, COUNTS_VARIABLE, DIRECTORY_VARIABLE];
/// Where `KEPT_VARIABLES[0]` names this library, in bytes from its start.
static OWN_NAME: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());

/// Keeps what programs after this one need: the environment itself may be overwritten.
pub unsafe fn remember(envp: Envp) {
    for (name, kept) in NAMES.iter().zip(&KEPT_VARIABLES) {
        let Some(value) = variable(envp, name) else { continue };
        let whole = name.bytes().chain([b'=']).chain(value.to_bytes().iter().copied());
        if name.len() + 1 + value.to_bytes().len() >= ROOM {
            continue;
        }
        let mut length = 0;
        for (to, from) in kept.bytes.iter().zip(whole) {
            to.store(from, Ordering::Relaxed);
            length += 1;
        }
        kept.length.store(length, Ordering::Release);
    }
    let mut found: libc::Dl_info = core::mem::zeroed();
    if libc::dladdr(remember as *const core::ffi::c_void, &raw mut found) != 0 {
        OWN_NAME.store(found.dli_fname.cast_mut(), Ordering::Release);
    }
}

fn kept(index: usize) -> Option<*const c_char> {
    let kept = &KEPT_VARIABLES[index];
    (kept.length.load(Ordering::Acquire) > 0).then_some(kept.bytes.as_ptr().cast())
}

/// Variables that an environment may have to be given one more in.
const VARIABLES: usize = 512;

/// An environment with this library in it.
struct Environment {
    pointers: [*const c_char; VARIABLES + NAMES.len() + 1],
    preload: [u8; ROOM],
}

impl Environment {
    const fn new() -> Self {
        Self { pointers: [core::ptr::null(); VARIABLES + NAMES.len() + 1], preload: [0; ROOM] }
    }

    /// The same environment where it has all it needs, or is too large; else one with what is missing. Others' libraries stay first.
    unsafe fn with_us(&mut self, envp: Envp) -> Envp {
        let own = OWN_NAME.load(Ordering::Acquire);
        if !policy::on() || own.is_null() || kept(0).is_none() {
            return envp;
        }
        let own = CStr::from_ptr(own).to_bytes();
        let base = own.rsplit(|byte| *byte == b'/').next().unwrap_or(own);
        let preload = variable(envp, NAMES[0]).map(CStr::to_bytes);
        let has_us = preload.is_some_and(|list| {
            list.split(|byte| *byte == b':' || *byte == b' ')
                .any(|one| one == own || one.rsplit(|byte| *byte == b'/').next() == Some(base))
        });
        if has_us {
            return envp;
        }
        let mut count = 0;
        let mut at = envp;
        while !at.is_null() && !(*at).is_null() {
            if count == VARIABLES {
                return envp;
            }
            if !CStr::from_ptr(*at).to_bytes().starts_with(b"LD_PRELOAD=") {
                self.pointers[count] = *at;
                count += 1;
            }
            at = at.add(1);
        }
        match preload.filter(|list| !list.is_empty()) {
            Some(list) => {
                let whole = b"LD_PRELOAD=".iter().chain(list).chain(b":").chain(own);
                if list.len() + own.len() + 13 > ROOM {
                    return envp;
                }
                for (to, from) in self.preload.iter_mut().zip(whole) {
                    *to = *from;
                }
                self.pointers[count] = self.preload.as_ptr().cast();
                count += 1;
            }
            None => {
                if let Some(kept) = kept(0) {
                    self.pointers[count] = kept;
                    count += 1;
                }
            }
        }
        for (index, name) in NAMES.iter().enumerate().skip(1) {
            if variable(envp, name).is_none()
                && let Some(kept) = kept(index)
            {
                self.pointers[count] = kept;
                count += 1;
            }
        }
        self.pointers.as_ptr()
    }
}

/// Runs an exec with an environment that has this library, after giving up what its program could not use.
pub unsafe fn with(
    envp: Envp,
    ours: impl FnOnce() -> bool,
    call: impl FnOnce(Envp) -> c_int,
) -> c_int {
    if !policy::on() {
        return call(envp);
    }
    let code = crate::errno();
    crate::watch::before_exec();
    if !ours() {
        give_up_inherited();
    }
    crate::set_errno(code);
    let mut room = Environment::new();
    let envp = room.with_us(envp);
    call(envp)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execve(path: *const c_char, argv: Envp, envp: Envp) -> c_int {
    with(envp, || target::is_ours(libc::AT_FDCWD, path), |envp| next::execve(path, argv, envp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, argv: Envp) -> c_int {
    execve(path, argv, environ)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvpe(file: *const c_char, argv: Envp, envp: Envp) -> c_int {
    with(envp, || target::is_ours_in_path(file), |envp| next::execvpe(file, argv, envp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, argv: Envp) -> c_int {
    execvpe(file, argv, environ)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fexecve(fd: c_int, argv: Envp, envp: Envp) -> c_int {
    with(envp, || target::is_ours_at(fd), |envp| next::fexecve(fd, argv, envp))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn execveat(
    folder: c_int,
    path: *const c_char,
    argv: Envp,
    envp: Envp,
    flags: c_int,
) -> c_int {
    let ours = || {
        if flags & libc::AT_EMPTY_PATH != 0 && !path.is_null() && *path == 0 {
            return target::is_ours_at(folder);
        }
        target::is_ours(folder, path)
    };
    with(envp, ours, |envp| next::execveat(folder, path, argv, envp, flags))
}
