//! Frames of the daemon as bytes, each in memory of its own.

use super::fail::{daemon_gone, no_memory};
use crate::error::Fail;
use m3ipc_sys::{Errno, Packet};
use m3ipc_wire::REPLY_MAX_BYTES;
use std::os::fd::OwnedFd;

/// The bytes of the next frame, with what came beside them; `None` if there is no frame. A frame
/// that finds no memory stays in the socket: only then the code is `NoMem`.
///
/// An endpoint sleeps most of the time, so it keeps no memory for frames.
pub(super) fn next_frame(socket: &OwnedFd) -> Result<Option<(Vec<u8>, Packet)>, Fail> {
    let mut frame = Vec::new();
    let mut is_reset = false;
    let packet = loop {
        let received = m3ipc_sys::next_packet_bytes(socket).and_then(|bytes| {
            make_room(&mut frame, bytes)?;
            m3ipc_sys::receive_packet(socket, &mut frame, false, true)
        });
        match received {
            Ok(packet) => break packet,
            Err(Errno::INTR) => {}
            Err(Errno::NOMEM) => return Err(no_memory()),
            Err(Errno::AGAIN) => return Ok(None),
            // The kernel reports a reset once, ahead of the frames from before it.
            Err(Errno::CONNRESET) if !std::mem::replace(&mut is_reset, true) => {}
            Err(_) => return Err(daemon_gone()),
        }
    };
    if packet.bytes == 0 {
        return Err(daemon_gone());
    }
    frame.truncate(packet.bytes);
    Ok(Some((frame, packet)))
}

/// Makes room for a frame of this length.
fn make_room(frame: &mut Vec<u8>, bytes: usize) -> Result<(), Errno> {
    let bytes = bytes.min(REPLY_MAX_BYTES);
    frame.clear();
    if shortage::takes_room() {
        return Err(Errno::NOMEM);
    }
    frame.try_reserve_exact(bytes).map_err(|_full| Errno::NOMEM)?;
    frame.resize(bytes, 0);
    Ok(())
}

#[cfg(not(test))]
mod shortage {
    pub(super) const fn takes_room() -> bool {
        false
    }
}

/// A shortage of memory for the next frames of this thread.
#[cfg(test)]
pub(super) mod shortage {
    use std::cell::Cell;

    thread_local! {
        static FRAMES: Cell<u32> = const { Cell::new(0) };
    }

    /// So many next frames of this thread find no memory.
    pub(in super::super) fn begin(frames: u32) {
        FRAMES.set(frames);
    }

    pub(super) fn takes_room() -> bool {
        let frames = FRAMES.get();
        FRAMES.set(frames.saturating_sub(1));
        frames > 0
    }
}
