//! Blocks of areas through a stream: where both members attach the area, a name of 32 bytes travels
//! instead of the bytes.
//!
//! The stream carries 40 bytes: a mark and the name of the block. The two programs agree when a
//! block comes. Other bytes in its place end the connection. A name is only a claim: the ledgers of
//! the area decide which member may accept the block.

use super::{Stream, WAIT, lock_half};
use crate::error::SockError;
use m3ipc::{Address, AreaError, Block, Code, Endpoint, GivenBlock, Plain, Unsent};
use m3ipc_sys::Errno;

/// The mark in front of a name.
const MARK: [u8; 8] = *b"m3block\n";
const NAME_BYTES: usize = 32;
const FRAME_BYTES: usize = MARK.len() + NAME_BYTES;

/// A block that came through a stream and that no endpoint has accepted yet: a claim of the peer.
#[doc(hidden)]
#[derive(Debug)]
pub struct ArrivedBlock([u8; NAME_BYTES]);

impl Stream {
    /// Sends a block of an area behind all bytes that were sent before, without a copy.
    ///
    /// The block belongs to the receiving endpoint once that has [received](Self::receive_block)
    /// it. Until then this process must live, and `endpoint` must stay bound. If the connection
    /// ends before, [`Endpoint::take_back_given`] returns the block.
    ///
    /// # Errors
    /// [`Unsent`], with the block. `INVAL` on a non-blocking stream. `BADF` where the peer process
    /// has no endpoint in this VM or in the area, or where this endpoint may not give the block.
    /// Those of [`send`](Self::send).
    #[allow(clippy::result_large_err)]
    pub fn send_block<T: Plain>(
        &self,
        endpoint: &mut Endpoint,
        block: Block<T>,
    ) -> Result<GivenBlock, Unsent<SockError>> {
        let given = self.give_block(endpoint, block)?;
        match self.send_given(&given) {
            Ok(()) => Ok(given),
            Err(error) => Err(Unsent { error, block: endpoint.take_back_given(&given) }),
        }
    }

    /// The first half of [`send_block`](Self::send_block), which never waits for the peer.
    ///
    /// # Errors
    /// Those of [`send_block`](Self::send_block).
    #[doc(hidden)]
    #[allow(clippy::result_large_err)]
    pub fn give_block<T: Plain>(
        &self,
        endpoint: &mut Endpoint,
        block: Block<T>,
    ) -> Result<GivenBlock, Unsent<SockError>> {
        let to = match self.peer_endpoint(endpoint) {
            Ok(to) => to,
            Err(error) => return Err(Unsent { error, block: block.cast().ok() }),
        };
        endpoint.give_block(to, block).map_err(|unsent| {
            self.forget_peer_endpoint();
            Unsent { error: from_area_error(unsent.error), block: unsent.block }
        })
    }

    /// The second half, which needs no endpoint. After an error the block is to be taken back.
    ///
    /// # Errors
    /// Those of [`send_block`](Self::send_block).
    #[doc(hidden)]
    pub fn send_given(&self, given: &GivenBlock) -> Result<(), SockError> {
        let mut frame = [0; FRAME_BYTES];
        frame[..MARK.len()].copy_from_slice(&MARK);
        frame[MARK.len()..].copy_from_slice(&given.name());
        Ok(self.send_whole(&frame)?)
    }

    /// Receives a block that the peer sent; `None` where the peer has ended its sending.
    ///
    /// The block keeps its place in the area, and nothing is copied.
    ///
    /// # Errors
    /// `PROTO` where other bytes or a false name came; this ends the connection. `INVAL` on a
    /// non-blocking stream. `NOMEM`, `ACCES` or `BADF` where the area cannot be attached or the
    /// peer process has no endpoint in this VM. Those of [`receive`](Self::receive).
    pub fn receive_block(&self, endpoint: &mut Endpoint) -> Result<Option<Block>, SockError> {
        self.check_blocks(endpoint)?;
        match self.next_block()? {
            Some(arrived) => self.accept_block(endpoint, &arrived).map(Some),
            None => Ok(None),
        }
    }

    /// The first part of [`receive_block`](Self::receive_block): whether blocks can come.
    ///
    /// # Errors
    /// Those of [`receive_block`](Self::receive_block).
    #[doc(hidden)]
    pub fn check_blocks(&self, endpoint: &mut Endpoint) -> Result<(), SockError> {
        self.peer_endpoint(endpoint).map(drop)
    }

