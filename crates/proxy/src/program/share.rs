//! `share`: an entry of a VM in the registry, with a share of its slots for each node.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use super::failed::{Done, Failed};
use super::keys::{DIRECTORY, REGISTRY};
use m3ipc_fabric::{Registry, VmEntry};

/// Task slots end at -1, slots of servers at 28.
const SERVERS_END: i32 = 28;

/// A VM and its nodes.
#[derive(Debug, clap::Args)]
pub struct Share {
    /// The name of the VM
    name: String,
    /// The nodes of the VM
    #[arg(long, value_name = "NODE", value_delimiter = ',', required = true)]
    nodes: Vec<String>,
    /// The registry [default: m3-keys/nodes.toml]
    #[arg(long, value_name = "FILE")]
    registry: Option<PathBuf>,
    /// The id of the VM [default: the lowest id that the registry has not]
    #[arg(long)]
    id: Option<u16>,
    /// Number of process slots
    #[arg(long, value_name = "N", default_value_t = 221)]
    #[arg(value_parser = clap::value_parser!(i32).range(30..=30_000))]
    procs: i32,
    /// Number of task slots
    #[arg(long, value_name = "N", default_value_t = 35)]
    #[arg(value_parser = clap::value_parser!(i32).range(0..=35))]
    tasks: i32,
}

/// Writes the entry, unless the same one stands there.
pub fn run(args: &Share) -> Done {
    let path = args.registry.clone().unwrap_or_else(|| PathBuf::from(DIRECTORY).join(REGISTRY));
    let failed = |cause: &dyn std::fmt::Display| {
        Failed::new(format!(
            "{}: {cause}; make a registry with `m3 node keys NODE=ADDRESS:PORT ...`, or name it \
             with --registry",
            path.display()
        ))
    };
    let text = std::fs::read_to_string(&path).map_err(|cause| failed(&cause))?;
    let registry = Registry::parse(&text).map_err(|cause| failed(&cause))?;
    if let Some(vm) = registry.vms.iter().find(|vm| vm.name == args.name) {
        return known(args, &registry, vm);
    }
    let free = || (0..u16::MAX).find(|id| registry.vms.iter().all(|vm| vm.id != *id));
    let id = args.id.or_else(free).unwrap_or_default();
    let with_entry = format!("{text}{}", entry(args, id));
    // The rules of the registry decide, before anything is written.
    Registry::parse(&with_entry)
        .map_err(|cause| Failed::new(format!("{cause}; `{}` stays as it is", path.display())))?;
    let fresh = path.with_extension("toml.new");
    std::fs::write(&fresh, &with_entry)
        .and_then(|()| std::fs::rename(&fresh, &path))
        .map_err(|cause| failed(&cause))?;
    println!("{id}");
    m3ipc_sys::tell!(
        "{} has the VM now; give the file to all nodes, and start their proxies after that",
        path.display()
    );
    Ok(ExitCode::SUCCESS)
}

fn known(args: &Share, registry: &Registry, vm: &VmEntry) -> Done {
    let names = |wanted: &mut Vec<String>| {
        wanted.sort();
        wanted.dedup();
    };
    let nodes = registry.nodes.iter().filter(|node| vm.nodes.contains(&node.id));
    let (mut there, mut wanted) = (nodes.map(|it| it.name.clone()).collect(), args.nodes.clone());
    names(&mut there);
    names(&mut wanted);
    if there != wanted || args.id.is_some_and(|id| id != vm.id) {
        return Err(Failed::new(format!(
            "the registry has a VM {} already, with the id {} and the nodes {}; change the entry \
             there, or choose another name",
            vm.name,
            vm.id,
            there.join(", ")
        )));
    }
    println!("{}", vm.id);
    Ok(ExitCode::SUCCESS)
}

/// The entry: each node gets a part of the task slots, of the server slots and of the others.
fn entry(args: &Share, id: u16) -> String {
    let count = i32::try_from(args.nodes.len()).unwrap_or(i32::MAX);
    let kinds = [(-args.tasks, -1), (0, SERVERS_END), (SERVERS_END + 1, args.procs - 1)];
    let mut text = format!("\n[[vm]]\nid = {id}\nname = {:?}\nslots = {{ ", args.name);
    for (number, node) in (0..).zip(&args.nodes) {
        let parts = kinds.iter().filter_map(|(first, last)| {
            let slots = last - first + 1;
            let at = |number: i32| first + slots * number / count;
            let (first, last) = (at(number), at(number + 1) - 1);
            (first <= last).then(|| format!("[{first}, {last}]"))
        });
        let parts: Vec<String> = parts.collect();
        let comma = if number + 1 < count { ", " } else { " " };
        let _ = write!(text, "\"{node}\" = [{}]{comma}", parts.join(", "));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_gets_a_part_of_each_kind_and_no_slot_is_left() {
        let nodes = ["alpha", "beta", "gamma"].map(String::from).to_vec();
        let args =
            Share { name: "shop".into(), nodes, registry: None, id: None, procs: 221, tasks: 35 };
        let mut text = String::from("cluster = \"lab\"\n");
        for (id, name) in (1..).zip(&args.nodes) {
            let _ = write!(
                text,
                "[[node]]\nid = {id}\nname = \"{name}\"\naddress = \"127.0.0.1:{id}\"\n"
            );
        }
        text.push_str(&entry(&args, 3));
        let registry = Registry::parse(&text).expect("a registry");
        let mut slots: Vec<i32> = registry
            .nodes
            .iter()
            .flat_map(|node| registry.owners.of_node(node.id).collect::<Vec<_>>())
            .flat_map(|(_, range)| range.first..=range.last)
            .collect();
        slots.sort_unstable();
        assert!(slots.iter().copied().eq(-35..221));
    }
}
