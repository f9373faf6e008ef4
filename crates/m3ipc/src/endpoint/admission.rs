//! The messages that may pass between an endpoint and one peer now.
//!
//! | fact | closes |
//! |---|---|
//! | the peer is dead, or broke the rules | both directions |
//! | a later link replaced this one | the direction to the peer; the peer counts as dead too |
//! | a request is pending | the direction to the peer |
//! | privileges | the kinds that they exclude, in their direction |
//!
//! Each change of a fact notes the open kinds anew, so that the fast path makes one check.

use super::call_stop::CallStop;
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_link::{MessageKind, SlotState};
use m3ipc_wire::PeerInfo;

/// Which messages may pass.
#[derive(Debug)]
pub(super) struct Admission {
    may_send: u32,
    may_receive: u32,
    /// The pending request in the slot. No other message goes to the peer meanwhile.
    pending: Option<SlotState>,
    /// Whether the daemon has reported the death of the peer.
    dead: bool,
    /// Whether the peer is on another node, which cannot be reached any more.
    lost: bool,
    /// Whether the peer moves to another node.
    moved: bool,
    /// Whether the peer broke the rules.
    poisoned: bool,
    /// Whether a later link replaces this one.
    replaced: bool,
    /// The kinds of messages that may go to the peer now: see [`open_kinds`](Self::open_kinds).
    open_to: u32,
    /// The kinds of messages of the peer that may be received now.
    open_from: u32,
}

impl Admission {
    /// The admission on a new link, by the privileges of both sides.
    pub(super) fn new(may_send: u32, may_receive: u32) -> Self {
        let mut admission = Self {
            may_send,
            may_receive,
            pending: None,
            dead: false,
            lost: false,
            moved: false,
            poisoned: false,
            replaced: false,
            open_to: 0,
            open_from: 0,
        };
        admission.reopen();
        admission
    }

    /// The kinds of messages that may go to the peer, by [`check`](Self::check) and
    /// [`allow`](Self::allow), and those that may be received from it.
    fn open_kinds(&self) -> (u32, u32) {
        let is_free = self.pending.is_none();
        let to =
            if self.dead | self.poisoned | self.replaced | !is_free { 0 } else { self.may_send };
        (to, if self.is_closed() { 0 } else { self.may_receive })
    }

    fn reopen(&mut self) {
        (self.open_to, self.open_from) = self.open_kinds();
    }

    #[inline(always)]
    fn assert_noted(&self) {
        debug_assert_eq!(self.open_kinds(), (self.open_to, self.open_from), "an unnoted change");
    }

    /// Notes the death of the peer.
    pub(super) fn set_dead(&mut self) {
        self.dead = true;
        self.reopen();
    }

    /// Notes that the node of the peer cannot be reached any more: the peer counts as dead.
    pub(super) fn set_lost(&mut self) {
        self.lost = true;
    }

    /// Whether the peer may live on, on a node that cannot be reached any more.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Notes that the peer moves to another node: it counts as dead here.
    pub(super) fn set_moved(&mut self) {
        self.moved = true;
    }

    /// Whether the peer may hold messages: it is a proxy that stands in for another endpoint.
    pub(super) fn may_hold(&self) -> bool {
        self.may_send & PeerInfo::MAY_HOLD != 0
    }

    /// Notes that the peer broke the rules.
    pub(super) fn set_poisoned(&mut self) {
        self.poisoned = true;
        self.reopen();
    }

    /// Notes that a later link replaces this one.
    pub(super) fn set_replaced(&mut self) {
        (self.replaced, self.dead) = (true, true);
        self.reopen();
    }

    /// Notes the pending request, or its end.
    pub(super) fn set_pending(&mut self, request: Option<SlotState>) {
        self.pending = request;
        self.reopen();
    }

    /// Notes which messages may pass in each direction.
    pub(super) fn set_privileges(&mut self, may_send: u32, may_receive: u32) {
        (self.may_send, self.may_receive) = (may_send, may_receive);
        self.reopen();
    }

    /// Whether the daemon has reported the death of the peer.
    #[inline]
    pub(super) fn is_dead(&self) -> bool {
        self.dead
    }

    /// Whether nothing of the peer is received any more.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.dead | self.poisoned
    }

    /// The pending request in the slot.
    #[inline]
    pub(super) fn pending(&self) -> Option<SlotState> {
        self.pending
    }

    /// Fails if the link is closed; a dead peer gives the code `died`.
    #[inline]
    pub(super) fn check(&self, died: Code) -> Result<(), CallStop> {
        if self.poisoned {
            return Err(Code::PeerBroke.into());
        }
        if self.replaced {
            return Err(CallStop::Replaced);
        }
        match self.dead {
            false => Ok(()),
            true => Err(self.code_of_end(died).into()),
        }
    }

    /// The code of a call to the peer, which has ended.
    #[cold]
    fn code_of_end(&self, died: Code) -> Code {
        match self.lost {
            _ if self.moved && matches!(died, Code::DstDied | Code::DeadSrcDst) => Code::Migrate,
            true if died != Code::Unknown => Code::NotConn,
            _ => died,
        }
    }

    /// Fails if privileges exclude a message of this kind to the peer, or if a pending request
    /// claims the peer.
    #[inline]
    pub(super) fn allow(&self, kind: MessageKind) -> Result<(), Fail> {
        if self.may_send & (1 << kind as u32) == 0 {
            return Err(Code::CallDenied.into());
        }
        if self.pending.is_some() { Err(Code::Busy.into()) } else { Ok(()) }
    }

    /// Fails if privileges exclude a notification to the peer.
    pub(super) fn allow_notification(&self) -> Result<(), Fail> {
        if self.may_send & PeerInfo::MAY_NOTIFY == 0 {
            return Err(Code::CallDenied.into());
        }
        Ok(())
    }

    /// Whether a message of this kind may go to the peer, by [`check`](Self::check) and
    /// [`allow`](Self::allow).
    #[inline(always)]
    pub(super) fn admits(&self, kind: MessageKind) -> bool {
        self.assert_noted();
        self.open_to & (1 << kind as u32) != 0
    }

    /// Whether a notification may go to the peer, and no pending request claims it.
    #[inline(always)]
    pub(super) fn admits_notification(&self) -> bool {
        self.assert_noted();
        self.open_to & PeerInfo::MAY_NOTIFY != 0
    }

    /// Whether a message of this kind may be received from the peer now.
    #[inline(always)]
    pub(super) fn receives(&self, kind: MessageKind) -> bool {
        self.assert_noted();
        self.open_from & (1 << kind as u32) != 0
    }

    /// Whether a notification may be received from the peer now.
    #[inline]
    pub(super) fn receives_notification(&self) -> bool {
        self.open_from & PeerInfo::MAY_NOTIFY != 0
    }
}