    /// The second part, which waits and needs no endpoint.
    ///
    /// # Errors
    /// Those of [`receive_block`](Self::receive_block).
    #[doc(hidden)]
    pub fn next_block(&self) -> Result<Option<ArrivedBlock>, SockError> {
        let mut frame = [0; FRAME_BYTES];
        if !self.receive_whole(&mut frame)? {
            return Ok(None);
        }
        let name = frame.strip_prefix(&MARK).and_then(|name| name.try_into().ok());
        let Some(name) = name else {
            let _ = self.end_if_broken::<()>(Err(Errno::PROTO));
            return Err(SockError::new(
                Errno::PROTO,
                "a block was asked for and something else came",
            ));
        };
        Ok(Some(ArrivedBlock(name)))
    }

    /// The last part, which never waits for the peer.
    ///
    /// # Errors
    /// Those of [`receive_block`](Self::receive_block).
    #[doc(hidden)]
    pub fn accept_block(
        &self,
        endpoint: &mut Endpoint,
        arrived: &ArrivedBlock,
    ) -> Result<Block, SockError> {
        let from = self.peer_endpoint(endpoint)?;
        let accepted = endpoint.accept_given(from, &arrived.0).map_err(from_area_error);
        if let Err(error) = &accepted {
            let _ = self.end_if_broken::<()>(Err(error.errno()));
        }
        accepted
    }

    /// The endpoint of the peer process. The kernel gave the daemon the number of that process.
    fn peer_endpoint(&self, endpoint: &mut Endpoint) -> Result<Address, SockError> {
        if self.is_nonblocking() {
            let why =
                "blocks are sent and received by streams that wait; set_nonblocking(false) first";
            return Err(SockError::new(Errno::INVAL, why));
        }
        self.check_process()?;
        if let Some(known) = self.connection.peer_endpoint() {
            return Ok(known);
        }
        let (process, _) = self.peer_process();
        let found = endpoint.locate_process(process).map_err(|error| {
            SockError::new(
                Errno::BADF,
                format!("process {process} at the other end has no endpoint in this VM: {error}"),
            )
        })?;
        self.connection.set_peer_endpoint(found);
        Ok(found)
    }

    /// Forgets the peer's endpoint: the process may have bound another one.
    fn forget_peer_endpoint(&self) {
        self.connection.set_peer_endpoint(m3ipc::NONE);
    }

    /// Sends all bytes, or fails before the first one. A later failure ends the connection.
    fn send_whole(&self, bytes: &[u8]) -> Result<(), Errno> {
        self.check_sender()?;
        let mut sending = lock_half(&self.sending, true)?;
        let mut done = 0;
        while done < bytes.len() {
            match sending.send(&self.connection, &bytes[done..], true) {
                Ok(count) => done += count,
                Err(Errno::AGAIN | Errno::INTR) if done > 0 => {}
                Err(errno) => return self.end_if_broken(Err(errno)),
            }
        }
        Ok(())
    }

    /// Receives all bytes; `false` where the peer ended its sending before the first one.
    fn receive_whole(&self, bytes: &mut [u8]) -> Result<bool, Errno> {
        self.check_process()?;
        let mut receiving = lock_half(&self.receiving, true)?;
        let mut done = 0;
        while done < bytes.len() {
            match receiving.take(&self.connection, &mut bytes[done..], WAIT) {
                // The sender sends a frame whole. A rest beyond the socket's time limit never
                // comes.
                Ok(0) | Err(Errno::AGAIN) if done > 0 => {
                    return self.end_if_broken(Err(Errno::PROTO));
                }
                Ok(0) => return Ok(false),
                Ok(count) => done += count,
                Err(Errno::INTR) if done > 0 => {}
                Err(errno) => return self.end_if_broken(Err(errno)),
            }
        }
        Ok(true)
    }
}

/// The error of a block that did not change its owner.
fn from_area_error(error: AreaError) -> SockError {
    SockError::new(errno_of(error.code()), error.why())
}

/// The number of errno(3) for a code of the contract.
fn errno_of(code: Code) -> Errno {
    match code {
        Code::PeerBroke => Errno::PROTO,
        Code::NoMem => Errno::NOMEM,
        Code::Privileges | Code::Perm => Errno::ACCESS,
        _ => Errno::BADF,
    }
}
