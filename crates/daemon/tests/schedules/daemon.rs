//! The daemon: it serves one frame after the other. A kill may come between any two steps.

use super::fixture::{Fixture, Rules, VM};
use super::frame::{Answer, Event, Frame, Page, Request};
use super::socket::Socket;
use m3ipc_abi::Address;
use m3ipc_daemon::tables::{
    Credentials, Death, LookupError, Member, MemberId, MemberKind, Node, Quota,
};
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;
use shuttle::sync::mpsc::Sender;
use std::collections::{BTreeMap, BTreeSet};

/// The daemon was killed.
struct Killed;

struct Daemon<'a> {
    fixture: &'a Fixture,
    node: Node,
    events: BTreeMap<i32, Sender<Event>>,
    /// The endpoints with pages, and whether they have mapped them.
    attached: BTreeMap<MemberId, bool>,
    links_held: BTreeSet<(MemberId, MemberId)>,
    /// Deferred contacts: requester, peer, receiver of the answer.
    deferred: Vec<(i32, Address, Sender<Answer>)>,
}

/// Serves until a kill.
pub fn run(fixture: &Fixture, socket: &Arc<Socket>) {
    let records = fixture.journal.lock().expect("no thread panics with the lock").clone();
    let node = Node::replay(&records, Quota::default()).expect("the journal is complete");
    let mut daemon = Daemon {
        fixture,
        node,
        events: BTreeMap::new(),
        attached: BTreeMap::new(),
        links_held: BTreeSet::new(),
        deferred: Vec::new(),
    };
    if daemon.take_over().is_err() {
        return;
    }
    *fixture.listener.lock().expect("no thread panics with the lock") = Some(Arc::clone(socket));
    fixture.listening.notify_all();
    loop {
        let frame = socket.receive();
        let served = daemon.pause().and_then(|()| daemon.serve(frame));
        if served.is_err() {
            return;
        }
    }
}

fn member(pid: i32) -> Member {
    Member { pid, tid: None, started: 0 }
}

