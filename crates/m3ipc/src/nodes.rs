//! For the proxy of a node: the endpoints of this node, and stand-ins for those of others.
//!
//! Programs need nothing of this. `m3-proxy` is the one user.
//!
//! ```text
//!   a program ── link ── StandIn ── proxy ~ ~ ~ other proxy ── StandIn ── link ── a program
//!                           │                                     │
//!                 has the address of the                has the address of the
//!                 program on the right                  program on the left
//! ```

use crate::control::{Control, IfAbsent, RequestLimit};
use crate::endpoint::Pulse;
use crate::endpoint::{self, Beside, Copied, Endpoint, Found, HeldMessages, StandInLook};
pub use crate::endpoint::{COPIED_MAX_BYTES, MessageRoom};
use crate::error::{Fail, NameError, NodeError, NotifyError};
use m3ipc_abi::{Address, Code, Message};
pub use m3ipc_wire::{BackedSlot, ForeignRange, NodesEvent, OtherNode, OtherSlots, SlotPlace};
use m3ipc_wire::{DaemonEvent, NodesRequest, Request};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The registration of the proxy at the daemon of its node. A drop ends it.
#[derive(Debug)]
pub struct Proxy {
    control: Control,
    directory: PathBuf,
}

impl Proxy {
    /// Registers this process. A daemon is started if none runs.
    ///
    /// The first events name the endpoints that are bound already.
    ///
    /// # Errors
    /// [`NodeError`]: another process is the proxy, the user may not be it, or a local endpoint has
    /// a slot of another node.
    pub fn register(directory: &Path, slots: impl Into<OtherSlots>) -> Result<Self, NodeError> {
        Self::register_at(directory, slots.into(), IfAbsent::Start)
    }

    /// Registers again, after the end of the daemon. This starts no daemon: the caller may run in a
    /// sandbox.
    ///
    /// # Errors
    /// As [`register`](Self::register); no daemon runs.
    pub fn register_again(
        directory: &Path,
        slots: impl Into<OtherSlots>,
    ) -> Result<Self, NodeError> {
        Self::register_at(directory, slots.into(), IfAbsent::Fail)
    }

    fn register_at(
        directory: &Path,
        slots: OtherSlots,
        if_absent: IfAbsent,
    ) -> Result<Self, NodeError> {
        let mut control = Control::connect(directory, if_absent)?;
        control.request(&Request::Nodes(NodesRequest::Register(slots)))?;
        Ok(Self { control, directory: directory.to_owned() })
    }

    /// Changes the slots of other nodes. The next events name the endpoints that are bound already.
    ///
    /// # Errors
    /// [`Code::SlotUsed`]: a local endpoint has a slot of another node, and nothing has changed.
    /// The daemon is gone.
    pub fn set_foreign(&mut self, slots: impl Into<OtherSlots>) -> Result<(), NodeError> {
        self.control.request(&Request::Nodes(NodesRequest::Register(slots.into())))?;
        Ok(())
    }

    /// Says where a slot with a backup is. [`SlotPlace::Back`] gives it back to its home: `false`
    /// if a local endpoint has it.
    ///
    /// # Errors
    /// The daemon is gone; the registration does not have the slot.
    pub fn place(&mut self, slot: BackedSlot, place: SlotPlace) -> Result<bool, NodeError> {
        let is_back = matches!(place, SlotPlace::Back(_));
        let request = NodesRequest::Place { slot, place };
        match self.control.request(&Request::Nodes(request)) {
            Ok(_) => Ok(true),
            Err(fail) if is_back && fail.code == Code::SlotUsed => Ok(false),
            Err(fail) => Err(fail.into()),
        }
    }

    /// Ends a local endpoint that moves to another node; `false` if it has ended before, or if its
    /// owner does not wait for the move any more: it stays then.
    ///
    /// # Errors
    /// The daemon is gone; the registration does not have the slot.
    pub fn moves(&mut self, vm: i32, address: Address, node: &str) -> Result<bool, NodeError> {
        let place = SlotPlace::Moved { address: address.0, node: node.to_owned() };
        let slot = BackedSlot { vm, slot: address.slot() };
        match self.control.request(&Request::Nodes(NodesRequest::Place { slot, place })) {
            Ok(_) => Ok(true),
            Err(fail) if fail.code == Code::NotBind => Ok(false),
            Err(fail) => Err(fail.into()),
        }
    }

