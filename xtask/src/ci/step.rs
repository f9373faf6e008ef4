//! Runs one rung: passes its output on line by line, keeps it for the figure, and ends it when it hangs.
//!
//! A rung may leave a process behind that still holds the pipe; so the end of the rung is the end of its own process,
//! and the rest of the output is waited for only so long.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, stdin};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use std::{env, path::Path, thread};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;
use crate::workspace::Workspace;

use super::rungs::Rung;

/// What a rung printed and how it ended.
pub struct Report {
    /// All its lines, output and errors in the order of arrival.
    pub lines: Vec<String>,
    /// How it ended.
    pub ended: Ended,
}

/// How a rung ended.
pub enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was ended because it took longer than its limit.
    OutOfTime,
}

/// How often to look whether the process has ended while it prints nothing.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long to wait for the rest of the output once the process has ended.
const REST_OF_OUTPUT: Duration = Duration::from_secs(2);

/// Each rung is built once and run once: neither whole-program optimisation nor what makes the next build quicker pays.
const QUICK_BUILDS: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_LTO", "off"), ("CARGO_INCREMENTAL", "0")];

/// Runs the rung from the root of the workspace.
///
/// # Errors
/// Where it cannot be started or waited for.
pub fn run(workspace: &Workspace, rung: &Rung) -> Result<Report, Error> {
    let words: Vec<String> =
        rung.command.iter().map(|word| in_target(word, &workspace.target_dir)).collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(&workspace.root);
    command
        .envs(rung.env.iter().map(|(key, value)| (key, in_target(value, &workspace.target_dir))));
    command.envs(QUICK_BUILDS.into_iter().filter(|(key, _)| std::env::var_os(key).is_none()));
    if let Some(path) = library_path(&workspace.target_dir) {
        command.env("LD_LIBRARY_PATH", path);
    }
    // Where a person sits before it, Ctrl-C must reach the whole rung; else the limit must.
    let own_group = !stdin().is_terminal();
    if own_group {
        command.process_group(0);
    }
    run_command(command, Duration::from_secs(rung.limit_s), own_group)
        .map_err(|source| Error::Start { program: words[0].clone(), source })
}

fn run_command(mut command: Command, limit: Duration, own_group: bool) -> std::io::Result<Report> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, lines) = channel();
    pass_on(child.stdout.take(), sender.clone());
    pass_on(child.stderr.take(), sender);
    wait(&mut child, &lines, Instant::now() + limit, own_group)
}

/// Passes lines on until the process has ended and both pipes are closed, or nothing more is waited for.
fn wait(
    child: &mut Child,
    output: &Receiver<String>,
    mut deadline: Instant,
    own_group: bool,
) -> std::io::Result<Report> {
    let mut lines = Vec::new();
    let mut end = None;
    loop {
        let closed = match output.recv_timeout(LOOK_EVERY) {
            Ok(line) => {
                println!("{line}");
                lines.push(line);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        match end.take() {
            Some(ended) if closed || Instant::now() > deadline => {
                return Ok(Report { lines, ended });
            }
            Some(ended) => end = Some(ended),
            None => {
                end = look(child, deadline, own_group)?;
                if end.is_some() {
                    deadline = Instant::now() + REST_OF_OUTPUT;
                } else if closed {
                    // It closed its output but lives on: a closed channel no longer waits for us.
                    thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

/// Whether the process has ended, or must be ended now because its time is over.
fn look(child: &mut Child, deadline: Instant, own_group: bool) -> std::io::Result<Option<Ended>> {
    if let Some(status) = child.try_wait()? {
        return Ok(Some(Ended::Exited(status)));
    }
    if Instant::now() <= deadline {
        return Ok(None);
    }
    kill(child, own_group)?;
    Ok(Some(Ended::OutOfTime))
}

/// Ends the process, and with its group everything it started there.
fn kill(child: &mut Child, own_group: bool) -> std::io::Result<()> {
    if own_group {
        kill_process_group(Pid::from_child(child), Signal::KILL)?;
    } else {
        child.kill()?;
    }
    child.wait().map(drop)
}

fn pass_on(pipe: Option<impl Read + Send + 'static>, sender: Sender<String>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
            if sender.send(line).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

fn in_target(text: &str, target: &Path) -> String {
    text.replace("{target}", &target.to_string_lossy())
}

/// `LD_LIBRARY_PATH` without what cargo added for this very program: a rung must find the libraries it names itself.
fn library_path(target: &Path) -> Option<OsString> {
    let path = env::var_os("LD_LIBRARY_PATH")?;
    env::join_paths(env::split_paths(&path).filter(|folder| !folder.starts_with(target))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        command
    }

    #[test]
    fn lines_of_both_pipes_and_the_status_arrive() {
        let report = run_command(
            shell("echo one; echo two >&2; printf three; exit 3"),
            Duration::from_secs(60),
            true,
        )
        .expect("sh can be started");
        let mut lines = report.lines;
        lines.sort();
        assert_eq!(lines, ["one", "three", "two"]);
        assert!(matches!(report.ended, Ended::Exited(status) if status.code() == Some(3)));
    }

    #[test]
    fn a_hung_rung_is_ended_with_all_it_started() {
        let report = run_command(shell("sleep 600 & sleep 600"), Duration::from_millis(200), true)
            .expect("sh can be started");
        assert!(matches!(report.ended, Ended::OutOfTime));
    }

    #[test]
    fn a_process_left_behind_does_not_hold_up_the_ladder() {
        let report = run_command(shell("sleep 5 & echo done"), Duration::from_secs(600), true)
            .expect("sh can be started");
        assert_eq!(report.lines, ["done"]);
        assert!(matches!(report.ended, Ended::Exited(status) if status.success()));
    }
}
