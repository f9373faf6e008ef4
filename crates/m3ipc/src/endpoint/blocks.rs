//! Blocks in messages: given, shared, accepted; and large payloads, which travel as blocks by themselves.
// A block that is not sent comes back as the value it was.
#![allow(clippy::result_large_err)]

use super::Endpoint;
use super::send::Outgoing;
use crate::area::{AreaConfig, AreaError, Block, Inner, Plain, Unsent};
use crate::error::{Fail, ReplyError, SendError, SendRecError};
use crate::timeout::Timeout;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, BLOCK_NAME_BYTES, Code, LARGE_MAX_BYTES, LONG_MAX_BYTES, Message};
use m3ipc_area::{BlockLifetime, BlockName, ClaimedBlockName, HeldBlock};
use m3ipc_link::{Arrival, TakenMessage};
use std::sync::Arc;

/// The least that an area for large payloads is made for, in bytes.
const PAIR_LEAST_BYTES: u64 = 64 << 20;
/// How often a giver looks for a block whose message was withdrawn, and the pause between.
const TAKE_BACK_TRIES: u32 = 50;
const TAKE_BACK_AGAIN: std::time::Duration = std::time::Duration::from_micros(200);

/// What becomes of the giver's own view of a block that it gives away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It stays mapped: using it is forbidden by the API, and costs nothing to give.
    #[default]
    Mapped,
    /// It is gone: whoever touches it in the giver's process gets SIGSEGV. For blocks of whole pages.
    Taken,
}

/// A large payload on its way, as the block that carries it.
#[derive(Debug)]
pub(super) struct Wrapped {
    area: Arc<Inner>,
    name: BlockName,
    pub(super) bytes: [u8; BLOCK_NAME_BYTES],
}

