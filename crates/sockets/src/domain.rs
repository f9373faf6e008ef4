//! A domain of a VM, as one member process uses it.

use crate::control::{Membership, unexpected_answer};
use crate::error::SockError;
use crate::listener::Listener;
use crate::member::DomainMember;
use crate::prepared::PreparedConnection;
use crate::stream::Stream;
use m3ipc::Vm;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockInfo, SockKind, SockReply, SockRequest};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two attempts to connect while the listener's queue is full.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// This process's membership in a domain of a VM. Its sockets have their addresses there.
///
/// Domain *d* has the address *network* + *d* + 2, by default 192.168.0.(*d* + 2). Each domain has
/// its own ports.
#[derive(Clone, Debug)]
pub struct Domain {
    member: Arc<DomainMember>,
}

impl Domain {
    /// Joins a domain for this process alone.
    ///
    /// The daemon chooses the domain that the process is in already, else the domain with the
    /// number of its endpoint's slot, else the first free one.
    ///
    /// # Errors
    /// `ACCES` where this user may not join the VM, `NETDOWN` where the VM does not run,
    /// `ADDRNOTAVAIL` where no domain is free, `NOMEM` where the user is at its quota of domains.
    pub fn join(directory: &Path, vm: &Vm) -> Result<Self, SockError> {
        Self::enter(directory, vm.id(), None)
    }

    /// Joins this domain. Several processes of one user may be members of it.
    ///
    /// # Errors
    /// Those of [`join`](Self::join); `ACCES` where the domain belongs to another user.
    pub fn join_numbered(directory: &Path, vm: &Vm, domain: u32) -> Result<Self, SockError> {
        Self::enter(directory, vm.id(), Some(domain))
    }

    /// Joins the domain that has this name in the VM's configuration.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL` where no domain has the name; those of
    /// [`join_numbered`](Self::join_numbered).
    pub fn join_named(directory: &Path, vm: &Vm, name: &str) -> Result<Self, SockError> {
        let Some(domain) = vm.domain(name) else { return Err(unknown_name(vm, name)) };
        Self::join_numbered(directory, vm, domain)
    }

    /// Joins a domain of the VM with this id.
    ///
    /// # Errors
    /// Those of [`join`](Self::join).
    pub fn enter(directory: &Path, vm: i32, domain: Option<u32>) -> Result<Self, SockError> {
        let belonging = Membership { directory: directory.to_owned(), vm };
        Ok(Self { member: Arc::new(DomainMember::join(belonging, domain)?) })
    }

    /// The number of the domain.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.member.domain()
    }

    /// The address of the domain.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.member.address()
    }

    /// The address of another domain.
    #[must_use]
    pub fn address_of(&self, domain: u32) -> Ipv4Addr {
        self.member.address_of(domain)
    }

    /// The address of the domain that has this name in the VM's configuration.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL` where no domain has the name.
    pub fn address_named(&self, vm: &Vm, name: &str) -> Result<Ipv4Addr, SockError> {
        vm.domain(name).map(|domain| self.address_of(domain)).ok_or_else(|| unknown_name(vm, name))
    }

    /// The address of all domains, for datagrams.
    #[must_use]
    pub fn broadcast(&self) -> Ipv4Addr {
        self.member.broadcast()
    }

    /// Listens at a port; 0 means any free port. Up to `backlog` connections wait there.
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
            self.member.release(SockKind::Stream, port);
        }
        listener
    }

    /// Reserves a port for streams without listening there; 0 means any free port.
    ///
    /// # Errors
    /// `ADDRINUSE`, `NETDOWN`.
    pub fn reserve(&self, port: u16) -> Result<u16, SockError> {
        self.member.bind(SockKind::Stream, port).map(|(port, _)| port)
    }

    /// Listens at a port that was [reserved](Self::reserve).
    ///
    /// # Errors
    /// `INVAL` where the port is not reserved; `MFILE`, `NETDOWN`.
    pub fn listen_reserved(&self, port: u16, backlog: u32) -> Result<Listener, SockError> {
        Listener::new(Arc::clone(&self.member), port, backlog)
    }

    /// Releases a [reserved](Self::reserve) port.
    pub fn release(&self, port: u16) {
        self.member.release(SockKind::Stream, port);
    }

    /// Connects to a listener. The call waits while the listener's queue is full.
    ///
    /// # Errors
    /// `HOSTUNREACH` where the domain has no member, `CONNREFUSED` where no process listens at the
    /// port, `NETUNREACH` for the broadcast address, `MFILE`, `NOBUFS`, `NETDOWN`.
    ///
    /// # Source
    /// connect(2)
    pub fn connect(&self, to: SocketAddrV4) -> Result<Stream, SockError> {
        self.connect_from(to, 0, true)
    }

    /// Connects from a port of this domain; 0 means any free port.
    ///
    /// # Errors
    /// `AGAIN` where the listener's queue is full and `wait` is false; those of
    /// [`connect`](Self::connect).
    pub fn connect_from(
        &self,
        to: SocketAddrV4,
        from: u16,
        wait: bool,
    ) -> Result<Stream, SockError> {
        // As with TCP, the unspecified address means this host.
        let address = if to.ip().is_unspecified() { self.address() } else { *to.ip() };
        let target = (u32::from(address), to.port());
        self.member.check_process()?;
        if from == 0
            && let Some((connection, pair)) = self.member.open_prepared(target)
        {
            return Ok(Stream::new(
                Arc::clone(&self.member),
                pair,
                connection.socket,
                connection.info,
            )?);
        }
        loop {
            let prepared = if from == 0 { self.member.prepared_wanted(target) } else { 0 };
            let request =
                SockRequest::Connect { address: target.0, port: target.1, from, prepared };
            match self.member.ask(request) {
                Ok((Reply::Sock(SockReply::Connected(info, prepared)), mut fds))
                    if !fds.is_empty() =>
                {
                    let socket = fds.remove(0);
                    let sockets = fds.split_off(if info.with_pair { fds.len().min(2) } else { 0 });
                    let pair = self.member.pair_or_close(&info, &prepared, &fds)?;
                    self.member
                        .keep_prepared(target, PreparedConnection::pair_up(prepared, sockets));
                    return Ok(Stream::new(Arc::clone(&self.member), pair, socket, info)?);
                }
                Ok(_) => return Err(unexpected_answer()),
                Err(error) if wait && error.errno() == Errno::AGAIN => {
                    std::thread::sleep(RETRY_PAUSE)
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether an address is that of this domain, or the unspecified address.
    #[must_use]
    pub fn is_own(&self, address: Ipv4Addr) -> bool {
        crate::listener::is_own(address, &self.member)
    }

    pub(crate) fn member(&self) -> &Arc<DomainMember> {
        &self.member
    }
}

fn unknown_name(vm: &Vm, name: &str) -> SockError {
    let all: Vec<&str> = vm.info().domains.keys().map(String::as_str).collect();
    let has = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    let why = format!(
        "VM {} has no domain {name:?} (it has: {has}); name one with `m3 vm create --domain`",
        vm.name()
    );
    SockError::new(Errno::ADDRNOTAVAIL, why)
}

/// The sockets of a VM with their counters, for users that may see the VM.
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
            return Err(unexpected_answer());
        };
        all.extend(list);
        match next {
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}
