//! The members: they bind, make a link, and return after a takeover, as the library does.

use super::fixture::{Fixture, OTHER, REQUESTER};
use super::frame::{Answer, Event, Frame, Page, Request};
use super::socket::Socket;
use m3ipc_abi::Address;
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use std::collections::BTreeMap;

/// Why a member's request failed.
enum End {
    /// The daemon was killed.
    Cut,
    /// The member was killed, or the schedule is over.
    Over,
}

struct Member<'a> {
    fixture: &'a Fixture,
    pid: i32,
    control: Arc<Socket>,
    events: Receiver<Event>,
    address: Option<Address>,
    links: BTreeMap<i32, Arc<Page>>,
    dead: bool,
}

fn connect(fixture: &Fixture, pid: i32) -> Option<(Arc<Socket>, Receiver<Event>)> {
    loop {
        let mut listener = fixture.listener.lock().expect("no thread panics with the lock");
        let control = loop {
            if fixture.over.load(Ordering::SeqCst) {
                return None;
            }
            match &*listener {
                Some(control) => break Arc::clone(control),
                None => {
                    listener =
                        fixture.listening.wait(listener).expect("no thread panics with the lock")
                }
            }
        };
        drop(listener);
        let (sender, events) = channel();
        if control.send(Frame::Greeting(pid, sender)) {
            return Some((control, events));
        }
        // The daemon was killed, and its socket is still registered.
        shuttle::thread::yield_now();
    }
}

impl<'a> Member<'a> {
    fn new(fixture: &'a Fixture, pid: i32) -> Option<Self> {
        let (control, events) = connect(fixture, pid)?;
        Some(Self {
            fixture,
            pid,
            control,
            events,
            address: None,
            links: BTreeMap::new(),
            dead: false,
        })
    }

    fn is_over(&self) -> bool {
        if self.pid == OTHER {
            let left = self.fixture.other_steps_left.load(Ordering::SeqCst);
            self.fixture.other_steps_left.store(left.saturating_sub(1), Ordering::SeqCst);
            if left == 0 {
                self.fixture.other_killed.store(true, Ordering::SeqCst);
            }
        }
        let killed = self.pid == OTHER && self.fixture.other_killed.load(Ordering::SeqCst);
        killed || self.fixture.over.load(Ordering::SeqCst)
    }

    fn request(&self, request: Request) -> Result<Answer, End> {
        if self.is_over() {
            return Err(End::Over);
        }
        let (sender, answer) = channel();
        if !self.control.send(Frame::Request(self.pid, request, sender)) {
            return Err(End::Cut);
        }
        answer.recv().map_err(|_| End::Cut)
    }

    fn receive_events(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.apply(event);
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Contact(peer, page) => drop(self.links.insert(peer.0, page)),
            Event::Wake => {}
            Event::Died(peer) => {
                self.links.remove(&peer.0);
                self.dead = true;
            }
        }
    }

    /// Attaches to the next daemon, and to its successor if that daemon dies as well.
    fn reattach(&mut self) -> Result<(), End> {
        loop {
            // Events of the former daemon still count.
            self.receive_events();
            let (control, events) = connect(self.fixture, self.pid).ok_or(End::Over)?;
            (self.control, self.events) = (control, events);
            match self.attach() {
                Err(End::Cut) => {}
                other => return other,
            }
        }
    }

    fn attach(&mut self) -> Result<(), End> {
        let request = self.address.map_or(Request::Bind, Request::Reattach);
        match self.request(request)? {
            Answer::Bound(address) => self.address = Some(address),
            other => panic!("{} does not get its own endpoint: {other:?}", self.pid),
        }
        self.request(Request::Mapped)?;
        let peers: Vec<Address> = self.links.keys().map(|peer| Address(*peer)).collect();
        self.request(Request::Recall(peers)).map(drop)
    }

    fn bind(&mut self) -> Result<(), End> {
        match self.attach() {
            Err(End::Cut) => self.reattach(),
            other => other,
        }
    }
}

/// Binds and receives events. Returns the link that it holds at the end.
pub fn other(fixture: &Fixture, bound: &Sender<Option<Address>>) -> Option<Arc<Page>> {
    let mut me = Member::new(fixture, OTHER)?;
    let live = |me: &mut Member<'_>| -> Result<(), End> {
        me.bind()?;
        let _ = bound.send(me.address);
        loop {
            if me.is_over() {
                return Err(End::Over);
            }
            match me.events.recv() {
                Ok(event) => me.apply(event),
                Err(_) => me.reattach()?,
            }
        }
    };
    let _ = live(&mut me);
    if fixture.other_killed.load(Ordering::SeqCst) {
        fixture.report_death(OTHER);
        return None;
    }
    me.receive_events();
    me.links.into_values().next_back()
}

/// Binds and requests a link. Returns it; `None` after the death of the other member.
pub fn requester(fixture: &Fixture, is_bound: &Receiver<Option<Address>>) -> Option<Arc<Page>> {
    let mut me = Member::new(fixture, REQUESTER)?;
    assert!(me.bind().is_ok());
    let Ok(Some(peer)) = is_bound.recv() else { return None };
    loop {
        me.receive_events();
        if me.dead {
            return None;
        }
        if let Some(page) = me.links.get(&peer.0) {
            return Some(Arc::clone(page));
        }
        match me.request(Request::Contact(peer)) {
            Ok(Answer::Contact(page)) => drop(me.links.insert(peer.0, page)),
            Ok(Answer::Known) => {
                me.receive_events();
                assert!(
                    me.dead || me.links.contains_key(&peer.0),
                    "a known link that no event brought"
                );
            }
            Ok(Answer::Died | Answer::Refused) => return None,
            Ok(other) => panic!("{other:?} is no answer to a contact"),
            Err(End::Cut) => assert!(me.reattach().is_ok()),
            Err(End::Over) => panic!("no kill of the requester is planned"),
        }
    }
}
