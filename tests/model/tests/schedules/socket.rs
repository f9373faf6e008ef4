//! The daemon's sockets: what lies there unread goes with it, as in the kernel.

use super::Frame;
use shuttle::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// All that members say to one daemon, in its order; `None` when it has gone.
pub struct Socket {
    frames: Mutex<Option<VecDeque<Frame>>>,
    some: Condvar,
}

impl Socket {
    pub fn new() -> Self {
        Self { frames: Mutex::new(Some(VecDeque::new())), some: Condvar::new() }
    }

    /// Says something; `false` where the daemon has gone.
    pub fn send(&self, frame: Frame) -> bool {
        let mut frames = self.frames.lock().expect("no panic");
        frames
            .as_mut()
            .map(|frames| frames.push_back(frame))
            .inspect(|()| self.some.notify_all())
            .is_some()
    }

    /// The next that was said.
    pub fn receive(&self) -> Frame {
        let mut frames = self.frames.lock().expect("no panic");
        loop {
            match frames.as_mut().expect("the daemon lives").pop_front() {
                Some(frame) => return frame,
                None => frames = self.some.wait(frames).expect("no panic"),
            }
        }
    }

    /// The daemon has gone.
    pub fn close(&self) {
        let left = self.frames.lock().expect("no panic").take();
        drop(left);
    }
}
