//! Copies between the memory of programs on different nodes.
//!
//! | here | machine |
//! |---|---|
//! | a local requester copies with a stand-in: its bounce buffer | `copy`, then `copy_give` or `copy_taken` |
//! | a remote requester copies with a local party, through its stand-in | `CopyBegin`; then `copy_done` |
//!
//! Bytes move in chunks of a bounce buffer here, and in pieces between nodes. The window of the
//! machine bounds what lies in between.

use super::byte_queue::ByteQueue;
use super::network::Clock;
use m3ipc::nodes::{CopyEvent, CopyWish, LocalCopy, LocalCopyStep, StandIn};
use m3ipc::{Address, Code};
use m3ipc_fabric::{Action, CallRefusal, CopyId, CopyOrder, EndpointId, Machine, NodeId};
use std::collections::BTreeMap;

/// Copies of the requesters of one user with one node that may be under way. The machine has a
/// limit for all of them together, which no user may use up.
const OF_USER_MAX: usize = 64;

/// The stand-ins, for the copies.
pub trait StandIns {
    /// The node of an endpoint that has a stand-in.
    fn node_of(&self, id: EndpointId) -> Option<NodeId>;
    /// All of them.
    fn ids(&self) -> Vec<EndpointId>;
    /// One of them, to look at.
    fn look_at(&self, id: EndpointId) -> Option<&StandIn>;
    /// One of them.
    fn get(&mut self, id: EndpointId) -> Option<&mut StandIn>;
    /// The same; it is made if it is not there yet.
    fn make(&mut self, id: EndpointId) -> Option<&mut StandIn>;
}

/// Whose part of the limit a copy uses.
type Share = (Option<u32>, Option<NodeId>);

/// A copy of a local requester with a stand-in.
struct Asked {
    stand_in: EndpointId,
    requester: Address,
    /// The user of the requester, and the node of the party.
    share: Share,
    is_write: bool,
    /// Bytes of a read that the requester has not got.
    queue: ByteQueue,
    /// The end of a read whose bytes are not all there yet.
    end: Option<(i32, u64)>,
}

/// A copy of a remote requester with a local party.
struct Serving {
    requester: EndpointId,
    copy: LocalCopy,
    /// Bytes of a write that the party has not got.
    queue: ByteQueue,
}

/// All copies that cross nodes.
#[derive(Default)]
pub struct Copies {
    asked: BTreeMap<CopyId, Asked>,
    by_pair: BTreeMap<(EndpointId, Address), CopyId>,
    served: BTreeMap<CopyId, Serving>,
}

impl Copies {
    /// Whether any copy is under way: look again soon.
    pub fn any(&self) -> bool {
        !self.asked.is_empty() || !self.served.is_empty()
    }

    /// Whether a copy of this stand-in is under way.
    pub fn involves(&self, id: EndpointId) -> bool {
        self.asked.values().any(|it| it.stand_in == id)
            || self.served.values().any(|it| it.requester == id)
    }

    /// Whether a ring alone tells of the next step of a copy of this stand-in.
    pub fn needs_rings(&self, id: EndpointId) -> bool {
        self.served.values().any(|it| it.requester == id && it.copy.needs_rings())
    }

    /// Whether [`step`](Self::step) moves anything. A few loads for each copy.
    pub fn has_news(&self, stand_ins: &impl StandIns, machine: &Machine) -> bool {
        let asked_moves = |(id, asked): (&CopyId, &Asked)| {
            let Some(stand_in) = stand_ins.look_at(asked.stand_in) else { return true };
            match stand_in.next_copy_chunk(asked.requester) {
                Ok(Some(bytes)) if asked.is_write => machine.copy_room(*id) >= bytes,
                Ok(Some(bytes)) => asked.queue.has(bytes),
                Ok(None) => false,
                Err(_broken) => true,
            }
        };
        let served_moves = |(id, serving): (&CopyId, &Serving)| {
            let Some(stand_in) = stand_ins.look_at(serving.requester) else { return true };
            match stand_in.has_local_copy_moved(&serving.copy) {
                Some(LocalCopyStep::Wants(bytes)) => serving.queue.has(bytes),
                Some(LocalCopyStep::Has(bytes)) => machine.copy_room(*id) >= bytes,
                Some(LocalCopyStep::Ended(..)) => true,
                Some(LocalCopyStep::Waits) | None => false,
            }
        };
        self.asked.iter().any(asked_moves) || self.served.iter().any(served_moves)
    }

