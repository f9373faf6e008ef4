//! `demo`: three nodes on this machine, calls, the death of a node, its return.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ExitCode};
use std::time::{Duration, Instant};

use m3ipc::{Address, Endpoint, Message, Timeout};

use super::demo_node::{DemoNode, KEEP, LIMIT, PAUSE, Plan, VM, start_janitor};
use super::failed::{Done, Failed};
use super::keys;
use super::network::Network;
use crate::NodeName;

/// The names, and the slots of the servers. The addresses of these slots never change.
const NODES: [(&str, i32); 3] = [("alpha", 0), ("beta", 10), ("gamma", 20)];
const SLOTS: &str = "alpha = [[-35, 9], [29, 99]], beta = [[10, 19], [100, 149]], \
                     gamma = [[20, 28], [150, 220]]";
/// How long the call has waited before its node is killed.
const ASLEEP: Duration = Duration::from_millis(300);

/// The demonstration.
#[derive(Debug, clap::Args)]
pub struct Demo {
    /// Calls of each measurement
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    calls: u32,
    /// Use ports of loopback also as root
    #[arg(long)]
    loopback: bool,
}

/// All processes and files.
struct Cluster {
    directory: PathBuf,
    network: Network,
    nodes: Vec<DemoNode>,
    /// All processes that were started.
    pids: Vec<u32>,
    janitor: Child,
    lifeline: Option<ChildStdin>,
}

/// Runs all steps and prints their results.
pub fn run(args: &Demo) -> Done {
    let begin = Instant::now();
    let mut cluster = Cluster::begin(args.loopback)?;
    step("start", &format!("nodes alpha, beta, gamma, {}", cluster.network.text()));
    detail("each has a daemon, the VM \"shop\" and a proxy; the proxies talk over TLS 1.3");
    let mut client = cluster.nodes[0].vm.bind_any().map_err(Failed::new)?;
    for at in [1, 2] {
        let (name, slot) = NODES[at];
        cluster.await_server(slot)?;
        let median = calls(&mut client, slot, args.calls)?;
        step("calls", &format!("alpha to {name}: {} calls, median {}", args.calls, time(median)));
    }
    let (took, error) = cluster.kill_node(1, &mut client)?;
    step("death", "kill -9 of all processes of beta while a call from alpha waits there");
    detail(&format!("the call returned after {}: {error}", time(took)));
    let median = calls(&mut client, NODES[2].1, args.calls)?;
    detail(&format!("alpha to gamma meanwhile: {} calls, median {}", args.calls, time(median)));
    let now = client.sendrec(Address(NODES[1].1), &Message::new(1));
    if let Err(error) = now {
        detail(&format!("a new call to beta, at once: {error}"));
    }
    let back = Instant::now();
    cluster.start_node(1)?;
    cluster.await_server(NODES[1].1)?;
    let median = calls(&mut client, NODES[1].1, args.calls)?;
    let took = time(back.elapsed());
    step("return", &format!("beta is started again; {} calls after {took}", args.calls));
    detail(&format!("median {}; nothing was done on alpha", time(median)));
    drop(client);
    let left = cluster.end()?;
    step(
        "end",
        &format!("all has ended; left behind: {}", if left.is_empty() { "nothing" } else { &left }),
    );
    println!(
        "{:.1} s; two real machines: docs/cookbook/two-nodes.md",
        begin.elapsed().as_secs_f64()
    );
    Ok(ExitCode::from(u8::from(!left.is_empty())))
}

fn step(name: &str, text: &str) {
    println!("{name:<8} {text}");
}

fn detail(text: &str) {
    println!("{:<8} {text}", "");
}

/// A duration with three digits and a unit.
fn time(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1_000 => format!("{us} us"),
        us @ 1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        us => format!("{:.2} s", us as f64 / 1e6),
    }
}

