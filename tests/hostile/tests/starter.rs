//! A daemon keeps nothing of the program that starts it, and the program does not see it.
//!
//! # Safety
//! The roles run in a process of their own. The calls take integers and live locals.
#![allow(unsafe_code, clippy::unwrap_used)]

use m3ipc::{AreaConfig, Node, VmConfig};
use m3ipc_test_fixture::{NodeFixture, program, until, unused_directory, watchdog};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The role that a process of this file plays.
const ROLE: &str = "M3_TEST_ROLE";
/// An exit code of a role.
const WRONG: i32 = 9;

/// A process of this file in a role, with a runtime directory in which no daemon runs.
struct Starter {
    directory: PathBuf,
}

impl Starter {
    fn new(name: &str) -> Self {
        watchdog(120);
        Self { directory: unused_directory(name) }
    }

    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "role", "--nocapture"]).env(ROLE, role);
        command.env("M3_RUNTIME_DIR", &self.directory);
        command.env("M3_DAEMON", program("m3-tests-daemon"));
        command.env("M3_TESTS_OWNER", std::process::id().to_string());
        command
    }

    fn run(&self, role: &str) -> Output {
        let output = self.command(role).stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{role}: {}: {text}{why}", output.status);
        output
    }

    fn daemon(&self) -> i32 {
        let text = std::fs::read_to_string(self.directory.join("lock")).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        if let Ok(node) = Node::find(&self.directory) {
            let _ = node.end();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Not a test of its own: what the processes of the tests do.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = PathBuf::from(std::env::var_os("M3_RUNTIME_DIR").unwrap());
    match role.as_str() {
        "ignores" | "reaps nothing" => {
            let flags = if role == "ignores" { 0 } else { libc::SA_NOCLDWAIT };
            let handler = if role == "ignores" { libc::SIG_IGN } else { libc::SIG_DFL };
            // SAFETY: zeros are a valid action; a live local.
            unsafe {
                let mut action: libc::sigaction = core::mem::zeroed();
                (action.sa_sigaction, action.sa_flags) = (handler, flags);
                libc::sigaction(libc::SIGCHLD, &raw const action, core::ptr::null_mut());
            }
            Node::attach_at(&directory).unwrap();
        }
        "waits for any" => waits_for_any(&directory),
        "has much to give" => has_much_to_give(&directory),
        "has no streams" => {
            for fd in 0..3 {
                // SAFETY: an integer.
                unsafe { libc::close(fd) };
            }
            let is_right = std::panic::catch_unwind(|| uses_all(&directory)).is_ok();
            // SAFETY: integers.
            let is_free = (0..3).all(|fd| unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0);
            std::process::exit(if is_right && is_free { 0 } else { WRONG });
        }
        other => panic!("no role {other}"),
    }
}

/// A thread waits for any child, of any kind, while another one starts a daemon.
fn waits_for_any(directory: &Path) {
    static FOUND: AtomicI32 = AtomicI32::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    let waiter = std::thread::spawn(|| {
        while !DONE.load(Ordering::SeqCst) {
            let mut status = 0;
            // SAFETY: a live local.
            let found = unsafe { libc::waitpid(-1, &raw mut status, 0) };
            if found > 0 {
                FOUND.store(found, Ordering::SeqCst);
            }
        }
    });
    for _again in 0..5 {
        let node = Node::attach_at(directory).unwrap();
        node.end().unwrap();
        until("the daemon has left", || !directory.join("lock").exists());
    }
    DONE.store(true, Ordering::SeqCst);
    waiter.join().unwrap();
    assert_eq!(FOUND.load(Ordering::SeqCst), 0, "a stranger among the children");
}

/// Starts a daemon with all that a process can inherit set to something unusual.
fn has_much_to_give(directory: &Path) {
    let folder = directory.with_extension("folder");
    std::fs::create_dir(&folder).unwrap();
    std::env::set_current_dir(&folder).unwrap();
    // SAFETY: integers, live locals, and dispositions that are no handlers.
    unsafe {
        assert_eq!(libc::dup2(1, 77), 77, "a descriptor without close-on-exec");
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
        let mut mask: libc::sigset_t = core::mem::zeroed();
        libc::sigaddset(&raw mut mask, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const mask, core::ptr::null_mut());
        libc::umask(0o777);
        // The hard limits stay: lifting them needs a privilege.
        for resource in [libc::RLIMIT_CPU, libc::RLIMIT_FSIZE] {
            let limit = libc::rlimit { rlim_cur: 40, rlim_max: libc::RLIM_INFINITY };
            libc::setrlimit(resource, &raw const limit);
        }
        libc::prctl(libc::PR_SET_TIMERSLACK, 777_777, 0, 0, 0);
        if libc::geteuid() == 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, 10);
            let parameters = libc::sched_param { sched_priority: 0 };
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
        }
    }
    m3ipc_sys::pin_to(usize::try_from(m3ipc_sys::current_cpu()).unwrap()).unwrap();
    // The daemon goes on, so the node outlives this program.
    let mut node = Node::attach_at(directory).unwrap();
    node.vm_init(&VmConfig::new("kept")).unwrap();
    std::env::set_current_dir("/").unwrap();
    std::fs::remove_dir(&folder).unwrap();
}