    /// A local endpoint that wants to move does not.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn refuse_move(
        &mut self,
        (vm, address): (i32, Address),
        (code, why): (Code, String),
    ) -> Result<(), NodeError> {
        let (address, code) = (address.0, code.number());
        let request = NodesRequest::NotMoved { vm, address, code, why };
        self.control.request(&Request::Nodes(request))?;
        Ok(())
    }

    /// Tells the daemon of all other nodes, for lists.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn set_known(&mut self, nodes: Vec<OtherNode>) -> Result<(), NodeError> {
        self.control.request(&Request::Nodes(NodesRequest::Known(nodes)))?;
        Ok(())
    }

    /// Whether events came with the reply to a request: the descriptor does not report them.
    #[must_use]
    pub fn has_queued_events(&self) -> bool {
        self.control.has_queued_events()
    }

    /// The next event.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn next_event(&mut self) -> Result<Option<NodesEvent>, NodeError> {
        while let Some((event, ..)) = self.control.next_event()? {
            if let DaemonEvent::Nodes(event) = event {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Tells the daemon whether a node can be reached. Calls to its endpoints fail at once
    /// otherwise.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn set_reachable(&mut self, node: &str, reachable: bool) -> Result<(), NodeError> {
        let request = NodesRequest::Reachable { node: node.to_owned(), reachable };
        self.control.request(&Request::Nodes(request))?;
        Ok(())
    }

    /// Tells the daemon the end of a wakeup: 0 or a code.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn woken(&mut self, number: u64, code: i32) -> Result<(), NodeError> {
        self.control.request(&Request::Nodes(NodesRequest::Woken { number, code }))?;
        Ok(())
    }

    /// Binds a stand-in for an endpoint of another node.
    ///
    /// # Errors
    /// The VM does not run, or the slot is no slot of another node.
    pub fn stand_in(&self, vm: i32, address: Address) -> Result<StandIn, NodeError> {
        let request = NodesRequest::StandIn { vm, address: address.0 };
        let request = Request::Nodes(request);
        let bound = endpoint::bind_by(&self.directory, None, RequestLimit::ANSWER, &request)?;
        let mut stand_in = StandIn { endpoint: bound, held: HeldMessages::default() };
        stand_in.endpoint.become_stand_in();
        stand_in.endpoint.set_receive_limit(COPIED_MAX_BYTES);
        stand_in.endpoint.fd()?;
        Ok(stand_in)
    }
}

impl AsFd for Proxy {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// Something that a stand-in found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandInEvent {
    /// A message for the remote endpoint. It is held until [`StandIn::taken`],
    /// [`StandIn::failed`] or [`StandIn::let_go`].
    Message {
        /// The sender.
        from: Address,
        /// Whether it awaits an answer.
        is_request: bool,
        /// The message.
        message: Message,
        /// Its payload, or the content of its block.
        bytes: Vec<u8>,
        /// Whether it came with a block, which is freed at [`StandIn::taken`].
        is_block: bool,
    },
    /// A notification for the remote endpoint.
    Notified {
        /// The source.
        from: Address,
        /// Its argument.
        bits: u64,
    },
    /// Pulses for the remote endpoint. They count as pending until
    /// [`StandIn::remove_pulses`]; [`StandIn::return_pulses`] leaves them for a later look.
    Pulses {
        /// The source.
        from: Address,
        /// The pulses, in the order of their sending; at most [`PULSES_MAX`](crate::PULSES_MAX).
        pulses: Vec<Pulse>,
    },
    /// The sender wants its held message back, or awaits the answer no longer.
    GivenUp(Address),
}

impl From<Found> for StandInEvent {
    fn from(found: Found) -> Self {
        match found {
            Found::Message { from, is_request, message, copied } => {
                let Copied { bytes, is_block, .. } = copied;
                Self::Message { from, is_request, message, bytes, is_block }
            }
            Found::Notified { from, bits } => Self::Notified { from, bits },
            Found::Pulses { from, pulses } => Self::Pulses { from, pulses },
            Found::GivenUp(from) => Self::GivenUp(from),
        }
    }
}

mod copies;
mod posted;

pub use copies::{CopyEvent, CopyWish, LocalCopy, LocalCopyStep};
pub use posted::{Posted, PostedEnd};

/// A stand-in: an endpoint of this node with the address of one of another node.
#[derive(Debug)]
pub struct StandIn {
    endpoint: Endpoint,
    held: HeldMessages,
}

