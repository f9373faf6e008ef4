//! m3ipc itself: ordinary programs, whose daemons and proxies run beside them.
//!
//! ```text
//! __client ── link ── __proxy alpha ~ ~ ~ __proxy beta ── link ── __serve
//! ```
//! A trip is a `sendrec` of 48 bytes and its answer: the head and 40 bytes of the frame.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use m3ipc::{Address, Endpoint, Message, Node, Source, Vm, VmConfig};

use crate::client::{Figures, Task, figures};
use crate::keys::Keys;
use crate::line::{Engine, Line, SMALL_BYTES, Shape};

const VM: i32 = 3;
/// The slot and the address of the server.
const SERVER: i32 = 10;
/// The slot of a server of the client's node.
const LOCAL: i32 = 5;
/// The type of a request that kills the server.
const DIE: i32 = 99;
const CLIENTS: usize = 64;
/// The port of the proxy of the client's node.
const PORT: u16 = 9_401;
/// A node that is not ready by then fails its row.
const LIMIT: Duration = Duration::from_secs(6);
/// The bytes of a frame that a message carries.
const CARRIED: usize = 40;

/// Two nodes.
pub struct Ipc2 {
    keys: Keys,
    has_tls: bool,
    /// The client's node, as the server's node sees it.
    client: SocketAddr,
}

impl Ipc2 {
    /// With the keys of the run, or plain.
    pub fn new(keys: &Keys, has_tls: bool, broker: SocketAddr) -> Self {
        let client = SocketAddr::new(broker.ip(), PORT);
        Self { keys: keys.clone(), has_tls, client }
    }

    /// Starts the daemon and the proxy of a node.
    fn start(&self, name: &str, server: SocketAddr) -> io::Result<Running> {
        let directory = self.keys.0.join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&directory)?;
        let registry = format!(
            "cluster = \"lab\"\n\
             [[node]]\nid = 1\nname = \"alpha\"\naddress = \"{}\"\n\
             [[node]]\nid = 2\nname = \"beta\"\naddress = \"{server}\"\n\
             [[vm]]\nid = {VM}\nname = \"lab\"\n\
             slots = {{ alpha = [[-35, 9], [29, 199]], beta = [[10, 28], [200, 220]] }}\n",
            self.client
        );
        std::fs::write(directory.join("nodes.toml"), registry)?;
        let config = format!(
            "node = \"{name}\"\nregistry = \"nodes.toml\"\nkeys = {:?}\nruntime_dir = \"run\"\n\
             without_security = {}\n",
            self.keys.0.join("nodes"),
            !self.has_tls
        );
        std::fs::write(directory.join("proxy.toml"), config)?;
        let runtime = directory.join("run");
        let daemon = child(&["daemon", "--log-level", "error", "--runtime-dir"], &runtime)?;
        let begin = Instant::now();
        let mut node = loop {
            match Node::find(&runtime) {
                Ok(node) => break node,
                Err(error) if begin.elapsed() > LIMIT => return Err(io::Error::other(error)),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let vm = node.vm_init(&VmConfig::new("lab").id(VM)).map_err(io::Error::other)?;
        let proxy = proxy(&directory.join("proxy.toml"))?;
        Ok(Running { _daemon: daemon, proxy, vm, runtime })
    }
}

/// A daemon and a proxy at work. Both end with this process.
struct Running {
    _daemon: Child,
    proxy: Child,
    vm: Vm,
    runtime: PathBuf,
}

/// The proxy of this program, or another build of `m3-proxy`.
fn proxy(config: &Path) -> io::Result<Child> {
    match std::env::var_os("M3_NODES_PROXY") {
        Some(other) => {
            let mut command = Command::new(other);
            command.args(["run", "--config"]).arg(config).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        }
        None => child(&["__proxy"], config),
    }
}

fn child(words: &[&str], path: &Path) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg(path).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("M3_NODES_CHILD", "1").stderr(Stdio::null()).spawn()
}

impl Engine for Ipc2 {
    type Line = Ipc2Line;

    fn shape(&self) -> Shape {
        Shape::Threads
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<Ipc2Line> {
        let running = self.start("alpha", to)?;
        await_server(&running.runtime)?;
        let endpoint = running.vm.bind_any().map_err(io::Error::other)?;
        Ok(Ipc2Line { endpoint, running, request: vec![] })
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let running = self.start("beta", at)?;
        loop {
            // It kills itself in the row of deaths.
            server(&running.runtime, SERVER)?.wait()?;
        }
    }
}

fn server(runtime: &Path, slot: i32) -> io::Result<Child> {
    child(&["__server", &slot.to_string()], runtime)
}

/// The server's process: answers each request, and kills itself at one of the type [`DIE`].
pub fn serve(slot: i32, runtime: &Path) -> io::Result<()> {
    let vm = Node::find(runtime).and_then(|mut node| node.vm(VM)).map_err(io::Error::other)?;
    let mut server = vm.bind(slot).map_err(io::Error::other)?;
    loop {
        let request = server.receive(Source::Any).map_err(io::Error::other)?;
        if request.m_type == DIE {
            // The client reads the time: both are processes of one machine.
            std::fs::write(runtime.with_file_name("killed"), monotonic_ns().to_string())?;
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL)?;
        }
        // A client that is gone needs no answer.
        let _ = server.reply(request.source, &request);
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

fn await_server(runtime: &Path) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        let listed = Node::find(runtime).and_then(|mut node| node.endpoints(VM));
        if listed.is_ok_and(|all| all.iter().any(|it| it.address == SERVER)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other("the other node does not come"))
}

/// An endpoint of the client's node.
pub struct Ipc2Line {
    endpoint: Endpoint,
    running: Running,
    request: Vec<u8>,
}

impl Ipc2Line {
    /// The times from the kill of the remote server to the error of the caller, in nanoseconds.
    fn deaths(&mut self, keys: &Path, count: usize) -> io::Result<Vec<u64>> {
        let mut times = vec![];
        while times.len() < count {
            await_server(&self.running.runtime)?;
            // A call to a server that has just begun warms the way.
            let warm = self.endpoint.sendrec(Address(SERVER), &Message::new(1));
            let died = self.endpoint.sendrec(Address(SERVER), &Message::new(DIE));
            let at = monotonic_ns();
            match (warm, died) {
                (Ok(_), Err(_)) => {}
                // The end of the former server was not known here yet.
                _ => continue,
            }
            let killed = beta_file(keys)?;
            times.push(at.saturating_sub(killed));
        }
        Ok(times)
    }

