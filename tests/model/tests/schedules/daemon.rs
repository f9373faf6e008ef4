//! The daemon: one frame after the other, killed between any two steps.

use super::socket::Socket;
use super::{Answer, Ask, Frame, News, Page, Rules, VM, World};
use m3ipc_abi::Address;
use m3ipc_model::tables::{
    Credentials, Death, LookupError, Member, MemberId, MemberKind, Node, Quota,
};
use shuttle::sync::Arc;
use shuttle::sync::atomic::Ordering;
use shuttle::sync::mpsc::Sender;
use std::collections::{BTreeMap, BTreeSet};

/// The kill has come.
struct Killed;

struct Daemon<'a> {
    world: &'a World,
    node: Node,
    news: BTreeMap<i32, Sender<News>>,
    /// Who has its pages; whether it has mapped them.
    present: BTreeMap<MemberId, bool>,
    held: BTreeSet<(MemberId, MemberId)>,
    /// Who waits for whom to come, and where the answer goes.
    waiting: Vec<(i32, Address, Sender<Answer>)>,
}

/// Serves until it is killed.
pub fn run(world: &World, socket: &Arc<Socket>) {
    let records = world.journal.lock().expect("no panic").clone();
    let node = Node::replay(&records, Quota::default()).expect("a sound journal");
    let mut daemon = Daemon {
        world,
        node,
        news: BTreeMap::new(),
        present: BTreeMap::new(),
        held: BTreeSet::new(),
        waiting: Vec::new(),
    };
    if daemon.take_over().is_err() {
        return;
    }
    *world.listener.lock().expect("no panic") = Some(Arc::clone(socket));
    world.listening.notify_all();
    loop {
        let frame = socket.receive();
        let served = daemon.pause().and_then(|()| daemon.serve(frame));
        if served.is_err() {
            return;
        }
    }
}

fn member(pid: i32) -> Member {
    Member { pid, tid: None, token: 0 }
}