/// Makes every kind of descriptor that the library has.
fn uses_all(directory: &Path) {
    let mut node = Node::attach_at(directory).unwrap();
    let vm = node.vm_init(&VmConfig::new("streams")).unwrap();
    let (mut one, mut other) = (vm.bind_any().unwrap(), vm.bind_additional(None).unwrap());
    one.fd().unwrap();
    other.fd().unwrap();
    one.notify(other.address()).unwrap();
    one.create_area(&AreaConfig::vm(1 << 16)).unwrap();
}

#[test]
fn a_start_needs_no_child_that_the_program_can_see() {
    for role in ["ignores", "reaps nothing", "waits for any"] {
        let starter = Starter::new(&role.replace(' ', "-"));
        starter.run(role);
    }
}

#[test]
fn a_daemon_keeps_nothing_of_its_starter() {
    let starter = Starter::new("kept");
    // The output ends although the daemon lives: it has no descriptor of its starter.
    starter.run("has much to give");
    let pid = starter.daemon();
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    let status = read("status");
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    };
    assert_eq!(value("Umask"), "0022");
    let ignored = u64::from_str_radix(&value("SigIgn"), 16).unwrap();
    let of = |signal: i32| 1_u64 << (signal - 1);
    assert_eq!(ignored & !(of(libc::SIGPIPE) | of(libc::SIGXFSZ)), 0, "{ignored:x}");
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(own.contains(&format!("Cpus_allowed:\t{}", value("Cpus_allowed"))), "{status}");
    let blocked = u64::from_str_radix(&value("SigBlk"), 16).unwrap();
    assert_eq!(blocked & of(libc::SIGUSR1), 0, "{blocked:x}");
    for limit in ["Max cpu time", "Max file size"] {
        let limits = read("limits");
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        assert_eq!(line.split_whitespace().nth(3), Some("unlimited"), "{line}");
    }
    let stat = read("stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!((fields[16], fields[38]), ("0", "0"), "nice value and policy");
    assert_eq!(fields[3], pid.to_string(), "a session of its own");
    Node::find(&starter.directory).unwrap().vm_named("kept").unwrap();
}

#[test]
fn no_descriptor_of_the_library_lies_on_a_standard_stream() {
    Starter::new("streams").run("has no streams");
}

/// Nobody lifts the hard limit of a daemon in the foreground.
#[test]
fn a_file_that_may_not_grow_is_an_error_of_one_request() {
    let starter = Starter::new("grows");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 4096; exec \"$0\" --log-level error --runtime-dir \"$1\""]);
    shell.arg(program("m3-tests-daemon")).arg(&starter.directory).stdin(Stdio::null());
    let mut daemon = shell.spawn().unwrap();
    until("the daemon serves", || Node::find(&starter.directory).is_ok());
    let vm = Node::find(&starter.directory).unwrap().vm_init(&VmConfig::new("grows")).unwrap();
    let mut endpoint = vm.bind_any().unwrap();
    let refused = endpoint.create_area(&AreaConfig::vm(8 << 20));
    let why = refused.err().map(|error| error.to_string());
    assert!(why.as_ref().is_some_and(|why| why.contains("large")), "{why:?}");
    assert!(daemon.try_wait().unwrap().is_none(), "the daemon lives");
    assert!(endpoint.is_bound());
    endpoint.create_area(&AreaConfig::vm(1 << 16)).unwrap();
    Node::find(&starter.directory).unwrap().end().unwrap();
    daemon.wait().unwrap();
}

/// Numbers of processes, start times and users mean something else there.
#[test]
fn a_daemon_of_another_namespace_takes_no_living_member_for_dead() {
    let mut node = NodeFixture::new("namespaces");
    let vm = node.vm("namespaces");
    let endpoint = vm.bind_any().unwrap();
    node.kill_daemon();
    for (kind, words) in [
        ("PID", &["--pid", "--fork", "--mount-proc", "--kill-child"][..]),
        ("time", &["--time", "--boottime", "100000", "--fork", "--kill-child"]),
        ("user", &["--user", "--map-root-user"]),
    ] {
        let unshare = || {
            let mut unshare = Command::new("unshare");
            unshare.args(words).stdin(Stdio::null()).stderr(Stdio::piped());
            unshare
        };
        if !unshare().arg("true").output().is_ok_and(|it| it.status.success()) {
            println!("SKIP {kind}: this machine gives no such namespace");
            continue;
        }
        let mut daemon = unshare();
        daemon.arg(program("m3-tests-daemon")).arg("--runtime-dir").arg(node.directory());
        let mut daemon = daemon.spawn().unwrap();
        until("the daemon has refused", || daemon.try_wait().unwrap().is_some());
        let refused = daemon.wait_with_output().unwrap();
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{kind}: {why}");
        assert!(why.contains(&format!("another {kind} namespace")), "{why}");
    }
    node.restart_daemon();
    let members = node.node().endpoints(vm.id()).unwrap();
    assert_eq!(members.len(), 1, "the member lives");
    drop(endpoint);
}
