//! A model endpoint: the steps of m3ipc's endpoint around a link. The order of the steps of a
//! publication and of a sleep is that of [`m3ipc_link::waiting`].

use crate::model_memory::{FutexQueue, Memory};
use crate::weakness::{Twist, twisted};
use m3ipc_abi::{Address, PAYLOAD_BYTES};
use m3ipc_link::waiting::{
    EndsWait, PublicationPeer, Publisher, Sleeper, publish_then_wake, sleep_unless_found,
};
use m3ipc_link::{
    Arrival, ControlPage, ControlPageView, FLAG_WOKEN, Link, LinkSide, MessageKind, OwnStatus,
    Page, PeerStatus, ReadyBitmap, SlotState, TakenMessage, WaitMode, WakeAction, Word32,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SLOT: usize = 0x00;
const SLOT_BYTES: usize = 0x40;
const STAMP: usize = 8;
const HEAD: usize = 16;
const PAYLOAD: usize = 24;
const NOTIFY: usize = 0x80;
const FIRST_ARGUMENT: usize = 8;
const LATER_ARGUMENT: usize = 16;
const WAKE_WORD: usize = 0x100;
const LINE_BYTES: usize = 0x40;
/// Offset of the codes of pulses among the notifications.
const PULSE_CODES: usize = 24;
/// Offset of the code of a proxy among its notifications.
const PROXY_CODE: usize = 56;
/// Offset of the values of pulses beside a wake word.
const PULSE_VALUES: usize = 8;
const LINK_BYTES: usize = 0x180;
/// The whole page: values of pulses lie beside the copy gates too.
const LINK_BYTES_WITH_PULSES: usize = 0x1000;
const STATUS_BYTES: usize = 64;
const HOT_SET: usize = 12;
const CONTROL_PAGE_BYTES: usize = 256;
const FLAGS: usize = 4;

/// The words of a link that the model tracks, besides state words and wake words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// Types and payloads.
    pub contents: bool,
    /// Stamps.
    pub stamps: bool,
    /// Notifications.
    pub notifications: bool,
    /// The first pulse of a ring, with the words of notifications.
    pub pulses: bool,
    /// The codes with which a proxy ends messages.
    pub codes: bool,
}

/// A link page between two parties.
pub fn link_page(queues: [&Arc<FutexQueue>; 2], detail: Detail) -> Memory {
    let (mut at64, mut at32) = (Vec::new(), Vec::new());
    for side in 0..2 {
        let slot = SLOT + side * SLOT_BYTES;
        at64.push(slot);
        if detail.contents {
            at64.push(slot + PAYLOAD);
            at64.push(slot + HEAD);
        }
        if detail.stamps {
            at64.push(slot + STAMP);
        }
        if detail.codes {
            at32.push(NOTIFY + side * LINE_BYTES + PROXY_CODE);
        }
        if detail.pulses {
            let other = 1 - side;
            at64.push(NOTIFY + side * LINE_BYTES + PULSE_CODES);
            at64.push(WAKE_WORD + other * LINE_BYTES + PULSE_VALUES);
        }
        if detail.notifications {
            let notifications = NOTIFY + side * LINE_BYTES;
            let arguments = [FIRST_ARGUMENT, LATER_ARGUMENT].map(|at| notifications + at);
            at64.extend([notifications, arguments[0], arguments[1]]);
        }
    }
    let sleepers = [(WAKE_WORD, queues[0]), (WAKE_WORD + LINE_BYTES, queues[1])];
    let bytes = if detail.pulses { LINK_BYTES_WITH_PULSES } else { LINK_BYTES };
    Memory::new(bytes, &at64, &at32, &sleepers)
}

/// A status page. The model tracks the first `hot` entries of its hot set.
pub fn status_page(hot: usize) -> Memory {
    let entries: Vec<usize> = (0..hot).map(|entry| HOT_SET + 4 * entry).collect();
    Memory::new(STATUS_BYTES, &[0], &entries, &[])
}

