//! `m3 sock stat`: sockets in shared memory: programs under `m3 sock run`, their connections, and
//! com-sockets of VMs.

use super::{connections, programs};
use crate::error::Result;
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::{Output, table};
use crate::sock::counters::CountedProgram;
use clap::Args;
use connections::NamedConnection;
use m3ipc::VmInfo;
use m3ipc_sockets::{SockInfo, SockKind};
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// The explanation of the tables.
const TABLES_HELP: &str = "\
First table: programs under `m3 sock run`, with their counters since the start.
Second table: their connections, a row per direction.
  STATE      the kernel's state of the sending socket
  ROUTE      the route of the next byte:
             ring     shared memory
             kernel   the ring was full; the kernel, until the receiver has caught up
             not yet  the kernel; no byte went through the ring so far
             pinned   the kernel, and why (docs/sockets.md lists the reasons): `wakeups`
                      for a while, all others for good
  RING       bytes that went through the ring         WAITING  bytes that lie in the ring
  KERNEL     bytes that went through the kernel since the first use of the ring
  WAKEUPS    wakeup bytes that were sent              SPARED   wakeup bytes that were not needed
  OVERFLOWS  sends that found the ring full
A socket that was pinned before its peer was known has no row; the PINS of its program count it.
Third table: com-sockets of VMs.
`?` is an unknown value: programs write this memory themselves.

Example: m3 sock stat --watch --port 6379";

/// Show sockets in shared memory: programs under `m3 sock run`, their connections, and com-sockets.
///
/// With a VM: only the com-sockets of that VM.
#[derive(Args, Debug)]
#[command(after_long_help = TABLES_HELP)]
pub struct Stat {
    #[command(flatten)]
    node: NodeOptions,
    /// Only sockets of this process; repeatable.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Only connections with this port at either end; repeatable.
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
    /// Also connections that are over, until their memory is used again.
    #[arg(long)]
    all: bool,
    /// Repeat every so many seconds, until interrupted.
    #[arg(
        long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    watch: Option<u32>,
    /// Only this VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: Option<String>,
}

const HEAD: [&str; 11] = [
    "VM",
    "KIND",
    "PID",
    "USER",
    "ADDRESS",
    "PEER",
    "RING",
    "KERNEL",
    "WAKEUPS",
    "SPARED",
    "OVERFLOWS",
];

/// The sockets that were found.
#[derive(Default)]
struct Found {
    programs: Vec<CountedProgram>,
    connections: Vec<NamedConnection>,
    sockets: Vec<(VmInfo, SockInfo)>,
    /// What was not read, and why.
    unread: Vec<String>,
}

impl Found {
    /// The list; if there is none, notes the reason.
    fn read_or_note<T>(&mut self, list: std::result::Result<Vec<T>, String>) -> Vec<T> {
        list.unwrap_or_else(|why| {
            self.unread.push(why);
            Vec::new()
        })
    }
}

/// Prints the tables, once or repeatedly.
pub fn run(args: &Stat, out: Output) -> Result<()> {
    let Some(seconds) = args.watch else { return print(&find(args)?, out) };
    let clears_screen = !out.is_json() && std::io::stdout().is_terminal();
    loop {
        let found = find(args)?;
        if clears_screen {
            out.clear_screen()?;
        }
        print(&found, out)?;
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
        if !clears_screen && !out.is_json() {
            out.line("")?;
        }
    }
}

