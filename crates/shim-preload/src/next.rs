//! The C library's own functions, behind ours of the same names.
//!
//! The constructor looks all of them up, since the loader's lock may be held for ever in a signal
//! handler or a child by fork. A call before the constructor looks up its own function. Calls that
//! may sleep go through these functions and not through bare system calls: the C library's
//! functions are cancellation points.
//!
//! # Safety
//! Each function has the contract of the C library's function of its name. The types are those of
//! its header.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};
use libc::{
    FILE, epoll_event, fd_set, iovec, mmsghdr, mode_t, msghdr, nfds_t, off_t, pid_t, pollfd,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

/// The address of a function.
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The address; null where this C library has no function of that name.
    fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a live string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

macro_rules! functions {
    ($($name:ident ($($argument:ident : $type:ty),*) -> $result:ty;)*) => {
        mod at {
            use super::Next;
            $(#[allow(non_upper_case_globals, reason = "the names of the C library")]
            pub static $name: Next = Next::new(
                match core::ffi::CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );)*
        }

        /// Looks all functions up.
        pub fn look_up_all() {
            $(at::$name.get();)*
        }

        $(#[doc = concat!("The C library's `", stringify!($name), "`; ENOSYS where it has none.")]
        #[allow(clippy::too_many_arguments, reason = "the C library's own arguments")]
        #[allow(non_snake_case, reason = "the C library's own names")]
        #[allow(dead_code, reason = "assembly calls two of them by address")]
        pub unsafe fn $name($($argument: $type),*) -> $result {
            let at = at::$name.get();
            if at.is_null() {
                crate::abi::errno::set(libc::ENOSYS);
                return Failure::FAILURE;
            }
            let function: unsafe extern "C-unwind" fn($($type),*) -> $result =
                // SAFETY: the C library's function of this name has this type.
                unsafe { core::mem::transmute(at) };
            // SAFETY: the caller keeps the contract of the function.
            unsafe { function($($argument),*) }
        })*
    };
}

/// The function of a child of `clone`.
pub type ChildFunction = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// `cookie_read_function_t`
pub type ReadHook = unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, usize) -> isize;

/// `cookie_io_functions_t`
#[repr(C)]
pub struct CookieFunctions {
    pub read: ReadHook,
    pub write: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize) -> isize,
    pub seek: unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int,
    pub close: unsafe extern "C-unwind" fn(*mut c_void) -> c_int,
}

/// The result of a function that fails.
trait Failure {
    const FAILURE: Self;
}
impl Failure for c_int {
    const FAILURE: Self = -1;
}
impl Failure for libc::sighandler_t {
    const FAILURE: Self = libc::SIG_ERR;
}
impl Failure for isize {
    const FAILURE: Self = -1;
}
impl<T> Failure for *mut T {
    const FAILURE: Self = core::ptr::null_mut();
}
impl Failure for () {
    const FAILURE: Self = ();
}

type Envp = *const *const c_char;

