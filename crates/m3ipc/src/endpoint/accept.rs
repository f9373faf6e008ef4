//! Blocks that come with messages: accept, then take.

use super::Endpoint;
use super::attached_areas::IncomingBlock;
use super::buffer::Buffer;
use crate::area::{AreaState, Block};
use crate::error::{AreaError, Fail};
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{ClaimedBlockName, HeldBlock};
use m3ipc_link::{Arrival, TakenMessage};
use std::sync::Arc;

impl Endpoint {
    /// The block that came with the message taken last. The next received message frees a block
    /// that was not taken.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, mut client) = node.pair();
    /// # let to = server.address();
    /// # let thread = std::thread::spawn(move || {
    /// #     use m3ipc::{AreaConfig, BlockLifetime, Message};
    /// #     let area = client.create_area(&AreaConfig::pair(1 << 20, to)).unwrap();
    /// #     let mut block = client.allocate(&area, 5, BlockLifetime::Short).unwrap();
    /// #     block.copy_from(b"block").unwrap();
    /// #     client.send_block(to, &Message::new(7), block, None).unwrap();
    /// #     client
    /// # });
    /// let message = server.receive(m3ipc::Source::Any)?;
    /// let block = server.take_block()?.expect("the message came with a block");
    /// assert_eq!(block.to_vec(), b"block");
    /// assert!(server.take_block()?.is_none(), "it was taken");
    /// # thread.join().unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
