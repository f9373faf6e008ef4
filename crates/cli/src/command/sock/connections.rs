//! Connections of programs under `m3 sock run`, as their shared memory describes them: a row per
//! direction.

use crate::options::NodeOptions;
use crate::output::table;
use m3ipc_shim::inspection::{self, Connection, Direction, End, EndAddress, Route};
use m3ipc_shim::pin::PinReason;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest number of users whose memory is read.
const USERS_MAX: usize = 256;
/// The longest name that is shown.
const NAME_LETTERS_MAX: usize = 100;
/// The states of tcp(7), from 1 on.
const STATES: [&str; 12] = [
    "established",
    "syn-sent",
    "syn-received",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "closed",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "syn-received",
];

/// A connection, with names and addresses of its ends.
pub struct NamedConnection {
    pub connection: Connection,
    programs: [Option<String>; 2],
    addresses: [String; 2],
}

impl NamedConnection {
    /// The TCP ports of both ends.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.connection.ends.into_iter().filter_map(|end| match end.address {
            Some(EndAddress::Tcp(address)) => Some(address.port()),
            _ => None,
        })
    }

    /// An end as text: program, process and address.
    fn end(&self, index: usize) -> String {
        let end = &self.connection.ends[index];
        let name = self.programs[index].as_deref().unwrap_or("?");
        let pid = end.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        format!("{name}[{pid}] {}", self.addresses[index])
    }
}

/// All connections whose memory this user may read.
///
/// # Errors
/// The reason why the memory is not looked for, for people.
pub fn all(options: &NodeOptions) -> Result<Vec<NamedConnection>, String> {
    // As in the library: without the variable, rings lie in /dev/shm, not in the default directory.
    let from_environment = || m3ipc_sys::variable("M3_RUNTIME_DIR").map(PathBuf::from);
    let directory = options.runtime_dir.clone().or_else(from_environment);
    let users = match inspection::users(directory.as_deref(), USERS_MAX) {
        Ok(users) => users,
        Err(cause) if cause.kind() == ErrorKind::NotFound => Vec::new(),
        Err(cause) => return Err(unread("connections", directory.as_deref(), &cause)),
    };
    let mut found: Vec<Connection> = users
        .into_iter()
        .flat_map(|user| inspection::connections(directory.as_deref(), user).unwrap_or_default())
        .collect();
    found.sort_by_key(|connection| (connection.user, connection.ends.map(|end| end.cookie)));
    let paths = if found.iter().any(is_unix) { unix_paths() } else { HashMap::new() };
    let mut names = HashMap::new();
    let mut name =
        |end: &End| end.pid.and_then(|pid| names.entry(pid).or_insert_with(|| comm(pid)).clone());
    let named = |connection: Connection| NamedConnection {
        programs: [name(&connection.ends[0]), name(&connection.ends[1])],
        addresses: connection.ends.map(|end| address(&end, &paths)),
        connection,
    };
    Ok(found.into_iter().map(named).collect())
}

fn unread(what: &str, directory: Option<&Path>, cause: &std::io::Error) -> String {
    let directory = directory.unwrap_or(Path::new("/dev/shm")).display();
    format!(
        "{what} of programs under m3 sock run are not shown: {directory} is not read: {cause}; run \
         the command as the owner of that directory or as root, and let no other user write there"
    )
}

fn is_unix(connection: &Connection) -> bool {
    connection.ends.iter().any(|end| matches!(end.address, Some(EndAddress::Unix(_))))
}

/// A name without control characters: programs choose names, and a terminal would obey them.
fn printable(text: &str) -> String {
    text.chars().take(NAME_LETTERS_MAX).flat_map(char::escape_debug).collect()
}

fn comm(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(printable(String::from_utf8_lossy(&name).trim_end()))
}

/// Names of Unix sockets by inode.
fn unix_paths() -> HashMap<u32, String> {
    let text = std::fs::read("/proc/net/unix").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let entry = |line: &str| {
        let mut words = line.splitn(8, ' ').filter(|word| !word.is_empty());
        // The columns are Num RefCount Protocol Flags Type St Inode Path; spaces pad the inode.
        let rest = words.by_ref().skip(6).collect::<Vec<_>>().join(" ");
        let (inode, path) = rest.trim_start().split_once(' ')?;
        Some((inode.parse().ok()?, printable(path)))
    };
    text.lines().skip(1).filter_map(entry).collect()
}