impl Endpoint {
    /// Sends a message with a block, which is the receiver's from then on. Takes the same time whatever its size.
    ///
    /// # Errors
    /// [`Unsent`], with the block.
    pub fn send_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        limit: Timeout,
    ) -> Result<(), Unsent<SendError>> {
        self.send_block_as(to, message, block, Hold::Mapped, limit)
    }

    /// The same, with a choice of what becomes of the giver's own view.
    ///
    /// # Errors
    /// [`Unsent`], with the block; -347 where it is not of whole pages and was to be taken.
    pub fn send_block_as<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        hold: Hold,
        limit: Timeout,
    ) -> Result<(), Unsent<SendError>> {
        self.with_block(to, block, hold, |endpoint, name| {
            let outgoing = Outgoing::with_block(message, name);
            endpoint.send_message(to, outgoing, limit.deadline())
        })
        .map_err(|(fail, block)| Unsent { error: SendError::of(fail, to), block })
    }

    /// Makes a request with a block, which is the server's from then on. What comes back with the answer
    /// is there to be [taken](Self::take_block).
    ///
    /// # Errors
    /// [`Unsent`]; with the block where the server did not accept it.
    pub fn sendrec_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: Block<T>,
        limit: Timeout,
    ) -> Result<Message, Unsent<SendRecError>> {
        self.with_block(to, block, Hold::Mapped, |endpoint, name| {
            let outgoing = Outgoing::with_block(message, name);
            endpoint.call(to, outgoing, &mut [], limit.deadline()).map(|(answer, _)| answer)
        })
        .map_err(|(fail, block)| Unsent { error: SendRecError::of(fail, to), block })
    }

    /// Answers with a block, which is the client's from then on.
    ///
    /// # Errors
    /// [`Unsent`], with the block.
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

    /// Sends a message with a block to read. The sender keeps it, and has it for itself again when
    /// all to whom it was shared have dropped theirs: see [`reclaim_block`](Self::reclaim_block).
    ///
    /// # Errors
    /// [`SendError`]; the receiver reads nothing then.
    pub fn share_block<T: Plain>(
        &mut self,
        to: Address,
        message: &Message,
        block: &mut Block<T>,
        limit: Timeout,
    ) -> Result<(), SendError> {
        let area = Arc::clone(block.inner());
        let shared = self.member_index(&area, to).and_then(|reader| {
            let name = block.share(reader)?.encode();
            let sent =
                self.send_message(to, Outgoing::with_block(message, &name), limit.deadline());
            if sent.is_err() {
                block.unshare_with(reader);
            }
            sent
        });
        shared.map_err(|fail| SendError::of(fail, to))
    }

    /// Takes a shared block back for oneself; false while somebody reads it.
    pub fn reclaim_block<T: Plain>(&mut self, block: &mut Block<T>) -> bool {
        self.hear_areas();
        block.reclaim()
    }

    /// The block that came with the message taken last. One that is not taken is freed when the next message is.
    ///
    /// # Errors
    /// [`AreaError`] with -500 where the sender broke the rules: it was not his to give, or not all there.
    pub fn take_block(&mut self) -> Result<Option<Block>, AreaError> {
        self.areas.came.take().transpose()
    }

    fn with_block<T: Plain, R>(
        &mut self,
        to: Address,
        block: Block<T>,
        hold: Hold,
        send: impl FnOnce(&mut Self, &[u8; BLOCK_NAME_BYTES]) -> Result<R, Fail>,
    ) -> Result<R, (Fail, Option<Block>)> {
        let area = Arc::clone(block.inner());
        let index = match self.stand().and_then(|()| self.member_index(&area, to)) {
            Ok(index) => index,
            Err(fail) => return Err((fail, block.cast().ok())),
        };
        let name = match block.give(index, hold == Hold::Taken) {
            Ok(name) => name,
            Err((block, fail)) => return Err((fail, Some(block))),
        };
        m3ipc_sys::pause_point("client.block_given");
        let sent = send(self, &name.encode());
        sent.map_err(|fail| (fail, self.take_back(&area, &name)))
    }

    /// What was given with a message that was not taken.
    #[cold]
    fn take_back(&mut self, area: &Arc<Inner>, name: &BlockName) -> Option<Block> {
        let mut tries = TAKE_BACK_TRIES;
        let held = loop {
            self.hear_areas();
            if let Some(held) = area.side().take_back(name) {
                break held;
            }
            // Who was about to take the message has accepted the block, and lets go of it again.
            let Some(left) = tries.checked_sub(1) else {
                area.side().abandon(name);
                return None;
            };
            tries = left;
            std::thread::sleep(TAKE_BACK_AGAIN);
        };
        let held = self.confirmed(area, held, None).ok()?;
        Block::of_held(area, held).ok()
    }

    /// Takes a message with the name of a block. What it names is accepted first, while the sender still waits: from
    /// the taking on the sender may end, and its home may look for what a dead one had given and nobody has.
    /// Why it was not accepted is told by [`take_block`](Self::take_block).
    /// Of a large payload the length is told; it goes to the front of `room` as far as it fits.
    #[cold]
    pub(super) fn take_with_block(
        &mut self,
        index: u32,
        arrival: Arrival,
        room: &mut [u8],
    ) -> Result<Option<TakenMessage>, Fail> {
        let peer = self.peers.get(index);
        let (from, brought) = (peer.address(), peer.link.incoming_block_name());
        let came = ClaimedBlockName::decode(&brought)
            .map(|name| (name.is_payload(), self.accept_block(from, &name)));
        m3ipc_sys::pause_point("server.block_accepted");
        let taken = self.take_now(index, arrival, room);
        let is_whole = matches!(&taken, Ok(Some(incoming)) if incoming.has_block)
            && *self.peers.get(index).link.block_name() == brought;
        let (is_payload, came) = match came {
            Some(came) if is_whole => came,
            other => {
                if let Some((_, Ok(block))) = other {
                    block.refuse();
                }
                return match taken {
                    // What lay there when it was taken was not what was looked at before.
                    Ok(Some(_)) => Err(self.poison(index, m3ipc_link::RuleBroken)),
                    withdrawn => withdrawn,
                };
            }
        };
        let mut incoming = taken?;
        match came {
            Ok(block) if is_payload => {
                let fits = block.len().min(room.len());
                room[..fits].copy_from_slice(&block[..fits]);
                self.copies.payload_copied(fits);
                self.areas.pairs.entry(from.0).or_insert(block.area());
                incoming.iter_mut().for_each(|incoming| incoming.long_bytes = block.len());
            }
            // The message is delivered all the same, and `take_block` tells why nothing is beside it.
            other => self.areas.came = Some(other.map_err(AreaError::from)),
        }
        Ok(incoming)
    }

    pub(super) fn accept_block(
        &mut self,
        from: Address,
        name: &ClaimedBlockName,
    ) -> Result<Block, Fail> {
        let area = match self.areas.list.get(&name.area()) {
            Some(area) => Arc::clone(area),
            None => {
                let attached = self.attach_area(name.area());
                attached.map_err(|error| Fail::new(error.code, error.why))?.inner
            }
        };
        self.hear_areas_if_any();
        let accepted = accept_once(&area, from, name).or_else(|_| {
            // The extent or the member may be in news that were not announced before the look.
            self.hear_areas();
            accept_once(&area, from, name)
        });
        let accepted = accepted.or_else(|_| {
            // Or known to the next daemon.
            self.reattach_if_cut();
            self.hear_areas();
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

    /// Looks once more where members were heard of while a block was accepted: one may claim it as well.
    /// And whether its giver died meanwhile: the block is its home's then.
    pub(super) fn confirmed(
        &mut self,
        area: &Arc<Inner>,
        held: HeldBlock,
        from: Option<Address>,
    ) -> Result<HeldBlock, Fail> {
        // After the claim and its fence: whoever claimed it unseen was announced before.
        if self.desk.event_word().load(Ordering::SeqCst) == self.news_seen {
            return Ok(held);
        }
        self.hear_areas();
        let mut side = area.side();
        if side.is_mine_alone(&held) && from.is_none_or(|from| side.find(from).is_some()) {
            return Ok(held);
        }
        let number = held.number();
        side.release(held);
        Err(Fail::new(
            Code::PeerBroke,
            format!("block {number} was given to another as well, or its giver died"),
        ))
    }

    /// A payload that no link holds becomes a block of an area that the two have for such.
    #[cold]
    pub(super) fn wrap(&mut self, index: u32, long: &[u8]) -> Result<Wrapped, Fail> {
        let to = self.peers.get(index).address();
        let length = long.len() as u64;
        let area = self.pair_area(to, length)?;
        let mut block = self.allocate_in(&area, length, 64, BlockLifetime::Short)?;
        block.write().map_err(|error| Fail::new(error.code, error.why))?.copy_from_slice(long);
        self.copies.payload_copied(long.len());
        let there = self.member_index(&area, to)?;
        let mut name = block.give(there, false).map_err(|(_, fail)| fail)?;
        name.payload = true;
        Ok(Wrapped { area, name, bytes: name.encode() })
    }

    /// The message was not taken: its payload is freed.
    pub(super) fn unwrap_if_failed<R>(&mut self, wrapped: Option<Wrapped>, sent: &Result<R, Fail>) {
        if let (Some(wrapped), Err(_)) = (wrapped, sent) {
            drop(self.take_back(&wrapped.area, &wrapped.name));
        }
    }

    fn pair_area(&mut self, to: Address, bytes: u64) -> Result<Arc<Inner>, Fail> {
        let known = self.areas.pairs.get(&to.0).and_then(|id| self.areas.list.get(id));
        if let Some(area) = known.filter(|area| area.info.limit_bytes >= 2 * bytes) {
            return Ok(Arc::clone(area));
        }
        let limit = PAIR_LEAST_BYTES.max(bytes.saturating_mul(4));
        let area = self.create_area(&AreaConfig::pair(limit, to));
        let area = area.map_err(|error| Fail::new(error.code, error.why))?;
        self.areas.pairs.insert(to.0, area.id());
        Ok(area.inner)
    }
}

#[derive(Debug)]
enum Accepted {
    Held(HeldBlock),
    Reading(m3ipc_area::SharedReading),
}

fn accept_once(
    area: &Arc<Inner>,
    from: Address,
    name: &ClaimedBlockName,
) -> Result<Accepted, Fail> {
    let mut side = area.side();
    let Some(from) = side.find(from) else {
        return Err(Fail::new(
            Code::PeerBroke,
            format!("the sender is not in area {}", name.area()),
        ));
    };
    let accepted = if name.is_shared() {
        side.accept_shared(from, name).map(Accepted::Reading)
    } else {
        side.accept(from, name).map(Accepted::Held)
    };
    accepted.map_err(|refused| Fail::new(Code::PeerBroke, refused.to_string()))
}

/// Whether a payload travels as a block.
pub(super) const fn is_large(bytes: usize) -> bool {
    bytes > LONG_MAX_BYTES
}

/// Whether a payload is longer than any can be.
pub(super) const fn is_too_long(bytes: usize) -> bool {
    bytes > LARGE_MAX_BYTES
}
