//! Groups that have one user.
//!
//! Many systems give each user a group of its own, and let that group write what the user makes
//! (umask 002). Such a group counts as its user.
//!
//! The files /etc/passwd and /etc/group decide. The functions of the C library would load modules
//! of the system into any program that asks, and could wait for a network. A user or group that
//! only a directory service knows is therefore in no group of its own.

use crate::user_ids::UserNames;

/// A larger file counts as unreadable.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The only user of a group; `None` if it has several or none, or if the system does not say.
///
/// The group of root is nobody's: some systems run programs of any user in it.
#[must_use]
pub fn only_user_of_group(group: u32) -> Option<u32> {
    if group == 0 {
        return None;
    }
    // Groups that a user namespace does not map all have the number of one group.
    if !UserNames::read().are_all_known() {
        return None;
    }
    only_user(&read("/etc/passwd")?, &read("/etc/group")?, group)
}

/// The number of the user of this name in /etc/passwd.
#[must_use]
pub fn user_named(name: &str) -> Option<u32> {
    number_of(&read("/etc/passwd")?, name)
}

/// # Source
/// passwd(5)
fn number_of(passwd: &str, name: &str) -> Option<u32> {
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    users.find(|user| user[0] == name)?.get(2)?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    (text.len() as u64 != FILE_BYTES_MAX).then_some(text)
}

/// # Source
/// passwd(5), group(5)
fn only_user(passwd: &str, groups: &str, group: u32) -> Option<u32> {
    let number = |field: Option<&&str>| field?.parse::<u32>().ok();
    let users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut primary = users.filter(|user| number(user.get(3)) == Some(group));
    let user = primary.next()?;
    if primary.next().is_some() {
        return None;
    }
    let lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut named = lines.filter(|line| number(line.get(2)) == Some(group)).peekable();
    named.peek()?;
    let is_user = |member: &str| member.is_empty() || member == user[0];
    let has_no_other =
        named.all(|line| line.get(3).is_none_or(|list| list.split(',').all(is_user)));
    if has_no_other { number(user.get(2)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/:/bin/sh\n\
                          bob:x:1001:1001::/:/bin/sh\ncy:x:1002:100::/:/bin/sh\n\
                          di:x:1003:100::/:/bin/sh\nodd\n";

    #[test]
    fn a_group_with_one_user_is_that_user() {
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:bob\nusers:x:100:\n";
        assert_eq!(only_user(PASSWD, groups, 0), Some(0));
        assert_eq!(only_user(PASSWD, groups, 1000), Some(1000));
        assert_eq!(only_user(PASSWD, groups, 1001), Some(1001), "it names its user");
        assert_eq!(only_user(PASSWD, groups, 100), None, "two users");
        assert_eq!(only_user(PASSWD, groups, 7), None, "nobody's primary group");
    }

    #[test]
    fn a_group_with_other_members_or_without_an_entry_is_nobodys() {
        assert_eq!(only_user(PASSWD, "ann:x:1000:bob\n", 1000), None);
        assert_eq!(only_user(PASSWD, "ann:x:1000:ann,bob\n", 1000), None);
        assert_eq!(only_user(PASSWD, "ann:x:1000:\nalso:x:1000:bob\n", 1000), None);
        assert_eq!(only_user(PASSWD, "root:x:0:\n", 1000), None);
        assert_eq!(only_user(PASSWD, "", 0), None);
    }
}
