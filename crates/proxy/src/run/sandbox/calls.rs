//! The system calls of a running proxy that need no condition.
//!
//! Absent, and refused therefore: all that opens, makes, renames or removes a file; all that
//! starts, traces or signals a process, or touches its memory; mounts, namespaces, keys, modules,
//! BPF, io_uring, userfaultfd.

/// Calls of all architectures.
const COMMON: &[i64] = &[
    // Descriptors.
    libc::SYS_read,
    libc::SYS_readv,
    // Blocks of local programs.
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_readlinkat,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_ioctl,
    // Memory files of links and areas: they have no name.
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    // Sockets.
    libc::SYS_connect,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_socketpair,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    // Threads, time, signals to itself.
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Who it is.
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_capget,
    libc::SYS_getrandom,
    libc::SYS_uname,
    libc::SYS_pidfd_open,
    // The other filter answers it.
    libc::SYS_clone3,
];

/// Calls of this architecture.
#[cfg(target_arch = "x86_64")]
const OF_ARCHITECTURE: &[i64] = &[libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_readlink];
/// Calls of this architecture.
#[cfg(not(target_arch = "x86_64"))]
const OF_ARCHITECTURE: &[i64] = &[];

/// All allowed calls without conditions.
pub const ALLOWED: &[&[i64]] = &[COMMON, OF_ARCHITECTURE];
