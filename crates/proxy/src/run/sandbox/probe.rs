//! The self-test of the sandbox: what must fail inside, and what must not.

use std::fs::{self, File};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;

/// An attempt of the self-test.
#[derive(Debug)]
pub struct Attempt {
    /// What was tried.
    pub what: &'static str,
    /// Whether the sandbox has to forbid it.
    pub is_forbidden: bool,
    /// Whether it succeeded.
    pub succeeded: bool,
}

fn socket(family: rustix::net::AddressFamily) -> io::Result<()> {
    Ok(rustix::net::socket(family, rustix::net::SocketType::RAW, None).map(drop)?)
}

fn place() -> io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags, openat};
    Ok(openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map(drop)?)
}

/// Makes all attempts. The files are those of any system.
#[must_use]
pub fn attempts() -> Vec<Attempt> {
    let file = std::env::temp_dir().join(format!("m3-proxy-probe-{}", std::process::id()));
    let all: [(&'static str, bool, io::Result<()>); 11] = [
        ("open /etc/passwd", true, File::open("/etc/passwd").map(drop)),
        ("open /proc/self/mem", true, File::open("/proc/self/mem").map(drop)),
        ("list /", true, fs::read_dir("/").map(drop)),
        ("make a file", true, File::create(&file).map(drop)),
        ("make a directory", true, fs::create_dir(&file)),
        ("run /bin/true", true, Command::new("/bin/true").status().map(drop)),
        ("netlink socket", true, socket(rustix::net::AddressFamily::NETLINK)),
        // Port 9 is no port of a test.
        ("listen", true, TcpListener::bind("127.0.0.1:9").map(drop)),
        ("connect elsewhere", true, refused_elsewhere()),
        ("name a place", false, place()),
        ("Unix socket", false, UnixDatagram::unbound().map(drop)),
    ];
    let _ = fs::remove_dir(&file);
    let _ = fs::remove_file(&file);
    let attempt = |(what, is_forbidden, done): (_, _, io::Result<()>)| Attempt {
        what,
        is_forbidden,
        succeeded: done.is_ok(),
    };
    all.into_iter().map(attempt).collect()
}

/// A connection that the network refuses was not forbidden.
fn refused_elsewhere() -> io::Result<()> {
    match TcpStream::connect("127.0.0.1:9") {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}
