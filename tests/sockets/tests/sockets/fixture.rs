//! What the tests of sockets share.

use m3ipc::Vm;
use m3ipc_sockets::{Domain, SockInfo};
use m3ipc_test_fixture::{NodeFixture, program, watchdog};
use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Once;

/// A node with a VM, and this process in domain 0 of it.
pub struct Fixture {
    pub node: NodeFixture,
    pub vm: Vm,
    pub domain: Domain,
}

impl Fixture {
    pub fn new(name: &str) -> Self {
        static ALL: Once = Once::new();
        ALL.call_once(|| watchdog(280));
        let node = NodeFixture::new(name);
        let vm = node.vm(name);
        let domain = Domain::join_numbered(node.directory(), &vm, 0).expect("a domain");
        Self { node, vm, domain }
    }

    /// Another process in a domain.
    pub fn peer(&self, domain: u32, role: &str, argument: impl ToString) -> Peer {
        let mut command = Command::new(program("m3-tests-sock"));
        command.arg(self.node.directory()).arg(self.vm.name()).arg(domain.to_string());
        command.arg(role).arg(argument.to_string());
        // The successor of a killed daemon is the test daemon, and ends with the test.
        command.env("M3_DAEMON", program("m3-tests-daemon"));
        command.env("M3_TESTS_OWNER", std::process::id().to_string());
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is built");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), "ready", "{role} in domain {domain}");
        let input = child.stdin.take();
        Peer { child, _input: input }
    }

    pub fn at(&self, domain: u32, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.domain.address_of(domain), port)
    }

    /// The counters of this process's sockets that are connected.
    pub fn counters(&self) -> Vec<SockInfo> {
        let all =
            m3ipc_sockets::sockets(self.node.directory(), self.vm.id()).expect("the daemon tells");
        all.into_iter().filter(|socket| socket.peer.is_some()).collect()
    }
}

/// Another process; killed when it is dropped.
pub struct Peer {
    pub child: Child,
    _input: Option<ChildStdin>,
}

impl Peer {
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}
