//! Attacks on one member over links with it: copies that never end, and a poisoned link.

use super::{Greedy, refusal};
use m3ipc_link::{LINK_BYTES, Link, LinkSide, Page, copy_gate};
use m3ipc_wire::Request;
use std::sync::atomic::Ordering::SeqCst;

/// Endpoints of one process that hold the victim.
const HOLDERS: usize = 160;
/// The time of one round of either attack.
const ROUND_NS: u64 = 2_000_000_000;
/// The wake word of the victim: the attacker made the link.
const VICTIMS_WAKE: usize = 0x140;
/// The bytes of a ready bitmap.
const READY_BYTES: usize = 4096;

impl Greedy<'_> {
    /// Holds a member by copies that never end, over many endpoints. Says how many endpoints it
    /// has, and how many copies it began.
    pub(super) fn hold_by_copies(&mut self, victim: i32) -> String {
        let gate = Request::CopyGate { peer: victim, surely: true, bounce_buffer: false };
        let gate = m3ipc_wire::encode(&gate);
        let mut links = Vec::new();
        while links.len() < HOLDERS && refusal(self.bind()).is_none() {
            let Some(raw) = self.kept.last_mut() else { break };
            let Some(pages) = raw.contact(victim) else { break };
            // The answer waits for the victim.
            raw.send_bytes(&gate, &[]);
            links.push(Link::over(pages.link, LinkSide::Zero));
        }
        let until_ns = m3ipc_sys::monotonic_ns() + ROUND_NS;
        let mut copies = 0;
        while m3ipc_sys::monotonic_ns() < until_ns {
            let begun =
                links.iter().filter(|link| copy_gate::begin_copy(link.peer_copy_gate()).is_ok());
            copies += begun.count();
            m3ipc_sys::yield_cpu();
        }
        format!("{} {copies}", links.len())
    }

    /// Breaks the rules of a link, and notifies over it without end. Says how often.
    pub(super) fn notify_over_a_poisoned_link(&mut self, victim: i32) -> String {
        self.bind();
        let Some(pages) = self.first().contact(victim) else { return "no link".to_owned() };
        let until_ns = m3ipc_sys::monotonic_ns() + ROUND_NS;
        let mut count = 0;
        while m3ipc_sys::monotonic_ns() < until_ns {
            // No state is valid, and each bit of the notification is set.
            pages.link.write(0, &[0xff; LINK_BYTES]);
            let words = (0..READY_BYTES).step_by(8);
            words.for_each(|at| pages.ready.word64(at).store(u64::MAX, SeqCst));
            let wake_word = Page::word32(&pages.link, VICTIMS_WAKE);
            wake_word.store(count, SeqCst);
            m3ipc_sys::wake(wake_word);
            count += 1;
        }
        format!("{count}")
    }
}
