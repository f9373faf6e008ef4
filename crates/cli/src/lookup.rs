//! Finds nodes, VMs and endpoints by their written form.

use crate::error::{CliError, Result, in_brackets};
use crate::launch;
use crate::options::NodeOptions;
use m3ipc::{Address, Endpoint, Node, NodeError, Timeout, Vm, runtime};
use m3ipc_abi::Code;
use std::path::PathBuf;

/// A daemon that a command started ends after this time without VMs and members.
const IDLE_EXIT_SECONDS: &str = "10";

/// The runtime directory: the one of the flag, or the default.
pub fn directory(options: &NodeOptions) -> PathBuf {
    options.runtime_dir.clone().unwrap_or_else(runtime::directory)
}

/// The running node. Where a journal shows that the daemon was killed, a new daemon takes over.
pub fn node(options: &NodeOptions) -> Result<Node> {
    node_within(options, Timeout::Never)
}

/// The running node, found and asked within a time limit.
pub fn node_within(options: &NodeOptions, limit: Timeout) -> Result<Node> {
    let directory = directory(options);
    match Node::find_timeout(&directory, limit) {
        Err(NodeError::NotRunning(_)) if directory.join("journal").exists() => {
            node_or_start(options)
        }
        other => Ok(other?),
    }
}

/// The running node, or a new one.
pub fn node_or_start(options: &NodeOptions) -> Result<Node> {
    let directory = directory(options);
    match Node::find(&directory) {
        // No other error goes away with a new daemon.
        Err(NodeError::NotRunning(_)) => {}
        other => return Ok(other?),
    }
    if m3ipc_sys::variable("M3_DAEMON").is_some() {
        return Ok(Node::attach_at(&directory)?);
    }
    let arguments = [
        "--runtime-dir".into(),
        directory.clone().into(),
        "--idle-exit".into(),
        IDLE_EXIT_SECONDS.into(),
    ];
    launch::daemon(&directory, &arguments)
}

/// The VM with this id or name.
pub fn vm(node: &mut Node, written: &str) -> Result<Vm> {
    if let Ok(id) = written.parse()
        && let Ok(vm) = node.vm(id)
    {
        return Ok(vm);
    }
    node.vm_named(written).map_err(|error| match error.code() {
        Code::NoNode | Code::BadVmId => CliError::code(
            error.code(),
            format!("there is no VM {written:?}{}", in_brackets(error.code())),
        ),
        _ => error.into(),
    })
}

/// A target as written: `VM/ENDPOINT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The VM's name or id.
    pub vm: String,
    /// The endpoint's name, slot or address.
    pub endpoint: String,
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(written: &str) -> std::result::Result<Self, String> {
        match written.split_once('/') {
            Some((vm, endpoint)) if !vm.is_empty() && !endpoint.is_empty() => {
                Ok(Self { vm: vm.to_owned(), endpoint: endpoint.to_owned() })
            }
            _ => Err("a target is VM/NAME or VM/NUMBER, as in shop/server or shop/29".to_owned()),
        }
    }
}

/// Binds this process in a VM: to a slot if `written` is a number, else under a name.
///
/// Under `m3 run` the process is bound already. The function then takes that endpoint.
pub fn bind(vm: &Vm, written: Option<&str>) -> Result<Endpoint> {
    if m3ipc_sys::variable("M3_ENDPOINT").is_some()
        && let Ok(mut own) = Endpoint::wait_for_bind(Timeout::NoWait)
    {
        if let Some(name) = written.filter(|written| written.parse::<i32>().is_err()) {
            own.name_attach(name)?;
        }
        return Ok(own);
    }
    match written.map(|written| (written, written.parse::<i32>())) {
        None => Ok(vm.bind_any()?),
        Some((_, Ok(slot))) => Ok(vm.bind(slot)?),
        Some((name, Err(_))) => {
            let mut endpoint = vm.bind_any()?;
            endpoint.name_attach(name)?;
            Ok(endpoint)
        }
    }
}

/// The address of the endpoint with this address, slot or name.
///
/// With `wait`, an endpoint that is absent may come within that time.
pub fn address(
    node: &mut Node,
    vm: &Vm,
    own: &mut Endpoint,
    written: &str,
    wait: Option<Timeout>,
) -> Result<Address> {
    let Ok(number) = written.parse::<i32>() else {
        return address_of_name(own, vm, written, wait);
    };
    // A member without permission to list endpoints may still send: the number is the address.
    let Ok(endpoints) = node.endpoints(vm.id()) else { return Ok(Address(number)) };
    let found = endpoints.iter().find(|other| other.address == number);
    let found = found.or_else(|| endpoints.iter().find(|other| other.slot == number));
    match (found, wait) {
        (Some(found), _) => Ok(Address(found.address)),
        (None, Some(timeout)) => Ok(own.wait_bind(Address(number), timeout)?),
        (None, None) if (-vm.info().tasks..vm.info().procs).contains(&number) => {
            // The daemon knows whether the slot belongs to a node that cannot be reached.
            match own.watch(Address(number)) {
                // It was bound just now.
                Ok(()) => {
                    own.unwatch(Address(number));
                    return Ok(Address(number));
                }
                Err(error) if error.code() == Code::NotConn => return Err(error.into()),
                Err(_) => {}
            }
            let (code, name) = (Code::DeadSrcDst, vm.name());
            let what = format!("no endpoint of VM {name:?} is bound in slot {number}");
            Err(CliError::code(code, format!("{what}{}", in_brackets(code))).advice(format!(
                "list the endpoints with `m3 ps {name}`, or wait for the endpoint with --wait"
            )))
        }
        (None, None) => Ok(Address(number)),
    }
}

fn address_of_name(
    own: &mut Endpoint,
    vm: &Vm,
    name: &str,
    wait: Option<Timeout>,
) -> Result<Address> {
    let located = match wait {
        Some(timeout) => {
            own.wait_name(name, timeout).map_err(|error| (error.code(), CliError::from(error)))
        }
        None => own.name_locate(name).map_err(|error| (error.code(), CliError::from(error))),
    };
    located.map_err(|(code, error)| {
        let vm = vm.name();
        let suffix = in_brackets(code);
        match code {
            Code::NoNode => {
                let what = format!("VM {vm:?} has no endpoint named {name:?}{suffix}");
                CliError::code(code, what).advice(format!(
                    "list the endpoints with `m3 ps {vm}`, or wait for the name with --wait"
                ))
            }
            Code::TimedOut => {
                let what = format!("no endpoint of VM {vm:?} took the name {name:?} within the");
                CliError::code(code, format!("{what} time limit{suffix}"))
            }
            _ => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_two_parts() {
        assert_eq!("7/29".parse(), Ok(Target { vm: "7".to_owned(), endpoint: "29".to_owned() }));
        assert!("shop".parse::<Target>().is_err() && "shop/".parse::<Target>().is_err());
    }
}