impl Daemon<'_> {
    /// Where a kill may come.
    fn pause(&self) -> Result<(), Killed> {
        let left = self.world.steps_left.load(Ordering::SeqCst);
        self.world.steps_left.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 0 { Err(Killed) } else { Ok(()) }
    }

    fn record(&mut self) -> Result<(), Killed> {
        self.pause()?;
        self.world.journal.lock().expect("no panic").extend(self.node.drain_records());
        self.pause()
    }

    fn take_over(&mut self) -> Result<(), Killed> {
        let members: Vec<i32> =
            self.node.endpoints(VM).map(|endpoint| endpoint.member.pid).collect();
        for pid in members {
            let lives = self.world.alive.lock().expect("no panic").contains(&pid);
            if !lives && self.world.rules != Rules::DeathUnseen {
                self.died(pid)?;
            }
        }
        Ok(())
    }

    fn serve(&mut self, frame: Frame) -> Result<(), Killed> {
        match frame {
            Frame::Kill => Err(Killed),
            Frame::Dead(_) if self.world.rules == Rules::DeathUnseen => Ok(()),
            Frame::Dead(pid) => self.died(pid),
            Frame::Nudge(pid) => {
                self.tell(pid, News::Nudge);
                Ok(())
            }
            Frame::Hello(pid, news) => {
                self.news.insert(pid, news);
                Ok(())
            }
            Frame::Ask(pid, ask, answer) => self.answer(pid, ask, answer),
        }
    }

    fn answer(&mut self, pid: i32, ask: Ask, to: Sender<Answer>) -> Result<(), Killed> {
        let own = self.node.place_of(pid);
        let answer = match (ask, own) {
            (Ask::Bind, None) => {
                let Ok(bound) = self.node.bind(
                    VM,
                    pid,
                    member(pid),
                    &Credentials::new(0, 0, pid),
                    MemberKind::Process,
                ) else {
                    let _ = to.send(Answer::Refused);
                    return Ok(());
                };
                self.record()?;
                self.present.insert(MemberId::new(VM, bound.address), false);
                Answer::Bound(bound.address)
            }
            // Given by a predecessor that did not live to tell of it.
            (Ask::Bind, Some(place)) => {
                self.present.insert(place, false);
                Answer::Bound(place.address)
            }
            (Ask::Reattach(address), Some(place)) if place.address == address => {
                self.present.insert(place, false);
                Answer::Bound(address)
            }
            (Ask::Mapped, Some(place)) => {
                self.present.insert(place, true);
                let _ = to.send(Answer::Done);
                let (come, still) = std::mem::take(&mut self.waiting)
                    .into_iter()
                    .partition(|(_, peer, _)| *peer == place.address);
                self.waiting = still;
                let come: Vec<(i32, Address, Sender<Answer>)> = come;
                for (pid, peer, to) in come {
                    self.contact(pid, peer, to)?;
                }
                return Ok(());
            }
            (Ask::Recall(peers), Some(here)) => {
                for peer in peers {
                    let there = MemberId::new(VM, peer);
                    if self.node.endpoint(there).is_none() {
                        self.tell(pid, News::Died(peer));
                        continue;
                    }
                    self.held.insert((here, there));
                    if self.world.rules == Rules::RecallForBoth {
                        self.held.insert((there, here));
                    }
                }
                Answer::Done
            }
            (Ask::Contact(peer), Some(_)) => return self.contact(pid, peer, to),
            _ => Answer::Refused,
        };
        let _ = to.send(answer);
        self.pause()
    }

    fn contact(&mut self, pid: i32, peer: Address, to: Sender<Answer>) -> Result<(), Killed> {
        let Some(here) = self.node.place_of(pid) else { return Ok(()) };
        let there = MemberId::new(VM, peer);
        if let Err(error) = self.node.lookup(VM, Some(here.address), peer) {
            let died = matches!(error, LookupError::Dead(_));
            let _ = to.send(if died { Answer::Died } else { Answer::Refused });
            return Ok(());
        }
        if self.held.contains(&(here, there)) {
            let _ = to.send(Answer::Known);
            return Ok(());
        }
        if self.present.get(&there) != Some(&true) {
            self.waiting.push((pid, peer, to));
            return Ok(());
        }
        self.node.unlink(here, peer);
        self.node.link(here, peer).expect("both live");
        let page = Arc::new(Page);
        let asker_first = self.world.rules == Rules::AskerFirst;
        if asker_first {
            let _ = to.send(Answer::Contact(Arc::clone(&page)));
        }
        self.record()?;
        self.held.extend([(here, there), (there, here)]);
        let other = self.node.endpoint(there).expect("it lives").member.pid;
        self.tell(other, News::Contact(here.address, Arc::clone(&page)));
        self.pause()?;
        if !asker_first {
            let _ = to.send(Answer::Contact(page));
        }
        self.pause()
    }

    fn tell(&self, pid: i32, news: News) {
        if let Some(sender) = self.news.get(&pid) {
            let _ = sender.send(news);
        }
    }

    fn died(&mut self, pid: i32) -> Result<(), Killed> {
        let deaths: Vec<Death> = self.node.exit(pid);
        self.record()?;
        self.news.remove(&pid);
        for death in deaths {
            let gone = death.place;
            self.present.remove(&gone);
            self.held.retain(|(one, other)| *one != gone && *other != gone);
            for peer in death.peers {
                let there =
                    self.node.endpoint(MemberId::new(VM, peer.address)).map(|peer| peer.member.pid);
                if let Some(there) = there {
                    self.tell(there, News::Died(gone.address));
                }
                self.pause()?;
            }
            for (_, _, to) in self.waiting.extract_if(.., |(_, peer, _)| *peer == gone.address) {
                let _ = to.send(Answer::Died);
            }
        }
        Ok(())
    }
}