functions! {
    read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t;
    write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    recv(fd: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t;
    recvfrom(
        fd: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int, from: *mut sockaddr,
        length: *mut socklen_t
    ) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut
        timespec
    ) -> c_int;
    send(fd: c_int, buffer: *const c_void, bytes: size_t, flags: c_int) -> ssize_t;
    sendto(
        fd: c_int, buffer: *const c_void, bytes: size_t, flags: c_int, to: *const sockaddr,
        length: socklen_t
    ) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    splice(
        from: c_int, from_offset: *mut i64, to: c_int, to_offset: *mut i64, bytes: size_t,
        flags: c_uint
    ) -> ssize_t;
    socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    listen(fd: c_int, waiting: c_int) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    dup(fd: c_int) -> c_int;
    dup2(fd: c_int, to: c_int) -> c_int;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    ioctl(fd: c_int, request: usize, argument: usize) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom(first: c_int) -> ();
    setsockopt(
        fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t
    ) -> c_int;
    getsockopt(
        fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t
    ) -> c_int;
    sigaction(number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    bsd_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    ssignal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    sysv_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    __sysv_signal(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    sigset(number: c_int, handler: libc::sighandler_t) -> libc::sighandler_t;
    longjmp(place: *mut c_void, value: c_int) -> ();
    _longjmp(place: *mut c_void, value: c_int) -> ();
    siglongjmp(place: *mut c_void, value: c_int) -> ();
    __longjmp_chk(place: *mut c_void, value: c_int) -> ();
    pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int;
    poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    ppoll(
        fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t
    ) -> c_int;
    select(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout:
        *mut timeval
    ) -> c_int;
    pselect(
        count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set, timeout:
        *const timespec, mask: *const sigset_t
    ) -> c_int;
    epoll_create(size: c_int) -> c_int;
    epoll_create1(flags: c_int) -> c_int;
    epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    epoll_pwait(
        set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int, mask: *const
        sigset_t
    ) -> c_int;
    epoll_pwait2(
        set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec, mask:
        *const sigset_t
    ) -> c_int;
    fork() -> pid_t;
    _Fork() -> pid_t;
    clone(
        act: ChildFunction, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent: *mut
        pid_t, storage: *mut c_void, child: *mut pid_t
    ) -> c_int;
    daemon(keeps_directory: c_int, keeps_streams: c_int) -> c_int;
    forkpty(
        terminal: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void
    ) -> pid_t;
    execve(path: *const c_char, argv: Envp, envp: Envp) -> c_int;
    execvpe(file: *const c_char, argv: Envp, envp: Envp) -> c_int;
    fexecve(fd: c_int, argv: Envp, envp: Envp) -> c_int;
    execveat(folder: c_int, path: *const c_char, argv: Envp, envp: Envp, flags: c_int) -> c_int;
    posix_spawn(
        pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const
        c_void, argv: Envp, envp: Envp
    ) -> c_int;
    posix_spawnp(
        pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const
        c_void, argv: Envp, envp: Envp
    ) -> c_int;
    posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, to: c_int) -> c_int;
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    unshare(flags: c_int) -> c_int;
    system(command: *const c_char) -> c_int;
    popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    wordexp(words: *const c_char, into: *mut c_void, flags: c_int) -> c_int;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fopencookie(cookie: *mut c_void, mode: *const c_char, functions: CookieFunctions) -> *mut FILE;
    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE;
    tmpfile() -> *mut FILE;
    tmpfile64() -> *mut FILE;
    fclose(file: *mut FILE) -> c_int;
    pclose(file: *mut FILE) -> c_int;
    backtrace_symbols_fd(addresses: *const *mut c_void, count: c_int, fd: c_int) -> ();
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    creat(path: *const c_char, mode: mode_t) -> c_int;
    creat64(path: *const c_char, mode: mode_t) -> c_int;
    pipe(pair: *mut c_int) -> c_int;
    pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    eventfd(first: c_uint, flags: c_int) -> c_int;
    timerfd_create(clock: c_int, flags: c_int) -> c_int;
    signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    inotify_init() -> c_int;
    inotify_init1(flags: c_int) -> c_int;
    memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    aio_read(block: *mut c_void) -> c_int;
    aio_read64(block: *mut c_void) -> c_int;
    aio_write(block: *mut c_void) -> c_int;
    aio_write64(block: *mut c_void) -> c_int;
    lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    io_submit(context: *mut c_void, count: c_long, blocks: *mut *mut c_void) -> c_int;
    lio_listio64(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    dprintf(fd: c_int) -> c_int;
    __dprintf_chk(fd: c_int) -> c_int;
    __chk_fail() -> ();
    io_uring_setup(entries: c_uint, parameters: *mut c_void) -> c_int;
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    io_uring_queue_init_params(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void
    ) -> c_int;
    io_uring_queue_init_mem(
        entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void,
        bytes: size_t
    ) -> c_int;
}

/// The addresses of `dprintf` and `__dprintf_chk`: assembly passes their arguments on untouched.
pub fn dprintf_at() -> (*mut c_void, *mut c_void) {
    (at::dprintf.get(), at::__dprintf_chk.get())
}