fn find(args: &Stat) -> Result<Found> {
    let of_pid = |pid: u32| args.pid.is_empty() || args.pid.contains(&pid);
    let of_port = |port: u16| args.port.is_empty() || args.port.contains(&port);
    let mut found = Found::default();
    if args.vm.is_none() {
        if args.port.is_empty() {
            found.programs = found.read_or_note(programs::all(&args.node));
            found.programs.retain(|program| program.pids.iter().any(|pid| of_pid(*pid)));
        }
        found.connections = found.read_or_note(connections::all(&args.node));
        found.connections.retain(|named| {
            let mut pids = named.connection.ends.iter().map(|end| end.pid);
            (args.all || named.connection.is_open())
                && (args.pid.is_empty() || pids.any(|pid| pid.is_some_and(of_pid)))
                && (args.port.is_empty() || named.ports().any(of_port))
        });
    }
    let is_filtered = !args.pid.is_empty() || !args.port.is_empty();
    let has_found = !found.programs.is_empty() || !found.connections.is_empty();
    let mut node = match lookup::node(&args.node) {
        // Programs under `m3 sock run` work without a node.
        Err(error) if has_found || is_filtered || args.watch.is_some() => {
            if !error.is_absence() {
                found.unread.push(format!("com-sockets are not shown: {error}"));
            }
            return Ok(found);
        }
        other => other?,
    };
    let vms: Vec<VmInfo> = match &args.vm {
        Some(written) => vec![lookup::vm(&mut node, written)?.info().clone()],
        None => node.vms()?,
    };
    for vm in vms {
        // A VM may end meanwhile, or refuse the list: it then has no rows.
        let sockets = m3ipc_sockets::sockets(node.directory(), vm.id).unwrap_or_default();
        let fits = |socket: &SockInfo| {
            let ends = [Some(socket.own), socket.peer];
            of_pid(u32::try_from(socket.pid).unwrap_or(0))
                && ends.into_iter().flatten().any(|(_, port)| of_port(port))
        };
        found.sockets.extend(sockets.into_iter().filter(fits).map(|socket| (vm.clone(), socket)));
    }
    Ok(found)
}

fn print(found: &Found, out: Output) -> Result<()> {
    let Found { programs, connections, sockets, unread } = found;
    if out.is_json() {
        for why in unread {
            m3ipc_sys::tell!("m3: {why}");
        }
        let mut all: Vec<_> = sockets.iter().map(|(vm, socket)| json(vm, socket)).collect();
        all.extend(programs.iter().map(programs::json));
        all.extend(connections.iter().map(connections::json));
        return out.json(&all);
    }
    let mut tables = Vec::new();
    if !programs.is_empty() {
        tables.push(programs::text(programs));
    }
    if !connections.is_empty() {
        tables.push(connections::text(connections));
    }
    if !sockets.is_empty() {
        let rows: Vec<_> = sockets.iter().map(|(vm, socket)| row(vm, socket)).collect();
        tables.push(table(&HEAD, &rows));
    }
    tables.extend(unread.iter().cloned());
    if tables.is_empty() {
        tables.push("no com-sockets, and no connections of programs under m3 sock run".to_owned());
    }
    out.line(tables.join("\n\n"))
}

fn address((address, port): (u32, u16)) -> String {
    SocketAddrV4::new(Ipv4Addr::from(address), port).to_string()
}

fn kind(kind: SockKind) -> &'static str {
    match kind {
        SockKind::Stream => "stream",
        SockKind::Datagram => "datagram",
    }
}

fn row(vm: &VmInfo, socket: &SockInfo) -> Vec<String> {
    let number =
        |number: u64| if socket.peer.is_some() { number.to_string() } else { "-".to_owned() };
    vec![
        vm.name.clone(),
        kind(socket.kind).to_owned(),
        socket.pid.to_string(),
        socket.uid.to_string(),
        address(socket.own),
        socket.peer.map_or_else(|| "-".to_owned(), address),
        number(socket.ring_bytes),
        number(socket.kernel_bytes),
        number(socket.wakeups),
        number(socket.wakeups_suppressed),
        number(socket.overflows),
    ]
}

fn json(vm: &VmInfo, socket: &SockInfo) -> serde_json::Value {
    serde_json::json!({
        "vm": vm.name, "kind": kind(socket.kind), "pid": socket.pid, "uid": socket.uid,
        "address": address(socket.own), "peer": socket.peer.map(address),
        "ring_bytes": socket.ring_bytes, "kernel_bytes": socket.kernel_bytes,
        "wakeups": socket.wakeups, "spared": socket.wakeups_suppressed,
        "overflows": socket.overflows,
    })
}
