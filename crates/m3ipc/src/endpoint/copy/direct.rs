//! Direct copies: the kernel copies between two processes in one system call.

use super::party::{begin_copy, direct_failure, recognize};
use super::side::{OwnMemory, Role};
use crate::endpoint::Endpoint;
use crate::error::Fail;
use m3ipc_link::copy_gate;
use m3ipc_sys::Errno;

/// The limit of one system call. A party that must leave is held no longer than this copy takes.
const CALL_MAX_BYTES: usize = 64 << 20;
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
        let party = self.peers.get_mut(index);
        begin_copy(party)?;
        m3ipc_sys::pause_point("requester.boarded");
        let pid = party.identity().pid;
        let mut done = 0;
        let result = loop {
            if let Err(errno) = recognize(party) {
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
            if !copy_gate::is_copying(party.link().peer_copy_gate()) {
                break Err(Errno::BUSY);
            }
        };
        party.link().end_copy();
        self.copies.copied = done as u64;
        if result.is_ok() {
            self.session.page().count(m3ipc_link::Counter::CopiedDirect);
        }
        result.map_err(|errno| direct_failure(party, errno, role))
    }
}
