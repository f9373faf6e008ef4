//! The intruder: tries what the kernel may let one process do to another, and what the daemon may
//! let one member do in the name of another. It says `yes` or `no` for each attempt. The victims
//! say whether the attempt had an effect.

use crate::round::vm_id;
use crate::syscalls::{peek, poke_other, trace};
use core::fmt::Display;
use m3ipc_sys::Signal;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_wire::{BindKind, Privileges, RecalledPeer, Reply, Request, encode};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One member as the intruder sees it.
struct Victim {
    pid: i32,
    address: i32,
    secret: usize,
}

impl Victim {
    /// From `pid:address:secret`.
    fn parse(words: &str) -> Self {
        let mut numbers = words.split(':').map(|word| word.parse::<usize>().expect("a number"));
        let mut next = || numbers.next().expect("pid:address:secret");
        let mut small = || i32::try_from(next()).expect("a small number");
        Self { pid: small(), address: small(), secret: next() }
    }
}

/// Attempts on a victim that talks to a listener, one a line of input.
pub fn run(directory: &str, vm: &str, victim: &str, listener: &str, daemon: &str) {
    let directory = Path::new(directory);
    let vm = vm_id(directory, vm);
    let (victim, listener) = (Victim::parse(victim), Victim::parse(listener));
    let daemon: i32 = daemon.parse().expect("a process id");
    let mut raw = RawMember::greeted(directory).expect("the node runs");
    let _own = raw.bind(vm, None).expect("a slot for the intruder");
    println!("ready");
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let done = match line.as_str() {
            "read" => {
                [victim.pid, listener.pid, daemon].iter().any(|pid| reads(*pid, victim.secret))
            }
            "alter" => alters(victim.pid, victim.secret),
            "forge" => {
                let by_frames = impersonates(directory, vm, &victim, &listener, &mut raw);
                // The victim made the link: its cell is the first of the page.
                let posted = (1_u64 | 1 << 2 | 2 << 8).to_ne_bytes();
                let word = [&posted[..], &[0; 8], &666_i32.to_ne_bytes(), &[0; 4]].concat();
                writes_links(victim.pid, &word) | writes_links(listener.pid, &word) | by_frames
            }
            "lose" => writes_links(victim.pid, &[0; 8]) | writes_links(listener.pid, &[0; 8]),
            "hang" => signals(victim.pid, Signal::STOP) | trace(victim.pid),
            "kill" => signals(victim.pid, Signal::KILL),
            _ => false,
        };
        println!("{}", if done { "yes" } else { "no" });
    }
}

/// Tries every way to read a process.
fn reads(pid: i32, secret: usize) -> bool {
    let memory = std::fs::File::open(format!("/proc/{pid}/mem"));
    let by_memory = memory.is_ok_and(|file| file.read_at(&mut [0; 16], secret as u64).is_ok());
    let by_files = ["fd", "map_files"].iter().any(|folder| {
        let files =
            std::fs::read_dir(format!("/proc/{pid}/{folder}")).into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|path| std::fs::File::open(path).is_ok())
    });
    let by_descriptor = m3ipc_sys::open_process(pid).is_ok_and(|process| {
        (0..16).any(|fd| {
            let flags = rustix::process::PidfdGetfdFlags::empty();
            rustix::process::pidfd_getfd(&process, fd, flags).is_ok()
        })
    });
    let by_copy = peek(pid, secret, 16).is_some() || !maps_of(pid).is_empty();
    by_copy | by_memory | by_files | by_descriptor | trace(pid)
}

fn alters(pid: i32, secret: usize) -> bool {
    let file = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/mem"));
    let by_memory =
        file.is_ok_and(|file| file.write_at(b"a secret of mime", secret as u64).is_ok());
    by_memory | poke_other(pid, secret, b"a secret of mime")
}

/// The addresses of the links of a process, if the kernel shows them.
fn maps_of(pid: i32) -> Vec<usize> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let links = maps.lines().filter(|line| line.contains("memfd:m3-link"));
    links.filter_map(|line| usize::from_str_radix(line.split('-').next()?, 16).ok()).collect()
}

/// Writes into the victim's links, from outside.
fn writes_links(pid: i32, bytes: &[u8]) -> bool {
    let mut written = false;
    for start in maps_of(pid) {
        // The state word last: it publishes the rest.
        let (word, rest) = bytes.split_at(8);
        written |= rest.is_empty() || poke_other(pid, start + 8, rest);
        written &= poke_other(pid, start, word);
    }
    written
}