/// One endpoint and its link to one peer.
#[derive(Debug)]
pub struct ModelEndpoint {
    pub address: Address,
    pub peer: Address,
    pub page: Memory,
    pub link: Link<Memory>,
    pub status: OwnStatus<Memory>,
    pub peer_status: PeerStatus<Memory>,
    pub queue: Arc<FutexQueue>,
    pub control_page: Option<ControlPage<Memory>>,
    pub events_seen: u32,
    /// The mode that a twisted endpoint publishes too late.
    late_mode: Option<WaitMode>,
    /// The ready bitmap of the peer, and the index of the link in it.
    pub peer_bitmap: Option<(ReadyBitmap<Memory>, u32)>,
}

/// Two endpoints with a link between them.
pub fn pair(detail: Detail) -> (ModelEndpoint, ModelEndpoint) {
    pair_with_hot_set(detail, 0)
}

/// The same. The model tracks the first `hot` entries of their hot sets.
pub fn pair_with_hot_set(detail: Detail, hot: usize) -> (ModelEndpoint, ModelEndpoint) {
    let queues = [Arc::new(FutexQueue::default()), Arc::new(FutexQueue::default())];
    let page = link_page([&queues[0], &queues[1]], detail);
    let statuses = [status_page(hot), status_page(hot)];
    let endpoint = |side: usize, link_side| ModelEndpoint {
        address: Address(10 + i32::from(side == 1)),
        peer: Address(10 + i32::from(side == 0)),
        page: page.clone(),
        link: Link::over(page.clone(), link_side),
        status: OwnStatus::over(statuses[side].clone()),
        peer_status: PeerStatus::over(statuses[1 - side].clone()),
        queue: Arc::clone(&queues[side]),
        control_page: None,
        events_seen: 0,
        late_mode: None,
        peer_bitmap: None,
    };
    (endpoint(0, LinkSide::Zero), endpoint(1, LinkSide::One))
}

/// The contents of a message: its type and the begin of its payload are this number.
pub fn contents(value: u8) -> (i32, [u8; PAYLOAD_BYTES]) {
    let mut payload = [0; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&u64::from(value).to_ne_bytes());
    (i32::from(value), payload)
}

/// Writes the type of the message of this side, as no rule allows to the other side.
pub fn write_type(page: &Memory, side: LinkSide, m_type: i32) {
    let head = page.word64(SLOT + side as usize * SLOT_BYTES + HEAD);
    m3ipc_link::Word64::store(head, m_type.cast_unsigned().into(), Ordering::Relaxed);
}

/// The number in a message. All its parts must have the same number.
pub fn value_of(incoming: &TakenMessage) -> u8 {
    let value = u8::try_from(incoming.m_type).expect("a type that was sent");
    assert_eq!(incoming.payload, contents(value).1, "the message mixes two messages");
    value
}

impl ModelEndpoint {
    /// Adds a control page, and returns the daemon's side.
    pub fn give_control_page(&mut self) -> ControlPageView<Memory> {
        let page = Memory::new(CONTROL_PAGE_BYTES, &[], &[FLAGS], &[(0, &self.queue)]);
        self.control_page = Some(ControlPage::over(page.clone()));
        ControlPageView::over(page)
    }

    /// Posts a message and wakes the peer.
    pub fn post(&mut self, kind: MessageKind, stamp: u64, value: u8) -> SlotState {
        assert_eq!(self.link.is_free(), Ok(true), "the slot is not free");
        let (m_type, payload) = contents(value);
        if twisted(Twist::ModeBeforePost) {
            let early = self.peer_status.mode().wake_action(self.address);
            let posted = self.link.post(kind, stamp, m_type, &payload, &[]);
            if early != WakeAction::None {
                self.wake(early);
            }
            return posted;
        }
        self.publish(|endpoint| {
            (endpoint.link.post(kind, stamp, m_type, &payload, &[]), EndsWait::Receive)
        })
    }

    /// Publishes, and wakes the peer, in the product's order.
    pub fn publish<T>(&mut self, publish: impl FnOnce(&mut Self) -> (T, EndsWait)) -> T {
        let published = publish_then_wake(self, |endpoint| Ok::<_, Infallible>(publish(endpoint)));
        published.unwrap_or_else(|never| match never {})
    }

