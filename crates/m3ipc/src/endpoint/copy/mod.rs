//! Copies between the memory of endpoints: vcopy.
//!
//! ```text
//! requester  copy_to, copy_from, copy_between
//!    ├ in_area: the requester copies by itself           memory of areas that it has attached
//!    │ (fast: the ordinary case of that)
//!    ├ direct:  the kernel copies, one system call       same user, VM's copies `open`
//!    └ chunked: the party copies for itself, from its    everywhere else
//!               wait loop, through a bounce buffer
//! party      gate: admits copies while it waits;  serve: copies for the requester
//! ```
//!
//! Every party but the requester must be blocked in receive or sendrec. An endpoint that no peer
//! ever copied with pays nothing: its copy gate is made at the first copy.

mod await_party;
mod chunk;
mod chunked;
mod direct;
mod fast;
mod gate;
mod gates;
mod grant_table;
mod hold_limits;
mod in_area;
mod lease;
mod lending;
mod party;
mod party_life;
mod rights;
mod serve;
mod side;
mod stand_in;
mod state;
mod ways;

pub use grant_table::{Audience, Grant};
pub use lease::Lease;
pub use rights::Rights;
pub use side::Location;
pub(crate) use stand_in::{CopyNews, PartyCopy, PartyStep};
pub(super) use state::Copies;

use super::Endpoint;
use crate::error::CopyError;
use crate::observe;
use crate::timeout::Timeout;
use fast::Beside;
use m3ipc_abi::Address;
use m3ipc_sys::{CopySource, CopyTarget};
use side::{OwnMemory, Role};

