//! Copies in chunks: every copy that is not one system call.
//!
//! A side of a copy is own memory, a party that the kernel may copy, or a party that copies for
//! itself through its bounce buffer. A chunk passes through another buffer only if neither side
//! brings memory of its own.

use super::{Endpoint, Fail, Location, Role};
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::{
    BOUNCE_HALF_BYTES, BounceBuffer, CopyCommand, CopyDirection, CopyOutcome, WaitMode,
};
use m3ipc_sys::{CopySource, CopyTarget, Errno};

/// The end of the addresses of a process.
const ADDRESSES_END: u64 = 1 << 47;

/// One side of a copy.
#[derive(Debug)]
pub(super) enum CopySide<'a> {
    /// Own memory, the source.
    Source(CopySource<'a>),
    /// Own memory, the destination.
    Target(CopyTarget<'a>),
    /// A party.
    Party {
        /// Its link.
        index: u32,
        /// The location in its memory.
        location: Location,
    },
}

/// A side with its way of copying.
#[derive(Debug)]
enum CopyEnd<'a> {
    Source(CopySource<'a>),
    Target(CopyTarget<'a>),
    Direct {
        index: u32,
        address: u64,
    },
    /// Memory of an area, at the same address here.
    InArea {
        index: u32,
        address: u64,
    },
    Served {
        index: u32,
        command: CopyCommand,
    },
}

impl CopyEnd<'_> {
    fn index(&self) -> Option<u32> {
        match self {
            Self::Direct { index, .. }
            | Self::InArea { index, .. }
            | Self::Served { index, .. } => Some(*index),
            Self::Source(_) | Self::Target(_) => None,
        }
    }
}

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
            self.begin_copy_with(index)?;
        }
        if let Some(index) = to {
            *failed = Role::Destination;
            if let Err(fail) = self.begin_copy_with(index) {
                from.into_iter().for_each(|index| self.peers.get(index).link.end_copy());
                return Err(fail);
            }
        }
        m3ipc_sys::pause_point("requester.boarded");
        let result = self.copy_chunks(&mut source, &mut destination, bytes, deadline, failed);
        for end in [&source, &destination] {
            self.release(end, result.is_ok());
        }
        if result.is_ok() {
            self.control_page.count(m3ipc_link::Counter::CopiedServed);
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
                .and_then(|peer| peer.requester_state.bounce_buffer.as_ref())
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
        if !self.peers.get(index).requester_state.has_bounce_buffer() {
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
            let ended = self.await_served(*index, deadline, Role::Destination, |bounce_buffer| {
                Ok(bounce_buffer.outcome())
            });
            let ended = ended.inspect_err(|_fail| self.count_emptied(destination, chunk, false))?;
            self.copies.copied = ended.bytes.min(bytes);
            return ended.code.map_or(Ok(()), |code| Err(reported(code)));
        }
        Ok(())
    }

    /// Copies one chunk (number, offset, length) when both sides are ready.
    fn copy_chunk_when_ready(
        &mut self,
        source: &mut CopyEnd<'_>,
        destination: &mut CopyEnd<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<(), Fail> {
        for (end, role) in [(&*source, Role::Source), (&*destination, Role::Destination)] {
            *failed = role;
            if let CopyEnd::Direct { index, .. } = end
                && let Err(errno) = self.recognize(*index)
            {
                return Err(self.direct_failure(*index, errno, role));
            }
        }
        *failed = Role::Source;
        if let CopyEnd::Served { index, command } = source {
            let what = command.direction;
            self.await_served(*index, deadline, Role::Source, |bounce_buffer| {
                // Read the outcome first: chunks served before the end are seen with it.
                let ended = bounce_buffer.outcome().filter(|outcome| outcome.code.is_some());
                let served = bounce_buffer.served(what, chunk)?;
                match ended {
                    _ if served != chunk => Ok(Some(())),
                    Some(CopyOutcome { code: Some(code), .. }) => Err(reported(code)),
                    _ => Ok(None),
                }
            })?;
        }
        if let CopyEnd::Served { index, command } = destination {
            *failed = Role::Destination;
            let what = command.direction;
            let buffer =
                self.await_served(*index, deadline, Role::Destination, |bounce_buffer| {
                    if let Some(CopyOutcome { code: Some(code), .. }) = bounce_buffer.outcome() {
                        return Ok(Some(Err(code)));
                    }
                    let served = bounce_buffer.served(what, chunk)?;
                    Ok((chunk.wrapping_sub(served) < 2).then_some(Ok(())))
                })?;
            if let Err(code) = buffer {
                return Err(reported(code));
            }
        }
        let copied = self.copy_chunk(source, destination, (chunk, offset, bytes), failed);
        match copied {
            Ok(copied) if copied == bytes => Ok(()),
            Ok(copied) => {
                if !matches!(destination, CopyEnd::Served { .. }) {
                    self.copies.copied = offset + copied as u64;
                }
                Err(Code::AddrNotAvail.into())
            }
            Err(errno) => Err(self.chunk_failure(source, destination, errno, *failed)),
        }
    }

    fn copy_chunk(
        &mut self,
        source: &mut CopyEnd<'_>,
        destination: &mut CopyEnd<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        failed: &mut Role,
    ) -> Result<usize, Errno> {
        let (peers, own) = (&self.peers, &mut self.copies.own);
        let at = usize::try_from(offset).map_err(|_beyond| Errno::FAULT)?;
        let bounce_buffer =
            |index: u32| peers.get(index).requester_state.bounce_buffer.as_ref().ok_or(Errno::BADF);
        // The bytes, or the process and address to read them from.
        let found = match source {
            CopyEnd::Source(from) => Ok(from.part(at, bytes)),
            CopyEnd::Served { index, .. } => Ok(bounce_buffer(*index)?.source(chunk, bytes)),
            CopyEnd::InArea { address, .. } => {
                Ok(m3ipc_sys::lent_source(address.wrapping_add(offset), bytes))
            }
            CopyEnd::Direct { index, address } => {
                Err((peers.get(*index).identity.pid, address.wrapping_add(offset)))
            }
            CopyEnd::Target(_) => return Err(Errno::INVAL),
        };
        *failed = Role::Destination;
        match (found, destination) {
            (Ok(from), CopyEnd::Target(into)) => own.copy_in(&from, &into.part(at, bytes)),
            (Ok(from), CopyEnd::InArea { address, .. }) => {
                own.copy_in(&from, &m3ipc_sys::lent_target(address.wrapping_add(offset), bytes))
            }
            (Ok(from), CopyEnd::Served { index, .. }) => {
                // A bounce buffer is always mapped, so only the source can fail.
                *failed = Role::Source;
                own.copy_out(&from, &bounce_buffer(*index)?.target(chunk, bytes))
            }
            (Ok(from), CopyEnd::Direct { index, address }) => m3ipc_sys::copy_to_process(
                peers.get(*index).identity.pid,
                address.wrapping_add(offset),
                &from,
            ),
            (Err((pid, there)), CopyEnd::Target(into)) => {
                *failed = Role::Source;
                m3ipc_sys::copy_from_process(pid, there, &into.part(at, bytes))
            }
            (Err((pid, there)), CopyEnd::InArea { address, .. }) => {
                *failed = Role::Source;
                let buffer = m3ipc_sys::lent_target(address.wrapping_add(offset), bytes);
                m3ipc_sys::copy_from_process(pid, there, &buffer)
            }
            (Err((pid, there)), CopyEnd::Served { index, .. }) => {
                *failed = Role::Source;
                m3ipc_sys::copy_from_process(
                    pid,
                    there,
                    &bounce_buffer(*index)?.target(chunk, bytes),
                )
            }
            (Err((pid, there)), CopyEnd::Direct { index, address }) => {
                let relay_buffer = self
                    .copies
                    .relay_buffer
                    .get_or_insert_with(|| vec![0; BOUNCE_HALF_BYTES].into_boxed_slice());
                *failed = Role::Source;
                let relay_buffer = &mut relay_buffer[..bytes];
                let read = m3ipc_sys::copy_from_process(
                    pid,
                    there,
                    &CopyTarget::from(&mut *relay_buffer),
                )?;
                let to = peers.get(*index).identity.pid;
                let written = m3ipc_sys::copy_to_process(
                    to,
                    address.wrapping_add(offset),
                    &CopySource::from(&relay_buffer[..read]),
                );
                if written != Ok(bytes) && read == bytes {
                    *failed = Role::Destination;
                }
                written
            }
            (_, CopyEnd::Source(_)) => Err(Errno::INVAL),
        }
    }

    fn chunk_failure(
        &mut self,
        source: &CopyEnd<'_>,
        destination: &CopyEnd<'_>,
        errno: Errno,
        failed: Role,
    ) -> Fail {
        let end = if failed == Role::Source { source } else { destination };
        match end.index() {
            Some(index) => self.direct_failure(index, errno, failed),
            None if errno == Errno::FAULT => Code::AddrNotAvail.into(),
            None => errno.into(),
        }
    }

    /// Gives a party its command.
    fn command(&mut self, end: &CopyEnd<'_>) -> Result<(), Fail> {
        let CopyEnd::Served { index, command } = end else { return Ok(()) };
        let bounce_buffer = self.peers.get_mut(*index).requester_state.bounce_buffer.as_mut();
        bounce_buffer.ok_or(Fail::from(Code::ProcSts))?.post_command(command);
        self.wake_party(*index);
        Ok(())
    }

    /// Tells a party that a chunk is filled or emptied.
    fn advance(&mut self, end: &CopyEnd<'_>, count: u32) {
        let CopyEnd::Served { index, .. } = end else { return };
        if let Some(bounce_buffer) = &self.peers.get(*index).requester_state.bounce_buffer {
            bounce_buffer.advance(count);
        }
        self.wake_party(*index);
    }

    /// Wakes a sleeping party, whatever it waits for.
    fn wake_party(&mut self, index: u32) {
        match self.peers.get(index).status.mode() {
            WaitMode::Awake => {}
            WaitMode::OnLinks(_) => self.peers.get(index).link.wake_peer(),
            WaitMode::AtDoorbell(_) => self.ring_doorbell_of(index),
        }
    }

    /// Ends the copy with one side.
    fn release(&mut self, end: &CopyEnd<'_>, well: bool) {
        if let (CopyEnd::Served { index, .. }, false) = (end, well)
            && let Some(bounce_buffer) =
                &mut self.peers.get_mut(*index).requester_state.bounce_buffer
        {
            bounce_buffer.withdraw();
        }
        if let Some(index) = end.index() {
            self.peers.get(index).link.end_copy();
        }
    }
}

/// The code that a party reported, if a party may report it.
fn reported(code: i32) -> Fail {
    let known = [
        Code::AddrNotAvail,
        Code::Perm,
        Code::Busy,
        Code::Range,
        Code::NoMem,
        Code::ProcSts,
        Code::PeerBroke,
    ];
    known.into_iter().find(|known| known.number() == code).unwrap_or(Code::PeerBroke).into()
}
