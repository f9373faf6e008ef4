//! The direct way: the kernel copies between the two, in one system call.

use super::berth::is_process;
use super::{Endpoint, Fail, Own, Role};
use m3ipc_abi::Code;
use m3ipc_link::copy_gate;
use m3ipc_sys::Errno;

/// The most that one call copies: a party that has to go is held no longer than that takes.
const CALL_MAX_BYTES: usize = 64 << 20;
/// How long a process number is believed, in ticks: about a millisecond, in which no system gives out
/// all its numbers anew.
const KNOWN_TICKS: u64 = 1 << 21;

impl Endpoint {
    /// Copies between one's own memory and that of a party that lies still.
    #[inline]
    pub(super) fn copy_directly(
        &mut self,
        index: u32,
        address: u64,
        own: &mut Own<'_>,
        role: Role,
    ) -> Result<(), Fail> {
        self.board(index)?;
        m3ipc_sys::pause_point("requester.boarded");
        let pid = self.peers.get(index).identity.pid;
        let mut done = 0;
        let result = loop {
            if let Err(errno) = self.recognize(index) {
                break Err(errno);
            }
            let there = address.wrapping_add(done as u64);
            let (copied, all) = match own {
                Own::From(bytes) if done == 0 && bytes.bytes() <= CALL_MAX_BYTES => {
                    (m3ipc_sys::copy_to_process(pid, there, bytes), bytes.bytes())
                }
                Own::From(bytes) => {
                    let part = bytes.part(done, CALL_MAX_BYTES);
                    (m3ipc_sys::copy_to_process(pid, there, &part), bytes.bytes())
                }
                Own::Into(room) => {
                    let all = room.bytes();
                    (
                        m3ipc_sys::copy_from_process(pid, there, &room.part(done, CALL_MAX_BYTES)),
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
            if !copy_gate::is_copying(self.peers.get(index).link.peer_copy_gate()) {
                break Err(Errno::BUSY);
            }
        };
        self.peers.get(index).link.end_copy();
        self.copies.copied = done as u64;
        if result.is_ok() {
            self.desk.count(m3ipc_link::Counter::CopiedDirect);
        }
        result.map_err(|errno| self.direct_failure(index, errno, role))
    }

    /// Makes sure that the number is still the party's: it may have ended, or run another program, in a
    /// moment in which no daemon lived to tell.
    ///
    /// # Errors
    /// `SRCH` where it is not; what the kernel says where it refuses.
    #[inline]
    pub(super) fn recognize(&mut self, index: u32) -> Result<(), Errno> {
        let now_ticks = m3ipc_sys::ticks();
        if now_ticks.wrapping_sub(self.peers.get(index).copying.known_ticks) < KNOWN_TICKS {
            return Ok(());
        }
        let peer = self.peers.get_mut(index);
        match is_process(peer.identity.pid, peer.copying.probe) {
            Ok(true) => {
                peer.copying.known_ticks = now_ticks;
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
                // It may lie elsewhere by now.
                self.peers.get_mut(index).copying.ranges.clear();
                Code::AddrNotAvail.into()
            }
            Errno::SRCH => role.died().into(),
            Errno::BUSY => Code::ProcSts.into(),
            Errno::NOMEM => Code::NoMem.into(),
            errno => {
                // A filter or a change of user since the way was chosen: from now on through a window.
                let copying = &mut self.peers.get_mut(index).copying;
                (copying.direct, copying.refused) = (Some(false), true);
                Fail::new(Code::Perm, format!("the kernel refuses the copy: {errno}"))
            }
        }
    }
}
