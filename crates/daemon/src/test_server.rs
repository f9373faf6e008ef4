//! A server in a directory of its own, for unit tests.

use crate::runtime_directory::RuntimeDirectory;
use crate::server::Server;
use crate::settings::{Args, Settings};
use crate::state::connection::Connection;
use crate::tables::{Credentials, Member, MemberId, MemberKind, VmSpec};
use crate::token::Token;
use clap::Parser;
use m3ipc_abi::VmLimits;
use m3ipc_wire::{DaemonEvent, FromDaemon, Request};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

/// A process number above those of all systems.
pub(crate) const NO_PROCESS: i32 = 1 << 24;

/// A server without an event loop. The test calls its methods.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    directory: Directory,
}

impl TestServer {
    /// A new server. `name` keeps the directories of tests apart.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("m3-test-{}-{name}", std::process::id()));
        Self::over(Directory(path))
    }

    fn over(directory: Directory) -> Self {
        let path = directory.0.to_str().unwrap();
        let args = Args::try_parse_from(["m3d", "--runtime-dir", path]).unwrap();
        let settings = Settings::resolve(&args, &|_| None).unwrap();
        let runtime_directory = RuntimeDirectory::open(&settings).unwrap();
        Self { server: Server::new(settings, runtime_directory).unwrap(), directory }
    }

    /// The successor of this server after a kill. It looks for no members.
    pub(crate) fn restart(self) -> Self {
        let Self { server, directory } = self;
        drop(server);
        Self::over(directory)
    }

    /// A connection of a process of this user, and the other end of its socket.
    pub(crate) fn connect(&mut self, uid: u32, pid: i32) -> (Token, OwnedFd) {
        let (ours, theirs) = m3ipc_sys::packet_pair().unwrap();
        let token = Token::of(self.server.sources.new_number());
        let cred = Credentials::new(uid, uid, pid);
        self.server.connections.add(token, Connection::new(Rc::new(ours), cred, 0, Vec::new()));
        (token, theirs)
    }

    /// A VM of this user.
    pub(crate) fn vm(&mut self, uid: u32) -> i32 {
        let cred = Credentials::new(uid, uid, 1);
        let spec = VmSpec::new("test", VmLimits { procs: 40, tasks: 4 }, &cred);
        self.server.node.vm_init(spec, &cred).unwrap()
    }

    /// An endpoint without a connection, of a process of the VM's user.
    pub(crate) fn bind(&mut self, vm: i32, pid: i32) -> MemberId {
        let uid = self.server.node.vm(vm).unwrap().spec().owner_uid;
        let (member, cred) =
            (Member { pid, tid: None, started: 0 }, Credentials::new(uid, uid, pid));
        let bound = self.server.node.bind_free(vm, member, &cred, MemberKind::Process, None);
        MemberId::new(vm, bound.unwrap().address)
    }

    /// The connection of an endpoint, whose owner maps its pages.
    pub(crate) fn attach(&mut self, id: MemberId) -> TestMember {
        let (member, uid) = {
            let endpoint = self.server.node.endpoint(id).unwrap();
            (endpoint.member, endpoint.uid)
        };
        let (token, socket) = self.connect(uid, member.pid);
        self.server.connections.get_mut(token).unwrap().greeted = true;
        let (vm, address) = (id.vm, id.address.0);
        self.server.serve(token, Request::Reattach { vm, address, tid: None });
        self.server.serve(token, Request::Mapped);
        assert!(self.server.connections.is_attached(id));
        TestMember { id, token, socket }
    }

    /// A VM of user 7, and endpoints of it with connections.
    pub(crate) fn members<const N: usize>(&mut self) -> [TestMember; N] {
        let vm = self.vm(7);
        std::array::from_fn(|at| {
            let id = self.bind(vm, NO_PROCESS + i32::try_from(at).unwrap());
            let member = self.attach(id);
            member.frames();
            member
        })
    }
}

/// An endpoint, its connection, and the other end of its socket.
pub(crate) struct TestMember {
    pub(crate) id: MemberId,
    pub(crate) token: Token,
    pub(crate) socket: OwnedFd,
}

impl TestMember {
    pub(crate) fn address(&self) -> i32 {
        self.id.address.0
    }

    /// Reads the frames in the socket.
    pub(crate) fn frames(&self) -> Vec<FromDaemon> {
        let mut buffer = vec![0; m3ipc_wire::REPLY_MAX_BYTES];
        let next = || {
            let packet = m3ipc_sys::receive_packet(&self.socket, &mut buffer, false, true).ok()?;
            Some(m3ipc_wire::decode(&buffer[..packet.bytes]).unwrap())
        };
        std::iter::from_fn(next).collect()
    }

    /// Reads the frames in the socket, and the events among them.
    pub(crate) fn events(&self) -> Vec<DaemonEvent> {
        let event = |frame| match frame {
            FromDaemon::Event(event) => Some(event),
            FromDaemon::Reply(_) => None,
        };
        self.frames().into_iter().filter_map(event).collect()
    }
}

/// A runtime directory, removed at the end of its test.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
