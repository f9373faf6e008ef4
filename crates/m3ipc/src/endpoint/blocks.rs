//! Blocks in messages: give and share. Large payloads travel as blocks too.
// A block that was not sent comes back by value.
#![allow(clippy::result_large_err)]

use super::Endpoint;
use super::buffer::Buffer;
use super::daemon_limit::DaemonLimit;
use super::delivered::Delivered;
use super::outgoing::Outgoing;
use super::payload_state::LargePayload;
use crate::area::{AreaState, Block, Plain, Unsent};
use crate::error::{Fail, ReplyError, SendError, SendRecError};
use crate::observe;
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code, Message};
use m3ipc_area::BlockName;
use std::sync::Arc;

/// Attempts of a sender to take back the block of a withdrawn message, and the pause between two.
const TAKE_BACK_TRIES: u32 = 50;
const TAKE_BACK_AGAIN: std::time::Duration = std::time::Duration::from_micros(200);

/// What becomes of the sender's mapping of a block that it sends. The example is at
/// [`Endpoint::send_block_as`](Endpoint::send_block_as).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// The memory stays mapped. The API ends the sender's access, and the send costs nothing.
    #[default]
    Mapped,
    /// The sender's access ends: a touch raises SIGSEGV. Only for blocks of whole pages.
    Taken,
}

