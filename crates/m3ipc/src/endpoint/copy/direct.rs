//! The direct way: the kernel copies between the two, in one system call.

use super::{Endpoint, Fail, Own, Role};
use m3_abi::Code;
use m3_link::berth;
use m3_sys::Errno;

/// The most that one call copies: a party that has to go is held no longer than that takes.
const CALL_MAX_BYTES: usize = 64 << 20;

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
        m3_sys::pause_point("requester.boarded");
        let peer = self.peers.get(index);
        let pid = peer.identity.pid;
        let mut done = 0;
        let result = loop {
            let there = address.wrapping_add(done as u64);
            let (copied, all) = match own {
                Own::From(bytes) if done == 0 && bytes.bytes() <= CALL_MAX_BYTES => {
                    (m3_sys::copy_to_process(pid, there, bytes), bytes.bytes())
                }
                Own::From(bytes) => {
                    let part = bytes.part(done, CALL_MAX_BYTES);
                    (m3_sys::copy_to_process(pid, there, &part), bytes.bytes())
                }
                Own::Into(room) => {
                    let all = room.bytes();
                    (m3_sys::copy_from_process(pid, there, &room.part(done, CALL_MAX_BYTES)), all)
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
            if !berth::goes_on(peer.link.peer_berth()) {
                break Err(Errno::BUSY);
            }
        };
        peer.link.end_copy();
        self.copies.copied = done as u64;
        self.desk.count(m3_link::Counter::CopiedDirect);
        result.map_err(|errno| self.direct_failure(index, errno, role))
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
            errno => Fail::new(Code::Perm, format!("the kernel refuses the copy: {errno}")),
        }
    }
}
