//! Requests that go again when the daemon dies during them.

use super::contact::TRIES;
use crate::error::Fail;
use m3ipc_abi::Code;

/// A daemon that ends after so long was no failed try.
const LASTED_NS: u64 = 1_000_000_000;

/// Repeats an attempt if the daemon dies during it. The next daemon knows the journal, and gives an
/// endpoint to the process that had it.
pub(super) fn retry_on_daemon_death<T>(
    mut attempt: impl FnMut() -> Result<T, Fail>,
) -> Result<T, Fail> {
    for _ in 1..TRIES {
        match attempt() {
            Err(fail) if fail.code == Code::NotConn => {}
            other => return other,
        }
    }
    attempt()
}

/// The same for an attempt that may wait for days: daemons that have answered for [`LASTED_NS`] do
/// not count.
pub(super) fn retry_waits<T>(
    now_ns: impl Fn() -> u64,
    mut attempt: impl FnMut() -> Result<T, Fail>,
) -> Result<T, Fail> {
    let mut tries = 1;
    loop {
        let begin_ns = now_ns();
        match attempt() {
            Err(fail) if fail.code == Code::NotConn => {
                tries = match now_ns().saturating_sub(begin_ns) < LASTED_NS {
                    true => tries + 1,
                    false => 1,
                };
                if tries > TRIES {
                    return Err(fail);
                }
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_long_wait_survives_any_number_of_daemons_and_a_short_one_some() {
        let (now_ns, tried) = (Cell::new(0), Cell::new(0_u32));
        let attempt = |lasts_ns: u64, most: u32| {
            now_ns.set(now_ns.get() + lasts_ns);
            tried.set(tried.get() + 1);
            if tried.get() <= most { Err(Fail::from(Code::NotConn)) } else { Ok(()) }
        };
        let wait = |lasts_ns, most| {
            tried.set(0);
            retry_waits(|| now_ns.get(), || attempt(lasts_ns, most)).map_err(|fail| fail.code)
        };
        assert_eq!(wait(LASTED_NS, 10 * TRIES), Ok(()));
        assert_eq!(wait(LASTED_NS - 1, TRIES - 1), Ok(()));
        assert_eq!((wait(LASTED_NS - 1, TRIES), tried.get()), (Err(Code::NotConn), TRIES));
    }
}
