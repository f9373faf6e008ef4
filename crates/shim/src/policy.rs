//! The user's policy: which programs, ports, paths and users, and the settings of the library.
//!
//! A policy is one line of words. `m3 sock run` makes the line of a file and passes it in the
//! environment ([`VARIABLE`]). The constructor of the library reads it in place, without
//! allocating.
//!
//! | word | meaning |
//! |---|---|
//! | `on=0` | nothing is upgraded |
//! | `programs=A,B`, `!programs=A` | only these programs (names of their files); not these |
//! | `children=A,B`, `children=*` | executed programs of these names load the library, too; all |
//! | `ports=6379,8000-8999`, `!ports=22` | only TCP connections at these ports; not these |
//! | `paths=/run/,@x`, `!paths=/run/dbus/` | only Unix connections with such names; not these |
//! | `users=0,1000`, `!users=0` | only processes of these effective users; not these |
//! | `after=N` | data calls before a socket looks for its peer |
//! | `ring=BYTES` | bytes of each ring: a power of two from 64 to 64 KiB |
//! | `spin=NS` | the longest spin before a call sleeps, in nanoseconds |
//! | `wakeup=always` | a wakeup byte for each publish (for tests) |
//! | `same=1` | both ends may lie in one process (for tests) |
//! | `bulk=0` | no stream is pinned for its overflows (for tests) |
//! | `message=0` | the ring takes each message, also one that needs a wakeup byte (for tests) |
//! | `rest=0` | no direction rests in the kernel (for tests) |
//! | `uring=pass` | io_uring is let through, else it fails with ENOSYS |
//! | `filters=N` | filters on system calls that the library works under: those of `m3 sock run` |
//!
//! `uring=pass` is right only for a program that makes no socket call through io_uring.

use crate::settings::Settings;

/// The environment variable with the policy.
pub const VARIABLE: &str = "M3SOCK_POLICY";
/// The environment variable with the path of a file of counters, which must exist.
pub const COUNTERS_VARIABLE: &str = "M3SOCK_COUNTS";
/// The environment variable with the directory of the shared memory, or [`NO_DIRECTORY`].
/// `M3_RUNTIME_DIR` counts only without it: a program may change or clear that one for its
/// children, which must find the memory of its sockets.
pub const DIRECTORY_VARIABLE: &str = "M3SOCK_DIR";
/// The directory variable that users set.
pub const RUNTIME_VARIABLE: &str = "M3_RUNTIME_DIR";
/// The value of [`DIRECTORY_VARIABLE`] where no directory is named: `/dev/shm`.
pub const NO_DIRECTORY: &str = "-";

/// A policy, over the line that it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Policy<'a> {
    /// The settings of the library.
    pub settings: Settings,
    /// Whether io_uring is refused.
    pub refuse_uring: bool,
    /// Filters on system calls under which the library works: a program with more is left alone.
    pub filters: u32,
    line: &'a str,
}

/// An unknown word of a policy, or a value that its word cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadWord<'a>(pub &'a str);

impl<'a> Policy<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// The first bad word. The library then does nothing, as with `on=0`.
    pub fn read(line: &'a str) -> Result<Self, BadWord<'a>> {
        let mut policy =
            Self { settings: Settings::default(), refuse_uring: true, filters: 0, line };
        for word in line.split_ascii_whitespace() {
            let (name, value) = word.split_once('=').ok_or(BadWord(word))?;
            policy.apply(name, value).ok_or(BadWord(word))?;
        }
        Ok(policy)
    }

    fn apply(&mut self, name: &str, value: &str) -> Option<()> {
        let settings = &mut self.settings;
        match name {
            "on" => settings.on = switch(value)?,
            "same" => settings.same_process = switch(value)?,
            "bulk" => settings.pins_bulk = switch(value)?,
            "rest" => settings.rests = switch(value)?,
            "message" => settings.by_message = switch(value)?,
            "filters" => self.filters = value.parse().ok()?,
            "after" => settings.upgrade_after_calls = value.parse().ok()?,
            "spin" => settings.spin_ns = value.parse().ok().filter(|ns| *ns <= 10_000_000)?,
            "wakeup" => {
                settings.always_wake = match value {
                    "always" => true,
                    "needed" => false,
                    _ => return None,
                }
            }
            "uring" => {
                self.refuse_uring = match value {
                    "refuse" => true,
                    "pass" => false,
                    _ => return None,
                }
            }
            "ring" => {
                let bytes: u32 = value.parse().ok()?;
                if !bytes.is_power_of_two() || !(64..=64 << 10).contains(&bytes) {
                    return None;
                }
                settings.ring_bytes = bytes;
            }
            "ports" | "!ports" => {
                return items(value).all(|item| range(item).is_some()).then_some(());
            }
            "users" | "!users" => {
                return items(value).all(|item| item.parse::<u32>().is_ok()).then_some(());
            }
            "programs" | "!programs" | "paths" | "!paths" | "children" => {}
            _ => return None,
        }
        Some(())
    }

    /// Whether the sockets of a program of this name and this effective user may be upgraded.
    #[must_use]
    pub fn allows_program(&self, name: &str, user: u32) -> bool {
        let named = |item: &str| item == name;
        let of_user = |item: &str| item.parse() == Ok(user);
        self.settings.on
            && self.passes("programs", "!programs", named)
            && self.passes("users", "!users", of_user)
    }

    /// Whether any program that this one executes may load the library.
    #[must_use]
    pub fn has_children(&self) -> bool {
        self.settings.on && self.values("children").flat_map(items).next().is_some()
    }

    /// Whether an executed program of this name and this effective user loads the library.
    #[must_use]
    pub fn loads_into(&self, name: &str, user: u32) -> bool {
        let named = |item: &str| item == name || item == "*";
        self.values("children").flat_map(items).any(named) && self.allows_program(name, user)
    }

    /// Whether a TCP connection with these two ports may be upgraded.
    #[must_use]
    pub fn allows_ports(&self, one: u16, other: u16) -> bool {
        let within = |item: &str| {
            range(item).is_some_and(|range| range.contains(&one) || range.contains(&other))
        };
        self.passes("ports", "!ports", within)
    }

    /// Whether a Unix connection with this name at one end may be upgraded; `None`: neither has
    /// one.
    #[must_use]
    pub fn allows_path(&self, path: Option<&[u8]>) -> bool {
        let begins = |item: &str| path.is_some_and(|path| path.starts_with(item.as_bytes()));
        self.passes("paths", "!paths", begins)
    }

    /// Whether a rule needs the names of sockets.
    #[must_use]
    pub fn asks_for_names(&self) -> bool {
        ["ports", "!ports", "paths", "!paths"].iter().any(|name| self.values(name).next().is_some())
    }

    fn values<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        self.line.split_ascii_whitespace().filter_map(move |word| {
            let (own, value) = word.split_once('=')?;
            (own == name).then_some(value)
        })
    }

    fn passes(&self, allow: &str, deny: &str, fits: impl Fn(&str) -> bool) -> bool {
        if self.values(deny).flat_map(items).any(&fits) {
            return false;
        }
        let mut any = false;
        for value in self.values(allow) {
            any = true;
            if items(value).any(&fits) {
                return true;
            }
        }
        !any
    }
}

fn items(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').filter(|item| !item.is_empty())
}

fn range(item: &str) -> Option<core::ops::RangeInclusive<u16>> {
    match item.split_once('-') {
        None => item.parse().ok().map(|port| port..=port),
        Some((from, to)) => {
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            (from <= to).then_some(from..=to)
        }
    }
}

fn switch(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
