//! Memory of a node, and CPU time of a sleeping endpoint.

use std::path::Path;
use std::time::{Duration, Instant};

use m3ipc::Node;
use m3ipc_report::schema::{Placement, Wait};

use crate::error::Error;
use crate::job::{Load, Test};
use crate::measure::{Bench, Cell};
use crate::processes::Processes;
use crate::subjects;

/// The figures of a test: name, value, unit.
pub type Found = Vec<(&'static str, f64, &'static str)>;

/// Idle endpoints that share the memory of their process, the server's client included.
const CLIENTS: u32 = 102;
/// Two processes with this number of endpoints, each linked with all others: 10,153 links.
const MESH: u32 = 71;
const LINKS: u32 = 10_000;
const LINKS_LIMIT: Duration = Duration::from_secs(10);
/// The first second of a sleep ends with a check of the daemon.
const IDLE_BEGIN: Duration = Duration::from_secs(2);
const IDLE_SPAN: Duration = Duration::from_secs(3);
const GRACE_NS: u64 = 60_000_000_000;

/// Measures link, endpoint, daemon and idle CPU time.
pub fn find(bench: &Bench) -> Result<Found, Error> {
    let mut found = endpoints(bench)?;
    found.extend(daemon(bench)?);
    Ok(found)
}

pub(super) fn cell(test: Test, count: u32) -> Cell {
    let subject = subjects::M3IPC;
    let load = Load::new(test, 0);
    let load = Load { count, bytes: subject.bytes(&load), ..load };
    Cell { subject, load, wait: Wait::Adaptive, placement: Placement::Any, experiment: None }
}

/// Objects that outlive the processes of a measurement.
pub(super) type Keep = Vec<Box<dyn std::any::Any>>;

/// Starts the first two processes of a cell, one after the other.
pub(super) fn start_two(
    bench: &Bench,
    cell: &Cell,
    is_released: bool,
) -> Result<(Keep, Processes), Error> {
    let opened = cell.subject.open(&bench.site, &cell.load)?;
    let mut processes = Processes::new(GRACE_NS);
    for (number, party) in opened.parties.into_iter().take(2).enumerate() {
        let job = cell.job(party.role, None, party.inherited.names, bench.clock);
        processes.start(&bench.site, job, party.inherited.fds, &[])?;
        processes.ready()?;
        if is_released {
            processes.go(number, 0)?;
        }
    }
    Ok((opened.keep, processes))
}

/// Memory of a daemon with 10,000 links.
fn daemon(bench: &Bench) -> Result<Found, Error> {
    // A new daemon: that of the run keeps memory of its thousands of clients.
    subjects::end_node();
    let (_keep, _processes) = start_two(bench, &cell(Test::Mesh, MESH), false)?;
    let directory = subjects::node_directory(&bench.site)?;
    let mut node = Node::find(&directory).map_err(Error::of("reach the node"))?;
    let begun = Instant::now();
    let info = loop {
        let info = node.info().map_err(Error::of("ask the node"))?;
        if info.links >= LINKS || begun.elapsed() > LINKS_LIMIT {
            break info;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let daemon_bytes = resident_bytes(info.daemon_pid)?;
    Ok(vec![
        ("daemon", daemon_bytes as f64, "bytes"),
        ("daemon links", f64::from(info.links), "links"),
    ])
}

/// Memory of a link and of an endpoint, by a hundred of them in one process.
///
/// The CPU time is that of their server while all sleep.
fn endpoints(bench: &Bench) -> Result<Found, Error> {
    let (_keep, mut processes) = start_two(bench, &cell(Test::Clients, CLIENTS), true)?;
    let server = processes.pid(0).ok_or(Error::PeerGone)?;
    let link_bytes = link_bytes(server)?;
    std::thread::sleep(IDLE_BEGIN);
    let (before, begun) = (cpu_ns(server)?, Instant::now());
    std::thread::sleep(IDLE_SPAN);
    let idle_ns = cpu_ns(server)?.saturating_sub(before) as f64;
    let idle_ppm = idle_ns * 1e6 / begun.elapsed().as_nanos().max(1) as f64;
    processes.let_end(1);
    processes.finish(0, &[1])?;
    let endpoint_bytes = processes.report(1).ok_or(Error::PeerGone)?.bytes;
    Ok(vec![
        ("link", link_bytes as f64, "bytes"),
        ("endpoint", endpoint_bytes as f64, "bytes"),
        ("idle cpu", idle_ppm, "ppm"),
    ])
}

fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::os("read from /proc"))
}

fn kilobytes(text: &str) -> Option<u64> {
    text.trim().trim_end_matches(" kB").parse().ok()
}

/// Resident memory of a link, as a mean over the links of a process.
fn link_bytes(pid: u32) -> Result<u64, Error> {
    let smaps = read(format!("/proc/{pid}/smaps"))?;
    let (mut links, mut sum, mut in_link) = (0, 0, false);
    for line in smaps.lines() {
        if line.contains("/memfd:m3-link") {
            (links, in_link) = (links + 1, true);
        } else if let Some(rest) = line.strip_prefix("Rss:").filter(|_| in_link) {
            sum += kilobytes(rest).unwrap_or(0);
            in_link = false;
        }
    }
    Ok(sum * 1024 / u64::max(links, 1))
}

fn resident_bytes(pid: i32) -> Result<u64, Error> {
    let status = read(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = line.and_then(kilobytes).map(|kilobytes| kilobytes * 1024);
    resident.ok_or_else(|| Error::Usage(format!("/proc/{pid}/status has no VmRSS")))
}

/// CPU time of a process of one thread, as of the last time that the thread stopped to run.
fn cpu_ns(pid: u32) -> Result<u64, Error> {
    let text = read(format!("/proc/{pid}/schedstat"))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| Error::Usage(format!("/proc/{pid}/schedstat cannot be read")))
}
