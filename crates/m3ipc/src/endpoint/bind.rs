//! Becoming an endpoint, and first contact with others.

use super::copy::Copies;
use super::news::map_pages;
use super::{Endpoint, Inbox, Peers};
use crate::control::{Absent, Control, unexpected};
use crate::error::Fail;
use crate::timeout::{Deadline, Timeout};
use m3ipc_abi::{Address, Code};
use m3ipc_link::{AdaptiveSpin, LinkSide, WaitStrategy};
use m3ipc_sys::ForkGuard;
use m3ipc_wire::{AwaitedEvent, BindKind, Reply, Request};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How often a bind or contact is tried where the daemon dies over it.
const CONTACT_TRIES: u32 = 20;

/// Binds the calling process or thread.
pub(crate) fn bind(
    directory: &Path,
    vm: i32,
    slot: Option<i32>,
    kind: BindKind,
) -> Result<Endpoint, Fail> {
    let tid = match kind {
        BindKind::Process => None,
        BindKind::Thread(tid) => Some(tid),
    };
    despite_kills(|| {
        let request = Request::Bind { vm, slot, kind };
        let (control, reply, fds) = Control::connect_asking(directory, Absent::Revive, &request)?;
        attach(control, &reply, fds, tid)
    })
}

/// Begins anew where the daemon dies in the middle: its successor knows what
/// was written down, and gives the endpoint to whom it was given before.
fn despite_kills<T>(mut attempt: impl FnMut() -> Result<T, Fail>) -> Result<T, Fail> {
    for _ in 1..CONTACT_TRIES {
        match attempt() {
            Err(fail) if fail.code == Code::NotConn => {}
            other => return other,
        }
    }
    attempt()
}

/// Waits until another process binds this one (lclbind), and takes the endpoint.
pub(crate) fn claim(directory: &Path, limit: Timeout) -> Result<Endpoint, Fail> {
    let deadline = limit.deadline();
    despite_kills(|| {
        let mut control = Control::connect(directory, Absent::Revive)?;
        if let (Reply::Wait(ticket), _) = control.request(&Request::Await(AwaitedEvent::OwnBind))? {
            wait_ticket(&mut control, ticket, deadline)?;
        }
        let (reply, fds) = control.request(&Request::Claim)?;
        attach(control, &reply, fds, None)
    })
}

fn wait_ticket(control: &mut Control, ticket: u64, deadline: Deadline) -> Result<(), Fail> {
    use std::os::fd::AsFd;
    loop {
        match control.next_news()? {
            Some((m3ipc_wire::DaemonEvent::Ready { ticket: ready, .. }, ..)) if ready == ticket => {
                return Ok(());
            }
            Some(_) => continue,
            None if deadline.no_wait => return Err(Code::TimedOut.into()),
            None => {}
        }
        let left_ns = deadline.at_ns.saturating_sub(m3ipc_sys::monotonic_ns());
        if left_ns == 0 {
            return Err(Code::TimedOut.into());
        }
        // A signal ends the waiting; the limit is looked at above.
        m3ipc_sys::wait_readable(&[control.as_fd()], left_ns.min(1_000_000_000))?;
    }
}

fn attach(
    mut control: Control,
    reply: &Reply,
    fds: Vec<OwnedFd>,
    tid: Option<i32>,
) -> Result<Endpoint, Fail> {
    let Reply::Bound { vm, vm_name, address, traps, copy_granted } = reply else {
        return Err(unexpected());
    };
    let (desk, face, pulse) = map_pages(fds)?;
    m3ipc_sys::pause_point("client.pages_mapped");
    // Answered before bind returns: whoever hears of us from now on finds us ready.
    control.request(&Request::Mapped)?;
    Ok(Endpoint {
        control,
        vm: *vm,
        vm_name: vm_name.clone(),
        address: Address(*address),
        tid,
        traps: *traps,
        guard: ForkGuard::new()?,
        desk,
        pulse,
        news_seen: 0,
        faces: vec![face],
        peers: Peers::default(),
        inbox: Inbox::default(),
        pace: AdaptiveSpin::new(WaitStrategy::default()),
        bell: None,
        armed: false,
        blocked: None,
        last_look_ns: 0,
        checked_ns: m3ipc_sys::monotonic_ns(),
        calls: 0,
        taken_ticks: 0,
        looked_ticks: 0,
        quick: 0,
        quick_max: super::receive::QUICK_MAX,
        notes_again: 0,
        latest_note: i32::MIN,
        turn_note: i32::MIN,
        dead: Vec::new(),
        missed: Vec::new(),
        ready: Vec::new(),
        latest: None,
        copies: Copies::new(*copy_granted),
        areas: super::areas::Areas::default(),
        tracing: None,
        set_aside: None,
        left: None,
    })
}

impl Endpoint {
    /// The link with a peer, made where there is none.
    #[inline]
    pub(super) fn contact(&mut self, peer: Address, deadline: Deadline) -> Result<u32, Fail> {
        self.hear()?;
        self.forget_dead();
        let index = match self.peers.find(peer) {
            Some(index) => {
                self.peers.remember(peer, index);
                index
            }
            None => self.contact_slow(peer, deadline)?,
        };
        self.peers.settle();
        Ok(index)
    }

    #[cold]
    fn contact_slow(&mut self, peer: Address, deadline: Deadline) -> Result<u32, Fail> {
        for _ in 0..CONTACT_TRIES {
            let request = self.request_for(peer, deadline);
            m3ipc_sys::pause_point("client.before_contact");
            let until_ns = if deadline.no_wait { u64::MAX } else { deadline.at_ns };
            match self.control.request_until(&request, until_ns) {
                Ok((Reply::Contact(info), fds)) => {
                    // What came before the answer is older than it; what came after may
                    // be the very death of this peer.
                    while let Some((news, fds, side)) = self.control.next_read_news() {
                        self.take_note(news, fds, side);
                    }
                    let index = self.adopt(&info, fds, LinkSide::Zero)?;
                    m3ipc_sys::pause_point("client.link_mapped");
                    return Ok(index);
                }
                Ok((Reply::Known, _)) => {
                    self.hear_all();
                    match self.peers.find(peer) {
                        Some(index) => return Ok(index),
                        None => self.missed.push(peer.0),
                    }
                }
                Ok(_) => return Err(unexpected()),
                Err(fail) if fail.code == Code::NotConn => self.reattach_if_cut(),
                Err(fail) => {
                    if fail.code == Code::NoMem {
                        self.missed.push(peer.0);
                    }
                    self.hear()?;
                    return Err(fail);
                }
            }
            self.hear()?;
        }
        Err(Fail::new(Code::NotConn, "the node daemon dies again and again; see its log"))
    }
}
