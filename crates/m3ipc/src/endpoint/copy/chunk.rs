//! One chunk of a copy: wait until both sides are ready, then copy.

use super::party::{direct_failure, recognize};
use super::side::{CopyEnd, Role};
use crate::endpoint::Endpoint;
use crate::error::Fail;
use crate::octets::Octets;
use crate::timeout::Deadline;
use m3ipc_abi::Code;
use m3ipc_link::{BOUNCE_HALF_BYTES, CopyOutcome};
use m3ipc_sys::{CopySource, CopyTarget, Errno};

impl Endpoint {
    /// Copies one chunk (number, offset, length) when both sides are ready.
    pub(super) fn copy_chunk_when_ready(
        &mut self,
        source: &mut CopyEnd<'_>,
        destination: &mut CopyEnd<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        deadline: Deadline,
        failed: &mut Role,
    ) -> Result<(), Fail> {
        for (end, role) in [(&*source, Role::Source), (&*destination, Role::Destination)] {
            *failed = role;
            if let CopyEnd::Direct { index, .. } = end {
                let party = self.peers.get_mut(*index);
                recognize(party).map_err(|errno| direct_failure(party, errno, role))?;
            }
        }
        *failed = Role::Source;
        if let CopyEnd::Served { index, command } = source {
            let what = command.direction;
            let by_stand_in = self.is_stand_in(*index);
            self.await_served(*index, deadline, Role::Source, |bounce_buffer| {
                // Read the outcome first: chunks served before the end are seen with it.
                let ended = bounce_buffer.outcome().filter(|outcome| outcome.code.is_some());
                let served = bounce_buffer.served(what, chunk)?;
                match ended {
                    _ if served != chunk => Ok(Some(())),
                    Some(CopyOutcome { code: Some(code), .. }) => Err(reported(code, by_stand_in)),
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
                return Err(reported(code, self.is_stand_in(*index)));
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

    /// Copies one chunk: the number of bytes copied.
    fn copy_chunk(
        &mut self,
        source: &mut CopyEnd<'_>,
        destination: &mut CopyEnd<'_>,
        (chunk, offset, bytes): (u32, u64, usize),
        failed: &mut Role,
    ) -> Result<usize, Errno> {
        let (peers, own) = (&self.peers, &mut self.copies.own);
        let at = usize::try_from(offset).map_err(|_beyond| Errno::FAULT)?;
        let bounce_buffer = |index: u32| {
            peers.get(index).copies().requester().bounce_buffer.as_ref().ok_or(Errno::BADF)
        };
        if let (CopyEnd::Served { index, .. }, CopyEnd::Target(into)) =
            (&*source, &mut *destination)
            && bounce_buffer(*index)?.empty(chunk, &mut into.part(at, bytes))
        {
            return Ok(bytes);
        }
        // The bytes, or the process and address to read them from.
        let found = match source {
            CopyEnd::Source(from) => Ok(from.part(at, bytes)),
            CopyEnd::Served { index, .. } => Ok(bounce_buffer(*index)?.source(chunk, bytes)),
            CopyEnd::InArea { address, .. } => {
                Ok(m3ipc_sys::lent_source(address.wrapping_add(offset), bytes))
            }
            CopyEnd::Direct { index, address } => {
                Err((peers.get(*index).identity().pid, address.wrapping_add(offset)))
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
                let buffer = bounce_buffer(*index)?;
                match buffer.fill(chunk, &from) {
                    true => Ok(from.bytes()),
                    false => own.copy_out(&from, &buffer.target(chunk, bytes)),
                }
            }
            (Ok(from), CopyEnd::Direct { index, address }) => m3ipc_sys::copy_to_process(
                peers.get(*index).identity().pid,
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
                    .get_or_insert_with(|| Octets(vec![0; BOUNCE_HALF_BYTES].into_boxed_slice()));
                *failed = Role::Source;
                let relay_buffer = &mut relay_buffer[..bytes];
                let read = m3ipc_sys::copy_from_process(
                    pid,
                    there,
                    &CopyTarget::from(&mut *relay_buffer),
                )?;
                let to = peers.get(*index).identity().pid;
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
            Some(index) => direct_failure(self.peers.get_mut(index), errno, failed),
            None if errno == Errno::FAULT => Code::AddrNotAvail.into(),
            None => errno.into(),
        }
    }
}

/// The code that a party reported, if a party may report it. A stand-in speaks for its node too.
pub(super) fn reported(code: i32, by_stand_in: bool) -> Fail {
    let known = [
        Code::AddrNotAvail,
        Code::Perm,
        Code::Busy,
        Code::Range,
        Code::NoMem,
        Code::ProcSts,
        Code::PeerBroke,
    ];
    let of_nodes = [Code::SrcDied, Code::DstDied, Code::NotConn, Code::TimedOut, Code::Endpoint];
    let of_nodes = of_nodes.into_iter().filter(|_| by_stand_in);
    let mut all = known.into_iter().chain(of_nodes);
    all.find(|known| known.number() == code).unwrap_or(Code::PeerBroke).into()
}
