//! This process as a member of its domain: its ports and its pairs.

use crate::arrival_queue::{ArrivalQueue, PacketSocket};
use crate::control::{Answer, Control, JoinedDomain, Membership, RequestError, unexpected_answer};
use crate::error::SockError;
use crate::pair::Pair;
use crate::prepared::{PreparedConnection, PreparedConnections, Target};
use m3ipc_sys::{Errno, ForkGuard};
use m3ipc_wire::{Reply, Request, SockConnection, SockKind, SockReply, SockRequest};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Above this number of pairs, those without connections are unmapped.
const IDLE_PAIRS_MAX: usize = 64;

/// A port that a successor of the daemon must learn.
#[derive(Debug)]
enum PortUse {
    Bound,
    Listening(u32, Weak<ArrivalQueue>),
    Datagrams,
}

/// This process in its domain.
#[derive(Debug)]
pub(crate) struct DomainMember {
    membership: Membership,
    joined: JoinedDomain,
    control: Mutex<Control>,
    ports: Mutex<BTreeMap<(SockKind, u16), PortUse>>,
    pairs: Mutex<HashMap<(u64, usize), Arc<Pair>>>,
    prepared: Mutex<PreparedConnections>,
    guard: ForkGuard,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Binds a listener's port at a successor of the daemon, and listens there.
fn listen_again(
    control: &mut Control,
    port: u16,
    backlog: u32,
    queue: &ArrivalQueue,
) -> Result<(), SockError> {
    let kind = SockKind::Stream;
    control.ask(&Request::Sock(SockRequest::Bind { kind, port }))?;
    let listened = control.ask(&Request::Sock(SockRequest::Listen { port, backlog }));
    let added = listened
        .map_err(SockError::from)
        .and_then(|(_, mut fds)| Ok(queue.add_socket(fds.pop().ok_or_else(unexpected_answer)?)?));
    if added.is_err() {
        // The next attempt binds it again.
        let _ = control.send(&Request::Sock(SockRequest::Release { kind, port }));
    }
    added
}

impl DomainMember {
    pub(crate) fn join(belonging: Membership, domain: Option<u32>) -> Result<Self, SockError> {
        let guard = ForkGuard::new()?;
        let (control, joined) = belonging.join(domain)?;
        Ok(Self {
            membership: belonging,
            joined,
            control: Mutex::new(control),
            ports: Mutex::default(),
            pairs: Mutex::default(),
            prepared: Mutex::default(),
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

    /// Sends a request to the daemon, or to the successor of a killed daemon.
    pub(crate) fn ask(&self, request: SockRequest) -> Result<Answer, SockError> {
        self.check_process()?;
        let request = Request::Sock(request);
        let mut control = lock(&self.control);
        match control.ask(&request) {
            Err(RequestError::DaemonGone) => {
                self.rejoin(&mut control)?;
                Ok(control.ask(&request)?)
            }
            other => Ok(other?),
        }
    }

    fn send(&self, request: SockRequest) {
        // A successor of the daemon never knew the object of this request.
        let _ = lock(&self.control).send(&Request::Sock(request));
    }

    /// Joins the domain again at a successor of the daemon, and names the ports to it.
    fn rejoin(&self, control: &mut Control) -> Result<(), SockError> {
        // The successor knows none of the prepared connections.
        drop(lock(&self.prepared).clear());
        let (mut fresh, _) = self.membership.join(Some(self.joined.domain))?;
        for ((kind, port), held) in lock(&self.ports).iter() {
            let (kind, port) = (*kind, *port);
            // A port that another process took meanwhile is lost. The listener's next accept says
            // so.
            let _ = match held {
                PortUse::Datagrams => fresh.ask(&Request::Sock(SockRequest::Keep { port })),
                PortUse::Bound => fresh.ask(&Request::Sock(SockRequest::Bind { kind, port })),
                PortUse::Listening(backlog, intake) => {
                    let intake = intake.upgrade();
                    let _ = intake.map(|intake| listen_again(&mut fresh, port, *backlog, &intake));
                    continue;
                }
            };
        }
        *control = fresh;
        Ok(())
    }

    /// Makes a daemon send connections to this listener, after its packet socket has ended.
    pub(crate) fn renew_listener(
        &self,
        port: u16,
        queue: &ArrivalQueue,
        ended: &Arc<PacketSocket>,
    ) -> Result<(), SockError> {
        // Rejoins where the daemon is gone.
        self.ask(SockRequest::DatagramAddresses { port: 0 })?;
        let mut control = lock(&self.control);
        if !queue.is_latest(ended) {
            return Ok(());
        }
        // The rejoin did not get the port.
        let lost = |errno, why| SockError::new(errno, format!("the port was lost: {why}"));
        let backlog = match lock(&self.ports).get(&(SockKind::Stream, port)) {
            Some(PortUse::Listening(backlog, _)) => *backlog,
            _ => return Err(lost(Errno::NETDOWN, "it was released; listen again".to_owned())),
        };
        listen_again(&mut control, port, backlog, queue)
            .map_err(|error| lost(error.errno(), error.to_string()))
    }

    /// Binds a port of the domain; a datagram port comes with its socket.
    pub(crate) fn bind(
        &self,
        kind: SockKind,
        port: u16,
    ) -> Result<(u16, Option<OwnedFd>), SockError> {
        match self.ask(SockRequest::Bind { kind, port })? {
            (Reply::Sock(SockReply::Port(port)), mut fds) => {
                let held =
                    if kind == SockKind::Stream { PortUse::Bound } else { PortUse::Datagrams };
                lock(&self.ports).insert((kind, port), held);
                Ok((port, fds.pop()))
            }
            _ => Err(unexpected_answer()),
        }
    }

    pub(crate) fn listen(&self, port: u16, backlog: u32) -> Result<Arc<ArrivalQueue>, SockError> {
        let (_, mut fds) = self.ask(SockRequest::Listen { port, backlog })?;
        let socket = fds.pop().ok_or_else(unexpected_answer)?;
        let intake = Arc::new(ArrivalQueue::new(socket)?);
        lock(&self.ports)
            .insert((SockKind::Stream, port), PortUse::Listening(backlog, Arc::downgrade(&intake)));
        Ok(intake)
    }

    pub(crate) fn release(&self, kind: SockKind, port: u16) {
        if self.guard.is_original() {
            lock(&self.ports).remove(&(kind, port));
            self.send(SockRequest::Release { kind, port });
        }
    }

    /// Opens a prepared connection to this target.
    pub(crate) fn open_prepared(&self, to: Target) -> Option<(PreparedConnection, Arc<Pair>)> {
        while self.guard.is_original() {
            let connection = lock(&self.prepared).take(to)?;
            let key = (connection.info.pair, usize::from(connection.info.side));
            let pair = lock(&self.pairs).get(&key).map(Arc::clone).filter(|pair| !pair.is_over());
            if let Some(pair) = pair {
                pair.mark_opened(usize::from(connection.info.slot));
                if connection.open() {
                    return Some((connection, pair));
                }
            }
            self.report_closed(&connection.info);
        }
        None
    }

    /// The number of connections to prepare beside the next one to this target.
    pub(crate) fn prepared_wanted(&self, to: Target) -> u8 {
        lock(&self.prepared).wanted(to)
    }

    /// Keeps prepared connections.
    pub(crate) fn keep_prepared(&self, to: Target, prepared: Vec<PreparedConnection>) {
        let dropped = lock(&self.prepared).put(to, prepared);
        dropped.iter().for_each(|connection| self.report_closed(&connection.info));
    }

    /// Whether this is the process that joined, and not a child by fork.
    pub(crate) fn is_original(&self) -> bool {
        self.guard.is_original()
    }

    /// Fails in a child by fork.
    pub(crate) fn check_process(&self) -> Result<(), SockError> {
        if self.guard.is_original() {
            return Ok(());
        }
        let why = "a child by fork has no sockets of its parent; it joins a domain for itself";
        Err(SockError::new(Errno::NOTCONN, why))
    }

    /// The pair of a connection; maps it at the first use.
    pub(crate) fn pair(
        &self,
        info: &SockConnection,
        fds: &[OwnedFd],
    ) -> Result<Arc<Pair>, SockError> {
        let (id, side) = (info.pair, usize::from(info.side));
        let mut pairs = lock(&self.pairs);
        if let Some(pair) = pairs.get(&(id, side)) {
            return Ok(Arc::clone(pair));
        }
        let [control, pool] = fds else { return Err(unexpected_answer()) };
        let peer = (info.by, info.peer.0, info.own.0);
        let sibling = pairs.values().find(|pair| pair.peer == peer).map(|pair| &**pair);
        let pair = Arc::new(Pair::map((id, side), peer, control, pool, sibling)?);
        self.send(SockRequest::Mapped { pair: id, side: info.side });
        pair.offer_pool();
        // A pair without connections would serve the next one. Pairs with departed peers serve
        // nothing.
        if pairs.len() >= IDLE_PAIRS_MAX {
            // A request holds `control` while it takes `prepared`, so this lock must end first.
            let dropped = lock(&self.prepared).clear();
            dropped.iter().for_each(|connection| self.report_closed(&connection.info));
            pairs.retain(|_, pair| Arc::strong_count(pair) > 1 || !self.forget_pair(pair));
        }
        pairs.insert((id, side), Arc::clone(&pair));
        Ok(pair)
    }

    /// The pair of a connection and of those prepared beside it. Without it all of them close.
    pub(crate) fn pair_or_close(
        &self,
        info: &SockConnection,
        prepared: &[SockConnection],
        fds: &[OwnedFd],
    ) -> Result<Arc<Pair>, SockError> {
        let pair = self.pair(info, fds);
        if pair.is_err() {
            prepared.iter().chain([info]).for_each(|info| self.report_closed(info));
        }
        pair
    }

    /// A pair with the peer of another one, where a poller of that peer may have its bitmap.
    pub(crate) fn sibling(&self, of: &Pair, id: u64) -> Option<Arc<Pair>> {
        let sibling = lock(&self.pairs).get(&(id, of.side)).map(Arc::clone)?;
        (sibling.peer == of.peer).then_some(sibling)
    }

    /// Maps the pool that the peer writes; `false` where asking again soon is useless.
    pub(crate) fn map_peer_pool(&self, pair: &Pair) -> bool {
        let side = u8::from(pair.side == 1);
        let request = Request::Sock(SockRequest::PeerPool { pair: pair.id, side });
        // Not at a successor: a pair belongs to the daemon that made it.
        let answer = lock(&self.control).ask(&request);
        match answer {
            Ok((_, fds)) => fds.first().is_some_and(|pool| pair.map_peer_pool(pool).is_ok()),
            // The peer's report to the daemon may still be on its way.
            Err(RequestError::Refused(error)) => error.errno() == Errno::AGAIN,
            Err(RequestError::DaemonGone | RequestError::TimedOut(_)) => false,
        }
    }

    /// Whether the daemon agrees to forget the pair. Otherwise it would count it as mapped.
    fn forget_pair(&self, pair: &Pair) -> bool {
        let side = u8::from(pair.side == 1);
        match lock(&self.control).ask(&Request::Sock(SockRequest::Forget { pair: pair.id, side })) {
            Ok(_) => true,
            Err(RequestError::Refused(error)) => error.errno() == Errno::NOENT,
            Err(RequestError::DaemonGone | RequestError::TimedOut(_)) => false,
        }
    }

    /// Reports to the daemon that this side of a connection is closed.
    pub(crate) fn report_closed(&self, info: &SockConnection) {
        self.send(SockRequest::Closed { pair: info.pair, side: info.side, slot: info.slot });
    }
}
