//! Programs that are slower with shared memory, and so keep the kernel's sockets by default.
//!
//! Each entry has its reason and its figure, which `m3 sock check --no-defaults` measures again.
//! Three settings move such a program: `defaults = false` in a policy, its name among the allowed
//! programs of a policy, and `--no-defaults`.

/// A program that keeps the kernel's sockets by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExcludedProgram {
    /// The name of the file.
    pub program: &'static str,
    /// The reason, for the user.
    pub why: &'static str,
}

/// All excluded programs.
pub const EXCLUDED: &[ExcludedProgram] = &[
    ExcludedProgram {
        program: "iperf3",
        why: "one bulk stream fills its ring faster than the receiver reads, so most bytes use \
              the kernel, at 0.65 to 0.98 of the native speed",
    },
    ExcludedProgram {
        program: "memcached",
        why: "started by root, it gives up the permission to shared memory before its first \
              socket, so no socket moves, at 0.79 of the native speed",
    },
];

/// The entry of the program with this name.
pub fn find(program: &str) -> Option<&'static ExcludedProgram> {
    EXCLUDED.iter().find(|excluded| excluded.program == program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_fits_a_policy_and_each_entry_has_a_reason() {
        let separates = |letter: char| letter.is_whitespace() || ",/=".contains(letter);
        for (index, excluded) in EXCLUDED.iter().enumerate() {
            let ExcludedProgram { program, why } = excluded;
            assert!(!program.contains(separates), "{excluded:?}");
            assert!(!why.is_empty() && !why.ends_with('.'), "{excluded:?}");
            let mut earlier = EXCLUDED[..index].iter();
            assert!(earlier.all(|other| other.program != *program), "{excluded:?} twice");
            assert_eq!(find(program), Some(excluded));
        }
    }
}
