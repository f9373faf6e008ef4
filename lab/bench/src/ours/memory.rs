//! What a node costs in memory, and a sleeping endpoint in CPU time.

use std::path::Path;
use std::time::{Duration, Instant};

use m3ipc::Node;

use super::m3ipc::{one, told};
use super::{Memory, keeper};
use crate::clock::Clock;
use crate::error::Error;
use crate::job::{Job, Side, Task, Wait, Work};
use crate::mechanism::{Mechanism, Site, Transport};
use crate::supervise::Crew;

/// Endpoints that share the cost of what is there once.
const ENDPOINTS: u32 = 101;
/// Two processes of so many endpoints, each linked with all others: 10,153 links.
const MESH: u32 = 71;
const LINKS: u32 = 10_000;
const IDLE_SPAN: Duration = Duration::from_secs(3);
const GRACE_NS: u64 = 60_000_000_000;

fn job(mechanism: &dyn Mechanism, side: Side, task: Task, transport: &Transport) -> Job {
    Job {
        mechanism: mechanism.name().into(),
        side,
        work: Work::Ipc2,
        wait: Wait::Adaptive,
        bytes: mechanism.bytes(Work::Ipc2),
        cpu: None,
        fds: vec![],
        names: transport.names.clone(),
        clock: Clock::Monotonic,
        task,
    }
}

/// Finds out.
pub fn measure(mechanism: &dyn Mechanism, site: &Site) -> Result<Memory, Error> {
    let mut memory = endpoints(mechanism, site)?;
    let transport = one(mechanism.open_many(site, 1)?)?;
    let mut crew = Crew::new(GRACE_NS);
    for _ in 0..2 {
        crew.start(
            site,
            job(mechanism, Side::Idle, Task::Mesh { endpoints: MESH }, &transport),
            vec![],
        )?;
        crew.ready()?;
    }
    let mut node = Node::find(&keeper::directory(site)?).map_err(told("reach the node"))?;
    let begun = Instant::now();
    let info = loop {
        let info = node.info().map_err(told("ask the node"))?;
        if info.links >= LINKS || begun.elapsed() > Duration::from_secs(10) {
            break info;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    memory.daemon_links = u64::from(info.links);
    memory.daemon_bytes = resident_bytes(info.daemon_pid)?;
    Ok(memory)
}

/// One link and one endpoint, by what a hundred of them add to their process; and the
/// CPU time of their server while all sleep.
fn endpoints(mechanism: &dyn Mechanism, site: &Site) -> Result<Memory, Error> {
    let transport = one(mechanism.open_many(site, 1)?)?;
    let mut crew = Crew::new(GRACE_NS);
    let task = Task::Trips { pace_ns: None, span_ns: 0, limit: None };
    crew.start(site, job(mechanism, Side::Server, task, &transport), vec![])?;
    crew.ready()?;
    crew.go(0, 0)?;
    let idle = Task::Idle { clients: ENDPOINTS };
    crew.start(site, job(mechanism, Side::Idle, idle, &transport), vec![])?;
    crew.ready()?;
    crew.go(1, 0)?;
    let server = crew.pid(0).ok_or(Error::PeerGone)?;
    let link_bytes = link_bytes(server)?;
    std::thread::sleep(Duration::from_millis(100));
    let (before, begun) = (cpu_ns(server)?, Instant::now());
    std::thread::sleep(IDLE_SPAN);
    let idle_cpu_ns = cpu_ns(server)?.saturating_sub(before);
    let idle_span_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    crew.let_end(1);
    crew.finish(0, &[1])?;
    let endpoint_bytes = crew.report(1).ok_or(Error::PeerGone)?.bytes;
    Ok(Memory { link_bytes, endpoint_bytes, idle_cpu_ns, idle_span_ns, ..Memory::default() })
}

fn read(path: impl AsRef<Path>) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(Error::os("read from /proc"))
}

/// Memory that the links of a process occupy, for each.
fn link_bytes(pid: u32) -> Result<u64, Error> {
    let smaps = read(format!("/proc/{pid}/smaps"))?;
    let (mut links, mut kib, mut in_link) = (0, 0, false);
    for line in smaps.lines() {
        if line.contains("/memfd:m3-link") {
            (links, in_link) = (links + 1, true);
        } else if let Some(rest) = line.strip_prefix("Rss:")
            && in_link
        {
            kib += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
            in_link = false;
        }
    }
    Ok(kib * 1024 / u64::max(links, 1))
}

fn resident_bytes(pid: i32) -> Result<u64, Error> {
    let status = read(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| Error::Usage(format!("/proc/{pid}/status has no VmRSS")))
}

/// CPU time of a process of one thread.
fn cpu_ns(pid: u32) -> Result<u64, Error> {
    let text = read(format!("/proc/{pid}/schedstat"))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| Error::Usage(format!("/proc/{pid}/schedstat cannot be read")))
}