fn address(end: &End, paths: &HashMap<u32, String>) -> String {
    match end.address {
        Some(EndAddress::Tcp(address)) => address.to_string(),
        Some(EndAddress::Unix(inode)) => {
            paths.get(&inode).cloned().unwrap_or_else(|| format!("unix:{inode}"))
        }
        None => "?".to_owned(),
    }
}

/// The kernel's state of the socket.
fn state(end: &End) -> &'static str {
    match end.state {
        None => "over",
        Some(number) => STATES.get(usize::from(number).wrapping_sub(1)).copied().unwrap_or("?"),
    }
}

/// The reason of a pinned direction.
fn reason(route: Route) -> Option<&'static str> {
    match route {
        Route::Pinned(reason) => Some(reason.map_or("unknown", PinReason::name)),
        _ => None,
    }
}

/// The word for a route.
fn route(route: Route) -> &'static str {
    match route {
        Route::Before => "not yet",
        Route::Ring => "ring",
        Route::Kernel => "kernel",
        Route::Pinned(_) => "pinned",
    }
}

const HEAD: [&str; 11] = [
    "CONNECTION",
    "FROM",
    "TO",
    "STATE",
    "ROUTE",
    "RING",
    "KERNEL",
    "WAITING",
    "WAKEUPS",
    "SPARED",
    "OVERFLOWS",
];

/// A table of connections.
pub fn text(connections: &[NamedConnection]) -> String {
    let rows: Vec<_> = connections
        .iter()
        .enumerate()
        .flat_map(|(number, named)| [0, 1].map(|index| row(number + 1, named, index)))
        .collect();
    table(&HEAD, &rows)
}

fn row(number: usize, named: &NamedConnection, index: usize) -> Vec<String> {
    let direction: &Direction = &named.connection.directions[index];
    let route = route(direction.route);
    vec![
        number.to_string(),
        named.end(index),
        named.end(1 - index),
        state(&named.connection.ends[index]).to_owned(),
        reason(direction.route).map_or_else(|| route.to_owned(), |why| format!("{route}: {why}")),
        direction.ring_bytes.to_string(),
        direction.kernel_bytes.to_string(),
        direction.waiting_bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
        direction.wakeup_bytes.to_string(),
        direction.wakeup_bytes_spared.to_string(),
        direction.overflows.to_string(),
    ]
}

/// A connection as JSON.
pub fn json(named: &NamedConnection) -> serde_json::Value {
    let connection = &named.connection;
    let end = |index: usize| {
        let end = &connection.ends[index];
        serde_json::json!({
            "pid": end.pid, "program": named.programs[index],
            "address": named.addresses[index],
            "state": state(end), "joined": end.is_joined, "cookie": end.cookie,
        })
    };
    let direction = |direction: &Direction| {
        serde_json::json!({
            "route": route(direction.route), "reason": reason(direction.route),
            "ring_size_bytes": direction.ring_size_bytes, "ring_bytes": direction.ring_bytes,
            "kernel_bytes": direction.kernel_bytes, "waiting_bytes": direction.waiting_bytes,
            "wakeup_bytes": direction.wakeup_bytes,
            "wakeup_bytes_spared": direction.wakeup_bytes_spared,
            "overflows": direction.overflows,
        })
    };
    serde_json::json!({
        "connection": if is_unix(connection) { "unix" } else { "tcp" }, "uid": connection.user,
        "ends": [end(0), end(1)],
        "directions": [direction(&connection.directions[0]), direction(&connection.directions[1])],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unix_sockets_are_found_by_inode() {
        use std::os::fd::AsFd;
        let path = std::env::temp_dir().join(format!("m3-connections {}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // The kernel's table names a socket, not its file in the file system.
        let inode = u32::try_from(rustix::fs::fstat(listener.as_fd()).unwrap().st_ino).unwrap();
        assert_eq!(unix_paths().get(&inode).map(String::as_str), path.to_str());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable(&"x".repeat(1000)).len(), NAME_LETTERS_MAX);
    }
}
