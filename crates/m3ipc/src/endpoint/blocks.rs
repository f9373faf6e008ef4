//! Blocks in messages: give, share, accept. Large payloads travel as blocks too.
// A block that was not sent comes back by value.
#![allow(clippy::result_large_err)]

use super::Endpoint;
use super::attached_areas::IncomingBlock;
use super::buffer::Buffer;
use super::outgoing::Outgoing;
use crate::area::{AreaConfig, AreaState, Block, Plain, Unsent};
use crate::error::{AreaError, Fail, ReplyError, SendError, SendRecError};
use crate::observe;
use crate::timeout::Timeout;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code, Message};
use m3ipc_area::{BlockLifetime, BlockName, ClaimedBlockName, HeldBlock};
use m3ipc_link::{Arrival, TakenMessage};
use std::sync::Arc;

/// The least limit of an area for large payloads, in bytes.
const PAIR_LEAST_BYTES: u64 = 64 << 20;
/// Attempts of a sender to take back the block of a withdrawn message, and the pause between two.
const TAKE_BACK_TRIES: u32 = 50;
const TAKE_BACK_AGAIN: std::time::Duration = std::time::Duration::from_micros(200);

/// What becomes of the sender's mapping of a block that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// The memory stays mapped. The API ends the sender's access, and the send costs nothing.
    #[default]
    Mapped,
    /// The sender's access ends: a touch raises SIGSEGV. Only for blocks of whole pages.
    Taken,
}

/// A large payload in transit, as the block that carries it.
#[derive(Debug)]
pub(super) struct LargePayload {
    area: Arc<AreaState>,
    name: BlockName,
    pub(super) bytes: [u8; BLOCK_NAME_BYTES],
}

