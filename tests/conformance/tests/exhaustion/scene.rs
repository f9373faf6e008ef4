//! Two that talk while something runs out.

use m3ipc::{Node, VmConfig};
use m3ipc_conformance::field::{Role, UsersNode};
use m3ipc_conformance::tally::Tally;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::Path;

/// The VM of all of them.
pub const VM: &str = "stage";

/// A server and its client.
pub struct Pair {
    server: Role,
    client: Role,
    pub address: String,
}

impl Pair {
    pub fn new(directory: &str) -> Self {
        let mut server = Role::start(0, "server", &[directory, VM]);
        let address = server.hear().strip_prefix("at ").expect("the server is bound").to_owned();
        let client = talker(directory, &address);
        Self { server, client, address }
    }

    pub fn server_pid(&self) -> i32 {
        self.server.pid()
    }

    /// Ends them, and those who joined: how many messages were exchanged; none may be lost or altered.
    pub fn finish(self, joined: Vec<Role>) -> u64 {
        // Long enough for each to have been served when all works again.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let clients = std::iter::once(self.client).chain(joined);
        let asked: Vec<Tally> = clients.map(tally).collect();
        let served = tally(self.server);
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
pub fn talker(directory: &str, address: &str) -> Role {
    let mut client = Role::start(0, "client", &[directory, VM, address, ""]);
    assert!(client.hear().starts_with("at "), "the client is bound");
    client
}

fn tally(role: Role) -> Tally {
    let (lines, ended_well) = role.finish();
    assert!(ended_well, "an honest member panicked");
    lines.iter().find_map(|line| Tally::parse(line)).expect("its tally")
}

/// A node of its own with a VM.
pub fn node(name: &str) -> UsersNode {
    let node = UsersNode::start(name, 0, false);
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

    /// No descriptor more than the process has now, but for so many.
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

/// Everything works: a connection, a bind, a call, a bell.
pub fn assert_works(directory: &str, server: &str) {
    let mut node = Node::find(Path::new(directory)).expect("a connection");
    let mut me = node.vm_named(VM).expect("the VM").bind_any().expect("a slot");
    let to = m3ipc::Address(server.parse().expect("an address"));
    me.sendrec(to, &m3ipc::Message::new(1)).expect("an answer");
    me.fd().expect("a descriptor");
}
