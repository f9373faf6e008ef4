//! The callers of m3ipc-link, as m3ipc is one: what it does with a link, in that order.

use crate::memory::{Bed, Memory};
use crate::weak::{Twist, twisted};
use m3ipc_abi::{ANY, Address, PAYLOAD_BYTES};
use m3ipc_link::{
    Arrival, ControlPage, ControlPageView, FLAG_WOKEN, Link, LinkSide, MessageKind, OwnStatus,
    PeerStatus, SlotState, TakenMessage, WaitMode, Word32,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const CELL: usize = 0x00;
const CELL_BYTES: usize = 0x40;
const STAMP: usize = 8;
const TYPE: usize = 16;
const PAYLOAD: usize = 24;
const NOTIFY: usize = 0x80;
const ARGUMENT: usize = 8;
const KNOCK: usize = 0x100;
const LINE_BYTES: usize = 0x40;
const LINK_BYTES: usize = 0x180;
const STATUS_BYTES: usize = 64;
const WATCH: usize = 12;
const CONTROL_PAGE_BYTES: usize = 256;
const FLAGS: usize = 4;

/// Which words of a link are the model's, besides states and knocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Types and payloads.
    pub contents: bool,
    /// Stamps.
    pub stamps: bool,
    /// Notifications.
    pub notes: bool,
}

/// A link page between two who sleep there.
pub fn link_page(beds: [&Arc<Bed>; 2], detail: Detail) -> Memory {
    let (mut at64, mut at32) = (Vec::new(), Vec::new());
    for side in 0..2 {
        let cell = CELL + side * CELL_BYTES;
        at64.push(cell);
        if detail.contents {
            at64.push(cell + PAYLOAD);
            at32.push(cell + TYPE);
        }
        if detail.stamps {
            at64.push(cell + STAMP);
        }
        if detail.notes {
            at64.push(NOTIFY + side * LINE_BYTES + ARGUMENT);
            at32.push(NOTIFY + side * LINE_BYTES);
        }
    }
    let sleepers = [(KNOCK, beds[0]), (KNOCK + LINE_BYTES, beds[1])];
    Memory::new(LINK_BYTES, &at64, &at32, &sleepers)
}

/// A status page; its first `watched` places are the model's.
pub fn status_page(watched: usize) -> Memory {
    let places: Vec<usize> = (0..watched).map(|place| WATCH + 4 * place).collect();
    Memory::new(STATUS_BYTES, &[0], &places, &[])
}

/// One endpoint and its link to one peer.
#[derive(Debug)]
pub struct Party {
    pub address: Address,
    pub peer: Address,
    pub page: Memory,
    pub link: Link<Memory>,
    pub status: OwnStatus<Memory>,
    pub peer_status: PeerStatus<Memory>,
    pub bed: Arc<Bed>,
    pub desk: Option<ControlPage<Memory>>,
    pub news_seen: u32,
}

/// Two endpoints with a link between them.
pub fn pair(detail: Detail) -> (Party, Party) {
    pair_watching(detail, 0)
}

/// The same, where the first `watched` places of their watch lists are the model's.
pub fn pair_watching(detail: Detail, watched: usize) -> (Party, Party) {
    let beds = [Arc::new(Bed::default()), Arc::new(Bed::default())];
    let page = link_page([&beds[0], &beds[1]], detail);
    let statuses = [status_page(watched), status_page(watched)];
    let party = |side: usize, link_side| Party {
        address: Address(10 + i32::from(side == 1)),
        peer: Address(10 + i32::from(side == 0)),
        page: page.clone(),
        link: Link::over(page.clone(), link_side),
        status: OwnStatus::over(statuses[side].clone()),
        peer_status: PeerStatus::over(statuses[1 - side].clone()),
        bed: Arc::clone(&beds[side]),
        desk: None,
        news_seen: 0,
    };
    (party(0, LinkSide::Zero), party(1, LinkSide::One))
}

/// What a message says: its type and the start of its payload are this number.
pub fn contents(value: u8) -> (i32, [u8; PAYLOAD_BYTES]) {
    let mut payload = [0; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&u64::from(value).to_ne_bytes());
    (i32::from(value), payload)
}

/// The number that a message says; all its parts must say the same.
pub fn value_of(incoming: &TakenMessage) -> u8 {
    let value = u8::try_from(incoming.m_type).expect("a type that was sent");
    assert_eq!(incoming.payload, contents(value).1, "the message is torn");
    value
}

