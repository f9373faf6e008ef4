//! The members: as the library binds, meets, and comes back after a takeover.

use super::socket::Socket;
use super::{ASKER, Answer, Ask, Frame, News, OTHER, Page, World};
use m3ipc_abi::Address;
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use std::collections::BTreeMap;

/// Why a member cannot go on.
enum End {
    /// This daemon has gone.
    Cut,
    /// It was killed itself, or all is over.
    Over,
}

struct Member<'a> {
    world: &'a World,
    pid: i32,
    control: Arc<Socket>,
    news: Receiver<News>,
    address: Option<Address>,
    links: BTreeMap<i32, Arc<Page>>,
    dead: bool,
}

fn connect(world: &World, pid: i32) -> Option<(Arc<Socket>, Receiver<News>)> {
    loop {
        let mut listener = world.listener.lock().expect("no panic");
        let control = loop {
            if world.over.load(Ordering::SeqCst) {
                return None;
            }
            match &*listener {
                Some(control) => break Arc::clone(control),
                None => listener = world.listening.wait(listener).expect("no panic"),
            }
        };
        drop(listener);
        let (sender, news) = channel();
        if control.send(Frame::Hello(pid, sender)) {
            return Some((control, news));
        }
        // Killed since, and not gone from its place yet.
        shuttle::thread::yield_now();
    }
}

impl<'a> Member<'a> {
    fn new(world: &'a World, pid: i32) -> Option<Self> {
        let (control, news) = connect(world, pid)?;
        Some(Self { world, pid, control, news, address: None, links: BTreeMap::new(), dead: false })
    }

    fn is_over(&self) -> bool {
        if self.pid == OTHER {
            let left = self.world.other_steps_left.load(Ordering::SeqCst);
            self.world.other_steps_left.store(left.saturating_sub(1), Ordering::SeqCst);
            if left == 0 {
                self.world.other_killed.store(true, Ordering::SeqCst);
            }
        }
        let killed = self.pid == OTHER && self.world.other_killed.load(Ordering::SeqCst);
        killed || self.world.over.load(Ordering::SeqCst)
    }

    fn ask(&self, ask: Ask) -> Result<Answer, End> {
        if self.is_over() {
            return Err(End::Over);
        }
        let (sender, answer) = channel();
        if !self.control.send(Frame::Ask(self.pid, ask, sender)) {
            return Err(End::Cut);
        }
        answer.recv().map_err(|_| End::Cut)
    }

    fn hear(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.note(news);
        }
    }

    fn note(&mut self, news: News) {
        match news {
            News::Contact(peer, page) => drop(self.links.insert(peer.0, page)),
            News::Nudge => {}
            News::Died(peer) => {
                self.links.remove(&peer.0);
                self.dead = true;
            }
        }
    }

    /// Makes itself known to the next daemon; again where that dies as well.
    fn reattach(&mut self) -> Result<(), End> {
        loop {
            // What the former one said still counts.
            self.hear();
            let (control, news) = connect(self.world, self.pid).ok_or(End::Over)?;
            (self.control, self.news) = (control, news);
            match self.attach() {
                Err(End::Cut) => {}
                other => return other,
            }
        }
    }

    fn attach(&mut self) -> Result<(), End> {
        let asked = self.address.map_or(Ask::Bind, Ask::Reattach);
        match self.ask(asked)? {
            Answer::Bound(address) => self.address = Some(address),
            other => panic!("{} is not given what is its own: {other:?}", self.pid),
        }
        self.ask(Ask::Mapped)?;
        let peers: Vec<Address> = self.links.keys().map(|peer| Address(*peer)).collect();
        self.ask(Ask::Recall(peers)).map(drop)
    }

    fn bind(&mut self) -> Result<(), End> {
        match self.attach() {
            Err(End::Cut) => self.reattach(),
            other => other,
        }
    }
}

/// Binds, then hears who makes a link with it; the one it holds in the end.
pub fn other(world: &World, bound: &Sender<Option<Address>>) -> Option<Arc<Page>> {
    let mut me = Member::new(world, OTHER)?;
    let live = |me: &mut Member<'_>| -> Result<(), End> {
        me.bind()?;
        let _ = bound.send(me.address);
        loop {
            if me.is_over() {
                return Err(End::Over);
            }
            match me.news.recv() {
                Ok(news) => me.note(news),
                Err(_) => me.reattach()?,
            }
        }
    };
    let _ = live(&mut me);
    if world.other_killed.load(Ordering::SeqCst) {
        world.bury(OTHER);
        return None;
    }
    me.hear();
    me.links.into_values().next_back()
}

/// Binds and asks for a link until it has one that nobody replaces; none where the other has died.
pub fn asker(world: &World, is_bound: &Receiver<Option<Address>>) -> Option<Arc<Page>> {
    let mut me = Member::new(world, ASKER)?;
    assert!(me.bind().is_ok());
    let Ok(Some(peer)) = is_bound.recv() else { return None };
    loop {
        me.hear();
        if me.dead {
            return None;
        }
        if let Some(page) = me.links.get(&peer.0) {
            return Some(Arc::clone(page));
        }
        match me.ask(Ask::Contact(peer)) {
            Ok(Answer::Contact(page)) => drop(me.links.insert(peer.0, page)),
            Ok(Answer::Known) => {
                me.hear();
                assert!(me.dead || me.links.contains_key(&peer.0), "known, and nobody holds it");
            }
            Ok(Answer::Died | Answer::Refused) => return None,
            Ok(other) => panic!("a contact is not answered with {other:?}"),
            Err(End::Cut) => assert!(me.reattach().is_ok()),
            Err(End::Over) => panic!("nobody kills the asker"),
        }
    }
}
