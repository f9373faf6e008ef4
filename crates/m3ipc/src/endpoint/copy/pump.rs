//! The pump: everything that is not one call of the kernel, chunk by chunk.
//!
//! Either side of a copy is one's own memory, a party that the kernel may copy, or
//! a party that copies for itself through its window. A chunk goes from the
//! one to the other by way of a buffer only where neither side brings memory of its own.

use super::berth::STALL_NS;
use super::{Endpoint, Fail, Location, Role};
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::{
    BOUNCE_HALF_BYTES, BounceBuffer, CopyCommand, CopyDirection, CopyOutcome, WaitMode, copy_gate,
};
use m3ipc_sys::{CopySource, CopyTarget, Errno, WaitOutcome};

/// How long the requester looks for the party's next chunk before it sleeps, in nanoseconds.
const LOOK_NS: u64 = 100_000;
/// How long it sleeps before it looks whether the party lives.
const SLEEP_NS: u64 = 50_000_000;
/// No process has memory beyond.
const ADDRESSES_END: u64 = 1 << 47;

/// One side of a copy.
#[derive(Debug)]
pub(super) enum Leg<'a> {
    /// One's own memory, the source.
    Bytes(CopySource<'a>),
    /// One's own memory, the destination.
    Room(CopyTarget<'a>),
    /// A party.
    Party {
        /// Its link.
        index: u32,
        /// Where in its memory.
        location: Location,
    },
}

/// A side that is ready to be copied from or to.
#[derive(Debug)]
enum End<'a> {
    Bytes(CopySource<'a>),
    Room(CopyTarget<'a>),
    Direct {
        index: u32,
        address: u64,
    },
    /// In an area: at the same address here.
    Common {
        index: u32,
        address: u64,
    },
    Served {
        index: u32,
        command: CopyCommand,
    },
}

impl End<'_> {
    fn index(&self) -> Option<u32> {
        match self {
            Self::Direct { index, .. }
            | Self::Common { index, .. }
            | Self::Served { index, .. } => Some(*index),
            Self::Bytes(_) | Self::Room(_) => None,
        }
    }
}

impl Endpoint {
    /// Copies from one side to the other; `failed` is the side that is at fault where it fails.
    #[cold]
    pub(super) fn pump(
        &mut self,
        source: Leg<'_>,
        destination: Leg<'_>,
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
        // A party that waits for nobody else may lie still for both of us at once: each has its own word.
        if let Some(index) = from {
            *failed = Role::Source;
            self.board(index)?;
        }
        if let Some(index) = to {
            *failed = Role::Destination;
            if let Err(fail) = self.board(index) {
                from.into_iter().for_each(|index| self.peers.get(index).link.end_copy());
                return Err(fail);
            }
        }
        m3ipc_sys::pause_point("requester.boarded");
        let result = self.pump_all(&mut source, &mut destination, bytes, deadline, failed);
        for end in [&source, &destination] {
            self.release(end, result.is_ok());
        }
        if result.is_ok() {
            self.desk.count(m3ipc_link::Counter::CopiedServed);
        }
        result
    }

    /// What a party has copied for itself, where the copy failed; it empties what was filled, if there is time.
    #[cold]
    fn count_emptied(&mut self, destination: &End<'_>, filled: u32, may_wait: bool) {
        let End::Served { index, command } = destination else { return };
        let (bytes, what) = (command.bytes, command.direction);
        let count = |window: &BounceBuffer, wait: bool| match (
            window.outcome(),
            window.served(what, filled),
        ) {
            (Some(CopyOutcome { code: Some(_), bytes: told }), _) => Some(told.min(bytes)),
            (_, Ok(emptied)) if emptied == filled || !wait => {
                Some((u64::from(emptied) * BOUNCE_HALF_BYTES as u64).min(bytes))
            }
            (_, Ok(_)) => None,
            (_, Err(_broken)) => Some(0),
        };
        let waited = match may_wait {
            true => self.await_served(*index, Deadline::NEVER, Role::Destination, |window| {
                Ok(count(window, true))
            }),
            false => Err(Code::TimedOut.into()),
        };
        let window = || self.peers.find_index(*index).and_then(|peer| peer.copying.window.as_ref());
        self.copies.copied =
            waited.ok().or_else(|| window().and_then(|window| count(window, false))).unwrap_or(0);
    }

    /// Finds out how a side is copied.
    fn prepare<'a>(
        &mut self,
        leg: Leg<'a>,
        role: Role,
        bytes: u64,
        deadline: Deadline,
    ) -> Result<End<'a>, Fail> {
        let (index, location) = match leg {
            Leg::Bytes(bytes) => return Ok(End::Bytes(bytes)),
            Leg::Room(room) => return Ok(End::Room(room)),
            Leg::Party { index, location } => (index, location),
        };
        if let Some(address) = self.common_address(index, location, bytes) {
            self.meet(index, role, deadline)?;
            return Ok(End::Common { index, address });
        }
        if let Some(address) = self.direct_address(index, location, bytes, role, deadline)? {
            return Ok(End::Direct { index, address });
        }
        if !self.peers.get(index).copying.has_window() {
            self.berth(index, true, role, deadline)?;
        }
        let what = if role == Role::Source { CopyDirection::Read } else { CopyDirection::Write };
        let (space, address) = location.parts();
        Ok(End::Served { index, command: CopyCommand { direction: what, space, address, bytes } })
    }

    fn pump_all(
        &mut self,
        source: &mut End<'_>,
        destination: &mut End<'_>,
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
            if let Err(fail) =
                self.pump_chunk(source, destination, (chunk, done, part), deadline, failed)
            {
                let may_wait = *failed == Role::Source && fail.code != Code::TimedOut;
                self.count_emptied(destination, chunk, may_wait);
                return Err(fail);
            }
            m3ipc_sys::pause_point("requester.chunk");
            chunk += 1;
            done += part as u64;
            if !matches!(destination, End::Served { .. }) {
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
        if let End::Served { index, .. } = destination {
            *failed = Role::Destination;
            let ended = self
                .await_served(*index, deadline, Role::Destination, |window| Ok(window.outcome()));
            let ended = ended.inspect_err(|_fail| self.count_emptied(destination, chunk, false))?;
            self.copies.copied = ended.bytes.min(bytes);
            return ended.code.map_or(Ok(()), |code| Err(told(code)));
        }
        Ok(())
    }

    /// Moves one chunk: number, offset and length.
    fn pump_chunk(
        &mut self,
        source: &mut End<'_>,
        destination: &mut End<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<(), Fail> {
        for (end, role) in [(&*source, Role::Source), (&*destination, Role::Destination)] {
            *failed = role;
            if let End::Direct { index, .. } = end
                && let Err(errno) = self.recognize(*index)
            {
                return Err(self.direct_failure(*index, errno, role));
            }
        }
        *failed = Role::Source;
        if let End::Served { index, command } = source {
            let what = command.direction;
            self.await_served(*index, deadline, Role::Source, |window| {
                // Read first: chunks that were served before the end are seen with it.
                let ended = window.outcome().filter(|outcome| outcome.code.is_some());
                let served = window.served(what, chunk)?;
                match ended {
                    _ if served != chunk => Ok(Some(())),
                    Some(CopyOutcome { code: Some(code), .. }) => Err(told(code)),
                    _ => Ok(None),
                }
            })?;
        }
        if let End::Served { index, command } = destination {
            *failed = Role::Destination;
            let what = command.direction;
            let room = self.await_served(*index, deadline, Role::Destination, |window| {
                if let Some(CopyOutcome { code: Some(code), .. }) = window.outcome() {
                    return Ok(Some(Err(code)));
                }
                let served = window.served(what, chunk)?;
                Ok((chunk.wrapping_sub(served) < 2).then_some(Ok(())))
            })?;
            if let Err(code) = room {
                return Err(told(code));
            }
        }
        let copied = self.copy_chunk(source, destination, (chunk, offset, bytes), failed);
        match copied {
            Ok(copied) if copied == bytes => Ok(()),
            Ok(copied) => {
                if !matches!(destination, End::Served { .. }) {
                    self.copies.copied = offset + copied as u64;
                }
                Err(Code::AddrNotAvail.into())
            }
            Err(errno) => Err(self.chunk_failure(source, destination, errno, *failed)),
        }
    }

    fn copy_chunk(
        &mut self,
        source: &mut End<'_>,
        destination: &mut End<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        failed: &mut Role,
    ) -> Result<usize, Errno> {
        let (peers, own) = (&self.peers, &mut self.copies.own);
        let at = usize::try_from(offset).map_err(|_beyond| Errno::FAULT)?;
        let window = |index: u32| peers.get(index).copying.window.as_ref().ok_or(Errno::BADF);
        // Where the bytes are to be found, or else the process to fetch them from.
        let found = match source {
            End::Bytes(from) => Ok(from.part(at, bytes)),
            End::Served { index, .. } => Ok(window(*index)?.source(chunk, bytes)),
            End::Common { address, .. } => {
                Ok(m3ipc_sys::lent_source(address.wrapping_add(offset), bytes))
            }
            End::Direct { index, address } => {
                Err((peers.get(*index).identity.pid, address.wrapping_add(offset)))
            }
            End::Room(_) => return Err(Errno::INVAL),
        };
        *failed = Role::Destination;
        match (found, destination) {
            (Ok(from), End::Room(into)) => own.copy_in(&from, &into.part(at, bytes)),
            (Ok(from), End::Common { address, .. }) => {
                own.copy_in(&from, &m3ipc_sys::lent_target(address.wrapping_add(offset), bytes))
            }
            (Ok(from), End::Served { index, .. }) => {
                // A window is always there.
                *failed = Role::Source;
                own.copy_out(&from, &window(*index)?.target(chunk, bytes))
            }
            (Ok(from), End::Direct { index, address }) => m3ipc_sys::copy_to_process(
                peers.get(*index).identity.pid,
                address.wrapping_add(offset),
                &from,
            ),
            (Err((pid, there)), End::Room(into)) => {
                *failed = Role::Source;
                m3ipc_sys::copy_from_process(pid, there, &into.part(at, bytes))
            }
            (Err((pid, there)), End::Common { address, .. }) => {
                *failed = Role::Source;
                let room = m3ipc_sys::lent_target(address.wrapping_add(offset), bytes);
                m3ipc_sys::copy_from_process(pid, there, &room)
            }
            (Err((pid, there)), End::Served { index, .. }) => {
                *failed = Role::Source;
                m3ipc_sys::copy_from_process(pid, there, &window(*index)?.target(chunk, bytes))
            }
            (Err((pid, there)), End::Direct { index, address }) => {
                let bounce = self
                    .copies
                    .bounce
                    .get_or_insert_with(|| vec![0; BOUNCE_HALF_BYTES].into_boxed_slice());
                *failed = Role::Source;
                let bounce = &mut bounce[..bytes];
                let read =
                    m3ipc_sys::copy_from_process(pid, there, &CopyTarget::from(&mut *bounce))?;
                let to = peers.get(*index).identity.pid;
                let written = m3ipc_sys::copy_to_process(
                    to,
                    address.wrapping_add(offset),
                    &CopySource::from(&bounce[..read]),
                );
                if written != Ok(bytes) && read == bytes {
                    *failed = Role::Destination;
                }
                written
            }
            (_, End::Bytes(_)) => Err(Errno::INVAL),
        }
    }

    fn chunk_failure(
        &mut self,
        source: &End<'_>,
        destination: &End<'_>,
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
    fn command(&mut self, end: &End<'_>) -> Result<(), Fail> {
        let End::Served { index, command } = end else { return Ok(()) };
        let window = self.peers.get_mut(*index).copying.window.as_mut();
        window.ok_or(Fail::from(Code::ProcSts))?.post_command(command);
        self.alert_party(*index);
        Ok(())
    }

    /// Says that a chunk has been filled or emptied.
    fn advance(&mut self, end: &End<'_>, count: u32) {
        let End::Served { index, .. } = end else { return };
        if let Some(window) = &self.peers.get(*index).copying.window {
            window.advance(count);
        }
        self.alert_party(*index);
    }

    /// Wakes a party where it sleeps, whomever it waits for.
    fn alert_party(&mut self, index: u32) {
        match self.peers.get(index).status.mode() {
            WaitMode::Awake => {}
            WaitMode::OnLinks(_) => self.peers.get(index).link.wake_peer(),
            WaitMode::AtDoorbell(_) => self.ring(index),
        }
    }

    /// Ends the copy with one side.
    fn release(&mut self, end: &End<'_>, well: bool) {
        if let (End::Served { index, .. }, false) = (end, well)
            && let Some(window) = &mut self.peers.get_mut(*index).copying.window
        {
            window.withdraw();
        }
        if let Some(index) = end.index() {
            self.peers.get(index).link.end_copy();
        }
    }

    /// Waits for a party to make progress.
    fn await_served<T>(
        &mut self,
        index: u32,
        deadline: Deadline,
        role: Role,
        look: impl Fn(&BounceBuffer) -> Result<Option<T>, Fail>,
    ) -> Result<T, Fail> {
        let mut since_ns = 0;
        let mut looks = 0_u32;
        loop {
            let window =
                self.peers.get(index).copying.window.as_ref().ok_or(Fail::from(Code::ProcSts))?;
            if let Some(found) = look(window)? {
                return Ok(found);
            }
            looks = looks.wrapping_add(1);
            if !looks.is_multiple_of(32) {
                m3ipc_sys::relax();
                continue;
            }
            let now_ns = m3ipc_sys::monotonic_ns();
            since_ns = if since_ns == 0 { now_ns } else { since_ns };
            if now_ns - since_ns < LOOK_NS && !self.shares_cpu_with(index) {
                continue;
            }
            if let Some(found) =
                self.await_sleeping(index, (since_ns, now_ns), deadline, role, &look)?
            {
                return Ok(found);
            }
        }
    }

    fn await_sleeping<T>(
        &mut self,
        index: u32,
        (since_ns, now_ns): (u64, u64),
        deadline: Deadline,
        role: Role,
        look: &impl Fn(&BounceBuffer) -> Result<Option<T>, Fail>,
    ) -> Result<Option<T>, Fail> {
        self.hear()?;
        let peer = self.peers.find_index(index).ok_or(Fail::from(role.died()))?;
        peer.check(role.died())?;
        if !copy_gate::is_copying(peer.link.peer_copy_gate()) {
            // It had to go, or threw this requester out.
            return Err(Code::ProcSts.into());
        }
        let limit_ns = if deadline.no_wait { u64::MAX } else { deadline.at_ns };
        let until_ns = limit_ns.min(since_ns + STALL_NS);
        if now_ns >= until_ns {
            return Err(Code::TimedOut.into());
        }
        let window = peer.copying.window.as_ref().ok_or(Fail::from(Code::ProcSts))?;
        let knock = window.wake_word().load(std::sync::atomic::Ordering::SeqCst);
        window.set_sleeping(true);
        let found = look(window);
        let waited = match found {
            Ok(None) => m3ipc_sys::wait(window.wake_word(), knock, SLEEP_NS.min(until_ns - now_ns)),
            _ => Ok(WaitOutcome::Changed),
        };
        window.set_sleeping(false);
        match (found?, waited?) {
            (Some(found), _) => Ok(Some(found)),
            (None, WaitOutcome::Signal) => Err(Code::Intr.into()),
            (None, _) => Ok(None),
        }
    }
}

/// The code that a party told, if it is one that it may tell.
fn told(code: i32) -> Fail {
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
