//! Rights beyond those of one user, for a process of one thread.

use m3ipc_sys::Errno;
use rustix::thread::{Gid, Uid, set_keep_capabilities, set_thread_res_gid, set_thread_res_uid};

/// Takes the rights that the first words name, and returns the rest:
///
/// - `users REAL EFFECTIVE SAVED`,
/// - `groups REAL EFFECTIVE SAVED USER`,
/// - `capabilities USER`: those of root, as this user.
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
        _ => Err(Errno::INVAL),
    }
}
