//! Parameters as words `key=value`, which `mnx_vm_init` and `mnx_drvs_init` take.

use m3ipc_fabric::{Registry, VmCopy, VmEntry, VmLife};
use std::fmt::{Display, Write};

fn word(text: &mut String, key: &str, value: Option<impl Display>) {
    if let Some(value) = value {
        // A write to a string does not fail.
        let _ = writeln!(text, "{key}={value}");
    }
}

pub const fn copy_name(copy: VmCopy) -> &'static str {
    match copy {
        VmCopy::Open => "open",
        VmCopy::Granted => "granted",
    }
}

pub const fn life_name(life: VmLife) -> &'static str {
    match life {
        VmLife::Ended => "ended",
        VmLife::Creator => "creator",
        VmLife::Members => "members",
    }
}

/// The parameters of a VM.
pub fn of_vm(vm: &VmEntry) -> String {
    let mut text = String::new();
    let own = &vm.parameters;
    word(&mut text, "vmid", Some(vm.id));
    word(&mut text, "name", Some(&vm.name));
    let nodes: Vec<String> = vm.nodes.iter().map(|node| node.0.to_string()).collect();
    word(&mut text, "nodes", Some(nodes.join(",")));
    word(&mut text, "procs", own.procs);
    word(&mut text, "tasks", own.tasks);
    word(&mut text, "mode", own.mode.map(|mode| format!("{mode:04o}")));
    word(&mut text, "grace_ms", own.grace_ms);
    word(&mut text, "copy", own.copy.map(copy_name));
    word(&mut text, "life", own.life.map(life_name));
    text
}

/// The parameters of a node, or of all nodes.
pub fn of_drvs(registry: &Registry, node: Option<&str>) -> String {
    let mut text = String::new();
    let own = &registry.parameters;
    let node = node.and_then(|name| registry.node(name));
    word(&mut text, "nodeid", node.map(|node| node.id.0));
    word(&mut text, "name", Some(&registry.cluster));
    word(&mut text, "vms", own.vms);
    word(&mut text, "nr_nodes", own.nodes);
    word(&mut text, "procs", own.procs);
    word(&mut text, "tasks", own.tasks);
    word(&mut text, "max_copy_bytes", own.max_copy_bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_words() {
        let registry = Registry::parse(
            "cluster = \"lab\"\nparameters = { vms = 4 }\n\
             [[node]]\nid = 2\nname = \"beta\"\naddress = \"127.0.0.1:1\"\n\
             [[vm]]\nid = 3\nname = \"shop\"\nslots = { beta = [[0, 9]] }\n\
             parameters = { mode = 0o640, copy = \"granted\", life = \"members\" }\n",
        )
        .expect("a registry");
        let vm = of_vm(registry.vm("shop").expect("it is there"));
        assert_eq!(vm, "vmid=3\nname=shop\nnodes=2\nmode=0640\ncopy=granted\nlife=members\n");
        assert_eq!(of_drvs(&registry, Some("beta")), "nodeid=2\nname=lab\nvms=4\n");
    }
}