impl Endpoint {
    /// Copies bytes into the memory of an endpoint that is blocked in receive or sendrec.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{Lease, Message, Source};
    ///
    /// let mut memory = [0_u8; 4];
    /// # let thread = std::thread::spawn(move || {
    /// #     let request = server.receive(Source::Any).unwrap();
    /// #     let address = u64::from_ne_bytes(request.payload[..8].try_into().unwrap());
    /// // The server, while the client waits:
    /// server.copy_to(request.source, address, b"copy").unwrap();
    /// #     server.reply(request.source, &Message::new(0)).unwrap();
    /// # });
    /// // The client leases the memory for one call, and tells the server its address:
    /// let lease = Lease::write(&mut memory);
    /// let request = Message::new(7).with_bytes(&lease.address().to_ne_bytes());
    /// client.sendrec_leased(to, &request, &[lease], None)?;
    /// assert_eq!(&memory, b"copy");
    /// # thread.join().unwrap();
    /// # Ok::<(), m3ipc::SendRecError>(())
    /// ```
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) has the number of bytes before it.
    pub fn copy_to(
        &mut self,
        to: Address,
        location: impl Into<Location>,
        from: &[u8],
    ) -> Result<(), CopyError> {
        self.copy_source_to(to, location.into(), &CopySource::from(from), Timeout::Never)
    }

    /// Copies bytes out of the memory of an endpoint that is blocked in receive or sendrec.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let text = *b"copy";
    /// use m3ipc::{Lease, Message, Source};
    ///
    /// # let thread = std::thread::spawn(move || {
    /// #     let request = server.receive(Source::Any).unwrap();
    /// #     let address = u64::from_ne_bytes(request.payload[..8].try_into().unwrap());
    /// // The server, while the client waits:
    /// let mut bytes = [0; 4];
    /// server.copy_from(request.source, address, &mut bytes).unwrap();
    /// assert_eq!(&bytes, b"copy");
    /// assert_eq!((server.copied(), server.copied_total()), (4, 4));
    /// #     server.reply(request.source, &Message::new(0)).unwrap();
    /// # });
    /// // The client leases its text for one call:
    /// let lease = Lease::read(&text);
    /// let request = Message::new(7).with_bytes(&lease.address().to_ne_bytes());
    /// client.sendrec_leased(to, &request, &[lease], None)?;
    /// # thread.join().unwrap();
    /// # Ok::<(), m3ipc::SendRecError>(())
    /// ```
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) has the number of bytes before it.
    pub fn copy_from(
        &mut self,
        from: Address,
        location: impl Into<Location>,
        into: &mut [u8],
    ) -> Result<(), CopyError> {
        self.copy_into_target(from, location.into(), &mut CopyTarget::from(into), Timeout::Never)
    }

    /// Copies between the memories of two other endpoints, both blocked in receive or sendrec.
    ///
    /// A side in an area that the caller has attached costs one pass over the bytes. Otherwise
    /// there are two passes, through a buffer that stays in the cache, and one more for each party
    /// that copies for itself.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let mut other = node.vm().bind_additional(Some(3))?;
    /// use m3ipc::{Lease, Location, Message, Source};
    ///
    /// # let ask = move |endpoint: &mut m3ipc::Endpoint, lease: Lease<'_>, kind: i32| {
    /// #     let request = Message::new(kind).with_bytes(&lease.address().to_ne_bytes());
    /// #     endpoint.sendrec_leased(to, &request, &[lease], None)
    /// # };
    /// # let reader = std::thread::spawn(move || ask(&mut client, Lease::read(b"copy"), 1));
    /// # let writer = std::thread::spawn(move || {
    /// #     let mut memory = [0_u8; 4];
    /// #     ask(&mut other, Lease::write(&mut memory), 2).map(|_| memory)
    /// # });
    /// # let requests = [server.receive(Source::Any)?, server.receive(Source::Any)?];
    /// # let of = |kind: i32| {
    /// #     let request = requests.iter().find(|request| request.m_type == kind).unwrap();
    /// #     let address = u64::from_ne_bytes(request.payload[..8].try_into().unwrap());
    /// #     (request.source, address)
    /// # };
    /// # let ((source, from), (destination, to)) = (of(1), of(2));
    /// // Two clients wait for answers; one leased its text, the other one a buffer.
    /// let text = (source, Location::At(from));
    /// let buffer = (destination, Location::At(to));
    /// server.copy_between(text, buffer, 4, None)?;
    /// server.reply(source, &Message::new(0))?;
    /// server.reply(destination, &Message::new(0))?;
    /// # reader.join().unwrap()?;
    /// # assert_eq!(writer.join().unwrap()?, *b"copy");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`CopyError`]; [`copied`](Self::copied) has the number of bytes before it.
    pub fn copy_between(
        &mut self,
        source: (Address, Location),
        destination: (Address, Location),
        bytes: u64,
        limit: impl Into<Timeout>,
    ) -> Result<(), CopyError> {
        let mut failed = source.0;
        let span = observe::call(
            "copy_between",
            self.membership.vm(),
            self.membership.address(),
            destination.0,
        );
        let result =
            self.copy_third(source, destination, bytes, limit.into().deadline(), &mut failed);
        let result = result.map_err(|fail| CopyError::of(fail, failed));
        span.end(&result);
        result
    }

    /// Copies to an endpoint within a time limit, from memory that another language vouches for or
    /// from a [block](crate::Block::as_source).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// use m3ipc::{CopySource, CopyTarget, Lease, Location, Message, Source};
    /// use std::time::Duration;
    ///
    /// let mut memory = *b"ping";
    /// # let thread = std::thread::spawn(move || {
    /// #     let request = server.receive(Source::Any).unwrap();
    /// #     let address = u64::from_ne_bytes(request.payload[..8].try_into().unwrap());
    /// #     let (client, limit) = (request.source, Duration::from_secs(10));
    /// // The server, while the client waits:
    /// let mut found = [0; 4];
    /// let mut target = CopyTarget::from(&mut found[..]);
    /// server.copy_into_target(client, Location::At(address), &mut target, limit).unwrap();
    /// let answer = CopySource::from(&b"pong"[..]);
    /// server.copy_source_to(client, Location::At(address), &answer, limit).unwrap();
    /// #     assert_eq!(&found, b"ping");
    /// #     server.reply(request.source, &Message::new(0)).unwrap();
    /// # });
    /// # let lease = Lease::both(&mut memory);
    /// # let request = Message::new(7).with_bytes(&lease.address().to_ne_bytes());
    /// # client.sendrec_leased(to, &request, &[lease], None)?;
    /// assert_eq!(&memory, b"pong");
    /// # thread.join().unwrap();
    /// # Ok::<(), m3ipc::SendRecError>(())
    /// ```
    ///
    /// # Errors
    /// As [`copy_to`](Self::copy_to).
    pub fn copy_source_to(
        &mut self,
        to: Address,
        location: Location,
        from: &CopySource<'_>,
        limit: impl Into<Timeout>,
    ) -> Result<(), CopyError> {
        let bytes = from.bytes();
        let span = observe::call("copy_to", self.membership.vm(), self.membership.address(), to);
        if self.copy_fast(to, location, Beside::From(from)) {
            span.end_well();
            return Ok(());
        }
        let copied =
            self.begin_copy(to, bytes as u64, Role::Destination, limit.into()).and_then(|begun| {
                begun.map_or(Ok(()), |(index, deadline)| {
                    self.copy_traced(index, location, &mut OwnMemory::From(from), bytes, deadline)
                })
            });
        let copied = copied.map_err(|fail| CopyError::of(fail, to));
        span.end(&copied);
        copied
    }

    /// Copies from an endpoint within a time limit, into memory that another language vouches for
    /// or into a [block](crate::Block::as_target). The example is at
    /// [`copy_source_to`](Self::copy_source_to).
    ///
    /// # Errors
    /// As [`copy_from`](Self::copy_from).
    pub fn copy_into_target<'a>(
        &mut self,
        from: Address,
        location: Location,
        into: &'a mut CopyTarget<'a>,
        limit: impl Into<Timeout>,
    ) -> Result<(), CopyError> {
        let bytes = into.bytes();
        let span =
            observe::call("copy_from", self.membership.vm(), self.membership.address(), from);
        if self.copy_fast(from, location, Beside::Into(into)) {
            span.end_well();
            return Ok(());
        }
        let copied = match self.begin_copy(from, bytes as u64, Role::Source, limit.into()) {
            Ok(Some((index, deadline))) => {
                self.copy_traced(index, location, &mut OwnMemory::Into(into), bytes, deadline)
            }
            Ok(None) => Ok(()),
            Err(fail) => Err(fail),
        };
        let copied = copied.map_err(|fail| CopyError::of(fail, from));
        span.end(&copied);
        copied
    }

    /// Bytes of the last copy of this endpoint: all of them after a success. The example is at
    /// [`copy_from`](Self::copy_from).
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copies.copied
    }

    /// Bytes that this endpoint has copied in all: its copies, and payloads beyond
    /// [`LONG_MAX_BYTES`](crate::LONG_MAX_BYTES) in both directions. Bytes in a link do not count,
    /// nor does a block that changes its owner. The example is at [`copy_from`](Self::copy_from).
    #[must_use]
    pub fn copied_total(&self) -> u64 {
        self.copies.total()
    }
}
