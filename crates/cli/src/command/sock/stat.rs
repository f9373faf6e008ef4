//! `m3 sock stat`: which way the bytes of sockets go: programs under `m3 sock run`, their connections, and com-sockets of VMs.

use super::shim::{self, Program};
use super::streams::{self, Stream};
use crate::cli::Common;
use crate::fail::Result;
use crate::out::{Out, table};
use crate::reach;
use clap::Args;
use m3ipc::VmInfo;
use m3ipc_sockets::{SockInfo, SockKind};
use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

/// What the tables say.
const TABLES: &str = "\
Programs under `m3 sock run` (their counters since they began), then each of their connections, a row for each direction:
  STATE      the kernel's state of the socket that sends
  COURSE     ring: through shared memory; kernel: the ring was full, until the receiver has caught up; not yet: nothing went
             through a ring so far; pinned: through the kernel for good, and why (docs/sockets.md lists the reasons)
  RING       bytes that went through the ring         WAITING  bytes that lie in it now
  KERNEL     bytes that went through the kernel since the ring was first used
  TOKENS     tokens sent                              SPARED   tokens that were not needed
  OVERFLOWS  sends that found the ring full
A socket that was pinned before its other end was known has no row; it counts among its program's PINS.
Then the com-sockets of VMs. `?` is what cannot be known, since the memory is written by the programs themselves.";

/// Show the sockets of VMs, and, where no VM is named, the programs under `m3 sock run` and their connections.
#[derive(Args, Debug)]
#[command(after_long_help = TABLES)]
pub struct Stat {
    #[command(flatten)]
    pub common: Common,
    /// Only what this process has an end of; may be repeated.
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// Only connections with an end at this port; may be repeated.
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
    /// Connections too that are over, as long as their memory is not used again.
    #[arg(long)]
    all: bool,
    /// Look again every so many seconds, until interrupted.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=86_400))]
    watch: Option<u32>,
    /// This VM alone, by name or id.
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
    "BELLS",
    "SPARED",
    "OVERFLOWS",
];

/// What one look found.
struct Found {
    programs: Vec<Program>,
    streams: Vec<Stream>,
    sockets: Vec<(VmInfo, SockInfo)>,
}

/// Shows it.
pub fn run(args: &Stat, out: Out) -> Result<()> {
    let Some(seconds) = args.watch else { return show(&look(args)?, out) };
    let clears = !out.is_json() && std::io::stdout().is_terminal();
    loop {
        let found = look(args)?;
        if clears {
            out.line("\x1b[H\x1b[2J")?;
        }
        show(&found, out)?;
        std::thread::sleep(Duration::from_secs(u64::from(seconds)));
        if !clears && !out.is_json() {
            out.line("")?;
        }
    }
}

fn look(args: &Stat) -> Result<Found> {
    let of_pid = |pid: u32| args.pid.is_empty() || args.pid.contains(&pid);
    let of_port = |port: u16| args.port.is_empty() || args.port.contains(&port);
    let mut found = Found { programs: Vec::new(), streams: Vec::new(), sockets: Vec::new() };
    if args.vm.is_none() {
        if args.port.is_empty() {
            found.programs = shim::programs(&args.common);
            found.programs.retain(|program| program.pids.iter().any(|pid| of_pid(*pid)));
        }
        found.streams = streams::all(&args.common);
        found.streams.retain(|stream| {
            let mut pids = stream.connection.ends.iter().map(|end| end.pid);
            (args.all || stream.connection.is_open())
                && (args.pid.is_empty() || pids.any(|pid| pid.is_some_and(of_pid)))
                && (args.port.is_empty() || stream.ports().any(of_port))
        });
    }
    let is_narrowed = !args.pid.is_empty() || !args.port.is_empty();
    let is_enough = !found.programs.is_empty() || !found.streams.is_empty();
    let mut node = match reach::node(&args.common) {
        // Programs under `m3 sock run` need no node.
        Err(_) if is_enough || is_narrowed || args.watch.is_some() => return Ok(found),
        other => other?,
    };
    let vms: Vec<VmInfo> = match &args.vm {
        Some(written) => vec![reach::vm(&mut node, written)?.info().clone()],
        None => node.vms()?,
    };
    for vm in vms {
        // One that ends meanwhile, or may not be looked into, has nothing to show.
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

fn show(found: &Found, out: Out) -> Result<()> {
    let Found { programs, streams, sockets } = found;
    if out.is_json() {
        let mut all: Vec<_> = sockets.iter().map(|(vm, socket)| json(vm, socket)).collect();
        all.extend(programs.iter().map(shim::json));
        all.extend(streams.iter().map(streams::json));
        return out.json(&all);
    }
    let mut tables = Vec::new();
    if !programs.is_empty() {
        tables.push(shim::shown(programs));
    }
    if !streams.is_empty() {
        tables.push(streams::shown(streams));
    }
    if !sockets.is_empty() {
        let rows: Vec<_> = sockets.iter().map(|(vm, socket)| row(vm, socket)).collect();
        tables.push(table(&HEAD, &rows));
    }
    if tables.is_empty() {
        tables.push("nobody has a com-socket, nor a connection under m3 sock run".to_owned());
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
        "bells": socket.wakeups, "spared": socket.wakeups_suppressed, "overflows": socket.overflows,
    })
}
