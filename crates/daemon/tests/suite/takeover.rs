//! T5: first contact across kills of the daemon, explored exhaustively.
//!
//! The state has two members (A requests a link with B), a daemon, its journal, and the links that
//! each party holds. A kill may come between any two steps of the daemon, twice. The test explores
//! every order of steps. In each final state with a living daemon, both members hold the same link.
//!
//! The steps copy `contact`, `recall_links` and `attach` of the daemon, and `first_contact` and
//! `reattach` of the library. Change them here when they change there.

use std::collections::{BTreeSet, VecDeque};

/// The number of kills of the daemon.
const KILLS: u8 = 2;

/// The rules, and planted faults that the exploration must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// No fault: the rules of the daemon.
    Real,
    /// One party's statement about a link counts for both parties.
    RecallForBoth,
    /// A link of the journal counts as held without a party's statement.
    TrustTheJournal,
}

/// The daemon's progress with A's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Idle,
    Recorded,
    NotifiedB,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    daemon_lives: bool,
    kills: u8,
    step: Step,
    journal_has_link: bool,
    /// The latest link; links are numbered from 1.
    latest: u8,
    /// The links that A and B hold; 0 is none.
    holds: [u8; 2],
    /// Whether A and B have attached to this daemon.
    attached: [bool; 2],
    /// Whether A and B hold the link, as far as this daemon knows.
    known: [bool; 2],
    /// Whether this daemon has A's request.
    requested: bool,
    /// Whether this daemon answered that A has the link already.
    answered_known: bool,
}

impl State {
    const START: Self = Self {
        daemon_lives: true,
        kills: 0,
        step: Step::Idle,
        journal_has_link: false,
        latest: 0,
        holds: [0, 0],
        attached: [true, true],
        known: [false, false],
        requested: false,
        answered_known: false,
    };

    /// All states after one step.
    fn next(self, rules: Rules) -> Vec<Self> {
        let mut next = Vec::new();
        if !self.daemon_lives {
            let fresh = [false, false];
            next.push(Self { daemon_lives: true, attached: fresh, known: fresh, ..self });
            return next;
        }
        if self.kills < KILLS {
            let kills = self.kills + 1;
            next.push(Self {
                daemon_lives: false,
                kills,
                step: Step::Idle,
                requested: false,
                ..self
            });
        }
        for party in [0, 1] {
            if !self.attached[party] {
                next.push(self.attach(party, rules));
            }
        }
        if self.attached[0] && self.holds[0] == 0 && !self.requested && !self.answered_known {
            next.push(Self { requested: true, ..self });
        }
        next.extend(self.daemon_step(rules));
        next
    }

    /// A member attaches, and names the peers of its links.
    fn attach(mut self, party: usize, rules: Rules) -> Self {
        self.attached[party] = true;
        if self.holds[party] != 0 {
            self.known[party] = true;
            if rules == Rules::RecallForBoth {
                self.known = [true, true];
            }
        }
        self
    }

    fn daemon_step(mut self, rules: Rules) -> Option<Self> {
        match self.step {
            // The answer is deferred until the peer attaches.
            Step::Idle if self.requested && self.attached[1] => {
                let held = match rules {
                    Rules::TrustTheJournal => self.journal_has_link,
                    _ => self.known[0],
                };
                if held {
                    self.requested = false;
                    self.answered_known = true;
                } else {
                    self.journal_has_link = true;
                    self.latest += 1;
                    self.step = Step::Recorded;
                }
            }
            Step::Idle => return None,
            Step::Recorded => {
                self.holds[1] = self.latest;
                self.step = Step::NotifiedB;
            }
            Step::NotifiedB => {
                self.holds[0] = self.latest;
                self.known = [true, true];
                self.requested = false;
                self.step = Step::Idle;
            }
        }
        Some(self)
    }

    fn is_consistent(self) -> bool {
        self.holds[0] != 0 && self.holds[0] == self.holds[1]
    }
}

/// The number of states, and the first inconsistent final state.
fn explore(rules: Rules) -> (usize, Option<State>) {
    let mut seen = BTreeSet::from([State::START]);
    let mut open = VecDeque::from([State::START]);
    while let Some(state) = open.pop_front() {
        let next = state.next(rules);
        // A kill is no progress: a state with no other step is final.
        let ends = next.iter().all(|later| later.kills > state.kills);
        if ends && state.daemon_lives && !state.is_consistent() {
            return (seen.len(), Some(state));
        }
        open.extend(next.into_iter().filter(|later| seen.insert(*later)));
    }
    (seen.len(), None)
}

#[test]
fn first_contact_survives_kills_of_the_daemon() {
    let (states, fault) = explore(Rules::Real);
    println!(
        "T5 takeover: {states} states, inconsistent final states {}",
        usize::from(fault.is_some())
    );
    assert_eq!(fault, None);
}

#[test]
fn planted_faults_are_detected() {
    for rules in [Rules::RecallForBoth, Rules::TrustTheJournal] {
        assert!(explore(rules).1.is_some(), "{rules:?} was not detected");
    }
}
