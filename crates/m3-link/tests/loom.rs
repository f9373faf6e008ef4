//! The data plane under loom: every interleaving of two or three parties, and
//! every value that a weak memory may show them.
//!
//! The steps are m3-link's own, on the checker's words; what callers owe is
//! done by [`party`] in the order of m3ipc. No sleep has a limit, so a lost
//! wake-up is a deadlock. A model that passes proves little unless it can fail:
//! [`weakenings`] takes the protocol apart line by line, and each loss must be noticed.
//!
//! Loom takes sequentially consistent accesses for acquire and release ones,
//! and never shows a load a later store: what it accepts of an order is not
//! proof that the order is needed.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p m3-link --release --test loom
//! ```
#![cfg(loom)]

#[path = "loom/delivery.rs"]
mod delivery;
#[path = "loom/finding.rs"]
mod finding;
#[path = "loom/memory.rs"]
mod memory;
#[path = "loom/party.rs"]
mod party;
#[path = "loom/requests.rs"]
mod requests;
#[path = "loom/weak.rs"]
mod weak;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use weak::{Cut, Site, Twist, Weakness};

/// One model, and how many times a thread may be preempted in it.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    bound: Option<usize>,
    run: fn(),
}

const fn model(name: &'static str, bound: Option<usize>, run: fn()) -> Model {
    Model { name, bound, run }
}

const MODELS: &[Model] = &[
    model("deliver", None, delivery::deliver),
    model("deliver twice", None, delivery::deliver_twice),
    model("withdraw against take", None, delivery::withdraw),
    model("notify", None, delivery::notify),
    model("cross", None, delivery::cross),
    model("cross back", None, delivery::cross_back),
    model("cross at once", None, delivery::cross_at_once),
    model("answer", None, requests::answer),
    model("give up", None, requests::give_up),
    model("ask again", None, requests::ask_again),
    model("death before take", None, requests::death_before_take),
    model("death after take", None, requests::death_after_take),
    model("death after answer", None, requests::death_after_answer),
    model("news while answering", None, requests::news_while_answering),
    model("cell of answer", None, requests::cell_of_answer),
    model("wakeup", None, requests::wakeup),
    model("hint", None, finding::hint),
    model("hint left", None, finding::hint_left),
    model("two hints", None, finding::two_hints),
    model("watch", None, finding::watch),
];

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

/// What a model has come to.
struct Outcome {
    interleavings: u64,
    ends: BTreeSet<String>,
    sites: BTreeSet<Site>,
    failure: Option<String>,
}

/// Explores a model in a thread of its own.
fn explore(model: Model, weakness: Option<Weakness>) -> Outcome {
    let exploring = std::thread::spawn(move || {
        weak::choose(weakness);
        weak::note_sites();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = std::env::var("BOUND").ok().map(|b| b.parse().unwrap());
        builder.max_branches = 20_000;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                RUNS.set(RUNS.get() + 1);
                (model.run)();
            });
        }));
        let failure = checked.err().map(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        });
        Outcome { interleavings: RUNS.get(), ends: weak::noted_ends(), sites: weak::noted_sites(), failure }
    });
    exploring.join().expect("panics are caught inside")
}

/// Prints past the test harness, which keeps what passing tests print.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[test]
fn models_hold() {
    let only = std::env::var("MODEL").ok();
    let mut failed = Vec::new();
    for model in MODELS.iter().filter(|model| only.as_deref().is_none_or(|only| only == model.name)) {
        let began = Instant::now();
        let outcome = explore(*model, None);
        let bound = model.bound.map_or("all".to_owned(), |bound| format!("preemptions {bound}"));
        let seconds = began.elapsed().as_secs_f64();
        say(&format!("loom {}: {} interleavings ({bound}), {seconds:.2} s", model.name, outcome.interleavings));
        say(&format!("  {:?}", outcome.ends));
        if let Some(failure) = outcome.failure {
            say(&format!("  FAILED: {failure}"));
            failed.push(model.name);
        }
    }
    assert_eq!(failed, [""; 0], "models that do not hold");
}