impl Party {
    /// Gives it a desk; returns the daemon's side.
    pub fn give_desk(&mut self) -> ControlPageView<Memory> {
        let page = Memory::new(CONTROL_PAGE_BYTES, &[], &[FLAGS], &[(0, &self.bed)]);
        self.desk = Some(ControlPage::over(page.clone()));
        ControlPageView::over(page)
    }

    /// Posts a message and wakes the peer, as `Endpoint::post`.
    pub fn post(&mut self, kind: MessageKind, stamp: u64, value: u8) -> SlotState {
        assert_eq!(self.link.is_free(), Ok(true), "the cell is not free");
        let (m_type, payload) = contents(value);
        if twisted(Twist::ModeBeforePost) {
            let mode = self.peer_status.mode();
            let posted = self.link.post(kind, stamp, m_type, &payload, &[]);
            self.alert_mode(mode);
            return posted;
        }
        let posted = self.link.post(kind, stamp, m_type, &payload, &[]);
        self.alert();
        posted
    }

    /// Wakes the peer where it sleeps and waits for us, as `Endpoint::alert`.
    pub fn alert(&self) {
        self.alert_mode(self.peer_status.mode());
    }

    fn alert_mode(&self, mode: WaitMode) {
        if let WaitMode::OnLinks(source) = mode
            && (source == ANY || source == self.address)
        {
            self.link.wake_peer();
        }
    }

    /// Wakes a peer that waits for its cell here; not one that waits for anybody.
    fn alert_exactly(&self) {
        if self.peer_status.mode() == WaitMode::OnLinks(self.address) {
            self.link.wake_peer();
        }
    }

    /// Copies and takes a message, as `Endpoint::take`.
    pub fn take(&mut self, arrival: Arrival) -> Option<TakenMessage> {
        let incoming = self.link.take(arrival, &mut []).expect("no peer breaks the rules")?;
        match incoming.kind {
            MessageKind::Send if !twisted(Twist::TakeInSilence) => self.alert(),
            MessageKind::Reply | MessageKind::Relay if !twisted(Twist::AnswerTakenInSilence) => {
                self.alert_exactly()
            }
            _ => {}
        }
        Some(incoming)
    }

    /// Takes what lies there, if anything.
    pub fn take_any(&mut self) -> Option<TakenMessage> {
        let arrival = self.link.peek().expect("no peer breaks the rules")?;
        self.take(arrival)
    }

    /// Takes the answer to a request, if it is there, as `Endpoint::take_answer`.
    pub fn take_answer(&mut self, request: SlotState) -> Option<TakenMessage> {
        let found = if twisted(Twist::AnyAnswer) {
            self.link.peek()
        } else {
            self.link.peek_answer(request)
        };
        let arrival = found.expect("no peer breaks the rules")?;
        self.take(arrival)
    }

    /// Whether the daemon has told something since, as `Endpoint::hear`.
    pub fn hears(&mut self) -> bool {
        let Some(desk) = &self.desk else { return false };
        let news = desk.event_word().load(Ordering::Acquire);
        std::mem::replace(&mut self.news_seen, news) != news
    }

    /// Consumes a remembered wakeup, as `Endpoint::look_for_any`.
    pub fn is_woken(&self) -> bool {
        self.desk
            .as_ref()
            .is_some_and(|desk| desk.flags() & FLAG_WOKEN != 0 && desk.take_flag(FLAG_WOKEN))
    }

    /// Waits for the peer until `look` finds something, as `Endpoint::wait` where it sleeps at once.
    pub fn wait<T>(&mut self, look: impl FnMut(&mut Self) -> Option<T>) -> T {
        let mode = WaitMode::OnLinks(self.peer);
        self.wait_as(mode, look)
    }

    fn wait_as<T>(&mut self, mode: WaitMode, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        loop {
            let mut knock = self.link.own_wake_word().load(Ordering::SeqCst);
            if !twisted(Twist::LookBeforeMode) {
                self.status.set_mode(mode);
            }
            let found = look(self);
            if twisted(Twist::LookBeforeMode) {
                self.status.set_mode(mode);
            }
            if twisted(Twist::LookBeforeKnockIsRead) {
                knock = self.link.own_wake_word().load(Ordering::SeqCst);
            }
            if let Some(found) = found {
                self.status.set_mode(WaitMode::Awake);
                return found;
            }
            match &self.desk {
                Some(desk) if !twisted(Twist::DeafToNews) => self.bed.sleep(&[
                    (desk.event_word(), self.news_seen),
                    (self.link.own_wake_word(), knock),
                ]),
                _ => self.bed.sleep(&[(self.link.own_wake_word(), knock)]),
            }
            self.status.set_mode(WaitMode::Awake);
        }
    }
}
