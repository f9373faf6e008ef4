//! Which stand-ins are looked at, and when.
//!
//! | the loop | a stand-in with news is | found by |
//! |---|---|---|
//! | sleeps now and then | loud: peers ring, and each poll arms the doorbell | its descriptor |
//! | polls before it sleeps | silent: no peer rings | marks and slots: a few loads |
//!
//! A silent stand-in becomes loud, and is polled until it finds nothing, before the loop sleeps. So
//! no message waits for a ring that nobody gives. Stand-ins without news cost a few loads in each
//! pass of the loop, and no system call.
//!
//! A peer may clear the marks of others. Their messages then wait for the next look at all links:
//! that of the next sleep, or the look after a pause. The latter makes a silent stand-in loud for a
//! moment: only one that was loud repeats its failed rings.

use super::super::ends::report;
use super::super::network::Clock;
use super::attention::Pass;
use super::{Delivery, EVENTS_OF_STEP, EVENTS_QUEUED, Entry, Local};
use m3ipc::NodeError;
use m3ipc::nodes::{MessageRoom, Posted, PostedEnd, StandInEvent};
use m3ipc_fabric::{EndpointId, Machine};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

/// The room of the machine for the messages of one look.
struct Room<'a> {
    machine: &'a mut Machine,
    id: EndpointId,
    /// The users of its messages. A sender may give a message up that an earlier call holds.
    users: Vec<u32>,
}

impl MessageRoom for Room<'_> {
    fn admits_user(&mut self, user: u32) -> bool {
        let admits = self.machine.admits(self.id.vm, self.id.address, user, &self.users);
        self.users.extend(admits.then_some(user));
        admits
    }

    fn admits_bytes(&mut self, bytes: u64, beside: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.machine.admits_bytes(self.id.vm, self.id.address, bytes, beside)
    }
}

impl Entry {
    /// Makes the stand-in silent if that is allowed.
    pub(super) fn attend(&mut self, is_silent: bool) {
        if is_silent && !self.attention.needs_rings {
            self.attention.is_silent = true;
            self.stand_in.set_silent(true);
        }
    }

    /// There is room for the messages that wait in their links.
    pub(super) fn unblock(&mut self) {
        (self.blocked, self.attention.has_rung) = (false, true);
    }

    /// Whether a poll is due without further news.
    pub(super) fn has_rung(&self) -> bool {
        self.attention.has_rung
    }

    fn has_news(&self) -> bool {
        // The messages of a blocked one wait; what it has posted goes on.
        !self.blocked && self.stand_in.has_news()
            || self.stand_in.has_copy_command()
            || self.deliveries.values().any(|it| self.stand_in.has_moved(&it.posted, it.told))
    }

    /// Whether something may happen of which neither a ring nor a mark tells.
    fn needs_looks(&self) -> bool {
        let is_untold = |it: &Delivery| !it.told && matches!(it.posted, Posted::Request(_));
        self.blocked
            || self.stand_in.holds_any()
            // A silent one shows a take.
            || !self.attention.is_silent && self.deliveries.values().any(is_untold)
    }
}

