//! Members can add no seal to the memory that the daemon gives them.
//!
//! A seal holds for all holders of the memory. A member that could add one would bar others, for
//! instance from mapping a ready bitmap for writing.

use m3ipc::{AreaConfig, Lease, Message, Node, VmConfig};
use m3ipc_sockets::Domain;
use m3ipc_users::{Place, Running, VICTIM, is_root};
use rustix::fs::{SealFlags, fcntl_get_seals};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddrV4;
use std::path::Path;

/// All memory that the daemon makes for members, by name.
const MEMORY: [&str; 10] = [
    "m3-area",
    "m3-bounce",
    "m3-control",
    "m3-ledger",
    "m3-link",
    "m3-pool",
    "m3-ready",
    "m3-sock",
    "m3-status",
    "m3-trace",
];

/// The seals of all memory of the daemon that a process has mapped, by name.
fn mapped(pid: i32, found: &mut BTreeMap<String, Vec<SealFlags>>) {
    for entry in std::fs::read_dir(format!("/proc/{pid}/map_files")).expect("root reads it") {
        let path = entry.expect("an entry").path();
        let Ok(target) = std::fs::read_link(&path) else { continue };
        let target = target.to_string_lossy().into_owned();
        let Some(name) = target.strip_prefix("/memfd:") else { continue };
        let name = name.split(' ').next().unwrap_or_default();
        if name.starts_with("m3-") {
            let memory = File::open(&path).expect("root opens it");
            let seals = fcntl_get_seals(&memory).expect("a memfd");
            found.entry(name.to_owned()).or_default().push(seals);
        }
    }
}

#[test]
fn all_memory_of_members_refuses_more_seals() {
    if !is_root("the seals of all memory") {
        return;
    }
    let place = Place::new();
    let directory = place.folder("node", 0, 0o755);
    let _daemon = place.daemon(0, &directory);
    let mut node = Node::find(&directory).expect("the daemon of root");
    let vm = node.vm_init(&VmConfig::new("seals").mode(0o777)).expect("a VM");
    let mut trace = node.trace(vm.id(), Default::default()).expect("a trace");
    let path = directory.to_str().expect("a plain path");
    let mut member = Running::start(&mut place.role(VICTIM, &["member", path, "seals"]));
    let address = member.line().parse().expect("the address of its domain");
    let domain = Domain::join(&directory, &vm).expect("a domain");
    let stream = domain.connect(SocketAddrV4::new(address, 80)).expect("a connection");
    let mut me = vm.bind_any().expect("a slot");
    let server = m3ipc::Address(1);
    let memory = [7; 4096];
    let configs = [AreaConfig::set(1 << 20, &[server]), AreaConfig::vm(1 << 20).owner_writes()];
    let mut areas = Vec::new();
    for config in configs {
        let area = me.create_area(&config).expect("an area");
        let lease = Lease::read(&memory);
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&area.id().to_ne_bytes());
        bytes[8..].copy_from_slice(&lease.address().to_ne_bytes());
        let request = Message::new(1).with_bytes(&bytes);
        me.sendrec_leased(server, &request, &[lease], None).expect("an answer");
        areas.push(area);
    }
    let pair = me.create_area(&AreaConfig::pair(1 << 20, server)).expect("an area");
    pair.renounce_writing().expect("no block is out");
    pair.seal().expect("no process can write");
    pair.seal().expect("it is sealed already");
    m3ipc_users::until("the tracer has the rings", || {
        let _ = trace.poll(|_, _| {});
        trace.traced().count() == 2
    });

    let mut found = BTreeMap::new();
    mapped(m3ipc_sys::process_id(), &mut found);
    mapped(member.pid(), &mut found);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, MEMORY, "each kind of memory was in use");
    let needed = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    for (name, seals) in &found {
        assert!(seals.iter().all(|seals| seals.contains(needed)), "{name}: {seals:?}");
    }
    drop(stream);
}

#[test]
fn the_list_of_memory_is_complete() {
    let mut made = BTreeSet::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/daemon/src");
    collect(source.as_ref(), &mut made);
    assert_eq!(Vec::from_iter(&made), Vec::from_iter(&MEMORY), "extend the test above");
}

/// Names of memory in all source files below a folder.
fn collect(folder: &Path, made: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the daemon's source") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, made);
        } else {
            let text = std::fs::read_to_string(&path).expect("source");
            let calls = ["create_memory(\"", "create_sealable_memory(\"", "create_sparse(\""];
            for call in calls {
                for rest in text.split(call).skip(1) {
                    made.extend(rest.split('"').next().map(str::to_owned));
                }
            }
        }
    }
    made.remove("m3-test");
}
