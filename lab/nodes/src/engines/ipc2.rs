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
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use m3ipc::{
    Address, Audience, Endpoint, Grant, Location, Message, Node, Rights, Source, Vm, VmConfig,
};
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Figures, Task, figures};
use crate::keys::Keys;
use crate::line::{COPY_BYTES, Engine, Line, SMALL_BYTES, Shape};

const VM: i32 = 3;
/// The slot and the address of the server.
const SERVER: i32 = 10;
/// The slot of a server of the client's node.
const LOCAL: i32 = 5;
/// The slot of the server of copies.
const COPIER: i32 = 11;
/// The type of a request that kills the server.
const DIE: i32 = 99;
/// The type of a request that gets no answer.
const HOLD: i32 = 98;
/// The type of a request that is answered with a grant of [`COPY_BYTES`].
const GRANT: i32 = 97;
/// The file with the number of a proxy.
const PROXY: &str = "proxy-pid";
/// The file with the time of a death.
const KILLED: &str = "killed";
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
    /// The client's node, once its first line is open.
    alpha: OnceLock<Running>,
}

impl Ipc2 {
    /// With the keys of the run, or plain.
    pub fn new(keys: &Keys, has_tls: bool, broker: SocketAddr) -> Self {
        let client = SocketAddr::new(broker.ip(), PORT);
        Self { keys: keys.clone(), has_tls, client, alpha: OnceLock::new() }
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
        let running = Running { _daemon: daemon, proxy: Mutex::default(), vm, runtime };
        running.start_proxy()?;
        Ok(running)
    }
}

/// A daemon and a proxy at work. Both end with this process.
struct Running {
    _daemon: Child,
    proxy: Mutex<Option<Child>>,
    vm: Vm,
    runtime: PathBuf,
}

impl Running {
    fn proxy(&self) -> MutexGuard<'_, Option<Child>> {
        self.proxy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_proxy(&self) -> io::Result<()> {
        let started = proxy(&self.runtime.with_file_name("proxy.toml"))?;
        let number = started.id().to_string();
        *self.proxy() = Some(started);
        std::fs::write(self.runtime.with_file_name(PROXY), number)
    }

    fn end_proxy(&self) -> io::Result<()> {
        if let Some(mut proxy) = self.proxy().take() {
            proxy.kill()?;
            proxy.wait()?;
        }
        Ok(())
    }

    /// Starts the proxy again if somebody has killed it.
    fn keep_proxy(&self) -> io::Result<()> {
        let mut proxy = self.proxy();
        let has_ended = match proxy.as_mut() {
            Some(proxy) => proxy.try_wait()?.is_some(),
            None => true,
        };
        drop(proxy);
        if has_ended { self.start_proxy() } else { Ok(()) }
    }
}

/// The proxy of this program, or another build of `m3-proxy`.
fn proxy(config: &Path) -> io::Result<Child> {
    match std::env::var_os("M3_NODES_PROXY") {
        // It dies with this process, as the own one does.
        Some(other) => child(&["__other-proxy", &other.to_string_lossy()], config),
        None => child(&["__proxy"], config),
    }
}

fn child(words: &[&str], path: &Path) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg(path).stdin(Stdio::null()).stdout(Stdio::null());
    command.env("M3_NODES_CHILD", "1");
    if std::env::var_os("M3_NODES_LOGS").is_none() {
        command.stderr(Stdio::null());
    }
    command.spawn()
}

impl Engine for Ipc2 {
    type Line = Ipc2Line;

