//! No memory: no room in the address space of a member that should map a link.

use crate::fixture::{Lowered, Pair, VM, assert_works, node, talker};
use m3ipc_test_fixture::MemberProcess;
use rustix::process::Resource;
use std::time::Duration;

/// Leaves the process no more address space than it has now.
fn no_more_memory(pid: i32) -> Lowered {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("it lives");
    let pages: u64 = pages.split(' ').next().and_then(|word| word.parse().ok()).expect("its pages");
    Lowered::new(pid, Resource::As, pages * m3ipc_sys::page_bytes())
}

#[test]
fn a_caller_without_memory_gets_a_code() {
    let node = node("memory-caller");
    let pair = Pair::new(node.path());
    let mut caller = MemberProcess::start(0, "caller", &[node.path(), VM]);
    assert!(caller.line().starts_with("at "));
    let lowered = no_more_memory(caller.pid());
    let answer = caller.ask(&pair.address);
    assert!(answer.starts_with("-12 ") && answer.contains("ulimit -v"), "{answer}");
    drop(lowered);
    assert_eq!(caller.ask(&pair.address), "0");
    drop(caller);
    let whole = pair.finish(Vec::new());
    println!("T14 memory of a caller: told -12, then served; {whole} messages, lost 0");
}

#[test]
fn a_server_without_memory_serves_whom_it_knows() {
    let node = node("memory-server");
    let pair = Pair::new(node.path());
    let lowered = no_more_memory(pair.server_pid());
    let joined = vec![talker(node.path(), &pair.address)];
    std::thread::sleep(Duration::from_millis(1500));
    drop(lowered);
    assert_works(node.path(), &pair.address);
    let whole = pair.finish(joined);
    println!(
        "T14 memory of a server: its newcomer served when it had some, {whole} messages, lost 0"
    );
}
