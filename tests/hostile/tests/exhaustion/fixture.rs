//! A server and its clients, which exchange messages while a resource is exhausted.

use m3ipc::{Node, VmConfig};
use m3ipc_test_fixture::message_count::MessageCount;
use m3ipc_test_fixture::{MemberProcess, UserNode};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::Path;

/// The VM of all processes.
pub const VM: &str = "exhausted";

/// A server and its client.
pub struct Pair {
    server: MemberProcess,
    client: MemberProcess,
    pub address: String,
}

impl Pair {
    pub fn new(directory: &str) -> Self {
        let mut server = MemberProcess::start(0, "server", &[directory, VM]);
        let address = server.line().strip_prefix("at ").expect("the server is bound").to_owned();
        let mut client = talker(directory, &address);
        assert_eq!(client.line(), "first", "the pair knows each other before anything is missing");
        Self { server, client, address }
    }

    pub fn server_pid(&self) -> i32 {
        self.server.pid()
    }

    /// Ends the pair and the clients that joined; none of their messages may be lost or altered.
    /// Returns the number of messages.
    pub fn finish(self, joined: Vec<MemberProcess>) -> u64 {
        let served_once = |mut client: MemberProcess| {
            assert_eq!(client.line(), "first", "each client is served once all works again");
            client
        };
        let joined: Vec<MemberProcess> = joined.into_iter().map(served_once).collect();
        let clients = std::iter::once(self.client).chain(joined);
        let asked: Vec<MessageCount> = clients.map(count_of).collect();
        let served = count_of(self.server);
        assert_eq!((served.lost, served.doubled, served.altered), (0, 0, 0), "{served:?}");
        for one in &asked {
            assert_eq!((one.lost, one.altered), (0, 0), "{one:?}");
            assert!(one.whole > 0, "each was served");
        }
        assert_eq!(served.whole, asked.iter().map(|one| one.whole).sum::<u64>());
        served.whole
    }
}

/// A client that asks again and again.
pub fn talker(directory: &str, address: &str) -> MemberProcess {
    let mut client = MemberProcess::start(0, "client", &[directory, VM, address, ""]);
    assert!(client.line().starts_with("at "), "the client is bound");
    client
}

fn count_of(role: MemberProcess) -> MessageCount {
    let (lines, succeeded) = role.finish();
    assert!(succeeded, "a member panicked");
    lines.iter().find_map(|line| MessageCount::parse(line)).expect("its count")
}

/// A node of its own with a VM.
pub fn node(name: &str) -> UserNode {
    let node = UserNode::start(name, 0, false);
    node.node().vm_init(&VmConfig::new(VM)).expect("a VM");
    node
}

/// A limit of another process, lowered until this is dropped.
pub struct Lowered {
    pid: Pid,
    resource: Resource,
    former: Rlimit,
}

impl Lowered {
    pub fn new(pid: i32, resource: Resource, current: u64) -> Self {
        let pid = Pid::from_raw(pid).expect("a process");
        let hard = rustix::process::getrlimit(resource).maximum;
        let lowered = Rlimit { current: Some(current), maximum: hard };
        let former = prlimit(Some(pid), resource, lowered).expect("a limit of our own process");
        Self { pid, resource, former }
    }

    /// Leaves the process no free descriptor, whichever of its descriptors it closes.
    pub fn no_descriptors(pid: i32) -> Self {
        Self::new(pid, Resource::Nofile, 3)
    }

    /// Leaves the process this number of free descriptors.
    pub fn descriptors(pid: i32, more: usize) -> Self {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives");
        let used: Vec<u64> =
            fds.flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
        let mut free = (0..).filter(|number| !used.contains(number));
        Self::new(pid, Resource::Nofile, free.nth(more).expect("numbers without end"))
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        let _ = prlimit(Some(self.pid), self.resource, self.former);
    }
}

/// Checks that everything works: a connection, a bind, a call, a doorbell.
pub fn assert_works(directory: &str, server: &str) {
    let mut node = Node::find(Path::new(directory)).expect("a connection");
    let mut me = node.vm_named(VM).expect("the VM").bind_any().expect("a slot");
    let to = m3ipc::Address(server.parse().expect("an address"));
    me.sendrec(to, &m3ipc::Message::new(1)).expect("an answer");
    me.fd().expect("a descriptor");
}
