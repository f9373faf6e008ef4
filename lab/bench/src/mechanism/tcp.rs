//! TCP over the loopback device, without Nagle's delay.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::bytes::Bytes;
use super::{Inherited, Mechanism, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::peer::Run;

/// A connection to 127.0.0.1 with TCP_NODELAY on both sides.
pub struct Tcp;

impl Mechanism for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn tells_death(&self) -> bool {
        true
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| Error::Unavailable {
                why: format!("TCP cannot listen on 127.0.0.1: {error}"),
                next: "bring the loopback device up (ip link set lo up)",
            })?;
        let address = listener.local_addr().map_err(Error::os("getsockname"))?;
        let client = TcpStream::connect(address).map_err(Error::os("connect to 127.0.0.1"))?;
        let (server, _) = listener.accept().map_err(Error::os("accept on 127.0.0.1"))?;
        for side in [&client, &server] {
            side.set_nodelay(true).map_err(Error::os("set TCP_NODELAY"))?;
        }
        Ok(Transport {
            client: vec![client.into()],
            server: vec![server.into()],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Bytes::socket(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Bytes::socket(inherited, run)?)
    }
}
