//! Blocks that come with messages: accept, then take.

use super::Endpoint;
use super::buffer::Buffer;
use super::daemon_limit::DaemonLimit;
use super::payload::treatment;
use super::stand_in_payload::COPIED_MAX_BYTES;
use crate::area::{AreaMapping, AreaState, Block, Unmapped};
use crate::error::{AreaError, Fail};
use core::ops::Range;
use core::sync::atomic::Ordering;
use m3ipc_abi::{Address, Code};
use m3ipc_area::{ClaimedBlockName, HeldBlock, ReturnedBlock};
use m3ipc_link::{Arrival, TakenMessage};
use std::sync::Arc;
use std::time::Duration;

/// Attempts to receive events that the daemon could not send before, and the pause between two.
const CATCH_UP_TRIES: u32 = 500;
const CATCH_UP_PAUSE: Duration = Duration::from_micros(200);

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
        self.areas.take_incoming().transpose()
    }

    /// Takes a message with the name of a block. The block is accepted before the message is taken,
    /// while the sender still waits. After the take the sender may end, and the allocator member
    /// may then look for blocks that a dead member gave and no member has. [`Endpoint::take_block`]
    /// reports why a block was not accepted. A large payload goes to `buffer`, or the message is
    /// refused.
    #[cold]
    pub(super) fn take_with_block(
        &mut self,
        index: u32,
        arrival: Arrival,
        buffer: &mut Buffer<'_>,
    ) -> Result<Option<TakenMessage>, Fail> {
        let peer = self.peers.get(index);
        let (from, brought) = (peer.address(), peer.link().incoming_block_name());
        let name = ClaimedBlockName::decode(&brought);
        if let Some(name) = name.filter(ClaimedBlockName::is_payload)
            && let Err(fail) = self.payloads.receive_limit().check(name.bytes())
        {
            // Before its area is mapped.
            return self.refuse_payload(index, arrival, fail);
        }
        let limit = self.payloads.limit();
        let accepted = name.map(|name| self.accept_block(from, &name, limit));
        m3ipc_sys::pause_point("server.block_accepted");
        let is_whole = |endpoint: &Self, incoming: &TakenMessage| {
            incoming.has_block && *endpoint.peers.get(index).link().block_name() == brought
        };
        let block = match accepted {
            Some(block) if name.is_some_and(|name| name.is_payload()) => {
                return self.take_payload(index, arrival, block, buffer, is_whole);
            }
            // The message waits for a later call if only this one ends. A stand-in takes no answer
            // without its block. The daemon may give the area later, or the server frees the block
            // of the refused answer.
            Some(Err(fail)) if treatment(&fail).is_none() || self.is_one_stand_in() => {
                return self.refuse_payload(index, arrival, fail);
            }
            Some(block) => block,
            None => Err(Code::PeerBroke.into()),
        };
        let taken = self.take_now(index, arrival, buffer);
        match taken {
            Ok(Some(incoming)) if name.is_some() && is_whole(self, &incoming) => {
                // The message is delivered in any case; `take_block` reports why the block is
                // missing.
                if let (Err(_), Some(name)) = (&block, &name) {
                    self.decline_block(from, name);
                }
                self.areas.set_incoming(block.map_err(AreaError::from));
                Ok(Some(incoming))
            }
            other => {
                if let Ok(block) = block {
                    block.refuse();
                }
                match other {
                    // The name changed between the check and the take, or is none.
                    Ok(Some(_)) => Err(self.conversation(index).poison(m3ipc_link::RuleBroken)),
                    withdrawn => withdrawn,
                }
            }
        }
    }

    pub(super) fn accept_block(
        &mut self,
        from: Address,
        name: &ClaimedBlockName,
        limit: DaemonLimit,
    ) -> Result<Block, Fail> {
        let mapping = if name.is_payload() { AreaMapping::ByNeed } else { AreaMapping::Whole };
        let area = self.attach(name.area(), mapping, limit, Unmapped::Refuse)?;
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
                let held = self.confirm_acceptance(&area, held, from, name)?;
                Block::of_held(&area, held)
            }
            Accepted::Reading(reading) => {
                let is_lost = match self.catch_up_on_members() {
                    MemberNews::None => false,
                    MemberNews::Some => area.member().find(from).is_none(),
                    MemberNews::Missing => true,
                };
                if is_lost {
                    let number = reading.number();
                    area.member().finish(reading);
                    return Err(not_the_givers(number));
                }
                Block::of_reading(&area, reading)
            }
        }
    }

    /// Releases a block that this endpoint could not map, or ends its reading. A member alone can.
    #[cold]
    fn decline_block(&mut self, from: Address, name: &ClaimedBlockName) {
        let Some(area) = self.areas.get(name.area()).map(Arc::clone) else { return };
        match accept_once(&area, from, name) {
            Ok(Accepted::Held(held)) => area.member().reject(held),
            Ok(Accepted::Reading(reading)) => area.member().finish(reading),
            Err(_not_given) => {}
        }
    }

    /// A copy of a block that `from` gave to this endpoint, which does not accept it: the giver can
    /// take it back at any time, and a kill of this process leaves no claim.
    #[cold]
    pub(super) fn copy_given(
        &mut self,
        from: Address,
        name: &ClaimedBlockName,
        limit: DaemonLimit,
    ) -> Result<Vec<u8>, Fail> {
        let area = self.attach(name.area(), AreaMapping::ByNeed, limit, Unmapped::Refuse)?;
        self.receive_area_events_if_any();
        let find = || {
            let member = area.member();
            let from = member.find(from).ok_or_else(|| not_a_member(name.area()))?;
            member
                .find_given(from, name)
                .map_err(|refused| Fail::new(Code::PeerBroke, refused.to_string()))
        };
        let mut found = find();
        if found.is_err() {
            // The extent or the member may be in events that were not announced before.
            self.receive_area_events();
            found = find();
        }
        copy_of(&area, found?)
    }

    /// A copy of a block that `from` shares with this endpoint, which then reads it no longer.
    #[cold]
    pub(super) fn copy_shared(
        &mut self,
        from: Address,
        name: &ClaimedBlockName,
        limit: DaemonLimit,
    ) -> Result<Vec<u8>, Fail> {
        let block = self.accept_block(from, name, limit)?;
        let begin = block.address().saturating_sub(block.state().info.base);
        copy_of(block.state(), begin..begin.saturating_add(block.bytes() as u64))
    }

    /// Receives the events about members that came during a claim.
    ///
    /// These loads come after the claim and its fence: an earlier claim of a member that is unknown
    /// here was announced before, and so was a death before the scan that missed this claim.
    fn catch_up_on_members(&mut self) -> MemberNews {
        let is_new = self.session.has_events_by(Ordering::SeqCst);
        if !is_new && !self.session.page().is_behind() {
            return MemberNews::None;
        }
        match self.catch_up(Self::receive_area_events) {
            true => MemberNews::Some,
            false => MemberNews::Missing,
        }
    }

    /// Receives events until the daemon has sent all that it had before this call. `false` if it
    /// does not within 0.1 s.
    pub(super) fn catch_up(&mut self, receive: impl Fn(&mut Self)) -> bool {
        for _ in 0..CATCH_UP_TRIES {
            // Read first: this makes room for the events that the daemon could not send.
            let was_behind = self.session.page().is_behind();
            receive(self);
            if !was_behind && !self.session.page().is_behind() {
                return true;
            }
            std::thread::sleep(CATCH_UP_PAUSE);
        }
        false
    }

    /// Checks an accepted block once more if members came or left during the acceptance. A new
    /// member may claim the block too. A dead giver's block belongs to its allocator member.
    fn confirm_acceptance(
        &mut self,
        area: &Arc<AreaState>,
        held: HeldBlock,
        from: Address,
        name: &ClaimedBlockName,
    ) -> Result<HeldBlock, Fail> {
        let news = self.catch_up_on_members();
        let mut member = area.member();
        let is_kept = match news {
            MemberNews::None => true,
            MemberNews::Some => member.is_mine_alone(&held) && member.find(from).is_some(),
            MemberNews::Missing => false,
        };
        if is_kept {
            return Ok(held);
        }
        let number = held.number();
        if name.is_payload() {
            // The giver takes a refused payload back.
            member.refuse(held);
        } else {
            member.reject(held);
        }
        Err(not_the_givers(number))
    }

    /// Checks a block that was taken back once more if members came or left during that. Releases
    /// the block if this member is not its only holder, or if it may be free already.
    pub(super) fn confirm_return(
        &mut self,
        area: &Arc<AreaState>,
        returned: ReturnedBlock,
    ) -> Option<HeldBlock> {
        let news = self.catch_up_on_members();
        let mut member = area.member();
        let is_kept = match news {
            MemberNews::None => true,
            MemberNews::Some => member.is_returned(&returned),
            MemberNews::Missing => false,
        };
        if is_kept {
            return Some(returned.into_held());
        }
        member.release(returned.into_held());
        None
    }
}

