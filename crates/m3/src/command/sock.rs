//! `m3 sock`: com-sockets, and programs whose sockets use shared memory, from the shell.

pub mod check;
pub mod run;
pub mod shim;

use crate::cli::Common;
use crate::fail::Result;
use crate::out::{Out, table};
use crate::reach;
use clap::{Args, Subcommand};
use m3_sock::{SockInfo, SockKind};
use m3ipc::VmInfo;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Com-sockets, and sockets of unmodified programs over shared memory.
#[derive(Subcommand, Debug)]
pub enum Sock {
    /// Run an unmodified program whose local stream sockets use shared memory.
    Run(run::Run),
    /// Compare installed programs with the kernel's sockets and under `m3 sock run`.
    Check(check::Check),
    /// Show the sockets of VMs, and the programs under `m3 sock run`: which way their bytes go.
    Stat(Stat),
}

/// Show the sockets of VMs, and, where no VM is named, the programs under `m3 sock run`.
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
    let args = match args {
        Sock::Run(args) => return run::run(args),
        Sock::Check(args) => return check::run(args, out),
        Sock::Stat(args) => args,
    };
    let programs = if args.vm.is_none() { shim::programs(&args.common) } else { Vec::new() };
    let mut node = match reach::node(&args.common) {
        // Programs under `m3 sock run` need no node.
        Err(_) if !programs.is_empty() => return shim::show(&programs, out),
        other => other?,
    };
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
        all.extend(programs.iter().map(shim::json));
        return out.json(&all);
    }
    if !programs.is_empty() {
        shim::show(&programs, out)?;
    }
    if rows.is_empty() {
        return if programs.is_empty() { out.line("nobody has a com-socket") } else { Ok(()) };
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
