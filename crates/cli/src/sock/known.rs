//! Programs that are known to lose by shared memory, and so stay in the kernel unless a policy says otherwise.
//!
//! Each has its reason and its figure (`m3 sock check --no-defaults` measures it again). A policy with `defaults = false`, one that names
//! the program among those that it allows, or `--no-defaults` moves it all the same.

/// A program that stays in the kernel by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of its file.
    pub program: &'static str,
    /// Why, as people read it.
    pub why: &'static str,
}

/// All of them.
pub const ALL: &[Known] = &[
    Known {
        program: "iperf3",
        why: "a bulk stream of one connection fills its ring faster than it is read and goes through the kernel after all, at 0.65 to 0.98 of the speed without",
    },
    Known {
        program: "memcached",
        why: "started by root it gives up the rights to shared memory before its first socket, so nothing moves, at 0.79 of the speed without",
    },
];

/// What is known of a program with this name.
pub fn of(program: &str) -> Option<&'static Known> {
    ALL.iter().find(|known| known.program == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_can_stand_in_a_policy_and_each_has_its_reason() {
        for (at, known) in ALL.iter().enumerate() {
            assert!(
                !known.program.contains(|c: char| c.is_whitespace() || ",/=".contains(c)),
                "{known:?}"
            );
            assert!(!known.why.is_empty() && !known.why.ends_with('.'), "{known:?}");
            assert!(
                ALL[..at].iter().all(|other| other.program != known.program),
                "{known:?} twice"
            );
            assert_eq!(of(known.program), Some(known));
        }
    }
}
