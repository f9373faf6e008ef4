//! Direct copies: the kernel copies between two processes in one system call.

use super::gate::is_process;
use super::side::{OwnMemory, Role};
use crate::endpoint::Endpoint;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_link::copy_gate;
use m3ipc_sys::Errno;

/// The limit of one system call. A party that must leave is held no longer than this copy takes.
const CALL_MAX_BYTES: usize = 64 << 20;
/// How long a process number counts as known, in ticks: about a millisecond. No system reuses all
/// its numbers in that time.
const KNOWN_TICKS: u64 = 1 << 21;

impl Endpoint {
    /// Copies between own memory and that of a parked party.
    #[inline]
    pub(super) fn copy_directly(
        &mut self,
        index: u32,
        address: u64,
        own: &mut OwnMemory<'_>,
        role: Role,
    ) -> Result<(), Fail> {
        self.begin_copy_with(index)?;
        m3ipc_sys::pause_point("requester.boarded");
        let pid = self.peers.get(index).identity().pid;
        let mut done = 0;
        let result = loop {
            if let Err(errno) = self.recognize(index) {
                break Err(errno);
            }
            let there = address.wrapping_add(done as u64);
            let (copied, all) = match own {
                OwnMemory::From(bytes) if done == 0 && bytes.bytes() <= CALL_MAX_BYTES => {
                    (m3ipc_sys::copy_to_process(pid, there, bytes), bytes.bytes())
                }
                OwnMemory::From(bytes) => {
                    let part = bytes.part(done, CALL_MAX_BYTES);
                    (m3ipc_sys::copy_to_process(pid, there, &part), bytes.bytes())
                }
                OwnMemory::Into(buffer) => {
                    let all = buffer.bytes();
                    (
                        m3ipc_sys::copy_from_process(
                            pid,
                            there,
                            &buffer.part(done, CALL_MAX_BYTES),
                        ),
                        all,
                    )
                }
            };
            match copied {
                Ok(0) => break Err(Errno::FAULT),
                Ok(copied) => done += copied,
                Err(errno) => break Err(errno),
            }
            if done >= all {
                break Ok(());
            }
            if !copy_gate::is_copying(self.peers.get(index).link().peer_copy_gate()) {
                break Err(Errno::BUSY);
            }
        };
        self.peers.get(index).link().end_copy();
        self.copies.copied = done as u64;
        if result.is_ok() {
            self.session.page().count(m3ipc_link::Counter::CopiedDirect);
        }
        result.map_err(|errno| self.direct_failure(index, errno, role))
    }

    /// Checks that the process number is still the party's. The process may have ended, or executed
    /// another program, while no daemon lived to report it.
    ///
    /// # Errors
    /// `SRCH` if it is not; the kernel's error if the kernel refuses.
    #[inline]
    pub(super) fn recognize(&mut self, index: u32) -> Result<(), Errno> {
        let now_ticks = m3ipc_sys::ticks();
        if now_ticks.wrapping_sub(self.peers.get(index).copies().requester().known_ticks)
            < KNOWN_TICKS
        {
            return Ok(());
        }
        let peer = self.peers.get_mut(index);
        match is_process(peer.identity().pid, peer.copies().requester().probe) {
            Ok(true) => {
                peer.copies_mut().requester_mut().known_ticks = now_ticks;
                Ok(())
            }
            Ok(false) | Err(Errno::FAULT) => Err(Errno::SRCH),
            Err(errno) => Err(errno),
        }
    }

    #[cold]
    pub(super) fn direct_failure(&mut self, index: u32, errno: Errno, role: Role) -> Fail {
        match errno {
            Errno::FAULT => {
                // The memory may lie elsewhere by now.
                self.peers.get_mut(index).copies_mut().requester_mut().ranges.clear();
                Code::AddrNotAvail.into()
            }
            Errno::SRCH => role.died().into(),
            Errno::BUSY => Code::ProcSts.into(),
            Errno::NOMEM => Code::NoMem.into(),
            errno => {
                // A filter or a change of user since the first copy: use a bounce buffer from now
                // on.
                let requester_state = self.peers.get_mut(index).copies_mut().requester_mut();
                (requester_state.direct, requester_state.refused) = (Some(false), true);
                Fail::new(Code::Perm, format!("the kernel refuses the copy: {errno}"))
            }
        }
    }
}