/// What an endpoint learned of the members of its areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberNews {
    /// Nothing has changed.
    None,
    /// It knows all changes.
    Some,
    /// The daemon did not send all events in time.
    Missing,
}

fn not_a_member(area: u32) -> Fail {
    Fail::new(Code::PeerBroke, format!("the sender is not in area {area}"))
}

/// A copy by a system call: a giver may have left pages without memory, and reading those in the
/// mapping would charge this process for them.
fn copy_of(area: &AreaState, range: Range<u64>) -> Result<Vec<u8>, Fail> {
    let length = range.end.saturating_sub(range.start);
    if length > COPIED_MAX_BYTES as u64 {
        return Err(Code::MsgSize.into());
    }
    let copied = m3ipc_sys::copy_memory(&area.memory, range);
    let copied = copied.ok().filter(|bytes| bytes.len() as u64 == length);
    copied.ok_or_else(|| Fail::new(Code::NoMem, "the block cannot be copied".to_owned()))
}

fn not_the_givers(number: u32) -> Fail {
    let why = format!(
        "block {number} was given to another as well, or its giver died, or the daemon did not say"
    );
    Fail::new(Code::PeerBroke, why)
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
    let from = member.find(from).ok_or_else(|| not_a_member(name.area()))?;
    let accepted = if name.is_shared() {
        member.accept_shared(from, name).map(Accepted::Reading)
    } else {
        member.accept(from, name).map(Accepted::Held)
    };
    accepted.map_err(|refused| Fail::new(Code::PeerBroke, refused.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AreaConfig, BlockLifetime, Message, Timeout};

    #[test]
    fn a_member_that_declines_a_block_leaves_it_to_its_giver() {
        let node = crate::test::node();
        let (mut server, mut client) = node.pair();
        let (to, from) = (server.address(), client.address());
        let area = client.create_area(&AreaConfig::vm(1 << 20)).expect("room");
        server.attach_area(area.id()).expect("it is in the VM");
        let block = |client: &mut Endpoint| {
            client.allocate(&area, 1000, BlockLifetime::Short).expect("room")
        };
        let given = block(&mut client);
        let given = client.give_block(to, given).expect("a member");
        let name = ClaimedBlockName::decode(&given.name()).expect("a name");
        let there = Arc::clone(server.areas.get(area.id()).expect("it is attached"));
        // The event of the extent.
        while there.member().span(0).is_none() {
            server.receive_area_events();
            std::thread::yield_now();
        }
        server.decline_block(from, &name);
        client.sweep_areas();
        client.sweep_areas();
        assert_eq!(area.state().member().blocks_away(), 0, "it is free");

        let mut shared = block(&mut client);
        let reader = client.member_index(area.state(), to, DaemonLimit::default_from_now());
        let (name, _) = shared.share(reader.expect("a member")).expect("a held block");
        assert!(!client.reclaim_block(&mut shared), "the server may read it");
        let name = ClaimedBlockName::decode(&name.encode()).expect("a name");
        server.decline_block(from, &name);
        assert!(client.reclaim_block(&mut shared));
        client.send_block(to, &Message::new(1), shared, Timeout::NoWait).expect_err("not taken");
    }
}