impl Local {
    /// The descriptors to poll, that of the daemon first. Without `all`, those of stand-ins that
    /// [`has_news`](Self::has_news) does not tell of.
    pub fn descriptors(&self, all: bool) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stand_ins = self.reported(all).map(|(_, entry)| entry.descriptor.as_fd());
        std::iter::once(self.proxy.as_fd()).chain(stand_ins)
    }

    fn reported(&self, all: bool) -> impl Iterator<Item = (&EndpointId, &Entry)> {
        // The messages of a blocked one wait, and would wake this loop again and again.
        self.stand_ins
            .iter()
            .filter(move |(id, entry)| !entry.blocked && (all || self.must_be_loud(**id, entry)))
    }

    /// The stand-ins whose descriptors have reported something, by the reports of all of
    /// [`descriptors`](Self::descriptors) apart from the first.
    pub fn rung(&self, all: bool, reports: impl Iterator<Item = bool>) -> Vec<EndpointId> {
        let rung = self.reported(all).zip(reports).filter(|(_, has_rung)| *has_rung);
        rung.map(|((id, _), _)| *id).collect()
    }

    /// These stand-ins are polled in the next pass.
    pub fn note_rings(&mut self, rung: &[EndpointId]) {
        for id in rung {
            if let Some(entry) = self.stand_ins.get_mut(id) {
                entry.attention.has_rung = true;
            }
        }
    }

    /// Whether a pass finds something that no descriptor reports. A few loads for each stand-in.
    pub fn has_news(&self, machine: &Machine) -> bool {
        let any = self.stand_ins.iter().any(|(id, entry)| match self.must_be_loud(*id, entry) {
            true => entry.attention.is_silent,
            false => entry.has_news(),
        });
        any || self.copies.has_news(self, machine)
    }

    fn must_be_loud(&self, id: EndpointId, entry: &Entry) -> bool {
        entry.attention.needs_rings || self.copies.needs_rings(id)
    }

    /// Whether any stand-in is silent: no sleep before a pass that is not.
    pub fn is_any_silent(&self) -> bool {
        self.stand_ins.values().any(|entry| entry.attention.is_silent)
    }

    /// Takes all that is new on this node. Whether there was anything.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn step(
        &mut self,
        pass: Pass,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<bool, NodeError> {
        if !self.relayed.is_empty() {
            self.read_events(EVENTS_QUEUED, machine, clock)?;
        } else if pass.daemon || self.proxy.has_queued_events() {
            self.read_events(EVENTS_OF_STEP, machine, clock)?;
        }
        self.report_relays(machine, clock);
        let now = Instant::now();
        self.end_waits(now, machine, clock);
        self.wanted.begin_step(now);
        self.wanted.due().into_iter().for_each(|id| _ = self.turn(id));
        self.step_late_notifications(machine, clock);
        for parcel in std::mem::take(&mut self.late) {
            self.deliver(parcel, machine, clock);
        }
        self.attach_names(now);
        let stand_ins = &self.stand_ins;
        // Its sender pulsed before it called.
        let must_wait = |id: EndpointId, sender| {
            stand_ins.get(&id).is_some_and(|entry| entry.stand_in.has_pulses_of(sender))
        };
        for (id, sender, called) in self.kept.retry(machine, clock.now_ns(), must_wait) {
            self.note_call(id, sender, called);
        }
        self.is_silent = pass.is_silent;
        let (is_look, is_whole) = (self.looks.is_due(now), self.looks.begin_whole(now));
        let mut found_any = is_look && self.place_pulses(machine, clock);
        let mut needs_looks = false;
        let ids: Vec<EndpointId> = self.stand_ins.keys().copied().collect();
        for id in ids {
            let Some(entry) = self.stand_ins.get(&id) else { continue };
            let attention = entry.attention;
            let is_silent = pass.is_silent && !self.must_be_loud(id, entry);
            let looks = is_look && entry.needs_looks();
            let is_due = attention.has_rung
                || attention.is_silent && (is_whole || !is_silent)
                // The marks of a loud one may be cleared too, and no sleep follows.
                || is_whole && pass.is_silent
                || looks
                || entry.has_news();
            if is_due {
                let has_looked = attention.is_silent && !attention.has_rung;
                let only_marked = is_silent && has_looked && !looks && !is_whole;
                if is_whole && is_silent && attention.is_silent {
                    // The next poll then repeats failed rings, and asks for missing links again.
                    found_any |= self.poll(id, false, false, machine, clock)?;
                }
                found_any |= self.poll(id, is_silent, only_marked, machine, clock)?;
            }
            if is_silent
                && !is_due
                && self.copies.involves(id)
                && let Some(entry) = self.stand_ins.get_mut(&id)
            {
                // The programs of its copies need not ring: this pass goes on with all copies.
                entry.attend(true);
            }
            needs_looks |= self.stand_ins.get(&id).is_some_and(Entry::needs_looks);
        }
        found_any |= self.step_copies(machine, clock);
        let needs_looks = needs_looks || self.copies.any() || self.pulses.needs_looks();
        if is_look {
            self.looks.looked(now, needs_looks);
        }
        if needs_looks && (found_any || self.looks.next().is_none()) {
            self.looks.look_soon(now);
        }
        Ok(found_any)
    }

    /// Polls a stand-in; a loud one until it finds nothing. Whether it found anything.
    fn poll(
        &mut self,
        id: EndpointId,
        is_silent: bool,
        only_marked: bool,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<bool, NodeError> {
        let mut found_any = false;
        loop {
            let Some(entry) = self.stand_ins.get_mut(&id) else { return Ok(found_any) };
            (entry.attention.has_rung, entry.attention.is_silent) = (false, is_silent);
            entry.stand_in.set_silent(is_silent);
            let mut room = Room { machine, id, users: Vec::new() };
            let found = match entry.blocked {
                true => entry.stand_in.poll_without_messages(),
                false => entry.stand_in.poll_admitted(only_marked, &mut room),
            };
            // A poll that finds nothing may have read the event that ends the stand-in.
            let stays = |found: &Vec<_>| !found.is_empty() || !entry.stand_in.has_left();
            let Some(found) = found.ok().filter(stays) else {
                // Another process unbound it, or its VM has ended.
                self.remove(id, machine, clock);
                self.wanted.ended(id);
                return Ok(found_any);
            };
            let mut is_over = found.is_empty();
            // The end of a sender may be read before its event is reached here.
            for event in &found {
                if let StandInEvent::Notified { from, bits } = event {
                    self.keep_notification(id, *from, *bits);
                }
            }
            for event in found {
                self.local_event(id, event, machine, clock)?;
            }
            is_over &= !self.poll_deliveries(id, machine, clock);
            found_any |= !is_over;
            let entry = self.stand_ins.get_mut(&id).filter(|it| it.stand_in.has_left_any());
            if let Some(entry) = entry {
                // One look copies a bounded number of bytes. The next pass has the rest.
                entry.attention.has_rung |= !entry.blocked;
                return Ok(true);
            }
            // A silent one shows the rest in the next pass.
            if is_over || is_silent {
                return Ok(found_any);
            }
        }
    }

    /// A stand-in has posted a message.
    pub(super) fn note_delivery(&mut self, id: EndpointId, machine: &mut Machine, clock: &Clock) {
        let Some(entry) = self.stand_ins.get_mut(&id) else { return };
        if entry.attention.is_silent {
            // The next pass shows what became of it.
            entry.attention.needs_rings = entry.stand_in.needs_rings();
            return;
        }
        self.looks.look_soon(Instant::now());
        self.poll_deliveries(id, machine, clock);
    }

    /// Whether any delivery of a stand-in has moved on.
    pub(super) fn poll_deliveries(
        &mut self,
        id: EndpointId,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let Some(entry) = self.stand_ins.get_mut(&id) else { return false };
        let (mut ended, mut has_moved) = (Vec::new(), false);
        for (number, delivery) in &mut entry.deliveries {
            let end = entry.stand_in.poll_posted(&mut delivery.posted);
            if end.is_some() {
                // The receiver may have notified before it answered. No bit is set in a plain one.
                let kept = entry.notified.remove(&delivery.to);
                let new = entry.stand_in.notified_by(delivery.to);
                if let Some(bits) = kept.into_iter().chain(new).reduce(|all, bits| all | bits) {
                    let source = EndpointId::new(id.vm, delivery.to);
                    machine.notify_before_answer(clock.now_ns(), source, id.address, bits);
                }
            }
            match end {
                // `remove` finds out whether the receiver has it.
                Some(PostedEnd::Failed(_)) if !entry.stand_in.is_bound() => {}
                Some(end @ PostedEnd::Relayed(..)) => {
                    self.relayed.push((*number, end));
                    ended.push(*number);
                }
                Some(end) => {
                    report(machine, clock, *number, end);
                    ended.push(*number);
                }
                None if !delivery.told && entry.stand_in.is_taken(&delivery.posted) => {
                    (delivery.told, has_moved) = (true, true);
                    // The machine counts them no longer, and the answer may take long.
                    entry.stand_in.forget_bytes(&mut delivery.posted);
                    machine.taken(clock.now_ns(), *number);
                }
                None => {}
            }
        }
        for number in &ended {
            entry.deliveries.remove(number);
            self.deliveries.remove(number);
        }
        entry.attention.needs_rings = entry.stand_in.needs_rings();
        has_moved || !ended.is_empty()
    }
}
