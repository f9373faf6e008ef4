//! How a sleeper learns of the end of its daemon.
//!
//! | sleep | the sleeper learns of the end | the sleep ends |
//! |---|---|---|
//! | in the first second of a wait | by a look at the connection | after a second |
//! | later | the kernel marks the daemon mark in the control page, which the sleep includes | after a minute |
//! | later, at the doorbell | the sleep includes the open connection | after a minute |
//! | after the mark or the close | by looks for the next daemon | after 8 to 24 ms, then later |
//!
//! A wait has other reasons to look about once a second: see [`Endpoint::has_upkeep`]. Such a wait
//! goes by the clock, as does one whose control page has no mark.

use super::Endpoint;
use super::waiter::SLOW_CHECK_NS;
use core::sync::atomic::Ordering;
use m3ipc_link::{DaemonMark, WaitCall};

/// The first pause between the mark or the close and a look for the next daemon. It leaves the
/// start of that to a supervisor, if there is one.
const AFTER_END_NS: u64 = 1 << 23;

/// The longest sleep with a mark or a connection. The kernel cannot mark pages whose memory is gone
/// when the daemon ends, for example after a lack of memory.
pub(super) const MARKED_SLEEP_NS: u64 = 60_000_000_000;

/// What ends a sleep if the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DaemonWatch {
    /// A limit, in nanoseconds: the sleeper then looks.
    Clock(u64),
    /// The mark, which has this value.
    Mark(u32),
    /// The connection.
    Connection,
    /// It has ended: a pause, in nanoseconds, before the look for the next daemon.
    Pause(u64),
}

impl DaemonWatch {
    /// The longest sleep, in nanoseconds.
    pub(super) fn limit_ns(self) -> u64 {
        match self {
            Self::Clock(limit_ns) | Self::Pause(limit_ns) => limit_ns,
            Self::Mark(_) | Self::Connection => MARKED_SLEEP_NS,
        }
    }
}

impl Endpoint {
    /// How a sleep of this wait learns of the end of the daemon.
    pub(super) fn daemon_watch(
        &self,
        verb: WaitCall,
        slept_ns: u64,
        on_doorbell: bool,
    ) -> DaemonWatch {
        if self.session.has_daemon_ended() {
            let looks = self.session.looks_after_end();
            return DaemonWatch::Pause(after_end_ns(looks, m3ipc_sys::process_id()));
        }
        let value = self.session.page().daemon_mark().load(Ordering::Acquire);
        match DaemonMark::of(value) {
            _ if slept_ns < SLOW_CHECK_NS || self.has_upkeep(verb) => {
                DaemonWatch::Clock(SLOW_CHECK_NS)
            }
            _ if on_doorbell => DaemonWatch::Connection,
            DaemonMark::Live => DaemonWatch::Mark(value),
            // A mark that came just now changes nothing: the next sleep sees it.
            DaemonMark::None | DaemonMark::Ended => DaemonWatch::Clock(SLOW_CHECK_NS),
        }
    }

    /// Whether a sleeper has work from time to time: to mark its message again, to repeat a ring,
    /// to ask for a missing link, to look for blocks that came back, or to ask the hook that may
    /// end the wait.
    fn has_upkeep(&self, verb: WaitCall) -> bool {
        matches!(verb, WaitCall::Send | WaitCall::SendRec)
            || self.session.has_upkeep()
            || !self.areas.is_empty()
            || self.waiter.has_interruption()
    }

    /// After a sleep at the doorbell that no ring ended: notes a close of the connection.
    pub(super) fn look_for_close(&mut self) {
        if !self.session.control().is_known_closed() && self.session.control_mut().is_closed() {
            // The first pause begins.
            self.waiter.note_check(m3ipc_sys::monotonic_ns());
        }
    }

    /// Whether to look for the next daemon after this sleep, which a wake-up ended.
    pub(super) fn must_look(&self, watch: DaemonWatch, now_ns: u64) -> bool {
        match watch {
            DaemonWatch::Clock(_) | DaemonWatch::Connection => self.waiter.is_check_due(now_ns),
            DaemonWatch::Pause(pause_ns) => self.waiter.is_check_due_after(now_ns, pause_ns),
            DaemonWatch::Mark(value) => {
                self.session.page().daemon_mark().load(Ordering::Acquire) != value
                    || self.waiter.is_check_due(now_ns)
            }
        }
    }
}

