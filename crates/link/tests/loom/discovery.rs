//! Models of a receiver from any source, which polls only its hot set and the ready links.

use crate::model_endpoint::{Detail, ModelEndpoint, link_page, pair_with_hot_set, status_page};
use crate::model_memory::{FutexQueue, Memory};
use crate::weakness::{Twist, twisted};
use loom::thread;
use m3ipc_abi::{ANY, Address};
use m3ipc_link::waiting::{
    EndsWait, PublicationPeer, Publisher, Sleeper, publish_then_wake, sleep_unless_found,
};
use m3ipc_link::{
    Link, LinkSide, MessageKind, OwnStatus, PeerStatus, ReadyBitmap, WaitMode, WakeAction, Word32,
};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const READY_BITMAP_BYTES: usize = 128;
const LEAF: usize = 64;

fn bitmap_page() -> Memory {
    Memory::new(READY_BITMAP_BYTES, &[0, LEAF], &[], &[])
}

/// A sender. Its link has this index at the receiver.
struct Sender {
    index: u32,
    link: Link<Memory>,
    bitmap: ReadyBitmap<Memory>,
    receiver: PeerStatus<Memory>,
}

/// The receiver and its links.
struct Receiver {
    links: Vec<Link<Memory>>,
    bitmap: ReadyBitmap<Memory>,
    status: OwnStatus<Memory>,
    queue: Arc<FutexQueue>,
}

fn senders_and_receiver(senders: u32) -> (Vec<Sender>, Receiver) {
    let (queue, unused) = (Arc::new(FutexQueue::default()), Arc::new(FutexQueue::default()));
    let bitmap = bitmap_page();
    let status_page = status_page(0);
    let status = OwnStatus::over(status_page.clone());
    let mut links = Vec::new();
    let senders = (0..senders).map(|index| {
        let page = link_page([&unused, &queue], Detail::default());
        links.push(Link::over(page.clone(), LinkSide::One));
        Sender {
            index,
            link: Link::over(page, LinkSide::Zero),
            bitmap: ReadyBitmap::over(bitmap.clone()),
            receiver: PeerStatus::over(status_page.clone()),
        }
    });
    let senders = senders.collect();
    (senders, Receiver { links, bitmap: ReadyBitmap::over(bitmap), status, queue })
}

impl Sender {
    /// Posts, sets the ready bit and wakes the receiver.
    fn post(&mut self) {
        let mut ends = EndsWait::Receive;
        if twisted(Twist::ReadyBitBeforePost) {
            self.mark_ready();
            ends = EndsWait::OnThisLink;
        }
        let published = publish_then_wake(self, |sender| {
            Ok::<_, Infallible>((sender.link.post(MessageKind::Send, 0, 0, &[0; 40], &[]), ends))
        });
        assert!(published.is_ok());
    }
}

impl PublicationPeer for Sender {
    fn mark_ready(&self) {
        self.bitmap.set_unless_hot(self.index, &self.receiver);
    }

    fn peer_mode(&self) -> WaitMode {
        self.receiver.mode()
    }
}

impl Publisher for Sender {
    /// The receiver awaits ANY, so the address does not matter.
    fn address(&self) -> Address {
        Address(0)
    }

    fn wake(&mut self, action: WakeAction) {
        assert_eq!(action, WakeAction::WakeWord, "no model sleeps at a doorbell");
        self.link.wake_peer();
    }
}

impl Receiver {
    /// Polls the ready links. Returns the number of taken messages, if any.
    fn poll(&mut self) -> Option<u32> {
        let mut taken = 0;
        if self.bitmap.any() {
            let links = &mut self.links;
            self.bitmap.drain(|index| {
                let link = &mut links[index as usize];
                if let Some(arrival) = link.peek().expect("no rule is broken")
                    && link.take(arrival, &mut []).expect("no rule is broken").is_some()
                {
                    taken += 1;
                }
            });
        }
        (taken > 0).then_some(taken)
    }

    /// Receives this number of messages, and sleeps in between.
    fn receive(&mut self, mut wanted: u32) {
        while wanted > 0 {
            let found = sleep_unless_found(self, WaitMode::OnLinks(ANY), |own| Ok(own.poll()));
            match found {
                Ok(taken) => wanted -= taken.unwrap_or(0),
            }
        }
    }
}

impl Sleeper for Receiver {
    type Words = Vec<u32>;
    type Error = Infallible;

    fn read_wake_words(&mut self) -> Vec<u32> {
        self.links.iter().map(|link| link.own_wake_word().load(Ordering::SeqCst)).collect()
    }

    fn set_mode(&mut self, mode: WaitMode) {
        self.status.set_mode(mode);
    }

    fn sleep(&mut self, words: Vec<u32>) -> Result<(), Infallible> {
        let words: Vec<_> = self.links.iter().map(Link::own_wake_word).zip(words).collect();
        self.queue.sleep(&words);
        Ok(())
    }
}

/// One sender, whose ready bit is still set from an earlier message: the sender skips it.
pub fn ready_bit_left() {
    let (mut senders, mut receiver) = senders_and_receiver(1);
    let mut sender = senders.pop().expect("one sender");
    sender.bitmap.set(sender.index);
    let sending = thread::spawn(move || sender.post());
    receiver.receive(1);
    sending.join().expect("the sender ends");
}

/// One sender, with a clear ready bit.
pub fn ready_bit() {
    let (mut senders, mut receiver) = senders_and_receiver(1);
    let mut sender = senders.pop().expect("one sender");
    let sending = thread::spawn(move || sender.post());
    receiver.receive(1);
    sending.join().expect("the sender ends");
}

/// Two senders with ready bits in the same words. Either may skip a bit that the other set.
pub fn two_ready_bits() {
    let (senders, mut receiver) = senders_and_receiver(2);
    let sending = senders.into_iter().map(|mut sender| thread::spawn(move || sender.post()));
    let sending: Vec<_> = sending.collect();
    receiver.receive(2);
    sending.into_iter().for_each(|sender| sender.join().expect("the sender ends"));
}

const FORMER: u32 = 0;
const LATER: u32 = 1;

/// A link leaves the hot set while its sender relies on it.
pub fn hot_set() {
    let (mut sender, mut receiver) = pair_with_hot_set(Detail::default(), 1);
    let bitmap = bitmap_page();
    let (senders, own) = (ReadyBitmap::over(bitmap.clone()), ReadyBitmap::over(bitmap));
    receiver.status.set_hot(0, FORMER);
    sender.peer_bitmap = Some((senders, FORMER));
    let sending = thread::spawn(move || {
        sender.post(MessageKind::Send, 0, 0);
    });
    let mut early = None;
    if twisted(Twist::PollBeforeHotSet) {
        early = receiver.take_any();
    }
    receiver.status.set_hot(0, LATER);
    if !twisted(Twist::PollBeforeHotSet) && !twisted(Twist::NoPollOfFormer) {
        early = receiver.take_any();
    }
    if early.is_none() {
        receiver.wait(|endpoint: &mut ModelEndpoint| {
            let mut found = None;
            if own.any() {
                own.drain(|index| {
                    if index == FORMER {
                        found = endpoint.take_any();
                    }
                });
            }
            found
        });
    }
    sending.join().expect("the sender ends");
}
