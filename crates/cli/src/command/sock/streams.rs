//! Connections of programs under `m3 sock run`, as the memory says that they share: a row for each direction.

use crate::cli::Common;
use crate::out::table;
use m3ipc_shim::inspection::{self, Connection, Direction, End, EndAddress, Route};
use m3ipc_shim::pin::PinReason;
use std::collections::HashMap;
use std::path::PathBuf;

/// Users whose memory is looked at, at most.
const USERS: usize = 256;
/// Letters of a name that are shown.
const NAME: usize = 100;
/// tcp(7), from 1 on.
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
    "listens",
    "closing",
    "syn-received",
];

/// A connection with names for its ends.
pub struct Stream {
    pub connection: Connection,
    programs: [Option<String>; 2],
    addresses: [String; 2],
}

impl Stream {
    /// The ports of both ends, of TCP.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.connection.ends.into_iter().filter_map(|end| match end.address {
            Some(EndAddress::Tcp(address)) => Some(address.port()),
            _ => None,
        })
    }

    /// An end as people read it: program, process, address.
    fn end(&self, side: usize) -> String {
        let end = &self.connection.ends[side];
        let name = self.programs[side].as_deref().unwrap_or("?");
        let pid = end.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        format!("{name}[{pid}] {}", self.addresses[side])
    }
}

/// All of them that may be looked at.
pub fn all(common: &Common) -> Vec<Stream> {
    // As the library has it: where rings lie is not the default directory of nodes.
    let named =
        || std::env::var_os("M3_RUNTIME_DIR").filter(|named| !named.is_empty()).map(PathBuf::from);
    let home = common.runtime_dir.clone().or_else(named);
    let users = inspection::users(home.as_deref(), USERS).into_iter();
    let mut found: Vec<Connection> = users
        .flat_map(|user| inspection::connections(home.as_deref(), user).unwrap_or_default())
        .collect();
    found.sort_by_key(|connection| (connection.user, connection.ends.map(|end| end.cookie)));
    let paths = if found.iter().any(is_unix) { unix_paths() } else { HashMap::new() };
    let mut names = HashMap::new();
    let mut name =
        |end: &End| end.pid.and_then(|pid| names.entry(pid).or_insert_with(|| comm(pid)).clone());
    let named = |connection: Connection| Stream {
        programs: [name(&connection.ends[0]), name(&connection.ends[1])],
        addresses: connection.ends.map(|end| address(&end, &paths)),
        connection,
    };
    found.into_iter().map(named).collect()
}

fn is_unix(connection: &Connection) -> bool {
    connection.ends.iter().any(|end| matches!(end.address, Some(EndAddress::Unix(_))))
}

/// Names are given by programs: nothing that moves a terminal's cursor gets through.
fn plain(text: &str) -> String {
    text.chars().take(NAME).flat_map(char::escape_debug).collect()
}

fn comm(pid: u32) -> Option<String> {
    Some(plain(std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end()))
}

/// Names of Unix sockets by inode.
fn unix_paths() -> HashMap<u32, String> {
    let text = std::fs::read("/proc/net/unix").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let line = |line: &str| {
        let mut words = line.splitn(8, ' ').filter(|word| !word.is_empty());
        // Num RefCount Protocol Flags Type St Inode Path; the inode is filled up with spaces in front.
        let rest = words.by_ref().skip(6).collect::<Vec<_>>().join(" ");
        let (inode, path) = rest.trim_start().split_once(' ')?;
        Some((inode.parse().ok()?, plain(path)))
    };
    text.lines().skip(1).filter_map(line).collect()
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

fn state(end: &End) -> &'static str {
    match end.state {
        None => "over",
        Some(number) => STATES.get(usize::from(number).wrapping_sub(1)).copied().unwrap_or("?"),
    }
}

fn reason(course: Route) -> Option<&'static str> {
    match course {
        Route::Pinned(reason) => Some(reason.map_or("unknown", PinReason::name)),
        _ => None,
    }
}

fn course(course: Route) -> &'static str {
    match course {
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
    "COURSE",
    "RING",
    "KERNEL",
    "WAITING",
    "TOKENS",
    "SPARED",
    "OVERFLOWS",
];

/// Their table.
pub fn shown(streams: &[Stream]) -> String {
    let rows: Vec<_> = streams
        .iter()
        .enumerate()
        .flat_map(|(number, stream)| [0, 1].map(|side| row(number + 1, stream, side)))
        .collect();
    table(&HEAD, &rows)
}

fn row(number: usize, stream: &Stream, side: usize) -> Vec<String> {
    let way: &Direction = &stream.connection.directions[side];
    let word = course(way.route);
    vec![
        number.to_string(),
        stream.end(side),
        stream.end(1 - side),
        state(&stream.connection.ends[side]).to_owned(),
        reason(way.route).map_or_else(|| word.to_owned(), |why| format!("{word}: {why}")),
        way.ring_bytes.to_string(),
        way.kernel_bytes.to_string(),
        way.waiting_bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string()),
        way.wakeup_bytes.to_string(),
        way.wakeup_bytes_spared.to_string(),
        way.overflows.to_string(),
    ]
}

/// One of them as JSON.
pub fn json(stream: &Stream) -> serde_json::Value {
    let connection = &stream.connection;
    let end = |side: usize| {
        let end = &connection.ends[side];
        serde_json::json!({
            "pid": end.pid, "program": stream.programs[side], "address": stream.addresses[side],
            "state": state(end), "joined": end.is_joined, "cookie": end.cookie,
        })
    };
    let way = |way: &Direction| {
        serde_json::json!({
            "course": course(way.route), "reason": reason(way.route), "ring_size_bytes": way.ring_size_bytes,
            "ring_bytes": way.ring_bytes, "kernel_bytes": way.kernel_bytes, "waiting_bytes": way.waiting_bytes,
            "tokens": way.wakeup_bytes, "tokens_spared": way.wakeup_bytes_spared, "overflows": way.overflows,
        })
    };
    serde_json::json!({
        "connection": if is_unix(connection) { "unix" } else { "tcp" }, "uid": connection.user,
        "ends": [end(0), end(1)], "ways": [way(&connection.directions[0]), way(&connection.directions[1])],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_unix_sockets_are_found_by_inode() {
        use std::os::fd::AsFd;
        let path = std::env::temp_dir().join(format!("m3-streams {}", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // The kernel's table names a socket, not its file in the file system.
        let inode = u32::try_from(rustix::fs::fstat(listener.as_fd()).unwrap().st_ino).unwrap();
        assert_eq!(unix_paths().get(&inode).map(String::as_str), path.to_str());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(plain(&"x".repeat(1000)).len(), NAME);
    }
}
