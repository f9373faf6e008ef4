//! One run of a case: directory, servers and client, all of which end with the run.

use super::case::{Case, CommandLine, Readiness};
use super::measurement::Measurement;
use super::ports::free_ports;
use super::result::RingCounts;
use m3ipc_shim::counters::{Counter, Snapshot};
use m3ipc_sys::Signal;
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The programs that run under `m3 sock run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// None.
    Native,
    /// Servers and client.
    Preloaded,
    /// The servers alone.
    Mixed,
}

impl RunMode {
    /// All modes, in an order that depends on the round.
    pub fn in_turn(round: u32) -> [Self; 3] {
        let mut all = [Self::Native, Self::Preloaded, Self::Mixed];
        all.rotate_left(round as usize % 3);
        all
    }
}

/// The time limit for the start of a server, and for a client beyond its duration.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between SIGTERM and SIGKILL.
const GRACE_TIME: Duration = Duration::from_secs(5);
/// The pause of a server that accepts only one connection.
const FIXED_DELAY: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The user `nobody`, for servers that refuse to run as root.
const UNPRIVILEGED_UID: u32 = 65_534;

/// A run of a case, with its directory.
pub struct CaseRun<'a> {
    case: &'static Case,
    mode: RunMode,
    seconds: u32,
    /// The policy file of `m3 sock run`.
    policy: Option<&'a Path>,
    /// Readable after ^C or SIGTERM, which end the run.
    interrupt: BorrowedFd<'a>,
    directory: PathBuf,
    ports: [u16; 2],
    uid: Option<u32>,
}

/// A process group; dropping it ends all of its processes.
///
/// The number of its leader names the group until the leader is reaped. So the rest of the group
/// ends first.
struct ProcessGroup {
    leader: Child,
    ended: Option<ExitStatus>,
}

impl ProcessGroup {
    /// How the leader has ended, if it has. The rest of its group ends with it.
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() && m3ipc_sys::has_child_ended(self.number())? {
            self.ended = Some(self.kill()?);
        }
        Ok(self.ended)
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
        // An empty group has ended already.
        let _ = m3ipc_sys::signal_group(self.number(), Signal::KILL);
        self.leader.wait()
    }

    fn number(&self) -> i32 {
        self.leader.id().cast_signed()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        let _ = m3ipc_sys::signal_group(self.number(), Signal::TERM);
        let deadline = Instant::now() + GRACE_TIME;
        while Instant::now() < deadline && matches!(self.try_wait(), Ok(None)) {
            std::thread::sleep(POLL_INTERVAL);
        }
        if self.ended.is_none() {
            let _ = self.kill();
        }
    }
}

impl<'a> CaseRun<'a> {
    pub fn new(
        case: &'static Case,
        mode: RunMode,
        seconds: u32,
        policy: Option<&'a Path>,
        interrupt: BorrowedFd<'a>,
    ) -> io::Result<Self> {
        static RUNS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let run = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("m3-sock-check-{}-{run}", std::process::id()));
        let ports = free_ports()?;
        std::fs::create_dir(&directory)?;
        let is_root = rustix::process::geteuid().is_root();
        let uid = (case.refuses_root && is_root).then_some(UNPRIVILEGED_UID);
        let run = Self { case, mode, seconds, policy, interrupt, directory, ports, uid };
        for (name, content) in case.files {
            std::fs::write(run.directory.join(name), run.filled(content))?;
        }
        // After the files: the new owner could plant links in their place.
        if let Some(uid) = uid {
            std::os::unix::fs::chown(&run.directory, Some(uid), Some(uid))?;
        }
        Ok(run)
    }

    /// Runs the case: the measurement of the client, or the failure.
    pub fn run(&self) -> Result<Measurement, String> {
        for command in self.case.setup {
            let mut setup = self.start(*command, false, "setup")?;
            self.wait(&mut setup, "setup")?;
        }
        let is_preloaded = self.mode != RunMode::Native;
        let mut servers = Vec::new();
        for (index, command) in self.case.servers.iter().enumerate() {
            servers.push(self.start(*command, is_preloaded, &format!("server{index}"))?);
        }
        self.wait_until_ready(&mut servers)?;
        let mut client = self.start(self.case.client, self.mode == RunMode::Preloaded, "client")?;
        self.wait(&mut client, "client")?;
        // Some clients report on standard error.
        let texts = ["client.out", "client.err"]
            .map(|name| std::fs::read(self.directory.join(name)).unwrap_or_default());
        let output = texts.map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (self.case.read)(&output)
            .ok_or_else(|| format!("no measurement: {}", self.last_line("client")))
    }

    /// The counters of all programs under `m3 sock run`.
    pub fn counts(&self) -> RingCounts {
        let files = std::fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()));
        let counters = files.filter(|path| path.extension().is_some_and(|end| end == "counters"));
        let snapshots = counters.filter_map(|path| Snapshot::of(&std::fs::read(path).ok()?));
        let mut all = RingCounts::default();
        for snapshot in snapshots {
            all.add(&RingCounts {
                ring_bytes: snapshot.read(Counter::RingBytes),
                kernel_bytes: snapshot.read(Counter::KernelBytes),
                wakeups: snapshot.read(Counter::Wakeups),
                wakeups_spared: snapshot.read(Counter::WakeupsSpared),
                overflows: snapshot.read(Counter::Overflows),
            });
        }
        all
    }

    /// The text with the values of the placeholders.
    fn filled(&self, text: &str) -> String {
        let [port, other] = self.ports.map(|port| port.to_string());
        text.replace("{dir}", &self.directory.to_string_lossy())
            .replace("{port}", &port)
            .replace("{port2}", &other)
            .replace("{seconds}", &self.seconds.to_string())
    }

    fn start(
        &self,
        command: CommandLine,
        is_preloaded: bool,
        role: &str,
    ) -> Result<ProcessGroup, String> {
        let fail = |cause: io::Error| format!("{} does not start: {cause}", command.program());
        let words: Vec<String> = command.words().iter().map(|word| self.filled(word)).collect();
        let mut command = if is_preloaded {
            let mut command = Command::new(std::env::current_exe().map_err(fail)?);
            command
                .args(["sock", "run", "--children", "--counters"])
                .arg(self.directory.join(format!("{role}.counters")));
            command.args(self.policy.iter().flat_map(|path| [Path::new("--policy"), path]));
            command.arg("--").args(&words);
            // The shared memory of the programs is then removed with the directory.
            command.env("M3_RUNTIME_DIR", &self.directory);
            command
        } else {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]);
            command
        };
        // The programs may own the directory, and could plant a link there.
        let create = |ending: &str| {
            let path = self.directory.join(format!("{role}.{ending}"));
            let mut options = File::options();
            options.write(true).create(true).truncate(true);
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path).map_err(fail)
        };
        let (output, errors) = (create("out")?, create("err")?);
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .current_dir(&self.directory);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        m3ipc_sys::unblock_interrupts(&mut command);
        let leader = command.spawn().map_err(fail)?;
        Ok(ProcessGroup { leader, ended: None })
    }

    fn wait(&self, group: &mut ProcessGroup, role: &str) -> Result<(), String> {
        let deadline =
            Instant::now() + READY_TIMEOUT + Duration::from_secs(u64::from(self.seconds));
        loop {
            match group.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(format!("{role}: {status}: {}", self.last_line(role)));
                }
                Ok(None) if Instant::now() < deadline => self.pause_for(POLL_INTERVAL)?,
                Ok(None) => return Err(format!("the {role} does not exit")),
                Err(cause) => return Err(cause.to_string()),
            }
        }
    }

    fn wait_until_ready(&self, servers: &mut [ProcessGroup]) -> Result<(), String> {
        if matches!(self.case.readiness, Readiness::FixedDelay) {
            return self.pause_for(FIXED_DELAY);
        }
        let deadline = Instant::now() + READY_TIMEOUT;
        while TcpStream::connect(("127.0.0.1", self.ports[0])).is_err() {
            for (index, server) in servers.iter_mut().enumerate() {
                if let Ok(Some(status)) = server.try_wait() {
                    return Err(format!(
                        "server: {status}: {}",
                        self.last_line(&format!("server{index}"))
                    ));
                }
            }
            if Instant::now() > deadline {
                return Err("the server does not listen".into());
            }
            self.pause_for(POLL_INTERVAL)?;
        }
        Ok(())
    }

    /// Waits, unless ^C or SIGTERM ends the run.
    fn pause_for(&self, time: Duration) -> Result<(), String> {
        let limit_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match m3ipc_sys::wait_readable(&[self.interrupt], limit_ns) {
            Ok(true) => Err("interrupted".to_owned()),
            Ok(false) | Err(_) => Ok(()),
        }
    }

    fn last_line(&self, role: &str) -> String {
        let ends = ["err", "out"].map(|end| {
            let text =
                std::fs::read(self.directory.join(format!("{role}.{end}"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            text.lines()
                .rev()
                .find(|line| !line.trim().is_empty())
                .map(|line| line.trim().to_owned())
        });
        ends.into_iter().flatten().next().unwrap_or_else(|| "no output".to_owned())
    }
}

impl Drop for CaseRun<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