/// Sends requests to the daemon in the name of the victim.
fn impersonates(
    directory: &Path,
    vm: i32,
    victim: &Victim,
    listener: &Victim,
    own: &mut RawMember,
) -> bool {
    let notify =
        Request::NotifyFor { vm, source: victim.address, destination: listener.address, bits: 1 };
    let mut granted = !refused(own.request(&notify).map(|(reply, _)| reply));
    let as_victim = [
        Request::Reattach { vm, address: victim.address, tid: None },
        Request::Claim,
        Request::Bind {
            vm,
            slot: Some(victim.address & 0xffff),
            kind: BindKind::Process,
            nonce: 1,
        },
        Request::Bind {
            vm,
            slot: Some(victim.address & 0xffff),
            kind: BindKind::Thread(victim.pid),
            nonce: 1,
        },
    ];
    for request in as_victim {
        let mut raw = RawMember::greeted(directory).expect("the node runs");
        granted |= !refused(raw.request(&request).map(|(reply, _)| reply));
    }
    granted
}

fn signals(pid: i32, signal: Signal) -> bool {
    m3ipc_sys::open_process(pid).is_ok_and(|process| m3ipc_sys::signal(process, signal).is_ok())
}

fn refused(reply: Option<Reply>) -> bool {
    matches!(reply, None | Some(Reply::Refused(_)))
}

/// Asks for the end of another endpoint at the first line of input.
pub fn unbind(directory: &str, vm: &str, address: &str) {
    let (vm, address) = (vm.parse().expect("a number"), address.parse().expect("a number"));
    let mut raw = RawMember::greeted(Path::new(directory)).expect("the node runs");
    println!("ready");
    let mut lines = std::io::stdin().lines();
    let _ask = lines.next();
    assert!(raw.send_bytes(&encode(&Request::Unbind { vm, address }), &[]));
    println!("asked");
    println!("{}", if refused(raw.answer().map(|(reply, _)| reply)) { "refused" } else { "ended" });
}

/// A process without rights sends each request, and says a line for each.
pub fn stranger(directory: &str, vm: &str, victim: &str) {
    let victim = Victim::parse(victim);
    let vm: i32 = vm.parse().expect("a number");
    let tell = |what: &dyn Display, served: bool| {
        println!("{what} {}", if served { "served" } else { "refused" });
    };
    let Some(mut raw) = RawMember::greeted(Path::new(directory)) else {
        return tell(&"connect", false);
    };
    tell(&"connect", true);
    let address = victim.address;
    let privileges = Privileges { traps: 0, ipc_to: None, ipc_from: None, level: 0 };
    let requests = [
        ("VmInfo", Request::VmInfo(vm)),
        ("VmFind", Request::VmFind("modes".into())),
        ("Endpoints", Request::Endpoints { vm, from: i32::MIN }),
        ("Bind any", Request::Bind { vm, slot: None, kind: BindKind::Process, nonce: 1 }),
        ("Bind system", Request::Bind { vm, slot: Some(1), kind: BindKind::Process, nonce: 1 }),
        ("BindOther", Request::BindOther { vm, pid: victim.pid, slot: 40 }),
        ("Contact", Request::Contact(address)),
        ("GetEndpoint", Request::GetEndpoint(victim.pid)),
        ("Unbind", Request::Unbind { vm, address }),
        ("Wakeup", Request::Wakeup { vm, address }),
        ("SetPrivileges", Request::SetPrivileges { vm, address, privileges }),
        ("GetPrivileges", Request::GetPrivileges { vm, address }),
        ("NotifyFor", Request::NotifyFor { vm, source: -1, destination: address, bits: 1 }),
        ("DoorbellSender", Request::DoorbellSender(address)),
        ("OpenDoorbell", Request::OpenDoorbell),
        ("Recall", Request::Recall(vec![RecalledPeer { address, life: 1, was_stand_in: false }])),
        ("NameAttach", Request::NameAttach { name: "mine".into(), key: None }),
        ("Reattach", Request::Reattach { vm, address, tid: None }),
        ("Claim", Request::Claim),
        ("VmEnd", Request::VmEnd(vm)),
        ("NodeEnd", Request::NodeEnd),
    ];
    for (name, request) in requests {
        let reply = raw.request(&request).map(|(reply, _)| reply);
        tell(&name, !refused(reply));
    }
    let list = raw.request(&Request::VmList).map(|(reply, _)| reply);
    tell(&"VmList", list != Some(Reply::Vms(Vec::new())));
}
