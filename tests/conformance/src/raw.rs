//! A member that speaks the control protocol itself, as a hostile one would.
//!
//! It says what it likes, when it likes; nothing here keeps the rules that the
//! library keeps.

use m3ipc_link::{CONTROL_PAGE_BYTES, LINK_BYTES, READY_BITMAP_BYTES, STATUS_BYTES};
use m3ipc_shm::{Observed, Shared};
use m3ipc_wire::{
    BindKind, DaemonEvent, FromDaemon, PeerInfo, REPLY_MAX_BYTES, Reply, Request, VERSION,
};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// How long the daemon may take for an answer before it counts as none.
const ANSWER_LIMIT_NS: u64 = 10_000_000_000;

/// A control connection without a library.
#[derive(Debug)]
pub struct Raw {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// What the daemon told unasked.
    pub news: VecDeque<(DaemonEvent, Vec<OwnedFd>)>,
}

/// The pages of an endpoint of one's own, all writable.
#[derive(Debug)]
pub struct Ground {
    /// Its address.
    pub address: i32,
    /// What the daemon reads.
    pub desk: Shared,
    /// What the peers read.
    pub status: Shared,
    /// What the peers write.
    pub hints: Shared,
}

/// What one holds of a peer.
#[derive(Debug)]
pub struct Reach {
    /// Who it is.
    pub info: PeerInfo,
    /// The page of the two.
    pub link: Shared,
    /// Its face.
    pub status: Observed,
    /// Its hints.
    pub hints: Shared,
    /// The descriptor of its face, which honest members close.
    pub status_fd: OwnedFd,
}

impl Raw {
    /// Connects, and says nothing yet.
    #[must_use]
    pub fn connect(directory: &Path) -> Option<Self> {
        let socket = m3ipc_sys::connect(&directory.join(m3ipc_wire::SOCKET_NAME)).ok()?;
        Some(Self { socket, buffer: vec![0; REPLY_MAX_BYTES], news: VecDeque::new() })
    }

    /// Connects and says hello.
    #[must_use]
    pub fn greeted(directory: &Path) -> Option<Self> {
        let mut raw = Self::connect(directory)?;
        matches!(raw.request(&Request::Hello { version: VERSION })?.0, Reply::Welcome { .. })
            .then_some(raw)
    }

    /// Sends bytes, whatever they are; `false` where they could not be sent.
    pub fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        m3ipc_sys::send_packet(&self.socket, bytes, fds, false).is_ok()
    }

    /// Sends a frame and waits for the answer; `None` where the connection ends first.
    pub fn request(&mut self, request: &Request) -> Option<(Reply, Vec<OwnedFd>)> {
        if !self.send_bytes(&m3ipc_wire::encode(request), &[]) {
            return None;
        }
        self.answer()
    }

    /// The next answer.
    pub fn answer(&mut self) -> Option<(Reply, Vec<OwnedFd>)> {
        loop {
            match self.next_frame()? {
                (FromDaemon::Reply(reply), fds) => return Some((reply, fds)),
                (FromDaemon::Event(news), fds) => self.news.push_back((news, fds)),
            }
        }
    }

    fn next_frame(&mut self) -> Option<(FromDaemon, Vec<OwnedFd>)> {
        let until_ns = m3ipc_sys::monotonic_ns() + ANSWER_LIMIT_NS;
        while !m3ipc_sys::wait_readable(&[self.socket.as_fd()], ANSWER_LIMIT_NS).unwrap_or(false) {
            assert!(m3ipc_sys::monotonic_ns() < until_ns, "the daemon neither answers nor closes");
        }
        let packet = m3ipc_sys::receive_packet(&self.socket, &mut self.buffer, false, true).ok()?;
        let frame = self.buffer.get(..packet.bytes).filter(|frame| !frame.is_empty())?;
        Some((m3ipc_wire::decode(frame).expect("the daemon's frames are sound"), packet.fds))
    }

    /// Reads until the daemon closes; how many frames came.
    pub fn read_to_end(&mut self) -> usize {
        std::iter::from_fn(|| self.next_frame()).count()
    }

    /// Binds this process and maps its pages.
    pub fn bind(&mut self, vm: i32, slot: Option<i32>) -> Option<Ground> {
        let ground = self.bind_unmapped(vm, slot)?;
        matches!(self.request(&Request::Mapped)?.0, Reply::Done).then_some(ground)
    }

    /// Binds this process, and never says that it has mapped its pages.
    pub fn bind_unmapped(&mut self, vm: i32, slot: Option<i32>) -> Option<Ground> {
        let bind = Request::Bind { vm, slot, kind: BindKind::Process };
        let (Reply::Bound { address, .. }, fds) = self.request(&bind)? else { return None };
        let [desk, status, hints] = <[OwnedFd; 3]>::try_from(fds).ok()?;
        Some(Ground {
            address,
            desk: Shared::map(desk, CONTROL_PAGE_BYTES).ok()?,
            status: Shared::map(status, STATUS_BYTES).ok()?,
            hints: Shared::map(hints, READY_BITMAP_BYTES).ok()?,
        })
    }

    /// A link to a peer.
    pub fn contact(&mut self, peer: i32) -> Option<Reach> {
        let (Reply::Contact(info), fds) = self.request(&Request::Contact(peer))? else {
            return None;
        };
        let [link, status_fd, hints] = <[OwnedFd; 3]>::try_from(fds).ok()?;
        Some(Reach {
            info,
            link: Shared::map(link, LINK_BYTES).ok()?,
            status: Observed::map(&status_fd, STATUS_BYTES).ok()?,
            hints: Shared::map(hints, READY_BITMAP_BYTES).ok()?,
            status_fd,
        })
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