/// The median of this many calls.
fn calls(client: &mut Endpoint, slot: i32, count: u32) -> Result<Duration, Failed> {
    let mut times = Vec::new();
    for number in 0..count {
        let mut request = Message::new(1);
        request.payload[..4].copy_from_slice(&number.to_ne_bytes());
        let begin = Instant::now();
        let answer = client.sendrec(Address(slot), &request).map_err(Failed::new)?;
        times.push(begin.elapsed());
        if answer.payload != request.payload {
            return Err(Failed::new("an answer belongs to another call"));
        }
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}

impl Cluster {
    fn begin(loopback: bool) -> Result<Self, Failed> {
        let directory = std::env::temp_dir().join(format!("m3-cluster-{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory).map_err(|cause| {
            Failed::new(format!("cannot make {}: {cause}; set TMPDIR", directory.display()))
        })?;
        // From here on, any end of this process removes the directory.
        let (janitor, lifeline) = start_janitor(&directory).map_err(Failed::new)?;
        let network = Network::choose(NODES.len(), loopback).map_err(Failed::new)?;
        configure(&directory, &network)?;
        let nodes = Vec::new();
        let mut cluster = Self { directory, network, nodes, pids: vec![], janitor, lifeline };
        (0..NODES.len()).try_for_each(|number| cluster.start_node(number))?;
        Ok(cluster)
    }

    /// Starts a node, or starts it again.
    fn start_node(&mut self, number: usize) -> Result<(), Failed> {
        let (name, slot) = NODES[number];
        let plan = Plan {
            directory: &self.directory,
            network: &self.network,
            node: (name, number, slot),
            first: self.nodes.first().map(DemoNode::proxy),
        };
        let node = DemoNode::start(plan)?;
        self.pids.extend(node.pids());
        if number < self.nodes.len() {
            self.nodes[number] = node;
        } else {
            self.nodes.push(node);
        }
        Ok(())
    }

    /// Waits until the first node knows a server.
    fn await_server(&self, slot: i32) -> Result<(), Failed> {
        let begin = Instant::now();
        loop {
            let listed = m3ipc::Node::find(&self.nodes[0].runtime)
                .and_then(|mut node| node.endpoints(VM.0))
                .map_err(Failed::new)?;
            if listed.iter().any(|it| it.address == slot) {
                return Ok(());
            }
            if begin.elapsed() > LIMIT {
                return Err(Failed::new(
                    "the nodes do not find each other; check this machine with `m3 doctor`",
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Kills a node while a call waits there. The time to the error, and the error.
    fn kill_node(
        &mut self,
        number: usize,
        client: &mut Endpoint,
    ) -> Result<(Duration, String), Failed> {
        let slot = Address(NODES[number].1);
        let node = &mut self.nodes[number];
        std::thread::scope(|scope| {
            let killer = scope.spawn(move || {
                std::thread::sleep(ASLEEP);
                let at = Instant::now();
                node.kill();
                at
            });
            let called = client.sendrec_timeout(slot, &Message::new(KEEP), Timeout::After(LIMIT));
            let ended = Instant::now();
            let killed = killer.join().map_err(|_| Failed::new("the killer panicked"))?;
            match called {
                Ok(_) => Err(Failed::new("a call without an answer has succeeded")),
                Err(error) => Ok((ended.saturating_duration_since(killed), error.to_string())),
            }
        })
    }

    /// Ends all nodes; what is left.
    fn end(mut self) -> Result<String, Failed> {
        self.nodes.iter_mut().try_for_each(DemoNode::end)?;
        self.nodes.clear();
        let mut left: Vec<String> = self
            .pids
            .iter()
            .filter(|pid| Path::new(&format!("/proc/{pid}")).exists())
            .map(|pid| format!("process {pid}"))
            .collect();
        drop(self.lifeline.take());
        let _ = self.janitor.wait();
        if self.directory.exists() {
            left.push(self.directory.display().to_string());
        }
        Ok(left.join(", "))
    }
}

/// After an error: the nodes die first, then the janitor removes the directory.
impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        drop(self.lifeline.take());
        let _ = self.janitor.wait();
    }
}

/// Writes keys, registry and configurations.
fn configure(directory: &Path, network: &Network) -> Result<(), Failed> {
    let names: Result<Vec<NodeName>, _> =
        NODES.iter().map(|(name, _)| NodeName::new(name)).collect();
    let names = names.map_err(Failed::new)?;
    crate::keys::make(directory, &names).map_err(Failed::new)?;
    let nodes: Vec<_> =
        names.iter().enumerate().map(|(number, name)| (name, network.address(number))).collect();
    keys::configure(directory, "demo", &nodes).map_err(Failed::new)?;
    let append = |file: &str, text: String| {
        let path = directory.join(file);
        let opened = std::fs::OpenOptions::new().append(true).open(path);
        opened.and_then(|mut it| std::io::Write::write_all(&mut it, text.as_bytes()))
    };
    let (id, vm) = VM;
    let entry = format!("\n[[vm]]\nid = {id}\nname = \"{vm}\"\nslots = {{ {SLOTS} }}\n");
    append(keys::REGISTRY, entry).map_err(Failed::new)?;
    for (name, _) in NODES {
        append(&format!("{name}.toml"), format!("runtime_dir = \"{name}\"\n"))
            .map_err(Failed::new)?;
    }
    Ok(())
}
