//! The kernel refuses the calls of the daemon, one kind after the other; strace injects the errors.

use crate::fixture::{Pair, VM, assert_works, node};
use m3ipc::{Address, Message, Node, Timeout, VmConfig};
use m3ipc_abi::Code;
use m3ipc_test_fixture::is_root;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Calls of the daemon, and the injected error of each; the last fails a few times only.
const REFUSED: [(&str, &str); 13] = [
    ("memfd_create", "ENOMEM"),
    ("memfd_create", "ENFILE"),
    ("ftruncate", "ENOMEM"),
    ("fallocate", "ENOSPC"),
    ("fcntl", "ENOMEM"),
    ("accept4", "ENFILE"),
    ("epoll_ctl", "ENOSPC"),
    ("openat", "EMFILE"),
    ("socket", "ENFILE"),
    ("pidfd_open", "EMFILE"),
    ("bind", "ENOSPC"),
    ("write", "ENOSPC"),
    ("sendmsg", "ETOOMANYREFS"),
];

/// A strace that makes calls of a process fail.
struct Injector(Child);

impl Injector {
    fn new(pid: i32, call: &str, error: &str) -> Option<Self> {
        let times = if call == "sendmsg" { ":when=1..20" } else { "" };
        let mut command = Command::new("strace");
        command.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e"]);
        command.arg(format!("inject={call}:error={error}{times}")).args(["-p", &pid.to_string()]);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let injector = Self(child);
        (0..1000).any(|_| is_traced(pid)).then_some(injector)
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        if let Ok(strace) = m3ipc_sys::open_process(self.0.id().cast_signed()) {
            let _ = m3ipc_sys::signal(strace, m3ipc_sys::Signal::INT);
        }
        let _ = self.0.wait();
    }
}

fn is_traced(pid: i32) -> bool {
    std::thread::sleep(Duration::from_millis(5));
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
}

/// Makes each kind of request to the daemon; the codes of the refused ones.
fn ask_for_everything(directory: &Path, server: Address, other: &mut m3ipc::Endpoint) -> Vec<Code> {
    let mut codes = Vec::new();
    let limit = Timeout::from(Duration::from_secs(10));
    let said = other.sendrec_long(server, &Message::new(1), &[], &mut [], limit);
    codes.extend(said.err().map(|error| error.code()));
    codes.extend(other.fd().err().map(|error| error.code()));
    codes.extend(other.name_attach("a name").err().map(|error| error.code()));
    let mut node = match Node::find(directory) {
        Ok(node) => node,
        Err(error) => {
            codes.push(error.code());
            return codes;
        }
    };
    match node.vm_init(&VmConfig::new("more").procs(50).tasks(5)) {
        Ok(vm) => codes.extend(node.vm_end(vm.id()).err().map(|error| error.code())),
        Err(error) => codes.push(error.code()),
    }
    let vm = node.vm_named(VM).expect("a question");
    match vm.bind_thread(None) {
        Ok(mut me) => {
            let said = me.sendrec_timeout(server, &Message::new(1), limit);
            codes.extend(said.err().map(|error| error.code()));
        }
        Err(error) => codes.push(error.code()),
    }
    codes
}

#[test]
fn each_refused_system_call_is_reported_and_recovers() {
    if !is_root("T14 refused calls") {
        return;
    }
    let node = node("refused");
    let pair = Pair::new(node.path());
    let server = Address(pair.address.parse().expect("an address"));
    let mut told = 0;
    for (call, error) in REFUSED {
        // Bound before, and unknown to the server: its link is made while the errors last.
        let vm = node.node().vm_named(VM).expect("the VM");
        let mut other = vm.bind_any().expect("a slot");
        // The daemon seals its page by the first answer.
        other.name_locate("nobody").unwrap_err();
        let Some(injector) = Injector::new(node.daemon_pid(), call, error) else {
            println!("SKIP T14 refused calls: strace cannot trace the daemon");
            return;
        };
        let codes = ask_for_everything(node.directory(), server, &mut other);
        drop(injector);
        for code in &codes {
            let clear = [Code::NoMem, Code::DrvsInit, Code::NotConn, Code::TimedOut];
            assert!(clear.contains(code), "{call} {error}: {codes:?}");
        }
        // The daemon would never notice the end of a thread that it cannot watch.
        assert!(call != "pidfd_open" || codes == [Code::NoMem], "{codes:?}");
        // Everything works again, also for the refused endpoint.
        other
            .sendrec(server, &Message::new(1))
            .unwrap_or_else(|why| panic!("{call} {error}: {why}"));
        drop(other);
        assert_works(node.path(), &pair.address);
        told += codes.len();
    }
    assert!(told > REFUSED.len(), "only {told} refusals: nothing was injected");
    let whole = pair.finish(Vec::new());
    println!(
        "T14 refused calls: {} kinds, {told} clear errors, hangs 0; {whole} messages, lost 0",
        REFUSED.len()
    );
}
