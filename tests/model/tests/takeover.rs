//! T5: first contact across kills of the daemon, explored to the end.
//!
//! Two members, A who asks for a link and B; a daemon that can be killed
//! between any two of its steps, twice; its journal; and what each party holds.
//! Every order of steps is tried. Where nothing can happen any more and the
//! daemon lives, both must hold the same link, or the machine below is at fault.
//!
//! The steps are those of the daemon's `contact`, `recall` and `attach` and of
//! the members' `contact_slow` and `reattach`; a change there is made here too.

use std::collections::{BTreeSet, VecDeque};

/// How many times the daemon may be killed.
const KILLS: u8 = 2;

/// The rules, and ways to break them that the exploration must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// As the daemon has them.
    Real,
    /// A recall by one party counts for both.
    RecallForBoth,
    /// A link of the journal counts as held, recalled or not.
    TrustTheJournal,
}

/// How far the daemon is with A's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Idle,
    Recorded,
    ToldB,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    daemon_lives: bool,
    kills: u8,
    step: Step,
    journal_has_link: bool,
    /// The link made last; links are numbered from 1.
    latest: u8,
    /// What A and B hold; 0 is nothing.
    holds: [u8; 2],
    /// Whom this daemon has attached.
    attached: [bool; 2],
    /// Who holds a link with the other, as this daemon knows.
    known: [bool; 2],
    /// A's request is with this daemon.
    asked: bool,
    /// A was told that it has the link already.
    told_known: bool,
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
        asked: false,
        told_known: false,
    };

    /// All states that one step leads to.
    fn next(self, rules: Rules) -> Vec<Self> {
        let mut next = Vec::new();
        if !self.daemon_lives {
            let fresh = [false, false];
            next.push(Self { daemon_lives: true, attached: fresh, known: fresh, ..self });
            return next;
        }
        if self.kills < KILLS {
            let kills = self.kills + 1;
            next.push(Self { daemon_lives: false, kills, step: Step::Idle, asked: false, ..self });
        }
        for party in [0, 1] {
            if !self.attached[party] {
                next.push(self.attach(party, rules));
            }
        }
        if self.attached[0] && self.holds[0] == 0 && !self.asked && !self.told_known {
            next.push(Self { asked: true, ..self });
        }
        next.extend(self.daemon_step(rules));
        next
    }

    /// A member comes back, and recalls whom it has links with.
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
            // The peer must be there; else the request waits.
            Step::Idle if self.asked && self.attached[1] => {
                let held = match rules {
                    Rules::TrustTheJournal => self.journal_has_link,
                    _ => self.known[0],
                };
                if held {
                    self.asked = false;
                    self.told_known = true;
                } else {
                    self.journal_has_link = true;
                    self.latest += 1;
                    self.step = Step::Recorded;
                }
            }
            Step::Idle => return None,
            Step::Recorded => {
                self.holds[1] = self.latest;
                self.step = Step::ToldB;
            }
            Step::ToldB => {
                self.holds[0] = self.latest;
                self.known = [true, true];
                self.asked = false;
                self.step = Step::Idle;
            }
        }
        Some(self)
    }

    fn is_sound(self) -> bool {
        self.holds[0] != 0 && self.holds[0] == self.holds[1]
    }
}

/// The number of states, and the first dead end that is not sound.
fn explore(rules: Rules) -> (usize, Option<State>) {
    let mut seen = BTreeSet::from([State::START]);
    let mut open = VecDeque::from([State::START]);
    while let Some(state) = open.pop_front() {
        let next = state.next(rules);
        // A kill is no progress: a state that only a kill leads out of is an end.
        let ends = next.iter().all(|later| later.kills > state.kills);
        if ends && state.daemon_lives && !state.is_sound() {
            return (seen.len(), Some(state));
        }
        open.extend(next.into_iter().filter(|later| seen.insert(*later)));
    }
    (seen.len(), None)
}

#[test]
fn first_contact_survives_kills_of_the_daemon() {
    let (states, fault) = explore(Rules::Real);
    println!("T5 takeover: {states} states, dead ends {}", usize::from(fault.is_some()));
    assert_eq!(fault, None);
}

#[test]
fn planted_faults_are_noticed() {
    for rules in [Rules::RecallForBoth, Rules::TrustTheJournal] {
        assert!(explore(rules).1.is_some(), "{rules:?} was not noticed");
    }
}
