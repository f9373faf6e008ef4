//! The processes of the services: children of the supervisor, each the leader of a process group.
//!
//! A number is used only until its process is reaped, so it never names a stranger. The end of a
//! service's process ends all its processes: its group, and those that left the group and have
//! become children of the supervisor.

use crate::policy::Exit;
use crate::spec::Program;
use crate::systemd;
use m3ipc::Address;
use m3ipc_sys::{ProcessExit, Signal};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program of this process, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How long the supervisor ends processes that left their group, and waits for one of them.
const LEFT_LIMIT: Duration = Duration::from_secs(2);
const LEFT_END_NS: u64 = 500_000_000;

/// The process of a service.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its number, and that of its group.
    pub pid: i32,
    /// The endpoint that made it ready.
    pub address: Option<Address>,
}

/// Where services live.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The runtime directory.
    pub directory: &'a Path,
    /// The number and the name of the VM.
    pub vm: (i32, &'a str),
    /// The supervisor's endpoint.
    pub supervisor: Address,
    /// The key of the service's name.
    pub name_key: Option<u64>,
}

/// The running processes by the names of their services.
#[derive(Debug, Default)]
pub struct Processes {
    running: BTreeMap<String, Process>,
}

impl Processes {
    /// The process of a service.
    #[must_use]
    pub fn get(&self, service: &str) -> Option<Process> {
        self.running.get(service).copied()
    }

    /// Notes the endpoint of a service.
    pub fn set_address(&mut self, service: &str, address: Option<Address>) {
        if let Some(process) = self.running.get_mut(service) {
            process.address = address;
        }
    }

    /// Starts the process of a service: the launcher, which executes the program.
    ///
    /// # Errors
    /// Those of fork(2) and execve(2), and a working directory that does not exist.
    pub fn start(
        &mut self,
        service: &str,
        program: &Program,
        place: &Place<'_>,
    ) -> Result<(), String> {
        if !program.directory.is_dir() {
            return Err(format!("{} is no directory", program.directory.display()));
        }
        let mut command = Command::new(OWN_PROGRAM);
        command.arg("start-service").args(["--service", service]);
        command.args(["--parent", &std::process::id().to_string()]);
        if let Some(slot) = program.slot {
            command.arg(format!("--slot={slot}"));
        }
        command.arg("--").args(&program.words);
        systemd::VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env_remove("M3_ENDPOINT").envs(&program.environment);
        command.env("M3_RUNTIME_DIR", place.directory);
        command.env("M3_VM", place.vm.0.to_string()).env("M3_VM_NAME", place.vm.1);
        command.env("M3_SERVICE", service).env("M3_NAME", &program.name);
        command.env("M3_SUPERVISOR", place.supervisor.0.to_string());
        match place.name_key {
            Some(key) => command.env(m3ipc::NAME_KEY, key.to_string()),
            None => command.env_remove(m3ipc::NAME_KEY),
        };
        command.current_dir(&program.directory).stdin(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|cause| cause.to_string())?;
        let pid = child.id().cast_signed();
        self.running.insert(service.to_owned(), Process { pid, address: None });
        Ok(())
    }

    /// Sends a signal to the group of a service.
    pub fn signal(&self, service: &str, signal: Signal) {
        if let Some(process) = self.running.get(service)
            && m3ipc_sys::has_child_ended(process.pid).is_ok()
        {
            // An empty group has ended already.
            let _ = m3ipc_sys::signal_group(process.pid, signal);
        }
    }

    /// Reaps what has ended, also adopted orphans. Returns the services that have ended.
    pub fn reap(&mut self) -> Vec<Ended> {
        let mut ended = Vec::new();
        while let Ok(Some(pid)) = m3ipc_sys::ended_child() {
            let found = self.running.iter().find(|(_, process)| process.pid == pid);
            let service = found.map(|(service, _)| service.clone());
            let mut behind = None;
            if service.is_some() {
                let in_group = |it: &i32| *it != pid && m3ipc_sys::process_group(*it) == Ok(pid);
                behind = m3ipc_sys::children().into_iter().find(in_group);
                // The rest of its group ends with it. The number is still that of the child.
                let _ = m3ipc_sys::signal_group(pid, Signal::KILL);
            }
            let exit = m3ipc_sys::reap(pid).map_or(Exit::Unknown, exit_of);
            if let Some(service) = service {
                self.running.remove(&service);
                let left = end_those_that_left(&service, pid);
                ended.push(Ended { behind: behind.or(left.first().copied()), service, exit, left });
            }
        }
        // Another part of this process has reaped it: its number may be a stranger's.
        let is_lost = |process: &Process| m3ipc_sys::has_child_ended(process.pid).is_err();
        let lost = self.running.iter().filter(|it| is_lost(it.1));
        let lost: Vec<(String, i32)> = lost.map(|it| (it.0.clone(), it.1.pid)).collect();
        for (service, pid) in lost {
            self.running.remove(&service);
            let left = end_those_that_left(&service, pid);
            ended.push(Ended { service, exit: Exit::Unknown, behind: None, left });
        }
        ended
    }
}

/// A service that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its name.
    pub service: String,
    /// How its process ended.
    pub exit: Exit,
    /// A process that its process left behind.
    pub behind: Option<i32>,
    /// Processes of it that had left its group, and got SIGKILL.
    pub left: Vec<i32>,
}

/// Ends the processes of a service that left its group: their parents have ended, so they are
/// children of the supervisor. A child of such a process becomes one, too.
fn end_those_that_left(service: &str, leader: i32) -> Vec<i32> {
    let variable = format!("M3_SERVICE={service}");
    let begun = Instant::now();
    let is_of_service = |pid: i32| {
        let left = LEFT_LIMIT.saturating_sub(begun.elapsed());
        let variables = m3ipc_sys::environment_of_child(pid, left).unwrap_or_default();
        variables.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
    };
    let mut left = Vec::new();
    while begun.elapsed() < LEFT_LIMIT {
        let mut found = m3ipc_sys::children();
        // Its group has got SIGKILL already.
        found.retain(|pid| m3ipc_sys::process_group(*pid) != Ok(leader) && is_of_service(*pid));
        if found.is_empty() {
            break;
        }
        for pid in found {
            // An unreaped child keeps its number.
            if let Ok(process) = m3ipc_sys::open_process(pid) {
                let _ = m3ipc_sys::signal(&process, Signal::KILL);
                let _ = m3ipc_sys::wait_readable(&[process.as_fd()], LEFT_END_NS);
                let _ = m3ipc_sys::reap(pid);
            }
            if !left.contains(&pid) {
                left.push(pid);
            }
        }
    }
    left
}

fn exit_of(exit: ProcessExit) -> Exit {
    match exit {
        ProcessExit::Code(code) => Exit::Code(code),
        ProcessExit::Signal(number) => Exit::Signal(number),
    }
}
