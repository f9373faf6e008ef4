//! Models of a receiver from anybody, who looks only where hints and its watch list say.

use crate::memory::{Bed, Memory};
use crate::party::{Detail, Party, link_page, pair_watching, status_page};
use crate::weak::{Twist, twisted};
use loom::thread;
use m3ipc_abi::ANY;
use m3ipc_link::{
    Link, LinkSide, MessageKind, OwnStatus, PeerStatus, ReadyBitmap, WaitMode, Word32,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const READY_BITMAP_BYTES: usize = 128;
const LEAF: usize = 64;

fn hints_page() -> Memory {
    Memory::new(READY_BITMAP_BYTES, &[0, LEAF], &[], &[])
}

/// One who sends to the receiver; its link has this index there.
struct Sender {
    index: u32,
    link: Link<Memory>,
    hints: ReadyBitmap<Memory>,
    receiver: PeerStatus<Memory>,
}

/// The receiver and its links.
struct Receiver {
    links: Vec<Link<Memory>>,
    hints: ReadyBitmap<Memory>,
    status: OwnStatus<Memory>,
    bed: Arc<Bed>,
}

fn office(senders: u32) -> (Vec<Sender>, Receiver) {
    let (bed, no_bed) = (Arc::new(Bed::default()), Arc::new(Bed::default()));
    let hints = hints_page();
    let status = status_page(0);
    let mut links = Vec::new();
    let senders = (0..senders).map(|index| {
        let page = link_page([&no_bed, &bed], Detail::default());
        links.push(Link::over(page.clone(), LinkSide::One));
        Sender {
            index,
            link: Link::over(page, LinkSide::Zero),
            hints: ReadyBitmap::over(hints.clone()),
            receiver: PeerStatus::over(status.clone()),
        }
    });
    let senders = senders.collect();
    (
        senders,
        Receiver { links, hints: ReadyBitmap::over(hints), status: OwnStatus::over(status), bed },
    )
}

impl Sender {
    /// Posts, hints and wakes, as `Endpoint::post`.
    fn post(&mut self) {
        if twisted(Twist::HintBeforePost) {
            self.hints.set(self.index);
        }
        self.link.post(MessageKind::Send, 0, 0, &[0; 40], &[]);
        if !twisted(Twist::HintBeforePost) {
            self.hints.set(self.index);
        }
        if self.receiver.mode() == WaitMode::OnLinks(ANY) {
            self.link.wake_peer();
        }
    }
}

impl Receiver {
    /// Looks where hints say, as `Inbox::look_hinted`; how many messages were there.
    fn collect(&mut self) -> u32 {
        let mut taken = 0;
        if self.hints.any() {
            let links = &mut self.links;
            self.hints.drain(|index| {
                let link = &mut links[index as usize];
                if let Some(arrival) = link.peek().expect("no rule is broken")
                    && link.take(arrival, &mut []).expect("no rule is broken").is_some()
                {
                    taken += 1;
                }
            });
        }
        taken
    }

    /// Receives so many messages, sleeping in between.
    fn receive(&mut self, mut wanted: u32) {
        while wanted > 0 {
            let knocks: Vec<u32> =
                self.links.iter().map(|link| link.own_wake_word().load(Ordering::SeqCst)).collect();
            self.status.set_mode(WaitMode::OnLinks(ANY));
            let taken = self.collect();
            if taken == 0 {
                let words =
                    self.links.iter().map(Link::own_wake_word).zip(knocks).collect::<Vec<_>>();
                self.bed.sleep(&words);
            }
            self.status.set_mode(WaitMode::Awake);
            wanted -= taken;
        }
    }
}

/// One sender, whose hints are still raised from an earlier message: it skips them.
pub fn hint_left() {
    let (mut senders, mut receiver) = office(1);
    let mut sender = senders.pop().expect("one sender");
    sender.hints.set(sender.index);
    let sending = thread::spawn(move || sender.post());
    receiver.receive(1);
    sending.join().expect("the sender ends");
}

/// One sender and no hints before.
pub fn hint() {
    let (mut senders, mut receiver) = office(1);
    let mut sender = senders.pop().expect("one sender");
    let sending = thread::spawn(move || sender.post());
    receiver.receive(1);
    sending.join().expect("the sender ends");
}

/// Two senders whose hints are in the same words: either may skip what the other raised.
pub fn two_hints() {
    let (senders, mut receiver) = office(2);
    let sending = senders.into_iter().map(|mut sender| thread::spawn(move || sender.post()));
    let sending: Vec<_> = sending.collect();
    receiver.receive(2);
    sending.into_iter().for_each(|sender| sender.join().expect("the sender ends"));
}

const FORMER: u32 = 0;
const LATER: u32 = 1;

/// A link loses its place on the watch list while its sender relies on it.
pub fn watch() {
    let (mut sender, mut receiver) = pair_watching(Detail::default(), 1);
    let hints = hints_page();
    let (raised, drained) = (ReadyBitmap::over(hints.clone()), ReadyBitmap::over(hints));
    receiver.status.set_hot(0, FORMER);
    let sending = thread::spawn(move || {
        sender.link.post(MessageKind::Send, 0, 0, &[0; 40], &[]);
        if !sender.peer_status.is_hot(FORMER) {
            raised.set(FORMER);
        }
        sender.alert();
    });
    let mut early = None;
    if twisted(Twist::LookBeforeWatch) {
        early = receiver.take_any();
    }
    receiver.status.set_hot(0, LATER);
    if !twisted(Twist::LookBeforeWatch) && !twisted(Twist::NoLookAtFormer) {
        early = receiver.take_any();
    }
    if early.is_none() {
        receiver.wait(|party: &mut Party| {
            let mut found = None;
            if drained.any() {
                drained.drain(|index| {
                    if index == FORMER {
                        found = party.take_any();
                    }
                });
            }
            found
        });
    }
    sending.join().expect("the sender ends");
}
