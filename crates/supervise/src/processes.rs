//! The processes of the services: children of the supervisor, each the leader of a process group.
//!
//! A number is used only until its process is reaped, so it never names a stranger.

use crate::policy::Exit;
use crate::spec::Program;
use crate::systemd;
use m3ipc::Address;
use m3ipc_sys::{ProcessExit, Signal};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The program of this process, also after its file was replaced.
const OWN_PROGRAM: &str = "/proc/self/exe";

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
    pub fn set_address(&mut self, service: &str, address: Address) {
        if let Some(process) = self.running.get_mut(service) {
            process.address = Some(address);
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
        command.current_dir(&program.directory).stdin(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|cause| cause.to_string())?;
        let pid = child.id().cast_signed();
        self.running.insert(service.to_owned(), Process { pid, address: None });
        Ok(())
    }

    /// Sends a signal to the group of a service.
    pub fn signal(&self, service: &str, signal: Signal) {
        if let Some(process) = self.running.get(service) {
            // An empty group has ended already.
            let _ = m3ipc_sys::signal_group(process.pid, signal);
        }
    }

    /// Reaps what has ended, also adopted orphans. Returns the services that have ended.
    pub fn reap(&mut self) -> Vec<(String, Exit)> {
        let mut ended = Vec::new();
        for (service, process) in &self.running {
            if m3ipc_sys::has_child_ended(process.pid) != Ok(true) {
                continue;
            }
            // The rest of its group ends with it. The number is still that of the child.
            let _ = m3ipc_sys::signal_group(process.pid, Signal::KILL);
            if let Ok(exit) = m3ipc_sys::reap(process.pid) {
                ended.push((service.clone(), exit_of(exit)));
            }
        }
        for (service, _) in &ended {
            self.running.remove(service);
        }
        while let Ok(Some((pid, exit))) = m3ipc_sys::reap_any() {
            let found = self.running.iter().find(|(_, process)| process.pid == pid);
            if let Some(service) = found.map(|(service, _)| service.clone()) {
                self.running.remove(&service);
                ended.push((service, exit_of(exit)));
            }
        }
        ended
    }
}

fn exit_of(exit: ProcessExit) -> Exit {
    match exit {
        ProcessExit::Code(code) => Exit::Code(code),
        ProcessExit::Signal(number) => Exit::Signal(number),
    }
}