    /// Copies and takes a message. Wakes a sender that awaits the take, or a peer that awaits its
    /// slot.
    pub fn take(&mut self, arrival: Arrival) -> Option<TakenMessage> {
        self.publish(|endpoint| {
            let taken = endpoint.link.take(arrival, &mut []).expect("no peer breaks the rules");
            let ends = match taken.as_ref().map(|incoming| incoming.kind) {
                Some(MessageKind::Send) if !twisted(Twist::TakeWithoutWakeUp) => {
                    EndsWait::OnThisLink
                }
                Some(MessageKind::Reply | MessageKind::Relay)
                    if !twisted(Twist::AnswerTakenWithoutWakeUp) =>
                {
                    EndsWait::ForThisEndpoint
                }
                _ => EndsWait::None,
            };
            (taken, ends)
        })
    }

    /// Takes the message of the peer, if there is one.
    pub fn take_any(&mut self) -> Option<TakenMessage> {
        let arrival = self.link.peek().expect("no peer breaks the rules")?;
        self.take(arrival)
    }

    /// Takes the answer to a request, if it has arrived.
    pub fn take_answer(&mut self, request: SlotState) -> Option<TakenMessage> {
        let found = if twisted(Twist::AnyAnswer) {
            self.link.peek()
        } else {
            self.link.peek_answer(request)
        };
        let arrival = found.expect("no peer breaks the rules")?;
        self.take(arrival)
    }

    /// Whether the daemon has announced an event since the last call.
    pub fn has_new_event(&mut self) -> bool {
        let Some(page) = &self.control_page else { return false };
        let events = page.event_word().load(Ordering::Acquire);
        std::mem::replace(&mut self.events_seen, events) != events
    }

    /// Consumes a remembered wakeup.
    pub fn is_woken(&self) -> bool {
        self.control_page
            .as_ref()
            .is_some_and(|page| page.flags() & FLAG_WOKEN != 0 && page.take_flag(FLAG_WOKEN))
    }

    /// Waits for the peer until `poll` finds something. The endpoint sleeps at once.
    pub fn wait<T>(&mut self, mut poll: impl FnMut(&mut Self) -> Option<T>) -> T {
        let mode = WaitMode::OnLinks(self.peer);
        loop {
            match sleep_unless_found(self, mode, |endpoint| Ok(poll(endpoint))) {
                Ok(Some(found)) => return found,
                Ok(None) => {}
            }
        }
    }
}

impl PublicationPeer for ModelEndpoint {
    fn mark_ready(&self) {
        if let Some((bitmap, index)) = &self.peer_bitmap {
            bitmap.set_unless_hot(*index, &self.peer_status);
        }
    }

    fn peer_mode(&self) -> WaitMode {
        self.peer_status.mode()
    }
}

impl Publisher for ModelEndpoint {
    fn address(&self) -> Address {
        self.address
    }

    fn wake(&mut self, action: WakeAction) {
        assert_eq!(action, WakeAction::WakeWord, "no model sleeps at a doorbell");
        self.link.wake_peer();
    }
}

impl Sleeper for ModelEndpoint {
    type Words = u32;
    type Error = Infallible;

    fn read_wake_words(&mut self) -> u32 {
        self.link.own_wake_word().load(Ordering::SeqCst)
    }

    fn set_mode(&mut self, mode: WaitMode) {
        if twisted(Twist::PollBeforeMode) && mode != WaitMode::Awake {
            self.late_mode = Some(mode);
        } else {
            self.late_mode = None;
            self.status.set_mode(mode);
        }
    }

    fn sleep(&mut self, words: u32) -> Result<(), Infallible> {
        if let Some(mode) = self.late_mode.take() {
            self.status.set_mode(mode);
        }
        let late = twisted(Twist::PollBeforeWakeWord);
        let words = if late { self.read_wake_words() } else { words };
        let own = (self.link.own_wake_word(), words);
        match &self.control_page {
            Some(page) if !twisted(Twist::NoEventWord) => {
                self.queue.sleep(&[(page.event_word(), self.events_seen), own]);
            }
            _ => self.queue.sleep(&[own]),
        }
        Ok(())
    }
}