/// The pause before a look for the next daemon, after so many looks. The sleepers of a node do not
/// all look at the same time.
fn after_end_ns(looks: u32, pid: i32) -> u64 {
    let spread_ns = u64::from(pid.cast_unsigned() & 15) << 20;
    (AFTER_END_NS << looks.min(7)).min(SLOW_CHECK_NS) + spread_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::WaitError;
    use m3ipc_abi::Address;
    use m3ipc_link::Counter;
    use m3ipc_sys::WAIT_WORDS_MAX;

    #[test]
    fn a_sleep_goes_by_the_clock_unless_the_daemon_gave_a_mark() {
        let node = crate::test::node();
        let (server, _client) = node.pair_without_link();
        let page = server.session.page();
        let watch = |verb, slept_ns, on_doorbell| server.daemon_watch(verb, slept_ns, on_doorbell);
        let clock = DaemonWatch::Clock(SLOW_CHECK_NS);
        let until = m3ipc_sys::monotonic_ns() + 10 * SLOW_CHECK_NS;
        // The daemon gives the mark after its reply to the bind.
        while DaemonMark::of(page.daemon_mark().load(Ordering::Acquire)) != DaemonMark::Live {
            assert!(m3ipc_sys::monotonic_ns() < until, "no mark of the daemon");
            std::thread::yield_now();
        }
        let live = page.daemon_mark().load(Ordering::Acquire);
        assert_eq!(watch(WaitCall::Receive, SLOW_CHECK_NS - 1, false), clock);
        assert_eq!(watch(WaitCall::Receive, SLOW_CHECK_NS, false), DaemonWatch::Mark(live));
        assert_eq!(watch(WaitCall::Await, SLOW_CHECK_NS, false), DaemonWatch::Mark(live));
        assert_eq!(watch(WaitCall::Receive, SLOW_CHECK_NS, true), DaemonWatch::Connection);
        // A message that the peer has not taken is marked again.
        assert_eq!(watch(WaitCall::SendRec, SLOW_CHECK_NS, false), clock);
        // An older daemon, one without room, or one that runs where robust lists are refused.
        page.daemon_mark().store(0, Ordering::Release);
        assert_eq!(watch(WaitCall::Receive, SLOW_CHECK_NS, false), clock);
        assert_eq!(watch(WaitCall::Receive, SLOW_CHECK_NS, true), DaemonWatch::Connection);
        let ended = m3ipc_sys::LIVENESS_WAITERS | m3ipc_sys::LIVENESS_OWNER_DIED;
        page.daemon_mark().store(ended, Ordering::Release);
        let soon = watch(WaitCall::Receive, 0, false).limit_ns();
        assert!(soon < SLOW_CHECK_NS / 10, "the connection closes soon");
    }

    #[test]
    fn a_hook_is_asked_once_a_second() {
        let node = crate::test::node();
        let (mut server, _client) = node.pair_without_link();
        server.interrupt_by(|| false);
        let watch = server.daemon_watch(WaitCall::Receive, SLOW_CHECK_NS, false);
        assert_eq!(watch, DaemonWatch::Clock(SLOW_CHECK_NS));
    }

    fn signal_daemon(node: &crate::test::TestNode, pid: &str, signal: &str) {
        let sent = std::process::Command::new("kill").args([signal, pid]).status();
        assert!(sent.expect("kill runs").success(), "{node:?}");
    }

    fn daemon_pid(node: &crate::test::TestNode) -> String {
        let info = crate::Node::find(node.directory()).and_then(|mut node| node.info());
        info.expect("a daemon").daemon_pid.to_string()
    }

    /// Acts beside a daemon that has ended and has no successor. A file in place of the runtime
    /// directory prevents a start of the next daemon.
    fn beside_an_ended_daemon(node: &crate::test::TestNode, act: impl FnOnce()) {
        let pid = daemon_pid(node);
        let aside = node.directory().with_extension("aside");
        std::fs::rename(node.directory(), &aside).expect("own directory");
        std::fs::write(node.directory(), "").expect("own file");
        signal_daemon(node, &pid, "-9");
        act();
        std::fs::remove_file(node.directory()).expect("own file");
        std::fs::rename(&aside, node.directory()).expect("own directory");
    }

    /// The sleeps of an endpoint beside an ended daemon.
    fn sleeps_beside_an_ended_daemon(node: &crate::test::TestNode, server: &mut Endpoint) -> u64 {
        let before = server.session.page().counter(Counter::Slept);
        beside_an_ended_daemon(node, || {
            for _ in 0..3 {
                let limit = core::time::Duration::from_millis(100);
                server.receive_timeout(Source::Any, limit).expect_err("nobody sends");
            }
        });
        server.session.page().counter(Counter::Slept) - before
    }

    #[test]
    fn limits_and_signals_end_waits_for_others_beside_an_ended_daemon() {
        let node = crate::test::node();
        let (mut server, _client) = node.pair_without_link();
        let other = server.address();
        let limit = core::time::Duration::from_millis(100);
        beside_an_ended_daemon(&node, || {
            let ends = [
                server.wait_name("nobody", limit).map(drop),
                server.wait_bind(Address(7), limit).map(drop),
                server.wait_unbind(other, limit),
            ];
            assert!(ends.iter().all(|end| matches!(end, Err(WaitError::TimedOut(_)))), "{ends:?}");
            server.interrupt_by(|| true);
            let end = server.wait_name("nobody", None);
            assert!(matches!(end, Err(WaitError::Interrupted(_))), "{end:?}");
        });
    }

    /// A server that has not slept, and more clients than a sleep has words.
    fn with_many_links(node: &crate::test::TestNode) -> (Endpoint, Vec<Endpoint>) {
        let (mut server, client) = node.pair_without_link();
        let bind = |slot| node.vm().bind_additional(Some(slot)).expect("a slot");
        let further = (3..).take(WAIT_WORDS_MAX).map(bind);
        let mut clients: Vec<_> = std::iter::once(client).chain(further).collect();
        for client in &mut clients {
            client.notify(server.address()).expect("a link");
            server.receive(Source::Any).expect("the notification");
        }
        (server, clients)
    }

    /// A server with many links, which has no doorbell, gets a message that comes in its sleep.
    fn receives_in_its_first_sleep(server: &mut Endpoint, clients: &mut [Endpoint]) {
        let to = server.address();
        let client = clients.last_mut().expect("a client");
        let is_over = core::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let index = client.peers.find(to).expect("a link");
                while client.peers.get(index).is_awake() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                client.notify(to).expect("the server sleeps");
            });
            let received = server.receive(Source::Any);
            is_over.store(true, Ordering::Relaxed);
            assert!(received.expect("a notification").is_notification());
        });
        assert!(server.waiter.doorbell().is_none(), "no daemon gave one");
    }

    #[test]
    fn the_first_sleep_with_many_links_needs_no_daemon() {
        let node = crate::test::node();
        let (mut server, mut clients) = with_many_links(&node);
        beside_an_ended_daemon(&node, || {
            receives_in_its_first_sleep(&mut server, &mut clients);
            let limit = core::time::Duration::from_millis(100);
            let end = server.receive_timeout(Source::Any, limit);
            assert!(matches!(end, Err(crate::ReceiveError::TimedOut(_))), "{end:?}");
            server.interrupt_by(|| true);
            let end = server.receive(Source::Any);
            assert!(matches!(end, Err(crate::ReceiveError::Interrupted(_))), "{end:?}");
        });
    }

    #[test]
    fn the_first_sleep_with_many_links_awaits_no_stopped_daemon() {
        let node = crate::test::node();
        let (mut server, mut clients) = with_many_links(&node);
        let pid = daemon_pid(&node);
        signal_daemon(&node, &pid, "-STOP");
        receives_in_its_first_sleep(&mut server, &mut clients);
        signal_daemon(&node, &pid, "-CONT");
        let limit = core::time::Duration::from_millis(20);
        while server.waiter.doorbell().is_none() {
            server.receive_timeout(Source::Any, limit).expect_err("nobody sends");
        }
    }

    #[test]
    fn a_server_with_many_links_sleeps_beside_an_ended_daemon() {
        let node = crate::test::node();
        let (mut server, _clients) = with_many_links(&node);
        // A sleep opens the doorbell. On a busy machine the limit may end before the sleep.
        let limit = core::time::Duration::from_millis(20);
        let opens = (0..1_000).any(|_| {
            server.receive_timeout(Source::Any, limit).expect_err("nobody sends");
            server.waiter.doorbell().is_some()
        });
        assert!(opens, "more links than a sleep has words");
        let sleeps = sleeps_beside_an_ended_daemon(&node, &mut server);
        assert!(sleeps < 60, "{sleeps} sleeps in place of a few");
    }

    #[test]
    fn looks_after_the_end_become_rare() {
        let pauses: Vec<u64> = (0..8).map(|looks| after_end_ns(looks, 0) / 1_000_000).collect();
        assert_eq!(pauses, [8, 16, 33, 67, 134, 268, 536, 1_000]);
        assert!((0..99).all(|pid| (8..25).contains(&(after_end_ns(0, pid) / 1_000_000))));
    }
}
