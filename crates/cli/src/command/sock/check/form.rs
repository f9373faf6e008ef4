//! One run of a case: its folder, its servers, its client; everything it started is ended.

use super::Counts;
use super::figure::Figure;
use super::programs::{Case, Ready};
use m3ipc_shim::counters::{Counter, Snapshot};
use std::fs::File;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Who runs under `m3 sock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Native,
    Ours,
    /// The servers alone.
    Mixed,
}

impl Form {
    /// All of them, another one first in each round.
    pub fn in_turn(round: u32) -> [Self; 3] {
        let mut all = [Self::Native, Self::Ours, Self::Mixed];
        all.rotate_left(round as usize % 3);
        all
    }
}

/// How long a server may take to listen, and a client beyond what it was told.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);
/// Who runs what refuses to run as root.
const NOBODY: u32 = 65_534;

/// What `m3 sock run` is told.
#[derive(Clone, Copy)]
pub struct Policy<'a> {
    pub file: Option<&'a Path>,
    pub no_defaults: bool,
}

/// A folder with what a run needs.
pub struct Field<'a> {
    case: &'static Case,
    form: Form,
    seconds: u32,
    policy: Policy<'a>,
    folder: PathBuf,
    ports: [u16; 2],
    uid: Option<u32>,
}

/// A group of processes that were started here.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let Ok(Some(pid)) = i32::try_from(self.0.id()).map(rustix::process::Pid::from_raw) else {
            return;
        };
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::TERM);
        let until = Instant::now() + GRACE;
        while Instant::now() < until && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(STEP);
        }
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

impl<'a> Field<'a> {
    pub fn new(
        case: &'static Case,
        form: Form,
        seconds: u32,
        policy: Policy<'a>,
    ) -> io::Result<Self> {
        static RUNS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let run = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("m3-sock-check-{}-{run}", std::process::id()));
        // Both are held until both are known: two different ones.
        let held = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let ports = [held[0].local_addr()?.port(), held[1].local_addr()?.port()];
        std::fs::create_dir(&folder)?;
        let is_root = rustix::process::geteuid().is_root();
        let uid = (case.no_root && is_root).then_some(NOBODY);
        let field = Self { case, form, seconds, policy, folder, ports, uid };
        if let Some(uid) = uid {
            std::os::unix::fs::chown(&field.folder, Some(uid), Some(uid))?;
        }
        for (name, content) in case.files {
            std::fs::write(field.folder.join(name), field.filled(content))?;
        }
        Ok(field)
    }

    /// Runs it: what its client reports, or how it fails.
    pub fn run(&self) -> Result<Figure, String> {
        for words in self.case.first {
            let mut first = self.start(words, false, "first")?;
            self.wait(&mut first.0, "first")?;
        }
        let ours = self.form != Form::Native;
        let mut servers = Vec::new();
        for (at, words) in self.case.servers.iter().enumerate() {
            servers.push(self.start(words, ours, &format!("server{at}"))?);
        }
        self.until_ready(&mut servers)?;
        let mut client = self.start(self.case.client, self.form == Form::Ours, "client")?;
        self.wait(&mut client.0, "client")?;
        // Some report on standard error.
        let texts = ["client.out", "client.err"]
            .map(|name| std::fs::read(self.folder.join(name)).unwrap_or_default());
        let output = texts.map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (self.case.read)(&output).ok_or_else(|| format!("no figure: {}", self.last_words("client")))
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let files = std::fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()));
        let counters = files.filter(|path| path.extension().is_some_and(|end| end == "counters"));
        let snapshots = counters.filter_map(|path| Snapshot::of(&std::fs::read(path).ok()?));
        let mut all = Counts::default();
        for snapshot in snapshots {
            all.add(&Counts {
                ring: snapshot.read(Counter::RingBytes),
                kernel: snapshot.read(Counter::KernelBytes),
                tokens: snapshot.read(Counter::Wakeups),
                spared: snapshot.read(Counter::WakeupsSpared),
                overflows: snapshot.read(Counter::Overflows),
            });
        }
        all
    }

    fn filled(&self, text: &str) -> String {
        let [port, other] = self.ports.map(|port| port.to_string());
        text.replace("{dir}", &self.folder.to_string_lossy())
            .replace("{port}", &port)
            .replace("{port2}", &other)
            .replace("{seconds}", &self.seconds.to_string())
    }

    fn start(&self, words: &[&str], ours: bool, role: &str) -> Result<Group, String> {
        let fail = |cause: io::Error| format!("{} does not start: {cause}", words[0]);
        let words: Vec<String> = words.iter().map(|word| self.filled(word)).collect();
        let mut command = if ours {
            let mut command = Command::new(std::env::current_exe().map_err(fail)?);
            command
                .args(["sock", "run", "--counters"])
                .arg(self.folder.join(format!("{role}.counters")));
            command.args(self.policy.file.iter().flat_map(|path| [Path::new("--policy"), path]));
            command.args(self.policy.no_defaults.then_some("--no-defaults"));
            command.arg("--").args(&words);
            // What they share goes with the folder.
            command.env("M3_RUNTIME_DIR", &self.folder);
            command
        } else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        let output = File::create(self.folder.join(format!("{role}.out"))).map_err(fail)?;
        let errors = File::create(self.folder.join(format!("{role}.err"))).map_err(fail)?;
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .current_dir(&self.folder);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command.spawn().map(Group).map_err(fail)
    }

    fn wait(&self, child: &mut Child, role: &str) -> Result<(), String> {
        let until = Instant::now() + PATIENCE + Duration::from_secs(u64::from(self.seconds));
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(format!("{role}: {status}: {}", self.last_words(role)));
                }
                Ok(None) if Instant::now() < until => std::thread::sleep(STEP),
                Ok(None) => return Err(format!("the {role} does not end")),
                Err(cause) => return Err(cause.to_string()),
            }
        }
    }

    fn until_ready(&self, servers: &mut [Group]) -> Result<(), String> {
        if matches!(self.case.ready, Ready::Soon) {
            std::thread::sleep(Duration::from_millis(500));
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", self.ports[0])).is_err() {
            for (at, server) in servers.iter_mut().enumerate() {
                if let Ok(Some(status)) = server.0.try_wait() {
                    return Err(format!(
                        "server: {status}: {}",
                        self.last_words(&format!("server{at}"))
                    ));
                }
            }
            if Instant::now() > until {
                return Err("the server does not listen".into());
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    fn last_words(&self, role: &str) -> String {
        let ends = ["err", "out"].map(|end| {
            let text = std::fs::read(self.folder.join(format!("{role}.{end}"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .map(|line| line.trim().to_owned())
        });
        ends.into_iter().flatten().next().unwrap_or_else(|| "it says nothing".to_owned())
    }
}

impl Drop for Field<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