impl Endpoint {
    /// Sends a message with a block, which then belongs to the receiver. The time does not depend
    /// on the size of the block.
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
        self.with_block(to, block, hold, |endpoint, name| {
            let outgoing = Outgoing::with_block(message, name);
            endpoint.send_message(to, outgoing, limit.into().deadline())
        })
        .map_err(|(fail, block)| Unsent { error: SendError::of(fail, to), block })
    }

    /// Sends a request with a block, which then belongs to the server. A block in the answer is
    /// there for [`take_block`](Self::take_block).
    ///
    /// # Errors
    /// [`Unsent`], with the block if the server did not accept it.
    pub fn sendrec_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        limit: impl Into<Timeout>,
    ) -> Result<Message, Unsent<SendRecError>> {
        self.with_block(to, block, Hold::Mapped, |endpoint, name| {
            let outgoing = Outgoing::with_block(message, name);
            endpoint
                .call(to, outgoing, &mut Buffer::none(), limit.into().deadline())
                .map(|(answer, _)| answer)
        })
        .map_err(|(fail, block)| Unsent { error: SendRecError::of(fail, to), block })
    }

    /// Answers with a block, which then belongs to the client.
    ///
    /// # Errors
    /// [`Unsent`] with the block.
    pub fn reply_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
    ) -> Result<(), Unsent<ReplyError>> {
        self.with_block(to, block, Hold::Mapped, |endpoint, name| {
            endpoint.reply_outgoing(to, Outgoing::with_block(message, name))
        })
        .map_err(|(fail, block)| Unsent { error: ReplyError::of(fail, to), block })
    }

    /// Sends a message with a block that the receiver may read. The sender keeps the block. It can
    /// write again after every reader has dropped the block: see
    /// [`reclaim_block`](Self::reclaim_block).
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
        let area = Arc::clone(block.state());
        let shared = self.member_index(&area, to).and_then(|reader| {
            let name = block.share(reader)?.encode();
            let sent = self.send_message(
                to,
                Outgoing::with_block(message, &name),
                limit.into().deadline(),
            );
            if sent.is_err() {
                block.unshare_with(reader);
            }
            sent
        });
        shared.map_err(|fail| SendError::of(fail, to))
    }

    /// Ends the sharing of a block; `false` while an endpoint still reads it.
    pub fn reclaim_block<T: Plain>(&mut self, block: &mut Block<T>) -> bool {
        self.receive_area_events();
        block.reclaim()
    }

    /// The block that came with the message taken last. The next received message frees a block
    /// that was not taken.
    ///
    /// # Errors
    /// [`AreaError::PeerBroke`] if the block was not the sender's to give, or its name is wrong.
    pub fn take_block(&mut self) -> Result<Option<Block>, AreaError> {
        match self.areas.incoming.take() {
            Some(IncomingBlock::ForProgram(block)) => block.map(Some),
            Some(IncomingBlock::LostPayload(fail)) => Err(fail.into()),
            None => Ok(None),
        }
    }

    /// Fails if the payload of the message taken last did not arrive.
    pub(super) fn check_payload<T>(&mut self, taken: T) -> Result<T, Fail> {
        let lost = self.areas.incoming.take_if(|it| matches!(it, IncomingBlock::LostPayload(_)));
        let Some(IncomingBlock::LostPayload(fail)) = lost else { return Ok(taken) };
        let why = format!(
            "a message was taken whose payload did not arrive: {}; ask its sender to repeat it",
            fail.clone().why()
        );
        // The rules of areas were broken, not those of the link: it stays open.
        let code = if fail.code == Code::PeerBroke { Code::BadRequest } else { fail.code };
        Err(Fail::new(code, why))
    }

    fn with_block<T: Plain, R>(
        &mut self,
        to: Address,
        block: Block<T>,
        hold: Hold,
        send: impl FnOnce(&mut Self, &[u8; BLOCK_NAME_BYTES]) -> Result<R, Fail>,
    ) -> Result<R, (Fail, Option<Block>)> {
        let area = Arc::clone(block.state());
        let index = match self.check_bound().and_then(|()| self.member_index(&area, to)) {
            Ok(index) => index,
            Err(fail) => return Err((fail, Some(block.into_bytes()))),
        };
        observe::block(self.vm, self.address, to, block.area(), block.number());
        let name = match block.give(index, hold == Hold::Taken) {
            Ok(name) => name,
            Err((block, fail)) => return Err((fail, Some(block))),
        };
        m3ipc_sys::pause_point("client.block_given");
        let sent = send(self, &name.encode());
        sent.map_err(|fail| (fail, self.take_back(&area, &name)))
    }

    /// Takes back the block of a message that was not taken.
    #[cold]
    fn take_back(&mut self, area: &Arc<AreaState>, name: &BlockName) -> Option<Block> {
        let mut tries = TAKE_BACK_TRIES;
        let held = loop {
            self.receive_area_events();
            if let Some(held) = area.member().take_back(name) {
                break held;
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
        let held = self.confirmed(area, held, None).ok()?;
        Block::of_held(area, held).ok()
    }

    /// Takes a message with the name of a block. The block is accepted before the message is taken,
    /// while the sender still waits. After the take the sender may end, and the allocator member
    /// may then look for blocks that a dead member gave and no member has. [`Endpoint::take_block`]
    /// reports a refusal. A large payload goes to `buffer`, and its length is reported.
    #[cold]
    pub(super) fn take_with_block(
        &mut self,
        index: u32,
        arrival: Arrival,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<TakenMessage>, Fail> {
        let peer = self.peers.get(index);
        let (from, brought) = (peer.address(), peer.link.incoming_block_name());
        let incoming_block = ClaimedBlockName::decode(&brought)
            .map(|name| (name.is_payload(), self.accept_block(from, &name)));
        m3ipc_sys::pause_point("server.block_accepted");
        let taken = self.take_now(index, arrival, buffer);
        let is_whole = matches!(&taken, Ok(Some(incoming)) if incoming.has_block)
            && *self.peers.get(index).link.block_name() == brought;
        let (is_payload, incoming_block) = match incoming_block {
            Some(incoming_block) if is_whole => incoming_block,
            other => {
                if let Some((_, Ok(block))) = other {
                    block.refuse();
                }
                return match taken {
                    // The name changed between the check and the take.
                    Ok(Some(_)) => Err(self.poison(index, m3ipc_link::RuleBroken)),
                    withdrawn => withdrawn,
                };
            }
        };
        let mut incoming = taken?;
        match incoming_block {
            Ok(block) if is_payload => {
                let copied = buffer.copy_block(&block);
                self.copies.payload_copied(copied);
                self.areas.suggest_pair_area(from, block.area());
                incoming.iter_mut().for_each(|incoming| incoming.long_bytes = block.len());
            }
            // The message is delivered in any case; `take_block` reports why the block is missing.
            Err(fail) if is_payload => {
                self.areas.incoming = Some(IncomingBlock::LostPayload(fail));
            }
            other => {
                let block = other.map_err(AreaError::from);
                self.areas.incoming = Some(IncomingBlock::ForProgram(block));
            }
        }
        Ok(incoming)
    }

    pub(super) fn accept_block(
        &mut self,
        from: Address,
        name: &ClaimedBlockName,
    ) -> Result<Block, Fail> {
        let area = match self.areas.get(name.area()) {
            Some(area) => Arc::clone(area),
            None => Arc::clone(self.attach_area(name.area())?.state()),
        };
        self.receive_area_events_if_any();
        let accepted = accept_once(&area, from, name).or_else(|_| {
            // The extent or the member may be in events that were not announced before.
            self.receive_area_events();
            accept_once(&area, from, name)
        });
        let accepted = accepted.or_else(|_| {
            // The next daemon may know the extent or the member.
            self.reattach_if_closed();
            self.receive_area_events();
            accept_once(&area, from, name)
        });
        match accepted? {
            Accepted::Held(held) => {
                let held = self.confirmed(&area, held, Some(from))?;
                Block::of_held(&area, held)
            }
            Accepted::Reading(reading) => Block::of_reading(&area, reading),
        }
    }

    /// Checks an accepted block once more if members came during the acceptance. A new member may
    /// claim the block too. A dead giver's block belongs to its allocator member.
    pub(super) fn confirmed(
        &mut self,
        area: &Arc<AreaState>,
        held: HeldBlock,
        from: Option<Address>,
    ) -> Result<HeldBlock, Fail> {
        // This load comes after the claim and its fence: an earlier claim of a member that is
        // unknown here was announced before.
        if self.control_page.event_word().load(Ordering::SeqCst) == self.events_seen {
            return Ok(held);
        }
        self.receive_area_events();
        let mut member = area.member();
        if member.is_mine_alone(&held) && from.is_none_or(|from| member.find(from).is_some()) {
            return Ok(held);
        }
        let number = held.number();
        member.release(held);
        Err(Fail::new(
            Code::PeerBroke,
            format!("block {number} was given to another as well, or its giver died"),
        ))
    }

    /// Puts a payload that no link holds into a block of the pair's area.
    #[cold]
    pub(super) fn put_in_block(&mut self, index: u32, long: &[u8]) -> Result<LargePayload, Fail> {
        let to = self.peers.get(index).address();
        let length = long.len() as u64;
        let area = self.pair_area(to, length)?;
        let mut block = self.allocate_in(&area, length, 64, BlockLifetime::Short)?;
        block.copy_from(long)?;
        self.copies.payload_copied(long.len());
        let there = self.member_index(&area, to)?;
        let mut name = block.give(there, false).map_err(|(_, fail)| fail)?;
        name.payload = true;
        Ok(LargePayload { area, name, bytes: name.encode() })
    }

    /// Frees the payload of a message that was not taken.
    pub(super) fn take_back_if_failed<R>(
        &mut self,
        large: Option<LargePayload>,
        sent: &Result<R, Fail>,
    ) {
        if let (Some(large), Err(_)) = (large, sent) {
            drop(self.take_back(&large.area, &large.name));
        }
    }

    fn pair_area(&mut self, to: Address, bytes: u64) -> Result<Arc<AreaState>, Fail> {
        let known = self.areas.pair_area(to);
        if let Some(area) = known.filter(|area| area.info.limit_bytes >= 2 * bytes) {
            return Ok(Arc::clone(area));
        }
        let limit = PAIR_LEAST_BYTES.max(bytes.saturating_mul(4));
        let area = self.create_area(&AreaConfig::pair(limit, to))?;
        self.areas.set_pair_area(to, area.id());
        Ok(Arc::clone(area.state()))
    }
}

#[derive(Debug)]
enum Accepted {
    Held(HeldBlock),
    Reading(m3ipc_area::SharedReading),
}

fn accept_once(
    area: &Arc<AreaState>,
    from: Address,
    name: &ClaimedBlockName,
) -> Result<Accepted, Fail> {
    let mut member = area.member();
    let Some(from) = member.find(from) else {
        return Err(Fail::new(
            Code::PeerBroke,
            format!("the sender is not in area {}", name.area()),
        ));
    };
    let accepted = if name.is_shared() {
        member.accept_shared(from, name).map(Accepted::Reading)
    } else {
        member.accept(from, name).map(Accepted::Held)
    };
    accepted.map_err(|refused| Fail::new(Code::PeerBroke, refused.to_string()))
}
