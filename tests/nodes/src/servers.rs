//! Servers of other projects for one test: OpenLDAP's slapd, and etcd.
//!
//! Each has a directory of its own, listens on loopback or on a socket there, and dies with the
//! test. As root, slapd runs as a user that no system has. A test without the server skips, and
//! says so.

use crate::free_ports;
use m3ipc_test_fixture::{USERS, until};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The name of the entry of the cluster.
pub const BASE: &str = "cn=test";

/// A program, in PATH or where Debian has servers.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    folders.map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn skip(test: &str, program: &str, package: &str) {
    println!("SKIP {test}: no {program} here; apt-get install {package}");
}

/// A command whose process dies with this one.
fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn start(command: &mut Command, log: &Path) -> Child {
    let log = File::options().create(true).append(true).open(log).expect("a test may write there");
    command.stdout(log.try_clone().expect("a descriptor is left")).stderr(log);
    command.spawn().expect("the server starts")
}

/// One slapd with an empty directory for one cluster.
#[derive(Debug)]
pub struct Slapd {
    program: PathBuf,
    directory: PathBuf,
    child: Child,
}

impl Slapd {
    /// Starts slapd in a new directory; `None` if this machine has none.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn new(test: &str, directory: &Path, schema: &str) -> Option<Self> {
        let Some(program) = find("slapd") else {
            skip(test, "slapd", "slapd");
            return None;
        };
        // Paths of sockets are short, and a server of another user has to reach this one.
        let directory = directory.join("slapd");
        fs::create_dir_all(directory.join("db")).expect("a test may write there");
        let at = directory.display();
        let config = format!(
            "include {at}/m3ipc.schema\npidfile {at}/pid\ndatabase ldif\nsuffix \"{BASE}\"\n\
             directory {at}/db\nrootdn \"cn=admin,{BASE}\"\nrootpw secret\n\
             access to * by * read\n"
        );
        fs::write(directory.join("m3ipc.schema"), schema).expect("a test may write there");
        fs::write(directory.join("slapd.conf"), config).expect("a test may write there");
        fs::write(directory.join("password"), "secret\n").expect("a test may write there");
        if m3ipc_sys::user_id() == 0 {
            for path in [&directory, &directory.join("db")] {
                chown(path, Some(USERS[0]), Some(USERS[0])).expect("root may do this");
            }
            // The tests lie below a directory of root.
            let parent = directory.parent().expect("it has one");
            fs::set_permissions(parent, fs::Permissions::from_mode(0o711)).expect("root may");
        }
        let child = Self::start(&program, &directory);
        let mut slapd = Self { program, directory, child };
        slapd.until_it_answers();
        Some(slapd)
    }

    fn start(program: &Path, directory: &Path) -> Child {
        let _ = fs::remove_file(directory.join("ldapi"));
        let mut command = command(program);
        let config = directory.join("slapd.conf");
        command.arg("-f").arg(config).args(["-d", "0", "-h", &url_of(directory)]);
        if m3ipc_sys::user_id() == 0 {
            command.uid(USERS[0]).gid(USERS[0]);
        }
        start(&mut command, &directory.with_file_name("slapd.log"))
    }

    fn until_it_answers(&mut self) {
        let socket = self.directory.join("ldapi");
        let log = self.directory.with_file_name("slapd.log");
        until("slapd answers", || {
            let ended = self.child.try_wait().expect("a child of this process");
            let said = || fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "slapd has ended: {}", said());
            UnixStream::connect(&socket).is_ok()
        });
    }

    /// The URL of the entry of the cluster.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/{BASE}", url_of(&self.directory))
    }

    /// The options with which a program may write.
    #[must_use]
    pub fn as_writer(&self) -> [String; 4] {
        let password = self.directory.join("password").display().to_string();
        ["--bind-dn".into(), format!("cn=admin,{BASE}"), "--password-file".into(), password]
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, with what it had.
    pub fn restart(&mut self) {
        self.kill();
        self.child = Self::start(&self.program, &self.directory);
        self.until_it_answers();
    }
}

fn url_of(directory: &Path) -> String {
    let socket = directory.join("ldapi").display().to_string();
    format!("ldapi://{}", socket.replace('/', "%2F"))
}

impl Drop for Slapd {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One etcd.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    directory: PathBuf,
    addresses: [SocketAddr; 2],
    child: Child,
}

impl Etcd {
    /// Starts etcd in a new directory; `None` if this machine has none.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn new(test: &str, directory: &Path) -> Option<Self> {
        let Some(program) = find("etcd") else {
            skip(test, "etcd", "etcd-server");
            return None;
        };
        let directory = directory.join("etcd");
        fs::create_dir_all(&directory).expect("a test may write there");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("it is ours");
        let addresses = free_ports().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let child = Self::start(&program, &directory, addresses);
        let mut etcd = Self { program, directory, addresses, child };
        etcd.until_it_answers();
        Some(etcd)
    }

    fn start(program: &Path, directory: &Path, [client, peer]: [SocketAddr; 2]) -> Child {
        let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
        let mut command = command(program);
        command.arg("--data-dir").arg(directory.join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        start(&mut command, &directory.with_file_name("etcd.log"))
    }

    fn until_it_answers(&mut self) {
        let log = self.directory.with_file_name("etcd.log");
        until("etcd answers", || {
            let ended = self.child.try_wait().expect("a child of this process");
            let said = || fs::read_to_string(&log).unwrap_or_default();
            assert!(ended.is_none(), "etcd has ended: {}", said());
            TcpStream::connect(self.addresses[0]).is_ok()
        });
    }

    /// Its URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.addresses[0])
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again, with what it had.
    pub fn restart(&mut self) {
        self.kill();
        self.child = Self::start(&self.program, &self.directory, self.addresses);
        self.until_it_answers();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
