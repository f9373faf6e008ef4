//! The process of one step: its output goes to a log file, and it ends when its time is over.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write, stdin};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;
use crate::workspace::Workspace;

use super::step::{Step, expand};

/// A step that runs.
pub struct Running {
    child: Child,
    start: Instant,
    limit: Duration,
    own_group: bool,
}

/// How a step ended.
pub enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// CI ended it after its limit.
    OutOfTime,
}

/// Variables of cargo for all steps: incremental builds cost only time where each profile is built
/// once.
const BUILD_ONCE: &[(&str, &str)] = &[("CARGO_INCREMENTAL", "0")];

/// Starts the step from the root of the workspace; both its outputs go to `log`.
///
/// # Errors
/// Where the log cannot be written or the program cannot be started.
pub fn start(workspace: &Workspace, step: &Step, log: &Path) -> Result<Running, Error> {
    let words = step.words(workspace);
    let mut file = File::create(log).map_err(|e| Error::write(log, e))?;
    writeln!(file, "$ {}", words.join(" ")).map_err(|e| Error::write(log, e))?;
    let errors = file.try_clone().map_err(|e| Error::write(log, e))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(&workspace.root);
    // These describe the package of xtask. cargo-machete takes them for a call without cargo.
    for (key, _) in env::vars_os() {
        if key.as_encoded_bytes().starts_with(b"CARGO_PKG_") {
            command.env_remove(key);
        }
    }
    command.envs(BUILD_ONCE.iter().copied().filter(|(key, _)| env::var_os(key).is_none()));
    command.envs(step.env.iter().map(|(key, value)| (key, expand(value, workspace))));
    if let Some(path) = library_path(&workspace.target_dir) {
        command.env("LD_LIBRARY_PATH", path);
    }
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    // On a terminal, Ctrl-C must reach the whole step; without a terminal, the limit must.
    spawn(command, Duration::from_secs(step.limit_s), !stdin().is_terminal())
        .map_err(|source| Error::Start { program: words[0].clone(), source })
}

/// Starts a command that ends after `limit`; in a group of its own, all that it starts ends too.
///
/// # Errors
/// Where the program cannot be started.
pub fn spawn(mut command: Command, limit: Duration, own_group: bool) -> io::Result<Running> {
    if own_group {
        command.process_group(0);
    }
    Ok(Running { child: command.spawn()?, start: Instant::now(), limit, own_group })
}

impl Running {
    /// The time since the start.
    pub fn took(&self) -> Duration {
        self.start.elapsed()
    }

    /// How the step ended, or nothing while it runs. Ends it when its time is over.
    ///
    /// # Errors
    /// Where the process cannot be waited for.
    pub fn poll(&mut self) -> io::Result<Option<Ended>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(Ended::Exited(status)));
        }
        if self.took() <= self.limit {
            return Ok(None);
        }
        self.end()?;
        Ok(Some(Ended::OutOfTime))
    }

    /// Ends the process, and with its group everything that it started there.
    ///
    /// # Errors
    /// Where it cannot be ended.
    pub fn end(&mut self) -> io::Result<()> {
        if self.own_group {
            kill_process_group(Pid::from_child(&self.child), Signal::KILL)?;
        } else {
            self.child.kill()?;
        }
        self.child.wait().map(drop)
    }
}

/// `LD_LIBRARY_PATH` without the folders that cargo added for this very program.
fn library_path(target: &Path) -> Option<OsString> {
    let path = env::var_os("LD_LIBRARY_PATH")?;
    env::join_paths(env::split_paths(&path).filter(|folder| !folder.starts_with(target))).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::step::PLAIN;
    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);

    fn shell(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        // A process left behind holds no pipe of the test.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        spawn(command, LIMIT, true).expect("sh starts")
    }

    fn ended(mut running: Running) -> Ended {
        loop {
            if let Some(ended) = running.poll().expect("a child can be waited for") {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn the_status_arrives() {
        let ended = ended(shell("exit 3"));
        assert!(matches!(ended, Ended::Exited(status) if status.code() == Some(3)));
    }

    #[test]
    fn both_outputs_reach_the_log() {
        let folder = env::temp_dir().join(format!("m3-ci-{}-log", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder can be made");
        fs::write(folder.join("script"), "echo one; echo two >&2; printf three").expect("a script");
        let workspace =
            Workspace { root: folder.clone(), target_dir: folder.clone(), packages: Vec::new() };
        let step = Step { command: "sh script", ..PLAIN };
        let mut running = start(&workspace, &step, &folder.join("log")).expect("sh starts");
        while running.poll().expect("a child can be waited for").is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        let log = fs::read_to_string(folder.join("log")).expect("the log is there");
        let mut lines: Vec<&str> = log.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["$ sh script", "one", "three", "two"]);
        let _ = fs::remove_dir_all(&folder);
    }

    #[test]
    fn a_hung_step_is_ended_with_all_its_processes() {
        let file = env::temp_dir().join(format!("m3-ci-{}-pid", std::process::id()));
        let script = format!("sleep 600 & echo $! >{}; wait", file.display());
        let mut running = shell(&script);
        let pid = loop {
            match fs::read_to_string(&file) {
                Ok(text) if text.ends_with('\n') => break text,
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        running.limit = Duration::ZERO;
        assert!(matches!(ended(running), Ended::OutOfTime));
        // The child ends at once, but its new parent may collect it later.
        let status = format!("/proc/{}/status", pid.trim());
        while fs::read_to_string(&status).is_ok_and(|text| !text.contains("Z (zombie)")) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = fs::remove_file(&file);
    }

    #[test]
    fn a_process_left_behind_does_not_delay_the_step() {
        let ended = ended(shell("sleep 5 & exit 0"));
        assert!(matches!(ended, Ended::Exited(status) if status.success()));
    }
}
