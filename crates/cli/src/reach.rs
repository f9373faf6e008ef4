//! Node, VM and endpoint by what a person writes.

use crate::cli::Common;
use crate::fail::{Fail, Result};
use crate::start;
use m3ipc::{Address, Endpoint, Node, Timeout, Vm, runtime};
use m3ipc_abi::Code;
use std::path::PathBuf;

/// How long a daemon that nobody asked for stays without VMs and members, in seconds.
const IDLE_SECONDS: &str = "10";

/// The runtime directory that is meant.
pub fn directory(common: &Common) -> PathBuf {
    common.runtime_dir.clone().unwrap_or_else(runtime::directory)
}

/// The node, if it runs; also after its daemon was killed: then a new one takes over.
pub fn node(common: &Common) -> Result<Node> {
    let directory = directory(common);
    match Node::find(&directory) {
        Err(error) if error.code() == Code::Version => Err(error.into()),
        Err(_) if directory.join("journal").exists() => node_or_new(common),
        other => Ok(other?),
    }
}

/// The node; started where it does not run.
pub fn node_or_new(common: &Common) -> Result<Node> {
    let directory = directory(common);
    match Node::find(&directory) {
        Ok(node) => return Ok(node),
        // One that runs and does not match is no reason to start another beside it.
        Err(error) if error.code() == Code::Version => return Err(error.into()),
        Err(_) => {}
    }
    if std::env::var_os("M3_DAEMON").is_some_and(|named| !named.is_empty()) {
        return Ok(Node::attach_at(&directory)?);
    }
    let words = [
        "--runtime-dir".into(),
        directory.clone().into(),
        "--idle-exit".into(),
        IDLE_SECONDS.into(),
    ];
    start::daemon(&directory, &words)
}

/// The VM of this name or id.
pub fn vm(node: &mut Node, written: &str) -> Result<Vm> {
    if let Ok(id) = written.parse()
        && let Ok(vm) = node.vm(id)
    {
        return Ok(vm);
    }
    node.vm_named(written).map_err(|error| match error.code() {
        Code::NoNode | Code::BadVmId => {
            Fail::code(error.code(), format!("there is no VM {written:?} ({})", error.code()))
        }
        _ => error.into(),
    })
}

/// A target as it is written: `VM/ENDPOINT`.
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

/// Binds this process in a VM: to a slot where `written` is a number, under this name else.
/// Under `m3 run` it is bound already, and takes that endpoint.
pub fn bind(vm: &Vm, written: Option<&str>) -> Result<Endpoint> {
    if std::env::var_os("M3_ENDPOINT").is_some()
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

/// The address of what is written after the slash.
pub fn address(
    node: &mut Node,
    vm: &Vm,
    own: &mut Endpoint,
    written: &str,
    wait: Option<Timeout>,
) -> Result<Address> {
    let Ok(number) = written.parse::<i32>() else {
        return by_name(own, vm, written, wait);
    };
    // Who may not look still may talk: then the number is the address.
    let Ok(living) = node.endpoints(vm.id()) else { return Ok(Address(number)) };
    let found = living.iter().find(|other| other.address == number);
    let found = found.or_else(|| living.iter().find(|other| other.slot == number));
    match (found, wait) {
        (Some(found), _) => Ok(Address(found.address)),
        (None, Some(limit)) => Ok(own.wait_bind(Address(number), limit)?),
        (None, None) => Ok(Address(number)),
    }
}

fn by_name(own: &mut Endpoint, vm: &Vm, name: &str, wait: Option<Timeout>) -> Result<Address> {
    let located = match wait {
        Some(limit) => {
            own.wait_name(name, limit).map_err(|error| (error.code(), Fail::from(error)))
        }
        None => own.name_locate(name).map_err(|error| (error.code(), Fail::from(error))),
    };
    located.map_err(|(code, error)| match code {
        Code::NoNode => {
            let what = format!("nobody is named {name:?} in VM {:?} ({})", vm.name(), code);
            Fail::code(Code::NoNode, what).next(format!(
                "`m3 ps {}` shows who is there; --wait waits for the name",
                vm.name()
            ))
        }
        Code::TimedOut => Fail::code(
            Code::TimedOut,
            format!("nobody took the name {name:?} in VM {:?} in time ({})", vm.name(), code),
        ),
        _ => error.into(),
    })
}

/// Milliseconds as they are written: negative is for ever.
pub fn limit(ms: i64) -> Timeout {
    Timeout::from_ms(ms)
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