impl Daemon<'_> {
    /// A point at which a kill may come.
    fn pause(&self) -> Result<(), Killed> {
        let left = self.fixture.steps_left.load(Ordering::SeqCst);
        self.fixture.steps_left.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 { Err(Killed) } else { Ok(()) }
    }

    fn record(&mut self) -> Result<(), Killed> {
        self.pause()?;
        self.fixture
            .journal
            .lock()
            .expect("no thread panics with the lock")
            .extend(self.node.drain_records());
        self.pause()
    }

    fn take_over(&mut self) -> Result<(), Killed> {
        let members: Vec<i32> =
            self.node.endpoints(VM).map(|endpoint| endpoint.member.pid).collect();
        for pid in members {
            let lives =
                self.fixture.alive.lock().expect("no thread panics with the lock").contains(&pid);
            if !lives && self.fixture.rules != Rules::DeathUnseen {
                self.died(pid)?;
            }
        }
        Ok(())
    }

    fn serve(&mut self, frame: Frame) -> Result<(), Killed> {
        match frame {
            Frame::Kill => Err(Killed),
            Frame::Dead(_) if self.fixture.rules == Rules::DeathUnseen => Ok(()),
            Frame::Dead(pid) => self.died(pid),
            Frame::Wake(pid) => {
                self.send_event(pid, Event::Wake);
                Ok(())
            }
            Frame::Greeting(pid, events) => {
                self.events.insert(pid, events);
                Ok(())
            }
            Frame::Request(pid, request, answer) => self.answer(pid, request, answer),
        }
    }

    fn answer(&mut self, pid: i32, request: Request, to: Sender<Answer>) -> Result<(), Killed> {
        let own = self.node.endpoint_of_process(pid);
        let answer = match (request, own) {
            (Request::Bind, None) => {
                let Ok(bound) = self.node.bind(
                    VM,
                    pid,
                    member(pid),
                    &Credentials::new(0, 0, pid),
                    MemberKind::Process,
                    None,
                ) else {
                    let _ = to.send(Answer::Refused);
                    return Ok(());
                };
                self.record()?;
                self.attached.insert(MemberId::new(VM, bound.address), false);
                Answer::Bound(bound.address)
            }
            // A predecessor made this bind, and was killed before its answer.
            (Request::Bind, Some(id)) => {
                self.attached.insert(id, false);
                Answer::Bound(id.address)
            }
            (Request::Reattach(address), Some(id)) if id.address == address => {
                self.attached.insert(id, false);
                Answer::Bound(address)
            }
            (Request::Mapped, Some(id)) => {
                self.attached.insert(id, true);
                let _ = to.send(Answer::Done);
                let (ready, others) = std::mem::take(&mut self.deferred)
                    .into_iter()
                    .partition(|(_, peer, _)| *peer == id.address);
                self.deferred = others;
                let ready: Vec<(i32, Address, Sender<Answer>)> = ready;
                for (pid, peer, to) in ready {
                    self.contact(pid, peer, to)?;
                }
                return Ok(());
            }
            (Request::Recall(peers), Some(own)) => {
                for peer in peers {
                    let peer_id = MemberId::new(VM, peer);
                    if !self.node.is_linked(own, peer) {
                        self.send_event(pid, Event::Died(peer));
                        continue;
                    }
                    self.links_held.insert((own, peer_id));
                    if self.fixture.rules == Rules::RecallForBoth {
                        self.links_held.insert((peer_id, own));
                    }
                }
                Answer::Done
            }
            (Request::Contact(peer), Some(_)) => return self.contact(pid, peer, to),
            _ => Answer::Refused,
        };
        let _ = to.send(answer);
        self.pause()
    }

    fn contact(&mut self, pid: i32, peer: Address, to: Sender<Answer>) -> Result<(), Killed> {
        let Some(own) = self.node.endpoint_of_process(pid) else { return Ok(()) };
        let peer_id = MemberId::new(VM, peer);
        if let Err(error) = self.node.lookup(VM, Some(own.address), peer) {
            let died = matches!(error, LookupError::Dead(_));
            let _ = to.send(if died { Answer::Died } else { Answer::Refused });
            return Ok(());
        }
        if self.links_held.contains(&(own, peer_id)) {
            let _ = to.send(Answer::Known);
            return Ok(());
        }
        if self.attached.get(&peer_id) != Some(&true) {
            self.deferred.push((pid, peer, to));
            return Ok(());
        }
        self.node.unlink(own, peer);
        self.node.link(own, peer).expect("both parties live");
        let page = Arc::new(Page);
        let requester_first = self.fixture.rules == Rules::RequesterFirst;
        if requester_first {
            let _ = to.send(Answer::Contact(Arc::clone(&page)));
        }
        self.record()?;
        self.links_held.extend([(own, peer_id), (peer_id, own)]);
        let other = self.node.endpoint(peer_id).expect("the peer lives").member.pid;
        self.send_event(other, Event::Contact(own.address, Arc::clone(&page)));
        self.pause()?;
        if !requester_first {
            let _ = to.send(Answer::Contact(page));
        }
        self.pause()
    }

    fn send_event(&self, pid: i32, event: Event) {
        if let Some(sender) = self.events.get(&pid) {
            let _ = sender.send(event);
        }
    }

    fn died(&mut self, pid: i32) -> Result<(), Killed> {
        let deaths: Vec<Death> = self.node.exit(pid);
        self.record()?;
        self.events.remove(&pid);
        for death in deaths {
            let ended = death.id;
            self.attached.remove(&ended);
            self.links_held.retain(|(one, other)| *one != ended && *other != ended);
            for peer in death.peers {
                let peer =
                    self.node.endpoint(MemberId::new(VM, peer.address)).map(|peer| peer.member.pid);
                if let Some(peer) = peer {
                    self.send_event(peer, Event::Died(ended.address));
                }
                self.pause()?;
            }
            for (_, _, to) in self.deferred.extract_if(.., |(_, peer, _)| *peer == ended.address) {
                let _ = to.send(Answer::Died);
            }
        }
        Ok(())
    }
}
