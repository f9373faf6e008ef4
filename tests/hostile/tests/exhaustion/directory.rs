//! No room in the runtime directory: a tmpfs of a few KB, in a mount namespace of its own.

use crate::fixture::{Pair, VM, assert_works};
use m3ipc::{Node, VmConfig};
use m3ipc_abi::Code;
use m3ipc_test_fixture::raw::RawMember;
use m3ipc_test_fixture::{MemberProcess, is_root, program, until, watchdog};
use m3ipc_wire::{AreaAudience, AreaParams, AreaReply, AreaRequest, Reply, Request};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The size of the extents of the test.
const EXTENT_BYTES: u64 = 1 << 20;

/// A mount namespace with a small tmpfs; a process in it keeps it alive.
struct Small {
    holder: Child,
    /// The tmpfs, as seen from inside and from outside.
    inside: String,
    outside: String,
}

impl Small {
    fn new(name: &str, pages: u64) -> Self {
        watchdog(120);
        let bytes = pages * m3ipc_sys::page_bytes();
        let inside = format!("/tmp/m3-test-{}-{name}", std::process::id());
        std::fs::create_dir(&inside).expect("a mount point");
        let script = format!(
            "mount -t tmpfs -o mode=0700,size={bytes} none {inside} && echo done && exec cat"
        );
        let mut command = Command::new("unshare");
        let command = command.args(["--mount", "--kill-child", "sh", "-c", &script]);
        let mut holder =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare");
        let mut said = String::new();
        let _ = BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut said);
        assert_eq!(said, "done\n", "a tmpfs in a mount namespace of its own");
        let outside = format!("/proc/{}/root{inside}", holder.id());
        Self { holder, inside, outside }
    }

    fn daemon(&self) -> MemberProcess {
        let pid = self.holder.id().to_string();
        let words = ["--runtime-dir", &self.inside, "--log-level", "error"];
        let nsenter = ["nsenter", "--mount", "--target", &pid];
        let member = program("m3-tests-member");
        MemberProcess::start_program(&nsenter, &member, 0, "daemon", &words)
    }

    fn wait_for_daemon(&self) -> Node {
        let mut node = None;
        until("the daemon answers", || {
            node = Node::find(Path::new(&self.outside)).ok();
            node.is_some()
        });
        node.expect("found above")
    }

    fn filler(&self) -> String {
        format!("{}/proxy.log.old", self.outside)
    }

    /// Leaves no byte free.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).expect("a file");
        while file.write_all(&[1; 512]).is_ok() {}
        while file.write_all(&[1]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.filler()).expect("it was filled");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = std::fs::remove_dir(&self.inside);
    }
}

