//! What the proxy gives up before it hears the first byte of another node.
//!
//! | layer | afterwards |
//! |---|---|
//! | user | not root, if the configuration names a `user` |
//! | no new privileges, not dumpable | no program gives rights; no process of its user reads its keys |
//! | Landlock | no file can be opened, made or removed; TCP connections go to the ports of the registry alone; no signal leaves |
//! | seccomp | an `open` names a place and gives no content; no program, no other process, no code |
//!
//! All files are read before. A new configuration therefore needs a new start. New keys come
//! through a pipe: see `renewal`.
//!
//! The way to the daemon's socket is checked part by part, with descriptors that give no access
//! (`O_PATH`). Neither layer forbids those.
//!
//! A kernel without seccomp is an error, since it is the layer that every supported kernel has.
//! Landlock is as strong as the kernel allows, and the log says how strong.

use super::config::{Config, Confinement};
use super::user;
use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

mod calls;

pub use probe::{Attempt, attempts};
mod probe;

/// A layer that the system refuses.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The configuration names a user that the system does not have.
    #[error("the configuration names the user {0:?}, which this system does not have; make it")]
    NoUser(String),
    /// Only root can become another user.
    #[error(
        "the configuration names the user {0:?}, and this process is neither root nor that user; \
         start it as root, or take `user` out of the configuration"
    )]
    NotRoot(String),
    /// A system call failed.
    #[error(
        "cannot {step}: {cause}; `sandbox = \"off\"` in the configuration runs the proxy without a \
         sandbox"
    )]
    System {
        /// The step.
        step: &'static str,
        /// The system's reason.
        cause: String,
    },
}

fn refused(step: &'static str) -> impl Fn(&dyn std::fmt::Display) -> SandboxError {
    move |cause| SandboxError::System { step, cause: cause.to_string() }
}

/// Becomes the user of the configuration, for good.
///
/// # Errors
/// The user is unknown, or this process may not become it.
pub fn drop_root(config: &Config) -> Result<(), SandboxError> {
    let Some(name) = &config.user else {
        if Uid::effective().is_root() {
            m3ipc_sys::report!(
                "m3-proxy: runs as root; `user` in the configuration names a lesser user"
            );
        }
        return Ok(());
    };
    let (uid, gid) = user_of(name)?;
    if Uid::effective() == uid {
        return Ok(());
    }
    if !Uid::effective().is_root() {
        return Err(SandboxError::NotRoot(name.clone()));
    }
    let changed = setgroups(&[])
        .and_then(|()| setresgid(gid, gid, gid))
        .and_then(|()| setresuid(uid, uid, uid));
    changed.map_err(|errno| refused("change the user")(&errno))
}

fn user_of(name: &str) -> Result<(Uid, Gid), SandboxError> {
    let found = user::find(name).map_err(|errno| refused("look a user up")(&errno))?;
    found.ok_or_else(|| SandboxError::NoUser(name.to_owned()))
}

/// Closes the sandbox. Returns the mode, for the log.
///
/// # Errors
/// The system refuses a layer that every supported kernel has.
pub fn close(config: &Config) -> Result<String, SandboxError> {
    let whose = format!("user {}", Uid::effective());
    let dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    dumpable.map_err(|errno| refused("hide the memory of the proxy")(&errno))?;
    let privileges = rustix::thread::set_no_new_privs(true);
    privileges.map_err(|errno| refused("give up new privileges")(&errno))?;
    if config.confinement == Confinement::Off {
        return Ok(format!("{whose}, no sandbox (by the configuration)"));
    }
    let ports = config.peers().map(|peer| peer.address.port());
    let landlock = forbid_files(ports).map_err(|error| refused("close Landlock")(&error))?;
    let landlock = match landlock {
        RulesetStatus::FullyEnforced => "Landlock",
        RulesetStatus::PartiallyEnforced => "Landlock in part (an older kernel)",
        RulesetStatus::NotEnforced => "no Landlock (the kernel has none)",
    };
    for filter in filters().map_err(|error| refused("make the seccomp filter")(&error))? {
        let applied = seccompiler::apply_filter_all_threads(&filter);
        applied.map_err(|error| refused("set the seccomp filter")(&error))?;
    }
    Ok(format!("{whose}, no new privileges, seccomp, {landlock}"))
}

/// Forbids all files, and all connections but those to these ports.
fn forbid_files(ports: impl Iterator<Item = u16>) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
        .scope(Scope::from_all(abi))?
        .create()?;
    let rules = ports.map(|port| Ok::<_, RulesetError>(NetPort::new(port, AccessNet::ConnectTcp)));
    Ok(ruleset.add_rules(rules)?.restrict_self()?.ruleset)
}

/// The filters, in the order of their setting.
fn filters() -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let make = |rules: BTreeMap<i64, Vec<SeccompRule>>, other, listed| {
        SeccompFilter::new(rules, other, listed, arch)?.try_into()
    };
    let errno = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    // Its flags lie in memory, where no filter sees them. The C library then takes `clone`.
    let clone3 = [(libc::SYS_clone3, vec![])].into_iter().collect();
    let no_clone3 = make(clone3, SeccompAction::Allow, errno(libc::ENOSYS))?;
    let allowed = make(allowed()?, errno(libc::EPERM), SeccompAction::Allow)?;
    Ok([no_clone3, allowed])
}

/// The allowed calls, and the conditions on their arguments.
fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let word = |index, op, value: i32| {
        let value = u64::from(value.cast_unsigned());
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)
    };
    let has = |index, bits: i32| {
        word(index, SeccompCmpOp::MaskedEq(u64::from(bits.cast_unsigned())), bits)
    };
    let lacks =
        |index, bits: i32| word(index, SeccompCmpOp::MaskedEq(u64::from(bits.cast_unsigned())), 0);
    let is = |index, value: i32| word(index, SeccompCmpOp::Eq, value);
    let rule = |condition| SeccompRule::new(vec![condition]);
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];
    let families: Result<Vec<_>, _> = families.map(|it| rule(is(0, it)?)).into_iter().collect();
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls::ALLOWED.iter().copied().flatten().map(|call| (*call, vec![])).collect();
    rules.extend([
        // A name for a place, which gives no access to its content.
        (libc::SYS_openat, vec![rule(has(2, libc::O_PATH)?)?]),
        (libc::SYS_socket, families?),
        // Threads, and no processes.
        (libc::SYS_clone, vec![rule(has(0, libc::CLONE_THREAD | libc::CLONE_VM)?)?]),
        (libc::SYS_mmap, vec![rule(lacks(2, libc::PROT_EXEC)?)?]),
        (libc::SYS_mprotect, vec![rule(lacks(2, libc::PROT_EXEC)?)?]),
        (libc::SYS_prlimit64, vec![rule(is(0, 0)?)?]),
        // The end of a panic.
        (libc::SYS_tgkill, vec![rule(is(0, own)?)?]),
    ]);
    Ok(rules)
}
