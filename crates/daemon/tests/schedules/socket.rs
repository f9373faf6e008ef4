//! The socket of one daemon. Unread frames are lost with the daemon, as in the kernel.

use super::frame::Frame;
use shuttle::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// The frames to one daemon, in order; `None` after its end.
pub struct Socket {
    frames: Mutex<Option<VecDeque<Frame>>>,
    some: Condvar,
}

impl Socket {
    pub fn new() -> Self {
        Self { frames: Mutex::new(Some(VecDeque::new())), some: Condvar::new() }
    }

    /// Sends a frame; `false` after the daemon's end.
    pub fn send(&self, frame: Frame) -> bool {
        let mut frames = self.frames.lock().expect("no thread panics with the lock");
        frames
            .as_mut()
            .map(|frames| frames.push_back(frame))
            .inspect(|()| self.some.notify_all())
            .is_some()
    }

    /// Receives the next frame.
    pub fn receive(&self) -> Frame {
        let mut frames = self.frames.lock().expect("no thread panics with the lock");
        loop {
            match frames.as_mut().expect("the daemon that receives is alive").pop_front() {
                Some(frame) => return frame,
                None => frames = self.some.wait(frames).expect("no thread panics with the lock"),
            }
        }
    }

    /// Ends the daemon's socket.
    pub fn close(&self) {
        let left = self.frames.lock().expect("no thread panics with the lock").take();
        drop(left);
    }
}