#[test]
fn a_full_directory_refuses_what_a_successor_would_not_know() {
    if !is_root("T14 full directory") {
        return;
    }
    let small = Small::new("full", 16);
    let daemon = small.daemon();
    let mut node = small.wait_for_daemon();
    node.vm_init(&VmConfig::new(VM)).expect("a VM");
    let pair = Pair::new(&small.outside);
    let victim = MemberProcess::start(0, "caller", &[&small.outside, VM]);
    small.fill();
    // The reserve for records that cannot be refused is not used for these.
    let mut refused = 0;
    for number in 0..400 {
        match node.vm_init(&VmConfig::new(&format!("vm{number}")).procs(50).tasks(5)) {
            Ok(vm) => node.vm_end(vm.id()).expect("its owner ends it"),
            Err(error) => {
                assert_eq!(error.code(), Code::NoMem, "{error}");
                assert!(error.why().contains("has no room for the journal"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "the tmpfs was not full");
    let vm = node.vm_named(VM).expect("the VM");
    assert_eq!(vm.bind_any().expect_err("not to be known").code(), Code::NoMem);
    // A death cannot be refused: it is reported, and recorded when there is room.
    drop(victim);
    small.empty();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_works(&small.outside, &pair.address);
    let before = known(&mut node);
    drop(daemon);
    let _next = small.daemon();
    let mut node = small.wait_for_daemon();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(known(&mut node), before, "the successor knows what there was");
    assert_works(&small.outside, &pair.address);
    let whole = pair.finish(Vec::new());
    println!(
        "T14 full directory: {refused} of 400 VMs refused, successor knows all; {whole} messages, \
         lost 0"
    );
}

#[test]
fn a_full_directory_refuses_extents_that_a_successor_would_give_again() {
    if !is_root("T14 extents in a full directory") {
        return;
    }
    let small = Small::new("full-extents", 16);
    let daemon = small.daemon();
    let mut node = small.wait_for_daemon();
    let vm = node.vm_init(&VmConfig::new(VM)).expect("a VM").id();
    let mut raw = RawMember::greeted(Path::new(&small.outside)).expect("a greeting");
    let _pages = raw.bind(vm, None).expect("a bind");
    let params = AreaParams {
        limit_bytes: 16 << 30,
        audience: AreaAudience::Vm,
        owner_writes: false,
        huge: false,
        low: false,
    };
    let created = raw.request(&Request::Area(AreaRequest::Create(params)));
    let Some((Reply::Area(AreaReply::Joined { info, .. }), _fds)) = created else {
        panic!("no area")
    };
    let area = info.area;
    assert!(matches!(
        raw.request(&Request::Area(AreaRequest::Mapped(area))),
        Some((Reply::Done, _))
    ));
    small.fill();
    let (needed, wanted) = (EXTENT_BYTES, EXTENT_BYTES);
    let more = Request::Area(AreaRequest::Extent { area, needed, wanted, from_back: false });
    let mut given = 0;
    let refusal = loop {
        match raw.request(&more).expect("the daemon answers").0 {
            Reply::Area(AreaReply::Extent(extent)) => given += extent.bytes,
            Reply::Refused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal.code, Code::NoMem.number(), "{}", refusal.why);
    assert!(refusal.why.contains("has no room for the journal"), "{}", refusal.why);
    drop(daemon);
    small.empty();
    let _next = small.daemon();
    drop(small.wait_for_daemon());
    let mut raw = RawMember::greeted(Path::new(&small.outside)).expect("a greeting");
    let list = raw.request(&Request::Area(AreaRequest::List { vm, after: 0 }));
    let Some((Reply::Area(AreaReply::Areas { list, .. }), _)) = list else { panic!("no list") };
    assert_eq!(list[0].extent_bytes, given, "the successor knows every extent");
    println!("T14 extents in a full directory: {} extents given, all known", given / EXTENT_BYTES);
}

/// The VMs and endpoints that the node knows.
fn known(node: &mut Node) -> Vec<(i32, String, Vec<i32>)> {
    let vms = node.vms().expect("a list");
    let mut known = Vec::new();
    for info in vms {
        let endpoints = node.endpoints(info.id).expect("a list");
        known.push((
            info.id,
            info.name,
            endpoints.iter().map(|endpoint| endpoint.address).collect(),
        ));
    }
    known
}

#[test]
fn a_successor_begins_in_a_full_directory() {
    if !is_root("T14 successor in a full directory") {
        return;
    }
    let small = Small::new("full-successor", 16);
    let daemon = small.daemon();
    let mut node = small.wait_for_daemon();
    node.vm_init(&VmConfig::new(VM)).expect("a VM");
    let pair = Pair::new(&small.outside);
    let before = known(&mut node);
    small.fill();
    drop(daemon);
    let daemon = small.daemon();
    let mut node = small.wait_for_daemon();
    assert_eq!(known(&mut node), before, "the successor knows what there was");
    small.empty();
    assert_works(&small.outside, &pair.address);
    node.vm_init(&VmConfig::new("later")).expect("a VM");
    drop(daemon);
    let _next = small.daemon();
    let mut node = small.wait_for_daemon();
    assert!(node.vm_named("later").is_ok(), "the journal went on");
    println!(
        "T14 successor in a full directory: it takes over; {} messages",
        pair.finish(Vec::new())
    );
}

#[test]
fn a_daemon_says_why_it_cannot_begin_in_a_full_directory() {
    if !is_root("T14 full at start") {
        return;
    }
    let small = Small::new("full-start", 4);
    small.fill();
    let pid = small.holder.id().to_string();
    let mut command = Command::new("nsenter");
    let command = command.args(["--mount", "--target", &pid]).arg(program("m3-tests-member"));
    let command =
        command.args(["0", "daemon", "--runtime-dir", &small.inside, "--log-level", "error"]);
    let output = command.stdin(Stdio::null()).output().expect("nsenter");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("No space left on device") && said.contains(&small.inside), "{said}");
    small.empty();
    let _daemon = small.daemon();
    let _node = small.wait_for_daemon();
    println!(
        "T14 full directory at start: exit code 4, the path and the cause; with room it starts"
    );
}
