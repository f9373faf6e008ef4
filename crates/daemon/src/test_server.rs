//! A server in a directory of its own, for unit tests.

use crate::runtime_directory::RuntimeDirectory;
use crate::server::Server;
use crate::settings::{Args, Settings};
use crate::state::connection::Connection;
use crate::tables::Credentials;
use crate::token::Token;
use clap::Parser;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

/// A server without an event loop. The test calls its methods.
pub(crate) struct TestServer {
    pub(crate) server: Server,
    path: PathBuf,
}

impl TestServer {
    /// A new server. `name` keeps the directories of tests apart.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("m3-test-{}-{name}", std::process::id()));
        let args = Args::try_parse_from(["m3d", "--runtime-dir", path.to_str().unwrap()]).unwrap();
        let settings = Settings::resolve(&args, &|_| None).unwrap();
        let directory = RuntimeDirectory::open(&settings).unwrap();
        Self { server: Server::new(settings, directory).unwrap(), path }
    }

    /// A connection of a process of this user, and the other end of its socket.
    pub(crate) fn connect(&mut self, uid: u32, pid: i32) -> (Token, OwnedFd) {
        let (ours, theirs) = m3ipc_sys::stream_pair().unwrap();
        let token = Token::of(self.server.sources.new_number());
        let cred = Credentials::new(uid, uid, pid);
        self.server.connections.add(token, Connection::new(Rc::new(ours), cred, 0, Vec::new()));
        (token, theirs)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
