//! A ledger of every message: no loss, no duplicate, no wrong report.
//!
//! A pulse that was accepted is taken once, in its order, or its receiver dies.

use std::collections::{BTreeMap, VecDeque};

use m3ipc_abi::PULSE_MESSAGE;

use super::*;

#[derive(Debug)]
struct Sent {
    source: Address,
    /// The number of permitted takes: one, and one more for each relay.
    allowed: u32,
    taken: u32,
    fate: Option<Fate>,
}

/// All messages. Each one carries its number in word 0.
#[derive(Default, Debug)]
pub(super) struct Ledger {
    sent: BTreeMap<i32, Sent>,
    /// The message of each endpoint's open call.
    open: BTreeMap<Slot, i32>,
    latest: BTreeMap<Slot, Address>,
    /// The pulses of a sender, by its address, for a receiver that were accepted and not taken.
    pulses: BTreeMap<(i32, Slot), VecDeque<u64>>,
}

impl Ledger {
    /// Applies the step and records its results.
    pub(super) fn step(&mut self, machine: &mut Machine, op: Op) -> Result<(), String> {
        let was_free = matches!(op, Op::Bind(slot) if machine.address(slot).is_none());
        let caller_ran = match op {
            Op::Call { who, .. } => machine.state(who) == Some(crate::rendezvous::State::Running),
            _ => false,
        };
        if let Op::Call { who, call, .. } = op
            && caller_ran
            && let Call::Send { message, .. }
            | Call::Sendrec { message, .. }
            | Call::Reply { message, .. } = call
        {
            let source = machine.address(who).unwrap();
            let sent = Sent { source, allowed: 1, taken: 0, fate: None };
            self.sent.insert(message.word(0), sent);
            self.open.insert(who, message.word(0));
        }
        let ended = machine.step(op);
        self.record_relay(op, &ended);
        if let Op::Call { who, call: Call::Pulse { dst, pulse: (_, value) }, .. } = op
            && ended.contains(&Completion::done(who))
        {
            let from = machine.address(who).ok_or("a caller that does not live")?;
            self.pulses.entry((from.0, dst.slot())).or_default().push_back(value);
        }
        for completion in ended {
            self.record(completion)?;
        }
        if let Op::Kill(slot) | Op::Unbind(slot) = op {
            self.open.remove(&slot);
            self.pulses.retain(|(_, to), _| *to != slot);
        }
        for (_, to) in self.pulses.keys() {
            let wanted: usize =
                self.pulses.iter().filter(|(pair, _)| pair.1 == *to).map(|(_, it)| it.len()).sum();
            if machine.pending_pulses(*to) != wanted {
                return Err(format!("{wanted} pulses wait for {to}, not as many as were accepted"));
            }
        }
        if let Op::Bind(slot) = op
            && was_free
        {
            self.record_bind(slot, machine.address(slot))?;
        }
        machine.check().map_err(|violation| format!("{violation:?}"))
    }

    fn record_relay(&mut self, op: Op, ended: &[Completion]) {
        if let Op::Call { who, call: Call::Relay { client, .. }, .. } = op
            && ended.iter().any(|completion| *completion == Completion::done(who))
        {
            let number = self.open[&client.slot()];
            self.sent.get_mut(&number).unwrap().allowed += 1;
        }
    }

    fn record(&mut self, completion: Completion) -> Result<(), String> {
        if let Ok(Some(message)) = completion.result
            && message.m_type == PULSE_MESSAGE
        {
            let queue = self.pulses.get_mut(&(message.source.0, completion.who));
            let next = queue.and_then(VecDeque::pop_front);
            if next != Some(message.long(1).cast_unsigned()) {
                return Err(format!("{next:?} is the next pulse, not {message:?}"));
            }
        } else if let Ok(Some(message)) = completion.result
            && !message.is_notification()
        {
            let sent = self.sent.get_mut(&message.word(0)).ok_or("a message without a sender")?;
            sent.taken += 1;
            if sent.taken > sent.allowed
                || sent.fate == Some(Fate::Withdrawn)
                || sent.source != message.source
            {
                return Err(format!("duplicate, withdrawn or forged: {sent:?}"));
            }
        }
        if let Some(fate) = completion.fate {
            let number = self.open.remove(&completion.who).ok_or("a fate without a message")?;
            let sent = self.sent.get_mut(&number).unwrap();
            sent.fate = Some(fate);
            if (fate == Fate::Delivered) != (sent.taken > 0) {
                return Err(format!("wrong report: {sent:?}"));
            }
        }
        Ok(())
    }

    /// The generation of a user slot rises with each bind.
    fn record_bind(&mut self, slot: Slot, address: Option<Address>) -> Result<(), String> {
        let Some(address) = address else { return Ok(()) };
        match self.latest.insert(slot, address) {
            Some(last) if slot >= 29 && last.generation() >= address.generation() => {
                Err(format!("{address:?} after {last:?}"))
            }
            _ => Ok(()),
        }
    }
}
