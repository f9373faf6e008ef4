//! Rights beyond those of one user, and rights below them, for a process of one thread.

use m3ipc_sys::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, configure_capability_in_ambient_set, set_capabilities,
    set_keep_capabilities, set_thread_res_gid, set_thread_res_uid,
};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Takes the rights that the first words name, and returns the rest:
///
/// - `users REAL EFFECTIVE SAVED`,
/// - `groups REAL EFFECTIVE SAVED USER`,
/// - `capabilities USER`: those of root, as this user,
/// - `without`: no capabilities,
/// - `ambient CAPABILITY USER`: this one alone, which exec keeps, as a service manager does.
pub fn enter<'a, 'w>(words: &'w [&'a str]) -> Result<&'w [&'a str], Errno> {
    let number = |word: &str| word.parse::<u32>().map_err(|_none| Errno::INVAL);
    match words {
        ["users", real, effective, saved, rest @ ..] => {
            let user = |word: &str| number(word).map(Uid::from_raw);
            set_thread_res_uid(user(real)?, user(effective)?, user(saved)?)?;
            Ok(rest)
        }
        ["groups", real, effective, saved, user, rest @ ..] => {
            let group = |word: &str| number(word).map(Gid::from_raw);
            set_thread_res_gid(group(real)?, group(effective)?, group(saved)?)?;
            let user = Uid::from_raw(number(user)?);
            set_thread_res_uid(user, user, user)?;
            Ok(rest)
        }
        ["capabilities", user, rest @ ..] => {
            set_keep_capabilities(true)?;
            let (user, group) = (Uid::from_raw(number(user)?), Gid::from_raw(number(user)?));
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
            Ok(rest)
        }
        ["without", rest @ ..] => {
            set_only(CapabilitySet::empty())?;
            Ok(rest)
        }
        ["ambient", capability, user, rest @ ..] => {
            let one = match *capability {
                "kill" => CapabilitySet::KILL,
                "ipc_owner" => CapabilitySet::IPC_OWNER,
                "sys_ptrace" => CapabilitySet::SYS_PTRACE,
                _ => return Err(Errno::INVAL),
            };
            enter(&["capabilities", user])?;
            set_only(one)?;
            configure_capability_in_ambient_set(one, true)?;
            let program = std::env::current_exe().map_err(|_none| Errno::NOENT)?;
            let _failed = Command::new(program).args(rest).exec();
            Err(Errno::NOEXEC)
        }
        _ => Err(Errno::INVAL),
    }
}

fn set_only(set: CapabilitySet) -> Result<(), Errno> {
    set_capabilities(None, CapabilitySets { effective: set, permitted: set, inheritable: set })
}
