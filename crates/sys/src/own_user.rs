//! The user that this program acts for.
//!
//! A program may have more rights than the user that its effective number names: a set-group-ID
//! program, a program with capabilities, a server of root that works as another user for a while.
//! Trust in that user would lend the user these rights.
//!
//! # Safety
//! The calls write into live locals, or take integers.
#![allow(unsafe_code)]

use crate::user_ids::UserNames;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// `NS_GET_OWNER_UID`, ioctl_nsfs(2).
const NS_GET_OWNER_UID: libc::c_ulong = 0xb704;

/// The user whose rights this thread has, and no others. `None` if it has more rights than its
/// effective user.
#[must_use]
pub fn own_user() -> Option<u32> {
    extra_rights().is_none().then(crate::user_id)
}

/// Why this thread has more rights than its effective user has; `None` if it has none.
///
/// # Source
/// credentials(7), capabilities(7)
#[must_use]
pub fn extra_rights() -> Option<&'static str> {
    borrowed_rights().or_else(|| {
        let is_root = crate::user_id() == 0;
        (!is_root && has_capabilities()).then_some("it holds capabilities")
    })
}

/// As [`extra_rights`], without capabilities that the program got from its starter: a service has
/// these on purpose.
#[must_use]
pub fn borrowed_rights() -> Option<&'static str> {
    if crate::is_privileged_program() {
        return Some("it runs set-user-ID, set-group-ID or with file capabilities");
    }
    let (mut real, mut effective, mut saved) = (0, 0, 0);
    // SAFETY: three live locals.
    let users = unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    if users != 0 || [real, saved] != [effective; 2] {
        return Some("its real, effective and saved users differ");
    }
    // SAFETY: three live locals.
    let groups = unsafe { libc::getresgid(&raw mut real, &raw mut effective, &raw mut saved) };
    if groups != 0 || [real, saved] != [effective; 2] {
        return Some("its real, effective and saved groups differ");
    }
    None
}

/// Whether this thread has a capability that its user lacks.
fn has_capabilities() -> bool {
    let has_none = rustix::thread::capabilities(None).is_ok_and(|sets| sets.permitted.is_empty());
    // The maker of a user namespace has all capabilities in it, also from outside.
    !has_none && !is_own_namespace()
}

/// Whether the effective user of this thread made its user namespace.
fn is_own_namespace() -> bool {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(namespace) = openat(CWD, c"/proc/thread-self/ns/user", flags, Mode::empty()) else {
        return false;
    };
    let maker = maker_of(&namespace);
    maker == Some(crate::user_id()) && maker.is_some_and(|user| UserNames::read().names_one(user))
}

/// The user that made a user namespace, as this process sees it.
fn maker_of(namespace: &OwnedFd) -> Option<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: a live descriptor, and a live local of the type that this request fills.
    let got = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID as _, &raw mut user) };
    (got == 0).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_the_rights_of_its_user_alone() {
        assert_eq!(borrowed_rights(), None);
        assert_eq!(extra_rights().is_none(), own_user() == Some(crate::user_id()));
    }

    #[test]
    fn root_made_the_first_namespace() {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let namespace = openat(CWD, c"/proc/self/ns/user", flags, Mode::empty()).unwrap();
        if UserNames::read().names_one(65_534) {
            assert_eq!(maker_of(&namespace), Some(0));
        }
    }
}
