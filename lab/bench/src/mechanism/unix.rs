//! Unix domain sockets: stream and seqpacket.

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::bytes::Bytes;
use super::{Inherited, Mechanism, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::peer::Run;

/// A connected pair of SOCK_STREAM.
pub struct Stream;
/// A connected pair of SOCK_SEQPACKET.
pub struct Seqpacket;

impl Mechanism for Stream {
    fn name(&self) -> &'static str {
        "unix-stream"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        connected(SocketType::STREAM)
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bytes::socket(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bytes::socket(inherited, run)?)
    }
}

impl Mechanism for Seqpacket {
    fn name(&self) -> &'static str {
        "unix-seqpacket"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        connected(SocketType::SEQPACKET)
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bytes::socket(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bytes::socket(inherited, run)?)
    }
}

fn connected(kind: SocketType) -> Result<Transport, Error> {
    let (client, server) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .map_err(Error::os("socketpair"))?;
    Ok(Transport { client: vec![client], server: vec![server], ..Transport::default() })
}
