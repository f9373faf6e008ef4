//! Which cells are measured, in which tests, and for how long.

use crate::args::BenchArgs;
use crate::job::{Placement, Task, Wait, Work};
use crate::measure::Cell;
use crate::mechanism::{Family, Mechanism, Paces};
use crate::place::Cpus;
use crate::rounds::UNTOLD;

/// The shape of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Round trips of all pairs at once.
    Trips,
    /// One active client among many.
    OneOfMany,
    /// kill -9 of the server, so many times a round.
    Death(u32),
    /// kill -9 of the server, once: who is told, and what is left.
    Untold,
    /// Both sides started anew, so many times a round.
    Restart(u32),
    /// First contacts and binds, so many a round.
    Contact(u32),
}

/// One table: cells that are measured in turn, round by round.
pub struct Test {
    /// Its name in the JSON.
    pub name: &'static str,
    /// What a person reads above the table.
    pub title: String,
    /// How each cell is measured.
    pub shape: Shape,
    /// The task of its clients, for `Trips` and `OneOfMany`.
    pub task: Task,
    /// How long the sides warm up.
    pub warm_ns: u64,
    /// The cells.
    pub cells: Vec<Cell>,
}

const MS: u64 = 1_000_000;
const PACE_NS: u64 = MS;
/// The test of deaths whose server has memory of its own.
pub const HEAVY_DEATH: &str = "death-heavy";
/// How much it has.
const HEAVY_MB: u32 = 256;

/// All tests that the arguments ask for.
#[must_use]
pub fn tests(args: &BenchArgs, cpus: &Cpus, all: &[&'static dyn Mechanism]) -> Vec<Test> {
    let plan = Plan { quick: args.quick, millis: args.millis, cpus: *cpus, all };
    let mut tests = plan.awake();
    tests.push(plan.asleep());
    tests.extend(plan.pairs());
    tests.push(plan.clients());
    tests.extend(plan.deaths());
    tests.push(plan.untold());
    tests.push(plan.restart());
    tests.push(plan.contact());
    for test in &mut tests {
        test.cells.retain(|cell| {
            let names = [test.name, cell.mechanism.name(), cell.placement.name(), cell.wait.name()];
            args.lets(&names)
        });
    }
    tests.retain(|test| !test.cells.is_empty());
    tests
}

struct Plan<'a> {
    quick: bool,
    millis: Option<u64>,
    cpus: Cpus,
    all: &'a [&'static dyn Mechanism],
}

