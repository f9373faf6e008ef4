//! Copies in chunks: every copy that is not one system call.
//!
//! A side of a copy is own memory, a party that the kernel may copy, or a party that copies for
//! itself through its bounce buffer. A chunk passes through another buffer only if neither side
//! brings memory of its own.

use super::chunk::reported;
use super::party::begin_copy;
use super::side::{CopyEnd, CopySide, Role};
use crate::endpoint::Endpoint;
use crate::error::Fail;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::{BOUNCE_HALF_BYTES, BounceBuffer, CopyCommand, CopyDirection, CopyOutcome};

/// The end of the addresses of a process.
const ADDRESSES_END: u64 = 1 << 47;

impl Endpoint {
    /// Copies from one side to the other. After a failure `failed` is the side at fault.
    #[cold]
    pub(super) fn copy_chunked(
        &mut self,
        source: CopySide<'_>,
        destination: CopySide<'_>,
        bytes: u64,
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<(), Fail> {
        if bytes > ADDRESSES_END {
            return Err(Code::AddrNotAvail.into());
        }
        *failed = Role::Source;
        let mut source = self.prepare(source, Role::Source, bytes, deadline)?;
        *failed = Role::Destination;
        let mut destination = self.prepare(destination, Role::Destination, bytes, deadline)?;
        let (from, to) = (source.index(), destination.index());
        // A party may admit two requesters at once: each link has its own gate.
        if let Some(index) = from {
            *failed = Role::Source;
            begin_copy(self.peers.get(index))?;
        }
        if let Some(index) = to {
            *failed = Role::Destination;
            if let Err(fail) = begin_copy(self.peers.get(index)) {
                from.into_iter().for_each(|index| self.peers.get(index).link().end_copy());
                return Err(fail);
            }
        }
        m3ipc_sys::pause_point("requester.boarded");
        let result = self.copy_chunks(&mut source, &mut destination, bytes, deadline, failed);
        for end in [&source, &destination] {
            self.release(end, result.is_ok());
        }
        if result.is_ok() {
            self.session.page().count(m3ipc_link::Counter::CopiedServed);
        }
        result
    }

    /// Counts the bytes that a party copied for itself before a failure. With `may_wait` the party
    /// empties the filled chunks first.
    #[cold]
    fn count_emptied(&mut self, destination: &CopyEnd<'_>, filled: u32, may_wait: bool) {
        let CopyEnd::Served { index, command } = destination else { return };
        let (bytes, what) = (command.bytes, command.direction);
        let count = |bounce_buffer: &BounceBuffer, wait: bool| match (
            bounce_buffer.outcome(),
            bounce_buffer.served(what, filled),
        ) {
            (Some(CopyOutcome { code: Some(_), bytes: counted }), _) => Some(counted.min(bytes)),
            (_, Ok(emptied)) if emptied == filled || !wait => {
                Some((u64::from(emptied) * BOUNCE_HALF_BYTES as u64).min(bytes))
            }
            (_, Ok(_)) => None,
            (_, Err(_broken)) => Some(0),
        };
        let waited = match may_wait {
            true => {
                self.await_served(*index, Deadline::NEVER, Role::Destination, |bounce_buffer| {
                    Ok(count(bounce_buffer, true))
                })
            }
            false => Err(Code::TimedOut.into()),
        };
        let bounce_buffer = || {
            self.peers
                .find_index(*index)
                .and_then(|peer| peer.copies().requester().bounce_buffer.as_ref())
        };
        self.copies.copied = waited
            .ok()
            .or_else(|| bounce_buffer().and_then(|bounce_buffer| count(bounce_buffer, false)))
            .unwrap_or(0);
    }

    /// Chooses the way of copying for a side.
    fn prepare<'a>(
        &mut self,
        leg: CopySide<'a>,
        role: Role,
        bytes: u64,
        deadline: Deadline,
    ) -> Result<CopyEnd<'a>, Fail> {
        let (index, location) = match leg {
            CopySide::Source(bytes) => return Ok(CopyEnd::Source(bytes)),
            CopySide::Target(buffer) => return Ok(CopyEnd::Target(buffer)),
            CopySide::Party { index, location } => (index, location),
        };
        if let Some(address) = self.common_address(index, location, bytes) {
            self.ensure_probed(index, role, deadline)?;
            return Ok(CopyEnd::InArea { index, address });
        }
        if let Some(address) = self.direct_address(index, location, bytes, role, deadline)? {
            return Ok(CopyEnd::Direct { index, address });
        }
        if self.peers.get(index).copies().requester().bounce_buffer.is_none() {
            self.request_gate(index, true, role, deadline)?;
        }
        let what = if role == Role::Source { CopyDirection::Read } else { CopyDirection::Write };
        let (space, address) = location.parts();
        Ok(CopyEnd::Served {
            index,
            command: CopyCommand { direction: what, space, address, bytes },
        })
    }

    fn copy_chunks(
        &mut self,
        source: &mut CopyEnd<'_>,
        destination: &mut CopyEnd<'_>,
        bytes: u64,
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<(), Fail> {
        for end in [&*source, &*destination] {
            self.command(end)?;
        }
        let mut done = 0;
        let mut chunk = 0;
        while done < bytes {
            let part = usize::try_from((bytes - done).min(BOUNCE_HALF_BYTES as u64))
                .unwrap_or(BOUNCE_HALF_BYTES);
            if let Err(fail) = self.copy_chunk_when_ready(
                source,
                destination,
                (chunk, done, part),
                deadline,
                failed,
            ) {
                let may_wait = *failed == Role::Source && fail.code != Code::TimedOut;
                self.count_emptied(destination, chunk, may_wait);
                return Err(fail);
            }
            m3ipc_sys::pause_point("requester.chunk");
            chunk += 1;
            done += part as u64;
            if !matches!(destination, CopyEnd::Served { .. }) {
                self.copies.copied = done;
            }
            for end in [&*source, &*destination] {
                self.advance(end, chunk);
            }
            if deadline.is_finite()
                && !deadline.no_wait
                && m3ipc_sys::monotonic_ns() >= deadline.at_ns
            {
                self.count_emptied(destination, chunk, false);
                return Err(Code::TimedOut.into());
            }
        }
        if let CopyEnd::Served { index, .. } = destination {
            *failed = Role::Destination;
            let by_stand_in = self.is_stand_in(*index);
            let ended = self.await_served(*index, deadline, Role::Destination, |bounce_buffer| {
                Ok(bounce_buffer.outcome())
            });
            let ended = ended.inspect_err(|_fail| self.count_emptied(destination, chunk, false))?;
            self.copies.copied = ended.bytes.min(bytes);
            return ended.code.map_or(Ok(()), |code| Err(reported(code, by_stand_in)));
        }
        Ok(())
    }

    /// Gives a party its command.
    fn command(&mut self, end: &CopyEnd<'_>) -> Result<(), Fail> {
        let CopyEnd::Served { index, command } = end else { return Ok(()) };
        let mut party = self.conversation(*index);
        let bounce_buffer = party.peer().copies_mut().requester_mut().bounce_buffer.as_mut();
        bounce_buffer.ok_or(Fail::from(Code::ProcSts))?.post_command(command);
        party.wake_in_any_wait();
        Ok(())
    }

    /// Tells a party that a chunk is filled or emptied.
    fn advance(&mut self, end: &CopyEnd<'_>, count: u32) {
        let CopyEnd::Served { index, .. } = end else { return };
        let mut party = self.conversation(*index);
        if let Some(bounce_buffer) = &party.peer().copies_mut().requester_mut().bounce_buffer {
            bounce_buffer.advance(count);
        }
        party.wake_in_any_wait();
    }

    /// Ends the copy with one side.
    fn release(&mut self, end: &CopyEnd<'_>, well: bool) {
        let Some(index) = end.index() else { return };
        let peer = self.peers.get_mut(index);
        if let (CopyEnd::Served { .. }, false, Some(bounce_buffer)) =
            (end, well, &mut peer.copies_mut().requester_mut().bounce_buffer)
        {
            bounce_buffer.withdraw();
        }
        peer.link().end_copy();
    }
}
