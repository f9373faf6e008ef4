//! `m3 ps`: who is there, and who waits for whom.

use super::chain::chains;
use crate::cli::Common;
use crate::fail::Result;
use crate::out::{Out, table, time};
use crate::reach;
use clap::Args;
use m3ipc::{ANY, Address, EndpointInfo, VmInfo};

/// Show endpoints and their waits.
#[derive(Args, Debug)]
pub struct Ps {
    #[command(flatten)]
    pub common: Common,
    /// This VM alone, by name or id.
    #[arg(allow_negative_numbers = true)]
    vm: Option<String>,
}

const HEAD: [&str; 13] = [
    "VM", "ENDPOINT", "SLOT", "NAME", "PID", "USER", "CALL", "PARTNER", "FOR", "SENT", "RECEIVED",
    "SLEPT", "COPIES",
];

/// Shows them.
pub fn run(args: &Ps, out: Out) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let vms: Vec<VmInfo> = match &args.vm {
        Some(written) => vec![reach::vm(&mut node, written)?.info().clone()],
        None => node.vms()?,
    };
    let mut rows = Vec::new();
    let mut drawn = Vec::new();
    let mut shared = Vec::new();
    let mut all = Vec::new();
    for vm in &vms {
        // One that ends meanwhile, or may not be looked into, has nobody to show.
        let members = node.endpoints(vm.id).unwrap_or_default();
        rows.extend(members.iter().map(|member| row(vm, member, &members)));
        let of_vm = chains(&members);
        drawn.extend(of_vm.iter().map(|chain| format!("{}: {chain}", vm.name)));
        let areas = node.areas(vm.id).unwrap_or_default();
        shared
            .extend(areas.iter().map(|area| format!("{}: {}", vm.name, super::areas::shown(area))));
        all.push(serde_json::json!({
            "vm": super::vm::json(vm), "endpoints": members, "chains": of_vm, "areas": areas,
        }));
    }
    if out.is_json() {
        return out.json(&all);
    }
    if rows.is_empty() {
        return out.line("nobody is bound; try: m3 echo VM --as NAME");
    }
    out.line(table(&HEAD, &rows))?;
    if !drawn.is_empty() {
        out.line(format!("\n{}", out.bold("chains of waiting (by slot)")))?;
    }
    drawn.iter().try_for_each(|chain| out.line(format!("    {chain}")))?;
    if !shared.is_empty() {
        out.line(format!("\n{}", out.bold("areas")))?;
    }
    shared.iter().try_for_each(|area| out.line(format!("    {area}")))
}

fn row(vm: &VmInfo, member: &EndpointInfo, members: &[EndpointInfo]) -> Vec<String> {
    let pid = match member.tid {
        0 => member.pid.to_string(),
        tid => format!("{}/{tid}", member.pid),
    };
    let waits = !matches!(member.wait.verb.as_str(), "running" | "absent");
    vec![
        vm.name.clone(),
        member.address.to_string(),
        member.slot.to_string(),
        or_dash(member.names.join(",")),
        pid,
        member.uid.to_string(),
        member.wait.verb.clone(),
        if waits { partner(member.wait.peer, members) } else { "-".to_owned() },
        if member.wait.for_ns > 0 { time(member.wait.for_ns) } else { "-".to_owned() },
        member.sent.to_string(),
        member.received.to_string(),
        member.slept.to_string(),
        copies(member),
    ]
}

/// The copies it has asked for, by their way: between areas, by the kernel, or through windows and buffers.
fn copies(member: &EndpointInfo) -> String {
    let ways = [
        (member.copies_shared, "in areas"),
        (member.copies_direct, "direct"),
        (member.copies_served, "served"),
    ];
    let made: Vec<String> = ways
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, way)| format!("{count} {way}"))
        .collect();
    if made.is_empty() { "-".to_owned() } else { made.join(", ") }
}

fn partner(address: i32, members: &[EndpointInfo]) -> String {
    if Address(address) == ANY {
        return "any".to_owned();
    }
    let name =
        members.iter().find(|other| other.address == address).and_then(|other| other.names.first());
    match name {
        Some(name) => name.clone(),
        None => Address(address).to_string(),
    }
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}
