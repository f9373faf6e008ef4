//! What happens before the program's first instruction, and where the counters go.

use crate::{next, policy, table};
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use m3ipc_shim::count;
use m3ipc_shim::policy::{COUNTS_VARIABLE, VARIABLE};

/// The loader calls it with the arguments of `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = start;

unsafe extern "C" fn start(_argc: c_int, argv: *const *const c_char, envp: *const *const c_char) {
    next::look_up_all();
    crate::hook::look_up();
    // A program with more rights than its caller takes no orders from the caller's environment.
    if libc::getauxval(libc::AT_SECURE) != 0 {
        return;
    }
    crate::hook::process::remember(envp);
    let mut name = [0_u8; 256];
    let name = program(&mut name, argv);
    let user = crate::raw(libc::SYS_geteuid, [0; 6]).unwrap_or(0) as u32;
    let line = variable(envp, VARIABLE).map_or(&b""[..], CStr::to_bytes);
    if let Some(counts) = variable(envp, COUNTS_VARIABLE) {
        keep_path(counts.to_bytes());
    }
    if let Some(policy) = policy::take(line, name, user) {
        table::open();
        crate::watch::settle();
        crate::hook::signal::look_up();
        show_counters();
        m3ipc_shim::real::wait_with(m3ipc_shim::real::Waiting {
            recvmsg: wait_recvmsg,
            sendmsg: wait_sendmsg,
        });
        m3ipc_shim::engine::settle(policy.settings);
    }
}

unsafe extern "C-unwind" fn wait_recvmsg(
    fd: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    next::recvmsg(fd, message, flags)
}

unsafe extern "C-unwind" fn wait_sendmsg(
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    next::sendmsg(fd, message, flags)
}

/// The value of a variable in an environment.
pub unsafe fn variable(mut envp: *const *const c_char, name: &str) -> Option<&'static CStr> {
    while !envp.is_null() && !(*envp).is_null() {
        let entry = CStr::from_ptr(*envp);
        if entry
            .to_bytes()
            .strip_prefix(name.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'='))
        {
            return Some(CStr::from_ptr((*envp).add(name.len() + 1)));
        }
        envp = envp.add(1);
    }
    None
}

/// The name of the program's file.
unsafe fn program(room: &mut [u8; 256], argv: *const *const c_char) -> &str {
    let at = [
        libc::AT_FDCWD as usize,
        c"/proc/self/exe".as_ptr() as usize,
        room.as_mut_ptr() as usize,
        room.len(),
        0,
        0,
    ];
    let length = crate::raw(libc::SYS_readlinkat, at).unwrap_or(0);
    let path = if length > 0 {
        &room[..length]
    } else if argv.is_null() || (*argv).is_null() {
        &[]
    } else {
        CStr::from_ptr(*argv).to_bytes()
    };
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    core::str::from_utf8(name).unwrap_or("")
}

/// Bytes of the counters' path, with its end.
const ROOM: usize = 512;
static PATH: [core::sync::atomic::AtomicU8; ROOM] =
    [const { core::sync::atomic::AtomicU8::new(0) }; ROOM];
static PATH_BYTES: AtomicUsize = AtomicUsize::new(0);

fn keep_path(path: &[u8]) {
    if path.len() < ROOM {
        for (to, from) in PATH.iter().zip(path) {
            to.store(*from, Ordering::Relaxed);
        }
        PATH_BYTES.store(path.len(), Ordering::Release);
    }
}

/// Moves the counters to where others can read them. At once: a program may give up the rights to it later.
fn show_counters() {
    let length = PATH_BYTES.load(Ordering::Acquire);
    if length == 0 || count::is_shared() {
        return;
    }
    let path = PATH.as_ptr() as usize;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK) as usize;
    let Ok(fd) =
        (unsafe { crate::raw(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags, 0, 0, 0]) })
    else {
        return;
    };
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // A file that is too short would kill the program where it is touched.
    let room = unsafe { crate::raw(libc::SYS_lseek, [fd, 0, libc::SEEK_END as usize, 0, 0, 0]) }
        .unwrap_or(0);
    let map = [0, count::PAGE_BYTES, protection, libc::MAP_SHARED as usize, fd, 0];
    if room >= count::PAGE_BYTES
        && let Ok(at) = unsafe { crate::raw(libc::SYS_mmap, map) }
    {
        unsafe { count::share(at as *mut count::Page) };
    }
    let _ = unsafe { crate::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
}

static JOINED: AtomicU32 = AtomicU32::new(0);

/// Says that this process has sockets, once in each process that has.
pub fn join_counters() {
    let pid = unsafe { crate::raw(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32;
    if !count::is_shared() || JOINED.swap(pid, Ordering::Relaxed) == pid {
        return;
    }
    let own = count::process_word(pid, started());
    let lives = |word| unsafe { crate::raw(libc::SYS_kill, [count::process_of(word).0 as usize, 0, 0, 0, 0, 0]) } != Err(libc::ESRCH);
    count::join(own, lives);
}

/// When this process started, in clock ticks after boot; 0 where nobody says so.
fn started() -> u64 {
    let mut text = [0_u8; 512];
    let path = c"/proc/self/stat".as_ptr() as usize;
    let open =
        [libc::AT_FDCWD as usize, path, (libc::O_RDONLY | libc::O_CLOEXEC) as usize, 0, 0, 0];
    let Ok(fd) = (unsafe { crate::raw(libc::SYS_openat, open) }) else { return 0 };
    let read = unsafe {
        crate::raw(libc::SYS_read, [fd, text.as_mut_ptr() as usize, text.len(), 0, 0, 0])
    };
    let _ = unsafe { crate::raw(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
    let text = core::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or("");
    // The name in brackets may hold anything; twenty words after it comes the start.
    let after = text.rsplit_once(')').map_or("", |(_name, after)| after);
    after.split_ascii_whitespace().nth(19).and_then(|word| word.parse().ok()).unwrap_or(0)
}
