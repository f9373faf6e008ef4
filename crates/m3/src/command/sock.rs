//! `m3 sock`: com-sockets from the shell.

use crate::cli::Common;
use crate::fail::Result;
use crate::out::{Out, table};
use crate::reach;
use clap::{Args, Subcommand};
use m3_sock::{SockInfo, SockKind};
use m3ipc::VmInfo;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Com-sockets.
#[derive(Subcommand, Debug)]
pub enum Sock {
    /// Show the sockets of VMs: who is connected with whom, and which way their bytes go.
    Stat(Stat),
}

/// Show the sockets of VMs.
#[derive(Args, Debug)]
pub struct Stat {
    #[command(flatten)]
    pub common: Common,
    /// This VM alone, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: Option<String>,
}

const HEAD: [&str; 11] =
    ["VM", "KIND", "PID", "USER", "ADDRESS", "PEER", "RING", "KERNEL", "BELLS", "SPARED", "OVERFLOWS"];

/// Does what was asked.
pub fn run(args: &Sock, out: Out) -> Result<()> {
    let Sock::Stat(args) = args;
    let mut node = reach::node(&args.common)?;
    let vms: Vec<VmInfo> = match &args.vm {
        Some(written) => vec![reach::vm(&mut node, written)?.info().clone()],
        None => node.vms()?,
    };
    let (mut rows, mut all) = (Vec::new(), Vec::new());
    for vm in &vms {
        // One that ends meanwhile, or may not be looked into, has nothing to show.
        let sockets = m3_sock::sockets(node.directory(), vm.id).unwrap_or_default();
        rows.extend(sockets.iter().map(|socket| row(vm, socket)));
        all.extend(sockets.iter().map(|socket| json(vm, socket)));
    }
    if out.is_json() {
        return out.json(&all);
    }
    if rows.is_empty() {
        return out.line("nobody has a com-socket");
    }
    out.line(table(&HEAD, &rows))
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
    let number = |number: u64| if socket.peer.is_some() { number.to_string() } else { "-".to_owned() };
    vec![
        vm.name.clone(),
        kind(socket.kind).to_owned(),
        socket.pid.to_string(),
        socket.uid.to_string(),
        address(socket.own),
        socket.peer.map_or_else(|| "-".to_owned(), address),
        number(socket.ring_bytes),
        number(socket.kernel_bytes),
        number(socket.rung),
        number(socket.spared),
        number(socket.overflows),
    ]
}

fn json(vm: &VmInfo, socket: &SockInfo) -> serde_json::Value {
    serde_json::json!({
        "vm": vm.name, "kind": kind(socket.kind), "pid": socket.pid, "uid": socket.uid,
        "address": address(socket.own), "peer": socket.peer.map(address),
        "ring_bytes": socket.ring_bytes, "kernel_bytes": socket.kernel_bytes,
        "bells": socket.rung, "spared": socket.spared, "overflows": socket.overflows,
    })
}
