//! The reasons for which a socket stays in the kernel.

/// The reason of a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PinReason {
    /// The policy says so.
    Policy = 1,
    /// A socket option that shared memory cannot mirror.
    Option,
    /// A flag of a call, such as `MSG_OOB`.
    Flag,
    /// Ancillary data on a Unix socket.
    Ancillary,
    /// The C library's buffered files.
    Stdio,
    /// The program passed the descriptor to another process.
    Passed,
    /// The next program does not load this library.
    Exec,
    /// `splice`, `tee`, `vmsplice`.
    Splice,
    /// Asynchronous I/O, io_uring.
    Asynchronous,
    /// The kernel refuses a call that the library needs.
    Refused,
    /// No memory, or a full table.
    Room,
    /// The program ended its sending.
    Ended,
    /// Another thread keeps the lock of the shared memory, or seems to.
    Lock,
    /// The program limits its own system calls.
    Sandbox,
    /// One direction overflows its ring again and again.
    Bulk,
    /// Most messages of one direction needed a wakeup byte. The direction returns to its ring.
    Wakeups,
    /// Both directions rest again and again, and no spin finds their messages: the ring gains
    /// nothing.
    NoGain,
}

impl PinReason {
    /// All reasons, with the names that people and scripts read.
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::Policy, "policy"),
        (Self::Option, "option"),
        (Self::Flag, "flag"),
        (Self::Ancillary, "ancillary"),
        (Self::Stdio, "stdio"),
        (Self::Passed, "passed"),
        (Self::Exec, "exec"),
        (Self::Splice, "splice"),
        (Self::Asynchronous, "asynchronous"),
        (Self::Refused, "refused"),
        (Self::Room, "room"),
        (Self::Ended, "ended"),
        (Self::Lock, "lock"),
        (Self::Sandbox, "sandbox"),
        (Self::Bulk, "bulk"),
        (Self::Wakeups, "wakeups"),
        (Self::NoGain, "no-gain"),
    ];

    /// Whether the socket's bytes move unseen from now on, so that other processes with the same
    /// socket must keep it in the kernel, too.
    #[must_use]
    pub(crate) fn concerns_others(self) -> bool {
        matches!(self, Self::Stdio | Self::Exec | Self::Sandbox)
    }

    /// The name of the reason.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(reason, _)| *reason == self).map_or("unknown", |(_, name)| name)
    }

    /// The reason of a number; `None` for a number of no reason.
    pub(crate) fn numbered(number: u64) -> Option<Self> {
        Self::ALL.iter().map(|(reason, _)| *reason).find(|reason| *reason as u64 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_number_and_name() {
        for (reason, name) in PinReason::ALL {
            assert_eq!(PinReason::numbered(reason as u64), Some(reason));
            assert_eq!(reason.name(), name);
        }
        assert_eq!(PinReason::numbered(0), None);
    }
}
