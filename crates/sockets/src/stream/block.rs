//! Blocks of areas: where both sides are of the area a reference travels in place of the bytes.
//!
//! In the stream lie 40 bytes: a mark, and the block's name. The two sides agree on when a block comes, as on everything else that
//! they send; where none is when one is asked for, the connection is over. A name is nothing but a claim: who may
//! accept what, the ledgers of the area say.

use super::{Stream, WAIT, own};
use crate::error::SockError;
use core::sync::atomic::Ordering;
use m3ipc::{Address, AreaError, Block, Code, Endpoint, Given, Plain, Unsent};
use m3ipc_sys::Errno;

/// What is in front of a name.
const MARK: [u8; 8] = *b"m3block\n";
const NAME_BYTES: usize = 32;
const FRAME_BYTES: usize = MARK.len() + NAME_BYTES;

impl Stream {
    /// Sends a block of an area to the other side, behind all bytes that were sent before. Nothing of it is copied: it is the endpoint's of
    /// the process at the other end, when that has [received](Self::receive_block) it. This process must live, and `endpoint` be bound,
    /// until then; where the connection ends before, it can be [taken back](Endpoint::take_back_given).
    ///
    /// # Errors
    /// [`Unsent`], with the block: `INVAL` where the stream does not wait; `BADF` where the process at the other end has no endpoint in this VM,
    /// or none of the area, or the block is not this endpoint's to give; of [`send`](Self::send).
    #[allow(clippy::result_large_err)]
    pub fn send_block<T: Plain>(
        &self,
        endpoint: &mut Endpoint,
        block: Block<T>,
    ) -> Result<Given, Unsent<SockError>> {
        let to = match self.endpoint_there(endpoint) {
            Ok(to) => to,
            Err(error) => return Err(Unsent { error, block: block.cast().ok() }),
        };
        let given = endpoint.give_block(to, block).map_err(|unsent| {
            self.forget_there();
            Unsent { error: of_area(unsent.error), block: unsent.block }
        })?;
        let mut frame = [0; FRAME_BYTES];
        frame[..MARK.len()].copy_from_slice(&MARK);
        frame[MARK.len()..].copy_from_slice(&given.name());
        match self.send_whole(&frame) {
            Ok(()) => Ok(given),
            Err(errno) => {
                Err(Unsent { error: errno.into(), block: endpoint.take_back_given(&given) })
            }
        }
    }

    /// Receives a block that the process at the other end sent; none where it has ended. It lies where it lay, in the area; whoever wants
    /// its bytes elsewhere copies them, once.
    ///
    /// # Errors
    /// `PROTO` where something else came, or a name that is not true: the connection is over then. `INVAL` where the stream does not wait;
    /// `NOMEM`, `ACCES`, `BADF` where the area cannot be attached, or the process at the other end has no endpoint in this VM; of
    /// [`receive`](Self::receive).
    pub fn receive_block(&self, endpoint: &mut Endpoint) -> Result<Option<Block>, SockError> {
        let from = self.endpoint_there(endpoint)?;
        let mut frame = [0; FRAME_BYTES];
        if !self.receive_whole(&mut frame)? {
            return Ok(None);
        }
        let name: Option<&[u8; NAME_BYTES]> =
            frame.strip_prefix(&MARK).and_then(|name| name.try_into().ok());
        let Some(name) = name else {
            let _ = self.judge::<()>(Err(Errno::PROTO));
            return Err(SockError::new(
                Errno::PROTO,
                "a block was asked for and something else came",
            ));
        };
        let accepted = endpoint.accept_given(from, name).map_err(of_area);
        if let Err(error) = &accepted {
            let _ = self.judge::<()>(Err(error.errno()));
        }
        accepted.map(Some)
    }

    /// The endpoint of the process at the other end, whose number the kernel told the daemon.
    fn endpoint_there(&self, endpoint: &mut Endpoint) -> Result<Address, SockError> {
        if self.is_nonblocking() {
            let why =
                "blocks are sent and received by streams that wait; set_nonblocking(false) first";
            return Err(SockError::new(Errno::INVAL, why));
        }
        self.check_here()?;
        let known = self.connection.there.load(Ordering::Relaxed);
        if known != m3ipc::NONE.0 {
            return Ok(Address(known));
        }
        let (process, _) = self.peer_process();
        let found = endpoint.locate_process(process).map_err(|error| {
            SockError::new(
                Errno::BADF,
                format!("process {process} at the other end has no endpoint in this VM: {error}"),
            )
        })?;
        self.connection.there.store(found.0, Ordering::Relaxed);
        Ok(found)
    }

    /// It may be bound anew.
    fn forget_there(&self) {
        self.connection.there.store(m3ipc::NONE.0, Ordering::Relaxed);
    }

    /// All of it, or an error before the first byte; the connection is over where it fails later.
    fn send_whole(&self, bytes: &[u8]) -> Result<(), Errno> {
        self.check_sends()?;
        let mut sending = own(&self.sending, true)?;
        let mut done = 0;
        while done < bytes.len() {
            match sending.put(&self.connection, &bytes[done..], true) {
                Ok(count) => done += count,
                Err(Errno::AGAIN | Errno::INTR) if done > 0 => {}
                Err(errno) => return self.judge(Err(errno)),
            }
        }
        Ok(())
    }

    /// All of it; `false` where the other side ended before.
    fn receive_whole(&self, bytes: &mut [u8]) -> Result<bool, Errno> {
        self.check_here()?;
        let mut receiving = own(&self.receiving, true)?;
        let mut done = 0;
        while done < bytes.len() {
            match receiving.take(&self.connection, &mut bytes[done..], WAIT) {
                // A frame is sent whole; where its rest does not come within the socket's limit, it never will.
                Ok(0) | Err(Errno::AGAIN) if done > 0 => return self.judge(Err(Errno::PROTO)),
                Ok(0) => return Ok(false),
                Ok(count) => done += count,
                Err(Errno::INTR) if done > 0 => {}
                Err(errno) => return self.judge(Err(errno)),
            }
        }
        Ok(true)
    }
}

/// Why a block did not change hands.
fn of_area(AreaError { code, why }: AreaError) -> SockError {
    SockError::new(errno_of(code), why)
}

/// The number of errno(3) of it.
fn errno_of(code: Code) -> Errno {
    match code {
        Code::PeerBroke => Errno::PROTO,
        Code::NoMem => Errno::NOMEM,
        Code::Privileges | Code::Perm => Errno::ACCESS,
        _ => Errno::BADF,
    }
}
