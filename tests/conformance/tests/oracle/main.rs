//! T2: random sequences of all verbs, the model beside real endpoints.
//!
//! `M3_ORACLE_CASES` sequences (10,000 by default) of at most
//! `M3_ORACLE_STEPS` steps, from `M3_ORACLE_SEED` or a fresh seed. A sequence
//! that fails is shrunk, printed step by step, and kept in `regressions.txt`. Each run begins with
//! that file.

mod compare;
mod fixture;
mod found;
mod plan;
mod worker;

use fixture::{OracleFixture, PLAYS, Trouble};
use m3ipc_model::rendezvous::{Fault, Op};
use m3ipc_test_fixture::watchdog;
use plan::{SLOTS, Sequence, Step};
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner,
};
use std::cell::RefCell;
use std::fmt::Write;
use std::time::Instant;

const REGRESSIONS: &str = "tests/oracle/regressions.txt";
/// A VM serves this number of sequences, since generations are bounded.
const SEQUENCES_PER_ARENA: u32 = 1_000;

/// Runs side by side, each with its own node: calls mostly wait for each other.
const LANES: u32 = 2;

/// All sequences of one run.
struct Run {
    fault: Fault,
    fixture: Option<OracleFixture>,
    left: u32,
    sequences: u64,
    steps: u64,
    stalled: u64,
}

impl Run {
    fn new(fault: Fault) -> Self {
        Self { fault, fixture: None, left: 0, sequences: 0, steps: 0, stalled: 0 }
    }

    /// Plays a sequence, and anew where the machine seems to stall.
    fn try_sequence(&mut self, sequence: &Sequence) -> Result<(), TestCaseError> {
        let mut difference = String::new();
        for _ in 0..PLAYS {
            match self.play_once(sequence) {
                Ok(()) => return Ok(()),
                Err(Trouble::Differs(how)) => return Err(TestCaseError::fail(how)),
                Err(Trouble::Stalled(how)) => {
                    self.stalled += 1;
                    difference = how;
                }
            }
        }
        Err(TestCaseError::fail(format!("{difference} in each of {PLAYS} plays")))
    }

    fn play_once(&mut self, sequence: &Sequence) -> Result<(), Trouble> {
        if self.left == 0 {
            self.fixture = None;
        }
        let fault = self.fault;
        let mut fixture = self.fixture.take().unwrap_or_else(|| {
            self.left = SEQUENCES_PER_ARENA;
            OracleFixture::new(fault)
        });
        self.left -= 1;
        let mut taken = Vec::new();
        let result = play(&mut fixture, sequence, &mut taken);
        self.steps += taken.len() as u64;
        match result {
            Ok(()) => {
                self.sequences += 1;
                self.fixture = Some(fixture);
                Ok(())
            }
            Err(Trouble::Stalled(difference)) => {
                Err(Trouble::Stalled(format!("{}=> {difference}", told(&taken))))
            }
            Err(Trouble::Differs(difference)) => {
                Err(Trouble::Differs(format!("{}=> {difference}", told(&taken))))
            }
        }
    }
}

fn play(
    fixture: &mut OracleFixture,
    sequence: &Sequence,
    taken: &mut Vec<Step>,
) -> Result<(), Trouble> {
    let mut step = |fixture: &mut OracleFixture, step: Step| {
        taken.push(step);
        fixture.step(step)
    };
    for place in 0..sequence.endpoints {
        let op = Op::Bind(SLOTS[(place + 1) % SLOTS.len()]);
        step(fixture, Step::of(op))?;
    }
    for (number, plan) in (0..).zip(&sequence.plans) {
        if let Some(next) = plan.step(fixture.machine(), sequence.endpoints, number) {
            step(fixture, next)?;
        }
    }
    fixture.clear()
}

fn told(steps: &[Step]) -> String {
    let mut text = String::from("\n");
    for (number, step) in steps.iter().enumerate() {
        let expires = if step.expires { ", expires" } else { "" };
        let times = if step.times > 1 { format!(", {} times", step.times) } else { String::new() };
        let _ = writeln!(text, "  {number}: {}{expires}{times}", short(&step.op));
    }
    text
}

/// The step without payloads, which are numbers of the steps.
fn short(op: &Op) -> String {
    let text = format!("{op:?}");
    let Some((head, rest)) = text.split_once(", payload: [") else { return text };
    rest.split_once("] }").map_or_else(String::new, |(_, tail)| format!("{head} }}{tail}"))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn runner(cases: u32, seed: u64, config: Config) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, ..config };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    number("M3_ORACLE_SEED", u64::from(now.unwrap_or_default().subsec_nanos()))
}

/// One run of `cases` sequences; the reason, if a sequence differs.
fn lane(cases: u32, steps_max: usize, seed: u64) -> (Run, Option<String>) {
    let config = Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        max_shrink_iters: 300,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let run = RefCell::new(Run::new(Fault::None));
    let strategy = plan::sequence(steps_max);
    let result = runner(cases, seed, config)
        .run(&strategy, |sequence| run.borrow_mut().try_sequence(&sequence));
    (run.into_inner(), result.err().map(|error| error.to_string()))
}

#[test]
fn real_endpoints_do_what_the_model_says() {
    let began = Instant::now();
    let cases = u32::try_from(number("M3_ORACLE_CASES", 10_000)).expect("a number of sequences");
    let steps_max = usize::try_from(number("M3_ORACLE_STEPS", 30)).expect("a number of steps");
    watchdog(600 + u64::from(cases) / 5);
    let seed = seed();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane_number| {
            let seed = seed + u64::from(lane_number);
            std::thread::spawn(move || lane(cases.div_ceil(LANES), steps_max, seed))
        })
        .collect();
    let lanes: Vec<_> =
        lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect();
    let sum = |of: fn(&Run) -> u64| lanes.iter().map(|(run, _)| of(run)).sum::<u64>();
    let differences: Vec<&String> =
        lanes.iter().filter_map(|(_, difference)| difference.as_ref()).collect();
    for difference in &differences {
        println!("{difference}");
    }
    println!(
        "T2 oracle: {} sequences, {} steps, {} differences, {} repeated, seed {seed}, {:.1} s",
        sum(|run| run.sequences),
        sum(|run| run.steps),
        differences.len(),
        sum(|run| run.stalled),
        began.elapsed().as_secs_f64()
    );
    // A long sequence would hide the seed and the reasons in a log.
    let reasons: Vec<_> = differences.iter().filter_map(|text| text.lines().next()).collect();
    assert!(differences.is_empty(), "model and endpoints differ, seed {seed}: {reasons:#?}");
}

#[test]
fn each_planted_fault_is_caught() {
    watchdog(300);
    let faults = [
        Fault::ReceiversForgotten,
        Fault::DeliveredTwice,
        Fault::WrongFate,
        Fault::CycleLetIn,
        Fault::GenerationKept,
        Fault::PulseLost,
        Fault::PulsesReversed,
        Fault::ErasedWithTheDead,
    ];
    let missed: Vec<Fault> = faults.into_iter().filter(|fault| !is_caught(*fault)).collect();
    println!("T2 oracle: planted {}/{} caught", faults.len() - missed.len(), faults.len());
    assert!(missed.is_empty(), "{missed:?} not caught");
}

fn is_caught(fault: Fault) -> bool {
    let config = Config { failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let run = RefCell::new(Run::new(fault));
    let result = runner(2_000, 1, config)
        .run(&plan::sequence(60), |sequence| run.borrow_mut().try_sequence(&sequence));
    matches!(result, Err(TestError::Fail(..)))
}