    /// Goes on with all copies. Whether anything moved.
    pub fn step(
        &mut self,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let mut moved = self.read_commands(stand_ins, machine, clock);
        let asked: Vec<CopyId> = self.asked.keys().copied().collect();
        for id in asked {
            moved |= self.step_asked(id, stand_ins, machine, clock);
        }
        let served: Vec<CopyId> = self.served.keys().copied().collect();
        for id in served {
            moved |= self.step_served(id, stand_ins, machine, clock);
        }
        moved
    }

    fn read_commands(
        &mut self,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let mut found_any = false;
        for id in stand_ins.ids() {
            let node = stand_ins.node_of(id);
            let Some(stand_in) = stand_ins.get(id) else { continue };
            for event in stand_in.poll_copies() {
                found_any = true;
                match event {
                    CopyEvent::GivenUp(from) => {
                        if let Some(copy) = self.forget((id, from)) {
                            machine.copy_abort(clock.now_ns(), copy);
                        }
                    }
                    CopyEvent::Begun(from, wish) => {
                        let requester = EndpointId::new(id.vm, from);
                        let order = order_of(wish);
                        let share = (stand_in.user_of(from), node);
                        let begun = match self.has_room(share) {
                            true => machine.copy(clock.now_ns(), requester, id.address, order),
                            false => Err(CallRefusal::Full(node.unwrap_or(NodeId(0)))),
                        };
                        match begun {
                            Ok(copy) => {
                                let asked = (from, share);
                                let earlier = self.note_asked(copy, id, asked, wish.is_write);
                                if let Some(earlier) = earlier {
                                    machine.copy_abort(clock.now_ns(), earlier);
                                }
                            }
                            Err(why) => {
                                let code = code_of(why, wish.is_write).number();
                                stand_in.finish_copy(from, code, 0);
                            }
                        }
                    }
                }
            }
        }
        found_any
    }

    /// Whether another copy of a user with a node may begin.
    fn has_room(&self, share: Share) -> bool {
        self.asked.values().filter(|it| it.share == share).count() < OF_USER_MAX
    }

    /// Notes a copy. The one before it of this pair has lost its requester: it is forgotten, and
    /// comes back.
    fn note_asked(
        &mut self,
        copy: CopyId,
        id: EndpointId,
        (requester, share): (Address, Share),
        is_write: bool,
    ) -> Option<CopyId> {
        let earlier = self.forget((id, requester));
        let (queue, end) = (ByteQueue::default(), None);
        let asked = Asked { stand_in: id, requester, share, is_write, queue, end };
        self.by_pair.insert((id, requester), copy);
        self.asked.insert(copy, asked);
        earlier
    }

    /// Forgets all copies of a local requester that has ended: the pairs, and the copies for the
    /// machine to abort.
    fn forget_requester(&mut self, requester: EndpointId) -> Vec<((EndpointId, Address), CopyId)> {
        let pairs = self.by_pair.keys().copied();
        let is_of = |(id, from): &(EndpointId, Address)| {
            (id.vm, *from) == (requester.vm, requester.address)
        };
        let pairs: Vec<(EndpointId, Address)> = pairs.filter(is_of).collect();
        pairs.into_iter().filter_map(|pair| Some((pair, self.forget(pair)?))).collect()
    }