impl Plan<'_> {
    fn span(&self, quick_ms: u64, full_ms: u64) -> u64 {
        self.millis.unwrap_or(if self.quick { quick_ms } else { full_ms }) * MS
    }

    fn trips(span_ns: u64, pace_ns: Option<u64>) -> Task {
        Task::Trips { pace_ns, span_ns, limit: None }
    }

    /// Every mechanism that passes, in each of its ways of waiting that fits the CPUs.
    fn cells(
        &self,
        work: Work,
        placement: Placement,
        pairs: u32,
        passes: impl Fn(&dyn Mechanism, Wait) -> bool,
    ) -> Vec<Cell> {
        let sides = usize::try_from(2 * pairs).unwrap_or(usize::MAX);
        let mut cells = vec![];
        for &mechanism in self.all {
            for &wait in mechanism.waits() {
                let room = placement != Placement::SameCpu && sides <= self.cpus.allowed;
                if mechanism.works().contains(&work)
                    && (room || wait != Wait::Spin)
                    && passes(mechanism, wait)
                {
                    cells.push(Cell { mechanism, work, wait, placement, pairs });
                }
            }
        }
        cells
    }

    fn has_two(&self) -> bool {
        self.cpus.second.is_some()
    }

    /// IPC1 to IPC3, back to back, on two CPUs and on one.
    fn awake(&self) -> Vec<Test> {
        let mut tests = vec![];
        for placement in [Placement::TwoCpus, Placement::SameCpu] {
            for work in [Work::Ipc2, Work::Ipc1, Work::Ipc3] {
                if placement == Placement::TwoCpus && !self.has_two() {
                    continue;
                }
                // A quick run leaves out what differs little: a kernel mechanism's IPC1 is its IPC2, call by call.
                let brief = |mechanism: &dyn Mechanism| {
                    !self.quick || work == Work::Ipc2 || mechanism.family() != Family::Kernel
                };
                let cells = self.cells(work, placement, 1, |mechanism, _| {
                    mechanism.paces() != Paces::Asleep && brief(mechanism)
                });
                let title = match work {
                    Work::Ipc1 => "IPC1: send and receive, both ways",
                    Work::Ipc2 => "IPC2: sendrec against receive and send",
                    Work::Ipc3 => "IPC3: notify and receive, both ways",
                };
                tests.push(Test {
                    name: work.name(),
                    title: format!("{title}; {placement}, back to back"),
                    shape: Shape::Trips,
                    task: Self::trips(self.span(30, 150), None),
                    warm_ns: self.span(3, 10),
                    cells,
                });
            }
        }
        tests
    }

    /// IPC2 to a server that sleeps on another CPU.
    fn asleep(&self) -> Test {
        let cells = if self.has_two() {
            self.cells(Work::Ipc2, Placement::TwoCpus, 1, |mechanism, wait| {
                mechanism.paces() != Paces::Awake && wait != Wait::Spin && wait != Wait::Yield
            })
        } else {
            vec![]
        };
        Test {
            name: "ipc2-paced",
            title: "IPC2 to a sleeping server; two-cpus, one trip a millisecond".into(),
            shape: Shape::Trips,
            task: Self::trips(self.span(100, 500), Some(PACE_NS)),
            // Warm trips follow each other closely, which is what this test is not about.
            warm_ns: 0,
            cells,
        }
    }

    /// IPC2 of many pairs on all CPUs.
    fn pairs(&self) -> Vec<Test> {
        let numbers: &[u32] = if self.quick { &[1, 4, 16] } else { &[1, 2, 4, 8, 16, 32] };
        let test = |&pairs: &u32| Test {
            name: "pairs",
            title: format!("IPC2, pairs at once: {pairs}; on any of {} CPUs", self.cpus.allowed),
            shape: Shape::Trips,
            task: Self::trips(self.span(30, 200), None),
            warm_ns: self.span(5, 20),
            // Libraries with threads of their own are at their best where nobody pins them.
            cells: self.cells(Work::Ipc2, Placement::Any, pairs, |mechanism, _| {
                match mechanism.family() {
                    Family::Floor => false,
                    Family::Peer => pairs == 1,
                    Family::Ours | Family::Kernel => true,
                }
            }),
        };
        numbers.iter().map(test).collect()
    }

    /// One active client among many: only ours has such a server.
    fn clients(&self) -> Test {
        let numbers: &[u32] = if self.quick { &[1, 100] } else { &[1, 10, 100, 1_000] };
        let placement = if self.has_two() { Placement::TwoCpus } else { Placement::SameCpu };
        let ours = |&pairs: &u32| {
            self.cells(Work::Ipc2, placement, 1, |mechanism, _| mechanism.ours().is_some())
                .into_iter()
                .map(move |cell| Cell { pairs, ..cell })
        };
        Test {
            name: "clients",
            title: format!("IPC2, one active client among many bound ones; {placement}"),
            shape: Shape::OneOfMany,
            task: Self::trips(self.span(30, 150), None),
            warm_ns: self.span(3, 10),
            cells: numbers.iter().flat_map(ours).collect(),
        }
    }

    /// kill -9 of a small server, and of one with memory of its own.
    fn deaths(&self) -> [Test; 2] {
        let placement = if self.has_two() { Placement::TwoCpus } else { Placement::Any };
        let small = format!("kill -9 of the server to its client's error; {placement}");
        let large = format!(
            "kill -9 of a server with {HEAVY_MB} MB of its own to its client's error; {placement}"
        );
        [self.death("death", small, 0, 30), self.death(HEAVY_DEATH, large, HEAVY_MB, 10)]
    }

    fn death(&self, name: &'static str, title: String, own_mb: u32, times: u32) -> Test {
        let placement = if self.has_two() { Placement::TwoCpus } else { Placement::Any };
        Test {
            name,
            title,
            shape: Shape::Death(if self.quick { 4 } else { times }),
            task: Task::Death { own_mb },
            warm_ns: 0,
            cells: self.cells(Work::Ipc2, placement, 1, |mechanism, _| {
                let brief = ["m3ipc", "unix-stream"].contains(&mechanism.name());
                mechanism.tells_death()
                    && (!self.quick || brief || mechanism.family() == Family::Peer)
            }),
        }
    }

    /// kill -9 of the server, once for each mechanism: is its client told at all, and what is left of the two.
    fn untold(&self) -> Test {
        let placement = if self.has_two() { Placement::TwoCpus } else { Placement::Any };
        Test {
            name: UNTOLD,
            title: format!(
                "kill -9 of the server: is its client told, and what is left behind; {placement}"
            ),
            shape: Shape::Untold,
            task: Task::Death { own_mb: 0 },
            warm_ns: 0,
            cells: self.cells(Work::Ipc2, placement, 1, |mechanism, wait| {
                wait == Wait::Block && mechanism.family() != Family::Floor
            }),
        }
    }

    /// Both sides are started anew, as after a death: when the client has its first answer.
    fn restart(&self) -> Test {
        let placement = if self.has_two() { Placement::TwoCpus } else { Placement::Any };
        Test {
            name: "restart",
            title: format!("both sides started anew, to the client's first answer; {placement}"),
            shape: Shape::Restart(if self.quick { 2 } else { 5 }),
            task: Task::First,
            warm_ns: 0,
            cells: self.cells(Work::Ipc2, placement, 1, |mechanism, wait| {
                let wanted = if mechanism.ours().is_some() { Wait::Adaptive } else { Wait::Block };
                let brief =
                    mechanism.name() == "unix-stream" || mechanism.family() != Family::Kernel;
                wait == wanted && mechanism.family() != Family::Floor && (!self.quick || brief)
            }),
        }
    }

    /// First contacts; the binds come along.
    fn contact(&self) -> Test {
        let times = if self.quick { 50 } else { 200 };
        Test {
            name: "contact",
            title: "first sendrec with a new peer (link creation)".into(),
            shape: Shape::Contact(times),
            task: Task::Contact { times },
            warm_ns: 0,
            cells: self
                .cells(Work::Ipc2, Placement::Any, 1, |mechanism, _| mechanism.ours().is_some())
                .into_iter()
                .take(1)
                .collect(),
        }
    }
}