    fn shape(&self) -> Shape {
        Shape::Threads
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<Ipc2Line> {
        if let Some(running) = self.alpha.get() {
            let endpoint = running.vm.bind_additional(None).map_err(io::Error::other)?;
            return Ok(Ipc2Line { endpoint, running, request: vec![], target: None });
        }
        let started = self.start("alpha", to)?;
        await_endpoint(&started.runtime, SERVER)?;
        let running = self.alpha.get_or_init(|| started);
        let mut endpoint = running.vm.bind_any().map_err(io::Error::other)?;
        tune(&mut endpoint);
        Ok(Ipc2Line { endpoint, running, request: vec![], target: None })
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let running = self.start("beta", at)?;
        let _copier = server(&running.runtime, COPIER)?;
        loop {
            // It kills itself in the row of deaths.
            let mut server = server(&running.runtime, SERVER)?;
            while server.try_wait()?.is_none() {
                running.keep_proxy()?;
                std::thread::sleep(Duration::from_millis(5));
            }
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
    tune(&mut server);
    loop {
        let request = server.receive(Source::Any).map_err(io::Error::other)?;
        if request.m_type == DIE {
            // The client reads the time: both are processes of one machine.
            std::fs::write(runtime.with_file_name(KILLED), monotonic_ns().to_string())?;
            kill_process(rustix::process::getpid(), Signal::KILL)?;
        }
        let answer = match request.m_type {
            HOLD => continue,
            GRANT => {
                let target = vec![0; COPY_BYTES];
                let grant = server.grant(Audience::Vm, target, Rights::Write);
                let number = grant.map_err(io::Error::other)?.to_u64();
                Message::new(GRANT).with_bytes(&number.to_ne_bytes())
            }
            _ => request,
        };
        // A client that is gone needs no answer.
        let _ = server.reply(request.source, &answer);
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

fn await_endpoint(runtime: &Path, slot: i32) -> io::Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        let listed = Node::find(runtime).and_then(|mut node| node.endpoints(VM));
        if listed.is_ok_and(|all| all.iter().any(|it| it.address == slot)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(io::Error::other("the other node does not come"))
}

/// An endpoint of the client's node.
pub struct Ipc2Line {
    endpoint: Endpoint,
    running: &'static Running,
    request: Vec<u8>,
    /// The target of copies, and their source.
    target: Option<(Grant, Vec<u8>)>,
}

impl Ipc2Line {
    /// Copies 4 MB into memory that a server of the other node has granted.
    fn copy_once(&mut self) -> io::Result<()> {
        let copier = Address(COPIER);
        if self.target.is_none() {
            await_endpoint(&self.running.runtime, COPIER)?;
            let answer = self.endpoint.sendrec(copier, &Message::new(GRANT));
            let answer = answer.map_err(io::Error::other)?;
            let number = answer.payload.first_chunk().copied().map(u64::from_ne_bytes);
            let grant = Grant::from_u64(number.unwrap_or_default());
            self.target = Some((grant, vec![1; COPY_BYTES]));
        }
        let Some((grant, source)) = &self.target else { return Ok(()) };
        let place = Location::Granted(*grant, 0);
        self.endpoint.copy_to(copier, place, source).map_err(io::Error::other)
    }

    /// The times from a signal for the other node's proxy to the error of a caller whose request
    /// its server has taken, in nanoseconds.
    fn losses(&mut self, keys: &Path, signal: Signal, count: usize) -> io::Result<Vec<u64>> {
        let mut times = vec![];
        while times.len() < count {
            await_endpoint(&self.running.runtime, SERVER)?;
            if self.endpoint.sendrec(Address(SERVER), &Message::new(1)).is_err() {
                continue;
            }
            let proxy = beta_proxy(keys)?;
            let hit = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(60));
                let at = monotonic_ns();
                kill_process(proxy, signal).map(|()| at)
            });
            let ended = self.endpoint.sendrec(Address(SERVER), &Message::new(HOLD));
            let end = monotonic_ns();
            let at = hit.join().map_err(|_| io::Error::other("a thread panicked"))??;
            if signal == Signal::STOP {
                kill_process(proxy, Signal::CONT)?;
            }
            if ended.is_ok() {
                return Err(io::Error::other("an answer came that nobody gave"));
            }
            times.push(end.saturating_sub(at));
        }
        Ok(times)
    }

    /// The times from the kill of the remote server to the error of the caller, in nanoseconds.
    fn deaths(&mut self, keys: &Path, count: usize) -> io::Result<Vec<u64>> {
        let mut times = vec![];
        while times.len() < count {
            await_endpoint(&self.running.runtime, SERVER)?;
            // A call to a server that has just begun warms the way.
            let warm = self.endpoint.sendrec(Address(SERVER), &Message::new(1));
            let died = self.endpoint.sendrec(Address(SERVER), &Message::new(DIE));
            let at = monotonic_ns();
            match (warm, died) {
                (Ok(_), Err(_)) => {}
                // The end of the former server was not known here yet.
                _ => continue,
            }
            let killed = beta_file(keys, KILLED)?;
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
                self.running.end_proxy()?;
            } else {
                self.running.start_proxy()?;
                await_endpoint(&runtime, SERVER)?;
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
                    tune(&mut endpoint);
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

/// The number in the latest file of this name of a server's node; a time is read once.
fn beta_file(keys: &Path, name: &str) -> io::Result<u64> {
    let is_beta = |path: &Path| {
        let directory = path.file_name().map(|name| name.to_string_lossy());
        directory.is_some_and(|name| name.starts_with("beta-"))
    };
    let directories = std::fs::read_dir(keys)?.filter_map(|it| Some(it.ok()?.path()));
    let files = directories.filter(|it| is_beta(it)).map(|it| it.join(name));
    let latest = files.filter_map(|it| Some((it.metadata().ok()?.modified().ok()?, it))).max();
    let (_, path) =
        latest.ok_or_else(|| io::Error::other(format!("the server's node left no {name}")))?;
    let number = std::fs::read_to_string(&path)?.parse().map_err(io::Error::other)?;
    if name == KILLED {
        std::fs::remove_file(&path)?;
    }
    Ok(number)
}

/// The running proxy of the server's node.
fn beta_proxy(keys: &Path) -> io::Result<Pid> {
    let number = beta_file(keys, PROXY)?;
    let program = std::fs::read_to_string(format!("/proc/{number}/comm"))?;
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    let pid = pid.filter(|_| program.starts_with("m3-"));
    pid.ok_or_else(|| io::Error::other("the proxy of the server's node does not run"))
}

fn tune(endpoint: &mut Endpoint) {
    if std::env::var_os("M3_NODES_BLOCK").is_some() {
        endpoint.set_strategy(m3ipc::WaitStrategy::Block);
    }
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
            return Err(io::Error::other("a copy is no frame"));
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
            Task::Closed => Ok(figures(self.losses(keys, Signal::KILL, 10)?)),
            Task::Silence => Ok(figures(self.losses(keys, Signal::STOP, 2)?)),
            _ => {
                let [without, with] = self.local(length)?;
                Ok(Figures { p50_ns: with, calm_max_ns: without, ..Figures::default() })
            }
        }
    }

    fn copy(&mut self) -> Option<io::Result<()>> {
        Some(self.copy_once())
    }

    fn callers(self, length: Duration) -> Result<io::Result<f64>, Self> {
        Ok(self.many(length))
    }
}
