//! Users of this system.

use nix::errno::Errno;
use nix::unistd::{Gid, Uid, User};

/// A user by name, or by a number that is also its group; `None` if the system does not have it.
pub fn find(name: &str) -> Result<Option<(Uid, Gid)>, Errno> {
    if let Ok(number) = name.parse() {
        return Ok(Some((Uid::from_raw(number), Gid::from_raw(number))));
    }
    Ok(User::from_name(name)?.map(|user| (user.uid, user.gid)))
}