impl StandIn {
    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        self.endpoint.address()
    }

    /// The descriptor for poll(2): readable when [`poll`](Self::poll) or
    /// [`poll_posted`](Self::poll_posted) may find something.
    ///
    /// # Errors
    /// [`NodeError::NoResources`] if no descriptor is left.
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, NodeError> {
        self.endpoint.fd()
    }

    /// The same descriptor under another number.
    ///
    /// # Errors
    /// As [`fd`](Self::fd).
    pub fn share_fd(&mut self) -> Result<OwnedFd, NodeError> {
        let shared = self.fd()?.try_clone_to_owned();
        shared.map_err(|error| Fail::new(Code::NoMem, error.to_string()).into())
    }

    /// Looks for all that is new. Repeat until it finds nothing, unless the stand-in is
    /// [silent](Self::set_silent).
    ///
    /// # Errors
    /// The stand-in is bound no longer.
    pub fn poll(&mut self) -> Result<Vec<StandInEvent>, NodeError> {
        self.look(StandInLook { only_marked: false, room: &mut |_user| true })
    }

    /// As [`poll`](Self::poll), and leaves messages where they are: the proxy has no room for them.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn poll_without_messages(&mut self) -> Result<Vec<StandInEvent>, NodeError> {
        self.look(StandInLook { only_marked: false, room: &mut |_user| false })
    }

    /// As [`poll`](Self::poll) of a silent stand-in, for the links alone that their peers have
    /// marked.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn poll_marked(&mut self) -> Result<Vec<StandInEvent>, NodeError> {
        self.look(StandInLook { only_marked: true, room: &mut |_user| true })
    }

    /// As [`poll`](Self::poll), or with `only_marked` as [`poll_marked`](Self::poll_marked). A
    /// message without room stays where it is.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn poll_admitted(
        &mut self,
        only_marked: bool,
        room: &mut dyn MessageRoom,
    ) -> Result<Vec<StandInEvent>, NodeError> {
        self.look(StandInLook { only_marked, room })
    }

    fn look(&mut self, look: StandInLook<'_>) -> Result<Vec<StandInEvent>, NodeError> {
        let found = self.endpoint.poll_stand_in(&mut self.held, look)?;
        Ok(found.into_iter().map(StandInEvent::from).collect())
    }

    /// A silent stand-in is not rung for: its descriptor reports nothing. The proxy asks
    /// [`has_news`](Self::has_news) and [`has_moved`](Self::has_moved) instead, and for copies
    /// [`has_copy_command`](Self::has_copy_command), [`next_copy_chunk`](Self::next_copy_chunk) and
    /// [`has_local_copy_moved`](Self::has_local_copy_moved), until it makes the stand-in loud again
    /// and polls until it finds nothing.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.endpoint.set_silent(is_silent);
    }

    /// Whether a poll may find something. A few loads, no system call.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.endpoint.stand_in_has_news()
    }

    /// Whether the stand-in must not be silent now: some things are reported by rings alone.
    #[must_use]
    pub fn needs_rings(&self) -> bool {
        self.endpoint.needs_rings()
    }

    /// Whether the stand-in is bound still. Another process may unbind it.
    #[must_use]
    pub fn is_bound(&mut self) -> bool {
        self.endpoint.is_bound()
    }

    /// Whether an event that was read has ended the stand-in. Reads none.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.endpoint.has_left()
    }

    /// Whether a message of this sender is held, and its receiver has not taken it.
    #[must_use]
    pub fn holds_from(&self, sender: Address) -> bool {
        self.held.is_open(sender)
    }

    /// The number of the held message of this sender among those of the pair.
    #[must_use]
    pub fn number_of_held(&self, sender: Address) -> Option<u64> {
        self.held.number_of(sender)
    }

    /// Whether anything may be given up without a ring: look once in a while.
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.held.any()
    }

    /// The remote endpoint has taken the held message of this sender.
    pub fn taken(&mut self, sender: Address) {
        self.endpoint.held_was_taken(&mut self.held, sender);
    }

    /// The held message of this sender ends with this code.
    pub fn failed(&mut self, sender: Address, code: Code) {
        self.endpoint.held_has_failed(&mut self.held, sender, code);
    }

    /// Whether the latest look has left a message with a block: each look copies a bounded number
    /// of bytes. Look again.
    #[must_use]
    pub fn has_left_any(&self) -> bool {
        self.held.has_left_any()
    }

    /// Whether the held message of this sender can be [let go](Self::let_go): one with a large
    /// payload cannot, as its block was accepted.
    #[must_use]
    pub fn may_let_go(&self, sender: Address) -> bool {
        self.held.may_let_go(sender)
    }

    /// The held message cannot be sent on yet: it lies in its slot as before.
    pub fn let_go(&mut self, sender: Address) {
        self.endpoint.let_held_go(&mut self.held, sender);
    }

    /// The remote endpoint has answered the request of this sender. Says [`taken`](Self::taken)
    /// first, if nobody has.
    ///
    /// # Errors
    /// The answer cannot be handed over.
    pub fn answered(
        &mut self,
        sender: Address,
        message: &Message,
        bytes: Vec<u8>,
    ) -> Result<(), Code> {
        self.answered_with(sender, message, &Beside::from(bytes))
    }

    /// The same for an answer with a block of this content: the sender gets a block of its own.
    ///
    /// # Errors
    /// As [`answered`](Self::answered).
    pub fn answered_by_block(
        &mut self,
        sender: Address,
        message: &Message,
        content: Vec<u8>,
    ) -> Result<(), Code> {
        self.answered_with(sender, message, &Beside::block(content))
    }

    fn answered_with(
        &mut self,
        sender: Address,
        message: &Message,
        beside: &Beside,
    ) -> Result<(), Code> {
        self.taken(sender);
        let answered = self.endpoint.answer_held(&mut self.held, sender, message, beside);
        answered.map(drop).map_err(|fail| fail.code)
    }

    /// The remote endpoint has handed the request of this sender to another server: the sender
    /// asks that one, in the words of the remote endpoint if there are any. Says
    /// [`taken`](Self::taken) first, if nobody has.
    ///
    /// # Errors
    /// The words are none of a relay, or cannot be handed over.
    pub fn relayed(
        &mut self,
        sender: Address,
        message: &Message,
        words: &[u8],
    ) -> Result<(), Code> {
        self.taken(sender);
        let relayed = self.endpoint.relay_held(&mut self.held, sender, message, words);
        relayed.map_err(|fail| fail.code)
    }

    /// Wakes a local endpoint in the name of the remote one.
    ///
    /// # Errors
    /// The code of the failure. -320 and -324: the endpoint remembers it.
    pub fn wakeup(&mut self, to: Address) -> Result<(), Code> {
        self.endpoint.wakeup(to).map_err(|error| error.code())
    }

    /// The bits of a notification of a local endpoint that no poll has found yet: none are set in a
    /// plain one. The proxy sends it on before the answer of that endpoint, which came after it.
    pub fn notified_by(&mut self, from: Address) -> Option<u64> {
        self.endpoint.notified_by(from)
    }

    /// The same of a local endpoint that has ended. The proxy sends it on before the word of the
    /// end.
    pub fn last_notified_by(&mut self, from: Address) -> Option<u64> {
        self.endpoint.last_notified_by(from)
    }

    /// Attaches a name of the remote endpoint.
    ///
    /// # Errors
    /// The name is taken on this node, and others.
    pub fn attach_name(&mut self, name: &str) -> Result<(), NameError> {
        self.endpoint.name_attach(name)
    }

    /// Notifies a local endpoint.
    ///
    /// # Errors
    /// The receiver is dead, or privileges deny it.
    pub fn notify(&mut self, to: Address, bits: u64) -> Result<(), NotifyError> {
        self.endpoint.notify_set(to, bits)
    }

    /// The pulses of an event, the earliest of this sender, have arrived or are lost: it may send
    /// others in their places. Whether a look finds others.
    pub fn remove_pulses(&mut self, sender: Address, pulses: usize) -> bool {
        self.endpoint.remove_copied_pulses(sender, pulses)
    }

    /// Whether pulses of this sender wait for the next look.
    #[must_use]
    pub fn has_pulses_of(&self, sender: Address) -> bool {
        self.endpoint.has_uncopied_pulses(sender)
    }

    /// The pulses of an event, the latest of this sender, cannot be sent on yet: the next look
    /// finds them again.
    pub fn return_pulses(&mut self, sender: Address, pulses: usize) {
        self.endpoint.uncopy_pulses(sender, pulses);
    }

    /// Sends a pulse to a local endpoint in the name of the remote one. `false` if too many wait
    /// there, or while the daemon makes the link: try again.
    ///
    /// # Errors
    /// The receiver is dead, or privileges deny it.
    pub fn pulse(&mut self, to: Address, pulse: Pulse) -> Result<bool, Code> {
        self.endpoint.send_pulse_soon(to, pulse).map_err(|fail| fail.code)
    }

    /// Ends the stand-in, whose remote endpoint has died. A drop says that its node cannot be
    /// reached.
    pub fn died(mut self) {
        // A daemon that is gone leaves this to its successor.
        let _ = self.endpoint.say_died();
    }

    /// Forgets the stand-in, which the daemon has ended in the name of the proxy. Its address may
    /// be that of another endpoint by now, so nothing is unbound.
    pub fn ended(mut self) {
        self.endpoint.note_ended();
    }
}