    /// A local endpoint has ended, and with it the copies that it asked for.
    pub fn requester_ended(
        &mut self,
        requester: EndpointId,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) {
        for ((id, from), copy) in self.forget_requester(requester) {
            machine.copy_abort(clock.now_ns(), copy);
            // The next life of the endpoint may have the same address, and a copy already.
            if let Some(stand_in) = stand_ins.get(id) {
                stand_in.finish_copy(from, Code::NotConn.number(), 0);
            }
        }
    }

    fn forget(&mut self, pair: (EndpointId, Address)) -> Option<CopyId> {
        let copy = self.by_pair.remove(&pair)?;
        self.asked.remove(&copy);
        Some(copy)
    }

    fn step_asked(
        &mut self,
        id: CopyId,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        let pair = (asked.stand_in, asked.requester);
        let stand_in = stand_ins.get(asked.stand_in);
        let Some(stand_in) = stand_in.filter(|it| it.user_of(asked.requester).is_some()) else {
            // The node is lost, the remote endpoint has died, or the requester.
            self.forget(pair);
            machine.copy_abort(clock.now_ns(), id);
            return true;
        };
        let mut moved = false;
        loop {
            let bytes = match stand_in.next_copy_chunk(asked.requester) {
                Ok(Some(bytes)) => bytes,
                Ok(None) => break,
                Err(broken) => {
                    // The requester has its end. The other node ends the copy, too.
                    stand_in.finish_copy(asked.requester, broken.number(), 0);
                    self.forget(pair);
                    machine.copy_abort(clock.now_ns(), id);
                    return true;
                }
            };
            if asked.is_write {
                if machine.copy_room(id) < bytes {
                    break;
                }
                let Some(chunk) = stand_in.take_copy_chunk(asked.requester) else { break };
                machine.copy_give(clock.now_ns(), id, chunk.into());
            } else {
                let Some(chunk) = asked.queue.take(bytes) else { break };
                stand_in.put_copy_chunk(asked.requester, chunk.iter());
                machine.copy_taken(clock.now_ns(), id, bytes as u64);
            }
            moved = true;
        }
        if let Some((code, bytes)) = asked.end
            && (asked.queue.is_empty() || code != 0)
        {
            stand_in.finish_copy(asked.requester, code, bytes);
            self.forget(pair);
            moved = true;
        }
        moved
    }

    fn step_served(
        &mut self,
        id: CopyId,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) -> bool {
        let Some(serving) = self.served.get_mut(&id) else { return false };
        let Some(stand_in) = stand_ins.get(serving.requester) else {
            self.served.remove(&id);
            machine.copy_done(clock.now_ns(), id, Code::ProcSts.number(), 0);
            return true;
        };
        let mut moved = false;
        loop {
            match stand_in.step_local_copy(&mut serving.copy) {
                LocalCopyStep::Wants(bytes) => {
                    let Some(chunk) = serving.queue.take(bytes) else { return moved };
                    stand_in.put_local_chunk(&mut serving.copy, chunk.iter());
                    machine.copy_taken(clock.now_ns(), id, bytes as u64);
                }
                LocalCopyStep::Has(bytes) if machine.copy_room(id) >= bytes => {
                    let chunk = stand_in.take_local_chunk(&mut serving.copy, bytes);
                    machine.copy_give(clock.now_ns(), id, chunk.into());
                }
                LocalCopyStep::Ended(code, bytes) => {
                    machine.copy_done(clock.now_ns(), id, code, bytes);
                    self.served.remove(&id);
                    return true;
                }
                LocalCopyStep::Waits | LocalCopyStep::Has(_) => return moved,
            }
            moved = true;
        }
    }

