//! A domain of a VM, as a process takes part in it.

use crate::control::{Belonging, unexpected};
use crate::error::SockError;
use crate::listener::Listener;
use crate::party::Party;
use crate::spare::Spare;
use crate::stream::Stream;
use m3ipc::Vm;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockInfo, SockKind, SockReply, SockRequest};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two tries to connect where the listener's queue is full.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// This process's part in a domain of a VM: the place where its sockets have their addresses.
///
/// Domain *d* has the address of the network and *d* + 2, by default 192.168.0.(*d* + 2); its ports are its own.
#[derive(Clone, Debug)]
pub struct Domain {
    party: Arc<Party>,
}

impl Domain {
    /// Joins a domain of this process's own: one that it is in already, else that of its endpoint's slot, else the first free one.
    ///
    /// # Errors
    /// `ACCES` where the VM is not for this user, `NETDOWN` where it is not running, `ADDRNOTAVAIL` where no domain is free.
    pub fn join(directory: &Path, vm: &Vm) -> Result<Self, SockError> {
        Self::enter(directory, vm.id(), None)
    }

    /// Joins this domain, alone or with other processes of this user.
    ///
    /// # Errors
    /// As [`join`](Self::join); `ACCES` where it is another user's.
    pub fn join_numbered(directory: &Path, vm: &Vm, domain: u32) -> Result<Self, SockError> {
        Self::enter(directory, vm.id(), Some(domain))
    }

    /// Joins the domain that the VM's configuration gives this name, alone or with other processes of this user.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL` where it gives it to none; as [`join_numbered`](Self::join_numbered).
    pub fn join_named(directory: &Path, vm: &Vm, name: &str) -> Result<Self, SockError> {
        let Some(domain) = vm.domain(name) else { return Err(unknown(vm, name)) };
        Self::join_numbered(directory, vm, domain)
    }

    /// Joins a domain of a VM that is known by its id.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn enter(directory: &Path, vm: i32, domain: Option<u32>) -> Result<Self, SockError> {
        let belonging = Belonging { directory: directory.to_owned(), vm };
        Ok(Self { party: Arc::new(Party::join(belonging, domain)?) })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.party.domain()
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.party.address()
    }

    /// The address of another domain.
    #[must_use]
    pub fn address_of(&self, domain: u32) -> Ipv4Addr {
        self.party.address_of(domain)
    }

    /// The address of the domain that the VM's configuration gives this name.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL` where it gives it to none.
    pub fn address_named(&self, vm: &Vm, name: &str) -> Result<Ipv4Addr, SockError> {
        vm.domain(name).map(|domain| self.address_of(domain)).ok_or_else(|| unknown(vm, name))
    }

    /// The address of all domains, for datagrams.
    #[must_use]
    pub fn broadcast(&self) -> Ipv4Addr {
        self.party.broadcast()
    }

    /// Takes connections at a port, any free one for 0, of which `backlog` may wait.
    ///
    /// # Errors
    /// `ADDRINUSE`, `MFILE`, `NETDOWN`.
    ///
    /// # Source
    /// bind(2), listen(2)
    pub fn listen(&self, port: u16, backlog: u32) -> Result<Listener, SockError> {
        let port = self.reserve(port)?;
        let listener = self.listen_reserved(port, backlog);
        if listener.is_err() {
            self.party.release(SockKind::Stream, port);
        }
        listener
    }

    /// Takes a port for streams, any free one for 0, without listening there.
    ///
    /// # Errors
    /// `ADDRINUSE`, `NETDOWN`.
    pub fn reserve(&self, port: u16) -> Result<u16, SockError> {
        self.party.bind(SockKind::Stream, port).map(|(port, _)| port)
    }

    /// Takes connections at a port that was [reserved](Self::reserve).
    ///
    /// # Errors
    /// `INVAL` where it was not; `MFILE`, `NETDOWN`.
    pub fn listen_reserved(&self, port: u16, backlog: u32) -> Result<Listener, SockError> {
        Listener::new(Arc::clone(&self.party), port, backlog)
    }

    /// Gives a [reserved](Self::reserve) port back.
    pub fn release(&self, port: u16) {
        self.party.release(SockKind::Stream, port);
    }

    /// Connects; waits where the listener's queue is full.
    ///
    /// # Errors
    /// `HOSTUNREACH` where nobody is in that domain, `CONNREFUSED` where nobody listens at the port, `NETUNREACH` for the broadcast
    /// address, `MFILE`, `NOBUFS`, `NETDOWN`.
    ///
    /// # Source
    /// connect(2)
    pub fn connect(&self, to: SocketAddrV4) -> Result<Stream, SockError> {
        self.connect_from(to, 0, true)
    }

    /// Connects from a port of one's own, any free one for 0; `AGAIN` where the queue is full and `wait` is false.
    ///
    /// # Errors
    /// Of [`connect`](Self::connect).
    pub fn connect_from(
        &self,
        to: SocketAddrV4,
        from: u16,
        wait: bool,
    ) -> Result<Stream, SockError> {
        // As everywhere, no address means this very host.
        let address = if to.ip().is_unspecified() { self.address() } else { *to.ip() };
        let target = (u32::from(address), to.port());
        if from == 0
            && let Some((spare, pair)) = self.party.open_spare(target)
        {
            return Ok(Stream::new(Arc::clone(&self.party), pair, spare.socket, spare.seat)?);
        }
        loop {
            let spares = if from == 0 { self.party.wish(target) } else { 0 };
            let request =
                SockRequest::Connect { address: target.0, port: target.1, from, prepared: spares };
            match self.party.ask(request) {
                Ok((Reply::Sock(SockReply::Connected(seat, spares)), mut fds))
                    if !fds.is_empty() =>
                {
                    let socket = fds.remove(0);
                    let sockets = fds.split_off(if seat.with_pair { fds.len().min(2) } else { 0 });
                    let pair = self.party.pair(&seat, &fds)?;
                    self.party.keep_spares(target, Spare::all(spares, sockets));
                    return Ok(Stream::new(Arc::clone(&self.party), pair, socket, seat)?);
                }
                Ok(_) => return Err(unexpected()),
                Err(error) if wait && error.errno() == Errno::AGAIN => {
                    std::thread::sleep(FULL_PAUSE)
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether an address is this domain's, or stands for any of one's own.
    #[must_use]
    pub fn is_own(&self, address: Ipv4Addr) -> bool {
        crate::listener::is_own(address, &self.party)
    }

    pub(crate) fn party(&self) -> &Arc<Party> {
        &self.party
    }
}

fn unknown(vm: &Vm, name: &str) -> SockError {
    let all: Vec<&str> = vm.info().domains.keys().map(String::as_str).collect();
    let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let why = format!(
        "VM {} has no domain named {name:?}, but {has}; `m3 vm create --domain NAME=NUMBER` names them",
        vm.name()
    );
    SockError::new(Errno::ADDRNOTAVAIL, why)
}

/// The sockets of a VM, with their counters, for who may see the VM.
///
/// # Errors
/// `ACCES`, `NETDOWN`.
pub fn sockets(directory: &Path, vm: i32) -> Result<Vec<SockInfo>, SockError> {
    let mut control = crate::control::Control::connect(directory)?;
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let request = m3ipc_wire::Request::Sock(SockRequest::List { vm, from });
        let (Reply::Sock(SockReply::Sockets { list, next }), _) =
            control.ask(&request).map_err(SockError::from)?
        else {
            return Err(unexpected());
        };
        all.extend(list);
        match next {
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}