    /// The medians of local round trips without and with the proxy, in nanoseconds.
    fn local(&mut self, length: Duration) -> io::Result<[u64; 2]> {
        let runtime = self.running.runtime.clone();
        let mut local = server(&runtime, LOCAL)?;
        let begin = Instant::now();
        let mut times = [vec![], vec![]];
        while self.endpoint.sendrec(Address(LOCAL), &Message::new(1)).is_err() {
            if begin.elapsed() > LIMIT {
                return Err(io::Error::other("the local server does not come"));
            }
        }
        for round in 0..10 {
            let with = round % 2;
            if with == 0 {
                self.running.proxy.kill()?;
                self.running.proxy.wait()?;
            } else {
                self.running.proxy = proxy(&runtime.with_file_name("proxy.toml"))?;
                await_server(&runtime)?;
            }
            std::thread::sleep(Duration::from_millis(50));
            let begin = Instant::now();
            while begin.elapsed() < length / 2 {
                let begin = Instant::now();
                let answer = self.endpoint.sendrec(Address(LOCAL), &Message::new(1));
                answer.map_err(io::Error::other)?;
                times[with].push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
        }
        local.kill()?;
        local.wait()?;
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or(0)
        }))
    }

    /// The trips of 64 clients a second, each with its own endpoint and thread.
    fn many(self, length: Duration) -> io::Result<f64> {
        let vm = &self.running.vm;
        let counted: io::Result<Vec<u64>> = std::thread::scope(|scope| {
            let clients = (0..CLIENTS).map(|_| {
                scope.spawn(move || {
                    let mut endpoint = vm.bind_thread(None).map_err(io::Error::other)?;
                    trips(&mut endpoint, length / 4)?;
                    trips(&mut endpoint, length)
                })
            });
            let clients: Vec<_> = clients.collect();
            let failed = |_| Err(io::Error::other("a client panicked"));
            clients.into_iter().map(|it| it.join().unwrap_or_else(failed)).collect()
        });
        Ok(counted?.iter().sum::<u64>() as f64 / length.as_secs_f64())
    }
}

/// When the server of the other node killed itself.
fn beta_file(keys: &Path) -> io::Result<u64> {
    for entry in std::fs::read_dir(keys)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("beta-")) {
            let text = std::fs::read_to_string(path.join("killed")).unwrap_or_default();
            if let Ok(ns) = text.parse() {
                let _ = std::fs::remove_file(path.join("killed"));
                return Ok(ns);
            }
        }
    }
    Err(io::Error::other("the server left no time"))
}

fn trips(endpoint: &mut Endpoint, length: Duration) -> io::Result<u64> {
    let begin = Instant::now();
    let mut trips = 0;
    while begin.elapsed() < length {
        endpoint.sendrec(Address(SERVER), &Message::new(1)).map_err(io::Error::other)?;
        trips += 1;
    }
    Ok(trips)
}

impl Line for Ipc2Line {
    async fn send(&mut self, frame: &[u8], _: bool) -> io::Result<()> {
        if frame.len() != SMALL_BYTES {
            return Err(io::Error::other("copies between nodes do not exist yet"));
        }
        self.request = frame.to_vec();
        Ok(())
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let mut message = Message::new(1);
        message.payload[..CARRIED].copy_from_slice(&self.request[..CARRIED]);
        let answer = self.endpoint.sendrec(Address(SERVER), &message);
        let answer = answer.map_err(io::Error::other)?;
        frame.clear();
        frame.extend_from_slice(&answer.payload[..CARRIED]);
        frame.extend_from_slice(&self.request[CARRIED..]);
        Ok(())
    }

    fn has_more(&self) -> bool {
        false
    }

    fn special(&mut self, task: Task, keys: &Path, length: Duration) -> io::Result<Figures> {
        match task {
            Task::Death => Ok(figures(self.deaths(keys, 20)?)),
            _ => {
                let [without, with] = self.local(length)?;
                Ok(Figures { p50_ns: with, calm_max_ns: without, ..Figures::default() })
            }
        }
    }

    fn callers(self, length: Duration) -> Result<io::Result<f64>, Self> {
        Ok(self.many(length))
    }
}