    /// Carries out what the machine has decided about a copy. Any other action comes back.
    pub fn carry_out(
        &mut self,
        action: Action,
        stand_ins: &mut impl StandIns,
        machine: &mut Machine,
        clock: &Clock,
    ) -> Option<Action> {
        match action {
            Action::CopyBegin { copy, requester, party, order } => {
                let begun = match stand_ins.make(requester) {
                    Some(stand_in) => stand_in.begin_local_copy(party, wish_of(order)),
                    None => Err(Code::ProcSts),
                };
                match begun {
                    Ok(local) => {
                        let queue = ByteQueue::default();
                        let serving = Serving { requester, copy: local, queue };
                        self.served.insert(copy, serving);
                        self.step_served(copy, stand_ins, machine, clock);
                    }
                    Err(code) => machine.copy_done(clock.now_ns(), copy, code.number(), 0),
                }
            }
            Action::CopyBytes { copy, bytes } => {
                if let Some(asked) = self.asked.get_mut(&copy) {
                    asked.queue.push(bytes);
                    self.step_asked(copy, stand_ins, machine, clock);
                } else if let Some(serving) = self.served.get_mut(&copy) {
                    serving.queue.push(bytes);
                    self.step_served(copy, stand_ins, machine, clock);
                }
            }
            Action::CopyRoom { copy } => {
                self.step_asked(copy, stand_ins, machine, clock);
                self.step_served(copy, stand_ins, machine, clock);
            }
            Action::CopyEnded { copy, code, bytes } => {
                if let Some(asked) = self.asked.get_mut(&copy) {
                    asked.end = Some((code, bytes));
                    self.step_asked(copy, stand_ins, machine, clock);
                }
            }
            Action::CopyAbandon { copy } => {
                if let Some(serving) = self.served.remove(&copy)
                    && let Some(stand_in) = stand_ins.get(serving.requester)
                {
                    stand_in.end_local_copy(serving.copy);
                }
            }
            other => return Some(other),
        }
        None
    }
}

fn order_of(wish: CopyWish) -> CopyOrder {
    let CopyWish { is_write, space, place, bytes } = wish;
    CopyOrder { is_write, space, place, bytes }
}

fn wish_of(order: CopyOrder) -> CopyWish {
    let CopyOrder { is_write, space, place, bytes } = order;
    CopyWish { is_write, space, place, bytes }
}

fn code_of(why: CallRefusal, is_write: bool) -> Code {
    match why {
        CallRefusal::Full(_) | CallRefusal::Share(_) => Code::Busy,
        CallRefusal::LinkDown(_) => Code::NotConn,
        CallRefusal::NoEndpoint if is_write => Code::DstDied,
        CallRefusal::NoEndpoint => Code::SrcDied,
        CallRefusal::Local | CallRefusal::TooLong(_) => Code::Endpoint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_the_copies_of_others() {
        let mut copies = Copies::default();
        let id = EndpointId::new(3, Address(10));
        let (user, other) = ((Some(1000), Some(NodeId(2))), (Some(1001), Some(NodeId(2))));
        for (number, requester) in (1..).zip(100..100 + i32::try_from(OF_USER_MAX).unwrap()) {
            assert!(copies.has_room(user));
            let copy = CopyId::Own(m3ipc_fabric::CallId(number));
            assert_eq!(copies.note_asked(copy, id, (Address(requester), user), true), None);
        }
        assert!(!copies.has_room(user) && copies.has_room(other));
        assert!(copies.has_room((Some(1000), Some(NodeId(3)))), "with another node");
        copies.forget((id, Address(100)));
        assert!(copies.has_room(user));
        // Another copy of the same requester takes the place of the one before.
        let again = CopyId::Own(m3ipc_fabric::CallId(1000));
        let earlier = copies.note_asked(again, id, (Address(101), user), true);
        assert_eq!(earlier, Some(CopyId::Own(m3ipc_fabric::CallId(2))));
        assert!(copies.has_room(user));
        // The end of a requester forgets its copies, and no others.
        let of_vm = |vm: u16| EndpointId::new(vm, Address(101));
        assert_eq!(copies.forget_requester(of_vm(4)), []);
        assert_eq!(copies.forget_requester(of_vm(3)), [((id, Address(101)), again)]);
        assert_eq!((copies.asked.len(), copies.by_pair.len()), (OF_USER_MAX - 2, OF_USER_MAX - 2));
        assert!(copies.involves(id) && !copies.involves(EndpointId::new(3, Address(11))));
    }
}