impl Endpoint {
    /// Sends a message with a block, which then belongs to the receiver. The time does not depend
    /// on the size of the block. A receiver on another node gets a copy of at most 256 MiB, as a
    /// block of its own, and the block here is freed.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     let message = server.receive(m3ipc::Source::Any)?;
    /// #     let block = server.take_block()?.expect("a block came");
    /// #     assert_eq!(block.to_vec(), b"payload");
    /// #     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(message)
    /// # });
    /// use m3ipc::{AreaConfig, BlockLifetime, Message, Timeout};
    ///
    /// let area = client.create_area(&AreaConfig::pair(1 << 20, to))?;
    /// let mut block = client.allocate(&area, 7, BlockLifetime::Short)?;
    /// block.copy_from(b"payload")?;
    /// client.send_block(to, &Message::new(7), block, Timeout::Never)?;
    /// # thread.join().unwrap().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsent`] with the block. A dead receiver is the same error as in a plain send.
    pub fn send_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        limit: impl Into<Timeout>,
    ) -> Result<(), Unsent<SendError>> {
        self.send_block_as(to, message, block, Hold::Mapped, limit)
    }

    /// Sends a message with a block, and chooses what becomes of the sender's mapping.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     let message = server.receive(m3ipc::Source::Any)?;
    /// #     assert_eq!(server.take_block()?.expect("a block came").len(), 100);
    /// #     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(server)
    /// # });
    /// use m3ipc::{AreaConfig, BlockLifetime, Hold, Message};
    ///
    /// let area = client.create_area(&AreaConfig::pair(1 << 20, to))?;
    /// let block = client.allocate_pages(&area, 100, BlockLifetime::Short)?;
    /// client.send_block_as(to, &Message::new(7), block, Hold::Taken, None)?;
    /// // From now on an access to these pages of this process raises SIGSEGV.
    /// # thread.join().unwrap().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsent`] with the block; a system error if [`Hold::Taken`] is asked for a block that does
    /// not consist of whole pages.
    pub fn send_block_as<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        hold: Hold,
        limit: impl Into<Timeout>,
    ) -> Result<(), Unsent<SendError>> {
        let deadline = limit.into().deadline();
        self.with_block(to, block, hold, DaemonLimit::of(deadline), |endpoint, name| {
            let name = name.encode();
            let outgoing = Outgoing::with_block(message, &name);
            endpoint.send_message(to, outgoing, deadline)
        })
        .map_err(|(fail, block)| Unsent { error: SendError::of(fail, to), block })
    }

    /// Sends a request with a block, which then belongs to the server. A block in the answer is
    /// there for [`take_block`](Self::take_block).
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     use m3ipc::{Message, Source};
    /// // The server changes the block and gives it back:
    /// let request = server.receive(Source::Any)?;
    /// let mut block = server.take_block()?.expect("a block came");
    /// block.fill(9)?;
    /// server.reply_block(request.source, &Message::new(0), block)?;
    /// #     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(server)
    /// # });
    /// # use m3ipc::{AreaConfig, BlockLifetime, Message, Timeout};
    /// # let area = client.create_area(&AreaConfig::pair(1 << 20, to))?;
    /// // The client:
    /// let block = client.allocate(&area, 3, BlockLifetime::Short)?;
    /// client.sendrec_block(to, &Message::new(7), block, Timeout::Never)?;
    /// assert_eq!(client.take_block()?.expect("it came back").to_vec(), [9; 3]);
    /// # thread.join().unwrap().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unsent`], with the block if the server did not accept it.
    /// [`SendRecError::BufferTooSmall`] if the answer came with a payload.
    pub fn sendrec_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        limit: impl Into<Timeout>,
    ) -> Result<Message, Unsent<SendRecError>> {
        let deadline = limit.into().deadline();
        let mut is_begun = false;
        self.with_block(to, block, Hold::Mapped, DaemonLimit::of(deadline), |endpoint, name| {
            is_begun = true;
            let name = name.encode();
            let outgoing = Outgoing::with_block(message, &name);
            endpoint.call_slow(to, outgoing, &mut Buffer::none(), deadline)
        })
        .map_err(|(fail, block)| {
            let fail = match fail.code {
                Code::DstDied if !is_begun => Code::DeadSrcDst.into(),
                _ => fail,
            };
            Unsent { error: SendRecError::of(fail, to), block }
        })
        .and_then(|(answer, bytes)| match bytes {
            0 => Ok(answer),
            _ => Err(Unsent { error: self.cut_answer(answer, bytes, 0), block: None }),
        })
    }

    /// Answers with a block, which then belongs to the client. It is freed if the client does not
    /// wait any more. The example is at [`sendrec_block`](Self::sendrec_block).
    ///
    /// # Errors
    /// [`Unsent`] with the block.
    pub fn reply_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
    ) -> Result<Delivered, Unsent<ReplyError>> {
        let (delivered, block) = self.try_reply_block(to, message, block);
        match delivered {
            Ok(delivered) => Ok(delivered),
            Err(error) => Err(Unsent { error, block }),
        }
    }

    /// Answers with a block, which comes back if the client does not wait any more.
    #[doc(hidden)]
    pub fn try_reply_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
    ) -> (Result<Delivered, ReplyError>, Option<Block>) {
        let limit = DaemonLimit::of_answer();
        let area = Arc::clone(block.state());
        let replied = self.with_block(to, block, Hold::Mapped, limit, |endpoint, name| {
            // A client that gives up may refuse the answer later: then the block is free.
            endpoint.payloads.begin_transit(LargePayload { area, name: *name });
            let name = name.encode();
            let replied = endpoint.reply_outgoing(to, Outgoing::with_block(message, &name));
            endpoint.payloads.take_in_transit();
            replied
        });
        match replied {
            Ok(()) => (Ok(Delivered::Yes), None),
            Err((fail, block)) => (self.end_reply(Err(fail), to), block),
        }
    }

    /// Sends a message with a block that the receiver may read. The sender keeps the block. It can
    /// write again after every reader has dropped the block: see
    /// [`reclaim_block`](Self::reclaim_block). A reader on another node gets a copy of its own.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     server.receive(m3ipc::Source::Any).unwrap();
    /// #     let block = server.take_block().unwrap().expect("a block came");
    /// #     assert!(!block.is_writable());
    /// #     drop(block);
    /// #     server
    /// # });
    /// use m3ipc::{AreaConfig, BlockLifetime, Message};
    ///
    /// let area = client.create_area(&AreaConfig::pair(1 << 20, to))?;
    /// let mut block = client.allocate(&area, 5, BlockLifetime::Short)?;
    /// client.share_block(to, &Message::new(7), &mut block, None)?;
    /// println!("{} endpoints still read the block", block.readers_left());
    /// # let server = thread.join().unwrap();
    /// // After the server has dropped the block:
    /// assert!(client.reclaim_block(&mut block) && block.is_writable());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError`]; the receiver reads nothing.
    pub fn share_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: &mut Block<T>,
        limit: impl Into<Timeout>,
    ) -> Result<(), SendError> {
        self.disarm();
        let area = Arc::clone(block.state());
        let limit = limit.into().deadline();
        let reader = self.member_index(&area, to, DaemonLimit::of(limit));
        let shared = reader.and_then(|reader| {
            let (name, is_new) = block.share(reader)?;
            let name = name.encode();
            let sent = self.send_message(to, Outgoing::with_block(message, &name), limit);
            if sent.is_err() && is_new {
                block.unshare_with(reader);
            }
            sent
        });
        shared.map_err(|fail| SendError::of(fail, to))
    }

    /// Ends the sharing of a block; `false` while an endpoint still reads it. The example is at
    /// [`share_block`](Self::share_block).
    pub fn reclaim_block<T: Plain>(&mut self, block: &mut Block<T>) -> bool {
        if !block.state().is_original() {
            return false;
        }
        self.disarm();
        self.receive_area_events();
        block.reclaim()
    }

    fn with_block<T: Plain, R>(
        &mut self,
        to: Address,
        block: Block<T>,
        hold: Hold,
        limit: DaemonLimit,
        send: impl FnOnce(&mut Self, &BlockName) -> Result<R, Fail>,
    ) -> Result<R, (Fail, Option<Block>)> {
        self.disarm();
        let area = Arc::clone(block.state());
        let index = match self
            .membership
            .check_bound()
            .and_then(|()| self.member_index(&area, to, limit))
        {
            Ok(index) => index,
            Err(fail) => return Err((fail, Some(block.into_bytes()))),
        };
        observe::block(
            self.membership.vm(),
            self.membership.address(),
            to,
            block.area(),
            block.number(),
        );
        let name = match block.give_in_call(index, hold == Hold::Taken) {
            Ok(name) => name,
            Err((block, fail)) => return Err((fail, Some(block))),
        };
        m3ipc_sys::pause_point("client.block_given");
        self.payloads.set_taken(false);
        let sent = send(self, &name);
        // A block whose message was taken is the receiver's, whatever becomes of the call.
        if sent.is_ok() || self.payloads.was_taken() {
            area.member().end_call(&name);
            return sent.map_err(|fail| (fail, None));
        }
        sent.map_err(|fail| (fail, self.take_back(&area, &name, TAKE_BACK_TRIES)))
    }

    /// Takes back the block of a message that was not taken. Tries so often again while the
    /// receiver has accepted the block. After that, the block is free when no member claims it.
    #[cold]
    pub(super) fn take_back(
        &mut self,
        area: &Arc<AreaState>,
        name: &BlockName,
        mut tries: u32,
    ) -> Option<Block> {
        let returned = loop {
            self.receive_area_events();
            if let Some(returned) = area.member().take_back(name) {
                break returned;
            }
            // A receiver that was about to take the message has accepted the block. It releases the
            // block soon.
            let Some(left) = tries.checked_sub(1) else {
                area.member().abandon(name);
                return None;
            };
            tries = left;
            std::thread::sleep(TAKE_BACK_AGAIN);
        };
        let held = self.confirm_return(area, returned)?;
        Block::of_held(area, held).ok()
    }
}
