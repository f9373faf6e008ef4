//! The order of an event loop, as a model of all interleavings: a sender sends twice, through a
//! ring or through the kernel, and a wait sees the first send first.
//!
//! A step is one access to a shared word, or one call of the kernel, as in
//! `m3ipc_shim::protocol::armed`, `connection::unannounced`, `epoll::due` and `epoll::wait`. Each
//! rule is also left out once: the model must find a wrong order then.

/// The way of a send.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Ring,
    Kernel,
}

/// The rules of both parties.
#[derive(Clone, Copy)]
struct Rules {
    /// A sender gives earlier bytes their wakeup byte before it uses the kernel.
    announces: bool,
    /// It does so also while a wait has taken the bit and has not asked the kernel yet.
    sees_gathers: bool,
    /// A wait takes its marks before it asks the kernel.
    marks_first: bool,
    /// A wait looks again for marks that are older than those it has found.
    looks_again: bool,
    /// A wait reports the oldest mark first.
    sorts: bool,
}

const ALL: Rules = Rules {
    announces: true,
    sees_gathers: true,
    marks_first: true,
    looks_again: true,
    sorts: true,
};

/// The steps of a wait, in the order of [`Rules::marks_first`].
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Begin,
    Look(usize),
    Take(usize),
    AskKernel,
    End,
}

/// Both parties and what they share.
#[derive(Clone)]
struct World {
    ways: [Way; 2],
    rules: Rules,
    /// The connections in the order in which a look meets them.
    words: [usize; 2],
    bits: [bool; 2],
    moments: [u64; 2],
    gathers: u64,
    clock: u64,
    kernel: Vec<usize>,
    /// Steps of the sender so far, and what it has read.
    sender: usize,
    is_delivered: bool,
    /// The wait.
    stage: Stage,
    looks: usize,
    any: bool,
    found: [bool; 2],
    events: Vec<usize>,
    waits: usize,
    /// What the program has seen.
    seen: Vec<usize>,
}

impl World {
    fn new(ways: [Way; 2], words: [usize; 2], rules: Rules) -> Self {
        Self {
            ways,
            rules,
            words,
            bits: [false; 2],
            moments: [0; 2],
            gathers: 0,
            clock: 1,
            kernel: Vec::new(),
            sender: 0,
            is_delivered: true,
            stage: Stage::Begin,
            looks: 0,
            any: false,
            found: [false; 2],
            events: Vec::new(),
            waits: 0,
            seen: Vec::new(),
        }
    }

    /// The sender's next step; `false` at its end. Each send has six steps, of which some do
    /// nothing.
    fn send(&mut self) -> bool {
        let (connection, step) = (self.sender / 6, self.sender % 6);
        if connection == 2 {
            return false;
        }
        self.sender += 1;
        let announces = connection == 1 && self.ways[0] == Way::Ring && self.rules.announces;
        match (self.ways[connection], step) {
            (Way::Ring, 0) => {
                self.moments[connection] = self.clock;
                self.clock += 1;
            }
            (Way::Ring, 1) => self.bits[connection] = true,
            (Way::Kernel, 0) => self.is_delivered = !announces || !self.bits[0],
            (Way::Kernel, 1) if self.rules.sees_gathers && announces => {
                self.is_delivered &= self.gathers.is_multiple_of(2);
            }
            (Way::Kernel, 2) if !self.is_delivered => self.bits[0] = false,
            (Way::Kernel, 3) if !self.is_delivered => self.kernel.push(0),
            (Way::Kernel, 4) => self.kernel.push(connection),
            // No access to anything shared: the next step follows at once.
            _ => return self.send(),
        }
        true
    }

    /// The next step of a wait.
    fn wait(&mut self) {
        let marks_first = self.rules.marks_first;
        self.stage = match self.stage {
            Stage::Begin => {
                self.gathers += 1;
                (self.looks, self.any, self.found) = (0, false, [false; 2]);
                if marks_first { Stage::Look(0) } else { Stage::AskKernel }
            }
            Stage::Look(word) => self.look(word),
            Stage::Take(word) => {
                let connection = self.words[word];
                self.bits[connection] &= !self.found[connection];
                match (word, marks_first) {
                    (0, _) => Stage::Take(1),
                    (_, true) => Stage::AskKernel,
                    (_, false) => Stage::End,
                }
            }
            Stage::AskKernel => {
                self.events.append(&mut self.kernel);
                if marks_first { Stage::End } else { Stage::Look(0) }
            }
            Stage::End => {
                self.gathers += 1;
                let mut due: Vec<usize> =
                    self.words.into_iter().filter(|connection| self.found[*connection]).collect();
                if self.rules.sorts {
                    due.sort_by_key(|connection| self.moments[*connection]);
                }
                self.seen.append(&mut self.events);
                self.seen.append(&mut due);
                self.waits += 1;
                Stage::Begin
            }
        };
    }

    fn look(&mut self, word: usize) -> Stage {
        let connection = self.words[word];
        let youngest = (0..2).filter(|one| self.found[*one]).map(|one| self.moments[one]).max();
        let is_older = youngest.is_some_and(|youngest| self.moments[connection] < youngest);
        if self.bits[connection] && !self.found[connection] && (self.looks == 0 || is_older) {
            self.found[connection] = true;
            self.any = true;
        }
        if word == 0 {
            return Stage::Look(1);
        }
        if self.any && self.rules.looks_again {
            (self.looks, self.any) = (self.looks + 1, false);
            return Stage::Look(0);
        }
        Stage::Take(0)
    }

    /// Whether some interleaving from here on shows the second send first.
    fn goes_wrong(&self) -> bool {
        if self.waits == 2 {
            let mut end = self.clone();
            while end.send() {}
            while end.waits < 3 {
                end.wait();
            }
            let place = |connection| end.seen.iter().position(|one| *one == connection);
            return place(1) < place(0) || place(0).is_none() || place(1).is_none();
        }
        let mut waited = self.clone();
        waited.wait();
        let mut sent = self.clone();
        waited.goes_wrong() || (sent.send() && sent.goes_wrong())
    }
}

const WAYS: [[Way; 2]; 4] = [
    [Way::Ring, Way::Ring],
    [Way::Ring, Way::Kernel],
    [Way::Kernel, Way::Ring],
    [Way::Kernel, Way::Kernel],
];

/// Whether some interleaving shows the second send first.
fn goes_wrong(rules: Rules) -> bool {
    let worlds = WAYS.into_iter().flat_map(|ways| [[0, 1], [1, 0]].map(|words| (ways, words)));
    worlds.into_iter().any(|(ways, words)| World::new(ways, words, rules).goes_wrong())
}

#[test]
fn the_first_send_is_seen_first() {
    assert!(!goes_wrong(ALL));
}

#[test]
fn each_rule_is_needed() {
    assert!(goes_wrong(Rules { announces: false, ..ALL }));
    assert!(goes_wrong(Rules { sees_gathers: false, ..ALL }));
    assert!(goes_wrong(Rules { marks_first: false, ..ALL }));
    assert!(goes_wrong(Rules { looks_again: false, ..ALL }));
    assert!(goes_wrong(Rules { sorts: false, ..ALL }));
}
