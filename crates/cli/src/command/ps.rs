//! `m3 ps`: lists endpoints, their calls and their partners.

use crate::error::Result;
use crate::escape::one_line;
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::{Output, table, time};
use crate::view::{area, wait_chain::wait_chains};
use clap::Args;
use m3ipc::{ANY, Address, EndpointInfo, OtherNodeInfo, VmInfo};

/// List the endpoints: their calls, their partners, and how long they wait.
///
/// Below the table: chains of waiting endpoints, and areas. COPIES counts the copies that the
/// endpoint requested: in areas, direct (by the kernel), or served (by the other process).
///
/// An endpoint of another node has the call "remote" and the node in NODE; SENT and RECEIVED count
/// its messages with this node. Below the table: whether each other node can be reached.
///
/// Example: m3 ps shop
#[derive(Args, Debug)]
pub struct Ps {
    #[command(flatten)]
    node: NodeOptions,
    /// Only this VM, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: Option<String>,
}

const HEAD: [&str; 14] = [
    "VM", "ENDPOINT", "SLOT", "NAME", "PID", "USER", "CALL", "PARTNER", "FOR", "SENT", "RECEIVED",
    "SLEPT", "COPIES", "NODE",
];

/// Prints the table.
pub fn run(args: &Ps, out: Output) -> Result<()> {
    let mut node = lookup::node(&args.node)?;
    let vms: Vec<VmInfo> = match &args.vm {
        Some(written) => vec![lookup::vm(&mut node, written)?.info().clone()],
        None => node.vms()?,
    };
    // Without a proxy there are none.
    let others = node.other_nodes().map(|it| it.nodes).unwrap_or_default();
    let mut rows = Vec::new();
    let mut chains = Vec::new();
    let mut areas = Vec::new();
    let mut all = Vec::new();
    let mut has_remote = false;
    for vm in &vms {
        // A VM may end meanwhile, or refuse the list: it then has no rows.
        let endpoints = node.endpoints(vm.id).unwrap_or_default();
        rows.extend(endpoints.iter().map(|endpoint| row(vm, endpoint, &endpoints)));
        has_remote |= endpoints.iter().any(|endpoint| endpoint.node.is_some());
        let of_vm = wait_chains(&endpoints);
        chains.extend(of_vm.iter().map(|chain| format!("{}: {chain}", vm.name)));
        let of_node = node.areas(vm.id).unwrap_or_default();
        areas.extend(of_node.iter().map(|area| format!("{}: {}", vm.name, area::text(area))));
        all.push(serde_json::json!({
            "vm": super::vm::json(vm), "endpoints": endpoints, "chains": of_vm, "areas": of_node,
        }));
    }
    if out.is_json() {
        return out.json(&all);
    }
    if rows.is_empty() {
        out.line("no endpoint is bound; start one with: m3 echo VM --as NAME")?;
    } else {
        // Without other nodes the last column says nothing.
        let columns = if has_remote { HEAD.len() } else { HEAD.len() - 1 };
        rows.iter_mut().for_each(|row| row.truncate(columns));
        out.line(table(&HEAD[..columns], &rows))?;
    }
    if !others.is_empty() {
        out.line(format!("\n{}", out.bold("other nodes")))?;
    }
    others.iter().try_for_each(|it| out.line(format!("    {}", one_line(&other(it)))))?;
    if !chains.is_empty() {
        out.line(format!("\n{}", out.bold("wait chains (by slot)")))?;
    }
    chains.iter().try_for_each(|chain| out.line(format!("    {}", one_line(chain))))?;
    if !areas.is_empty() {
        out.line(format!("\n{}", out.bold("areas")))?;
    }
    areas.iter().try_for_each(|area| out.line(format!("    {}", one_line(area))))
}

/// The state of another node.
fn other(node: &OtherNodeInfo) -> String {
    let state = if node.reachable { "up" } else { "not reachable" };
    format!("{} ({}): {state}, {} endpoints", node.name, node.id, node.endpoints)
}

fn row(vm: &VmInfo, endpoint: &EndpointInfo, endpoints: &[EndpointInfo]) -> Vec<String> {
    let is_remote = endpoint.node.is_some();
    let pid = match endpoint.tid {
        // The process here is the proxy.
        _ if is_remote => "-".to_owned(),
        0 => endpoint.pid.to_string(),
        tid => format!("{}/{tid}", endpoint.pid),
    };
    let waits = endpoint.wait.state.waits();
    vec![
        vm.name.clone(),
        endpoint.address.to_string(),
        endpoint.slot.to_string(),
        or_dash(endpoint.names.join(",")),
        pid,
        if is_remote { "-".to_owned() } else { endpoint.uid.to_string() },
        if is_remote { "remote".to_owned() } else { endpoint.wait.state.to_string() },
        if waits { partner(endpoint.wait.peer, endpoints) } else { "-".to_owned() },
        if endpoint.wait.for_ns > 0 { time(endpoint.wait.for_ns) } else { "-".to_owned() },
        endpoint.sent.to_string(),
        endpoint.received.to_string(),
        endpoint.slept.to_string(),
        copies(endpoint),
        endpoint.node.clone().unwrap_or_else(|| "-".to_owned()),
    ]
}

/// The copies that the endpoint requested: in areas, by the kernel, or by the other process.
fn copies(endpoint: &EndpointInfo) -> String {
    let kinds = [
        (endpoint.copies_shared, "in areas"),
        (endpoint.copies_direct, "direct"),
        (endpoint.copies_served, "served"),
    ];
    let made: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    if made.is_empty() { "-".to_owned() } else { made.join(", ") }
}

fn partner(address: i32, endpoints: &[EndpointInfo]) -> String {
    if Address(address) == ANY {
        return "any".to_owned();
    }
    let name = endpoints
        .iter()
        .find(|other| other.address == address)
        .and_then(|other| other.names.first());
    match name {
        Some(name) => name.clone(),
        None => Address(address).to_string(),
    }
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}
