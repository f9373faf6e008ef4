//! The node of a run, and the process that keeps it: the daemon lives for as
//! long as the supervisor does, and is ended with it, be that by kill -9.
//!
//! ```text
//! supervisor ── standard input ──> keeper ── control connection ──> daemon
//!      (its end of the pipe closes)   └ ends the node, which removes its directory
//! ```

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use m3ipc::{Node, NodeParams};

use super::m3ipc::{M3ipc, told};
use crate::clock::Clock;
use crate::error::Error;
use crate::job::{Job, Side, Task, Wait, Work};
use crate::mechanism::{Inherited, Mechanism, Site};
use crate::peer::PEER_ARGUMENT;

/// Process slots of a VM: the most idle clients, the server, the active client and some room.
pub const PROCS: i32 = 2_000;

/// The keeper of this run, once something was measured.
static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

/// The runtime directory of this run's node, started at the first call.
///
/// # Errors
/// [`Error::Unavailable`] where no node can be started.
pub fn directory(site: &Site) -> Result<PathBuf, Error> {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *keeper {
        Some(keeper) => Ok(keeper.directory.clone()),
        none => {
            let started = Keeper::start(site)?;
            let directory = started.directory.clone();
            *none = Some(started);
            Ok(directory)
        }
    }
}

/// Ends this run's node, if there is one; returns when its daemon has gone.
pub fn end() {
    drop(KEEPER.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// A number that no VM of this run had.
pub fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The process that keeps the node.
pub struct Keeper {
    child: Child,
    directory: PathBuf,
}

impl Keeper {
    fn start(site: &Site) -> Result<Self, Error> {
        let directory = std::env::temp_dir().join(format!("m3-bench-{}", std::process::id()));
        let job = Job {
            mechanism: M3ipc.name().into(),
            side: Side::Idle,
            work: Work::Ipc2,
            wait: Wait::Block,
            bytes: 0,
            cpu: None,
            fds: vec![],
            names: vec![directory.to_string_lossy().into_owned()],
            clock: Clock::Monotonic,
            task: Task::Keeper,
        };
        let job = serde_json::to_string(&job).map_err(Error::json("a job"))?;
        // Its own process group: Ctrl-C must not end it before it has done its work.
        let mut child = Command::new(&site.exe)
            .args([PEER_ARGUMENT, &job])
            .env("M3_RUNTIME_DIR", &directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(Error::os("start the keeper of a node"))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(Error::os("hear the keeper of a node"))?;
        }
        let keeper = Self { child, directory };
        match line.trim() {
            "" => Ok(keeper),
            why => Err(Error::Unavailable {
                why: format!("no node can be started: {why}"),
                next: "build the node daemon (cargo build --release -p m3d), or name it with M3_DAEMON",
            }),
        }
    }

    /// The keeper's work: starts the node, waits for the supervisor's end, ends the node.
    ///
    /// # Errors
    /// Where the node cannot be ended.
    pub fn keep(inherited: &Inherited) -> Result<(), Error> {
        let params = NodeParams { procs: Some(PROCS), vms: Some(1_024), ..NodeParams::default() };
        let node = match Node::init(&params) {
            Ok(node) => node,
            Err(error) => {
                println!("{}", error.to_string().replace('\n', " "));
                return Ok(());
            }
        };
        println!();
        std::io::stdin()
            .lock()
            .read_to_end(&mut Vec::new())
            .map_err(Error::os("wait for the end"))?;
        node.end().map_err(told("end the node"))?;
        // The daemon answers before it leaves; gone is it when its directory is.
        let directory: PathBuf = inherited.names.iter().collect();
        while directory.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends by itself now; what it could not end it has said on standard error.
        let _ = self.child.wait();
    }
}
