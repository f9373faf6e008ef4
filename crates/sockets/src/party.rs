//! A party: this process in its domain, with its ports and pairs.

use crate::control::{Answer, Belonging, Control, Failed, Joined, unexpected};
use crate::error::SockError;
use crate::listener::Intake;
use crate::pair::Pair;
use crate::spare::{Spare, Spares, Target};
use m3ipc_sys::{Errno, ForkGuard};
use m3ipc_wire::{Reply, Request, SockConnection, SockKind, SockReply, SockRequest};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// From so many pairs on, those without connections are let go of.
const IDLE_PAIRS_MAX: usize = 64;

/// A port that a successor of the daemon must hear of.
#[derive(Debug)]
enum Held {
    Bound,
    Listening(u32, Weak<Intake>),
    Datagrams,
}

/// This process in its domain.
#[derive(Debug)]
pub(crate) struct Party {
    belonging: Belonging,
    joined: Joined,
    control: Mutex<Control>,
    held: Mutex<BTreeMap<(SockKind, u16), Held>>,
    pairs: Mutex<HashMap<(u64, usize), Arc<Pair>>>,
    spares: Mutex<Spares>,
    guard: ForkGuard,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Party {
    pub(crate) fn join(belonging: Belonging, domain: Option<u32>) -> Result<Self, SockError> {
        let guard = ForkGuard::new()?;
        let (control, joined) = belonging.join(domain)?;
        Ok(Self {
            belonging,
            joined,
            control: Mutex::new(control),
            held: Mutex::default(),
            pairs: Mutex::default(),
            spares: Mutex::default(),
            guard,
        })
    }

    pub(crate) fn domain(&self) -> u32 {
        self.joined.domain
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address_of(self.joined.domain)
    }

    pub(crate) fn address_of(&self, domain: u32) -> Ipv4Addr {
        Ipv4Addr::from(self.joined.network.saturating_add(domain).saturating_add(2))
    }

    pub(crate) fn broadcast(&self) -> Ipv4Addr {
        let hosts = u32::MAX.checked_shr(u32::from(self.joined.bits)).unwrap_or(0);
        Ipv4Addr::from(self.joined.network | hosts)
    }

    /// Asks the daemon; its successor, where it was killed.
    pub(crate) fn ask(&self, request: SockRequest) -> Result<Answer, SockError> {
        if !self.guard.is_original() {
            let why = "a child by fork has no sockets of its parent; it joins a domain for itself";
            return Err(SockError::new(Errno::NOTCONN, why));
        }
        let request = Request::Sock(request);
        let mut control = lock(&self.control);
        match control.ask(&request) {
            Err(Failed::Gone) => {
                self.revive(&mut control)?;
                Ok(control.ask(&request)?)
            }
            other => Ok(other?),
        }
    }

    fn tell(&self, request: SockRequest) {
        // Where the daemon has gone, its successor never knew.
        let _ = lock(&self.control).tell(&Request::Sock(request));
    }

    /// Joins again at a successor, and tells it of the ports.
    fn revive(&self, control: &mut Control) -> Result<(), SockError> {
        // It knows of none of them.
        drop(lock(&self.spares).clear());
        let (mut fresh, _) = self.belonging.join(Some(self.joined.domain))?;
        for ((kind, port), held) in lock(&self.held).iter() {
            let (kind, port) = (*kind, *port);
            // A port that another has taken meanwhile is lost, and its listener hears of it by silence.
            let _ = match held {
                Held::Datagrams => fresh.ask(&Request::Sock(SockRequest::Keep { port })),
                Held::Bound => fresh.ask(&Request::Sock(SockRequest::Bind { kind, port })),
                Held::Listening(backlog, intake) => {
                    let bound = fresh.ask(&Request::Sock(SockRequest::Bind { kind, port }));
                    let listen = Request::Sock(SockRequest::Listen { port, backlog: *backlog });
                    let listening = bound.and_then(|_| fresh.ask(&listen));
                    if let (Ok((_, fds)), Some(intake)) = (&listening, intake.upgrade()) {
                        let _ = fds.first().map(|fd| intake.replace(fd));
                    }
                    listening
                }
            };
        }
        *control = fresh;
        Ok(())
    }

    /// Makes sure that a daemon knows of us: for who hears that it has gone.
    pub(crate) fn look_after_daemon(&self) -> Result<(), SockError> {
        self.ask(SockRequest::DatagramAddresses { port: 0 }).map(drop)
    }

    /// A port of the domain, and the socket of one for datagrams.
    pub(crate) fn bind(
        &self,
        kind: SockKind,
        port: u16,
    ) -> Result<(u16, Option<OwnedFd>), SockError> {
        match self.ask(SockRequest::Bind { kind, port })? {
            (Reply::Sock(SockReply::Port(port)), mut fds) => {
                let held = if kind == SockKind::Stream { Held::Bound } else { Held::Datagrams };
                lock(&self.held).insert((kind, port), held);
                Ok((port, fds.pop()))
            }
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn listen(&self, port: u16, backlog: u32) -> Result<Arc<Intake>, SockError> {
        let (_, mut fds) = self.ask(SockRequest::Listen { port, backlog })?;
        let socket = fds.pop().ok_or_else(unexpected)?;
        let intake = Arc::new(Intake::new(socket)?);
        lock(&self.held)
            .insert((SockKind::Stream, port), Held::Listening(backlog, Arc::downgrade(&intake)));
        Ok(intake)
    }

    pub(crate) fn release(&self, kind: SockKind, port: u16) {
        if self.guard.is_original() {
            lock(&self.held).remove(&(kind, port));
            self.tell(SockRequest::Release { kind, port });
        }
    }

    /// A connection to there that was prepared, opened now.
    pub(crate) fn open_spare(&self, to: Target) -> Option<(Spare, Arc<Pair>)> {
        while self.guard.is_original() {
            let spare = lock(&self.spares).take(to)?;
            let key = (spare.seat.pair, usize::from(spare.seat.side));
            let pair = lock(&self.pairs).get(&key).map(Arc::clone).filter(|pair| !pair.is_over());
            if let Some(pair) = pair {
                pair.open(usize::from(spare.seat.slot));
                if spare.knock() {
                    return Some((spare, pair));
                }
            }
            self.closed(&spare.seat);
        }
        None
    }

    /// How many connections to have prepared with the next one to there.
    pub(crate) fn wish(&self, to: Target) -> u8 {
        lock(&self.spares).wish(to)
    }

    /// Keeps what was prepared.
    pub(crate) fn keep_spares(&self, to: Target, spares: Vec<Spare>) {
        let dropped = lock(&self.spares).put(to, spares);
        dropped.iter().for_each(|spare| self.closed(&spare.seat));
    }

    /// Whether this is the process that joined, not a child by fork.
    pub(crate) fn is_here(&self) -> bool {
        self.guard.is_original()
    }

    /// The pair of a connection, mapped where it is new.
    pub(crate) fn pair(
        &self,
        seat: &SockConnection,
        fds: &[OwnedFd],
    ) -> Result<Arc<Pair>, SockError> {
        let (id, side) = (seat.pair, usize::from(seat.side));
        let mut pairs = lock(&self.pairs);
        if let Some(pair) = pairs.get(&(id, side)) {
            return Ok(Arc::clone(pair));
        }
        let [control, pool] = fds else { return Err(unexpected()) };
        let pair = Arc::new(Pair::map(id, side, control, pool)?);
        self.tell(SockRequest::Mapped { pair: id, side: seat.side });
        pair.offer();
        // Those without connections serve the next one of the two; of peers that have gone they are of no use.
        if pairs.len() >= IDLE_PAIRS_MAX {
            lock(&self.spares).clear().iter().for_each(|spare| self.closed(&spare.seat));
            pairs.retain(|_, pair| Arc::strong_count(pair) > 1 || !self.forget(pair));
        }
        pairs.insert((id, side), Arc::clone(&pair));
        Ok(pair)
    }

    /// Maps the pool that the other side of a pair writes; `false` where asking again soon is of no use.
    pub(crate) fn join_pool(&self, pair: &Pair) -> bool {
        let side = u8::from(pair.side == 1);
        let request = Request::Sock(SockRequest::PeerPool { pair: pair.id, side });
        // Not at a successor: pairs are of the daemon that made them.
        let answer = lock(&self.control).ask(&request);
        match answer {
            Ok((_, fds)) => fds.first().is_some_and(|pool| pair.join(pool).is_ok()),
            // The daemon has not heard of it yet: it is told by the other side, and asked by us.
            Err(Failed::Refused(error)) => error.errno() == Errno::AGAIN,
            Err(Failed::Gone) => false,
        }
    }

    /// Whether the daemon agrees that a pair is of no use: it would think that we have it mapped.
    fn forget(&self, pair: &Pair) -> bool {
        let side = u8::from(pair.side == 1);
        match lock(&self.control).ask(&Request::Sock(SockRequest::Forget { pair: pair.id, side })) {
            Ok(_) => true,
            Err(Failed::Refused(error)) => error.errno() == Errno::NOENT,
            Err(Failed::Gone) => false,
        }
    }

    /// This side of a connection has ended.
    pub(crate) fn closed(&self, seat: &SockConnection) {
        self.tell(SockRequest::Closed { pair: seat.pair, side: seat.side, slot: seat.slot });
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        if !self.guard.is_original() {
            // The child has none of the mappings: what lies there now is not to be unmapped.
            for pair in lock(&self.pairs).values() {
                std::mem::forget(Arc::clone(pair));
            }
        }
    }
}
