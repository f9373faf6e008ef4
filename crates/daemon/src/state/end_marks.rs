//! The words of control pages that the kernel marks when this daemon ends.
//!
//! An endpoint that sleeps for long watches its word, and so needs no check from time to time. The
//! pages of most endpoints have such a word. An endpoint without it checks the daemon once a
//! second: beyond the number of words, and where the system refuses one.

use m3ipc_link::DAEMON_MARK_OFFSET;
use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;

/// The marks of this daemon.
#[derive(Debug)]
pub(crate) struct EndMarks(Rc<RefCell<m3ipc_sys::EndMarks>>);

/// The mark of one control page, until its drop.
#[derive(Debug)]
pub(crate) struct EndMark {
    marks: Rc<RefCell<m3ipc_sys::EndMarks>>,
    mark: Option<m3ipc_sys::EndMark>,
}

impl EndMarks {
    /// No marks.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut marks = m3ipc_sys::EndMarks::new(DAEMON_MARK_OFFSET)?;
        if let Err(errno) = marks.prepare() {
            tracing::debug!(%errno, "no thread for end marks yet");
        }
        Ok(Self(Rc::new(RefCell::new(marks))))
    }

    /// Gives a control page its mark; `None` if the system or the number of marks forbids it.
    pub(crate) fn add(&self, control_page: impl AsFd) -> Option<EndMark> {
        let marks = Rc::clone(&self.0);
        match self.0.borrow_mut().add(control_page) {
            Ok(mark) => Some(EndMark { marks, mark: Some(mark) }),
            Err(errno) => {
                tracing::debug!(%errno, "no end mark; the endpoint checks the daemon by the clock");
                None
            }
        }
    }
}

impl Drop for EndMark {
    fn drop(&mut self) {
        if let Some(mark) = self.mark.take() {
            self.marks.borrow_mut().remove(mark);
        }
    }
}
