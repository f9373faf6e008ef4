//! The data plane under loom: every interleaving of two or three parties, and
//! every value that a weak memory may show them.
//!
//! The steps are m3ipc-link's own, on the checker's words; what callers owe is
//! done by [`party`] in the order of m3ipc. No sleep has a limit, so a lost
//! wake-up is a deadlock. A model that passes proves little unless it can fail:
//! [`weakenings`] takes the protocol apart line by line, and each loss must be noticed.
//!
//! Loom takes sequentially consistent accesses for acquire and release ones,
//! and never shows a load a later store: what it accepts of an order is not
//! proof that the order is needed.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p m3ipc-link --release --test loom
//! ```
#![cfg(loom)]

#[path = "loom/copies.rs"]
mod copies;
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

/// One model, how many times threads may be preempted in it, and in how many ways it can end.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    bound: Option<usize>,
    ends: usize,
    run: fn(),
}

const fn model(name: &'static str, bound: Option<usize>, ends: usize, run: fn()) -> Model {
    Model { name, bound, ends, run }
}

const MODELS: &[Model] = &[
    model("deliver", Some(5), 0, delivery::deliver),
    model("deliver twice", Some(4), 0, delivery::deliver_twice),
    model("withdraw against take", Some(5), 4, delivery::withdraw),
    model("notify", Some(4), 0, delivery::notify),
    model("cross", Some(4), 0, delivery::cross),
    model("cross back", Some(4), 0, delivery::cross_back),
    model("cross at once", Some(4), 0, delivery::cross_at_once),
    model("answer", Some(5), 0, requests::answer),
    model("give up", Some(6), 3, requests::give_up),
    model("ask again", Some(4), 3, requests::ask_again),
    model("death before take", None, 1, requests::death_before_take),
    model("death after take", None, 2, requests::death_after_take),
    model("death after answer", None, 2, requests::death_after_answer),
    model("news while answering", Some(3), 3, requests::news_while_answering),
    model("cell of an answer", None, 0, requests::cell_of_answer),
    model("wakeup", None, 0, requests::wakeup),
    model("hint", None, 0, finding::hint),
    model("hint left", None, 0, finding::hint_left),
    model("two hints", Some(3), 0, finding::two_hints),
    model("watch", Some(6), 0, finding::watch),
    model("lie still", None, 2, copies::lie_still),
    model("lie still for two", Some(4), 3, copies::lie_still_for_two),
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
        builder.preemption_bound = model.bound;
        builder.max_branches = 20_000;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                RUNS.set(RUNS.get() + 1);
                (model.run)();
            });
        }));
        let failure = checked.err().map(|panic| {
            let said = panic.downcast_ref::<String>().cloned();
            said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        });
        Outcome {
            interleavings: RUNS.get(),
            ends: weak::noted_ends(),
            sites: weak::noted_sites(),
            failure,
        }
    });
    exploring.join().expect("panics are caught inside")
}

/// Prints past the test harness, which keeps what passing tests print.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

#[test]
fn models_hold() {
    let only = std::env::var("M3_LOOM_MODEL").ok();
    let mut failed = Vec::new();
    for model in MODELS.iter().filter(|model| only.as_deref().is_none_or(|only| only == model.name))
    {
        let began = Instant::now();
        let outcome = explore(*model, None);
        let bound = model
            .bound
            .map_or("no bound".to_owned(), |bound| format!("at most {bound} preemptions"));
        let ends = match outcome.ends.len() {
            0 => String::new(),
            ends => format!(", {ends} ends"),
        };
        let seconds = began.elapsed().as_secs_f64();
        say(&format!(
            "loom {}: {} interleavings ({bound}){ends}, {seconds:.1} s",
            model.name, outcome.interleavings
        ));
        let failure = outcome.failure.or_else(|| {
            let alike = outcome.ends.len() < model.ends;
            alike.then(|| format!("always ends alike: {:?}", outcome.ends))
        });
        if let Some(failure) = failure {
            say(&format!("  FAILED: {failure}"));
            failed.push(model.name);
        }
    }
    assert_eq!(failed, [""; 0], "models that do not hold");
}

/// Which model must notice each twist.
const TWISTS: &[(Twist, &str)] = &[
    (Twist::LookBeforeMode, "deliver"),
    (Twist::LookBeforeKnockIsRead, "deliver"),
    (Twist::ModeBeforePost, "deliver"),
    (Twist::TakeInSilence, "deliver"),
    (Twist::SameNumber, "withdraw against take"),
    (Twist::LookBeforeGivingUp, "give up"),
    (Twist::AnswerBlindly, "give up"),
    (Twist::AnyAnswer, "ask again"),
    (Twist::DeafToNews, "death before take"),
    (Twist::DeathIsNotTaken, "death after take"),
    (Twist::HintBeforePost, "hint"),
    (Twist::NoLookAtFormer, "watch"),
    (Twist::LookBeforeWatch, "watch"),
    (Twist::NobodyYields, "cross"),
    (Twist::BothYield, "cross"),
    (Twist::AnswerTakenInSilence, "cell of an answer"),
    (Twist::FlagsBeforeNews, "wakeup"),
    (Twist::GetUpBlindly, "lie still"),
    (Twist::CopyUnasked, "lie still"),
    (Twist::EndInSilence, "lie still"),
];

/// Weakenings are noticed with few preemptions, or not at all.
const TWIN_BOUND: usize = 3;
/// The lines are found with fewer, and of the orders most cannot be told.
const ORDER_BOUND: usize = 2;
/// The publications and the look that pairs with them: post, notify, look.
const ORDERS_TOLD: usize = 3;

#[test]
fn weakenings_are_caught() {
    let began = Instant::now();
    let seen: Vec<_> =
        MODELS.iter().map(|model| (*model, explore(bounded(*model, 1), None).sites)).collect();
    let sites: BTreeSet<Site> = seen.iter().flat_map(|(_, sites)| sites.iter().copied()).collect();
    let (orders, lines): (Vec<Site>, Vec<Site>) =
        sites.into_iter().partition(|site| site.cut == Cut::Order);
    // A weakened model panics; that it does is all one wants to know.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_panic| {}));
    let noticed_by = |site: Site, bound: usize| {
        let mut touched = seen.iter().filter(|(_, sites)| sites.contains(&site));
        touched.find_map(|(model, _)| notice(bounded(*model, bound), Weakness::Site(site)))
    };
    let mut missed = Vec::new();
    let mut record = |weakening: String, notice: Option<String>| match notice {
        Some(notice) => say(&format!("  {weakening}: {notice}")),
        None => missed.push(weakening),
    };
    for (twist, name) in TWISTS {
        let model = MODELS.iter().find(|model| model.name == *name).expect("a model of that name");
        record(format!("{twist:?}"), notice(bounded(*model, TWIN_BOUND), Weakness::Twist(*twist)));
    }
    lines.iter().for_each(|site| record(format!("without {site}"), noticed_by(*site, TWIN_BOUND)));
    let told: Vec<_> =
        orders.iter().filter_map(|site| Some((site, noticed_by(*site, ORDER_BOUND)?))).collect();
    told.iter().for_each(|(site, notice)| say(&format!("  relaxed {site}: {notice}")));
    std::panic::set_hook(hook);
    let all = TWISTS.len() + lines.len() + ORDERS_TOLD;
    let caught = all - missed.len() - ORDERS_TOLD.saturating_sub(told.len());
    let seconds = began.elapsed().as_secs_f64();
    let rest = orders.len() - told.len();
    say(&format!(
        "loom weakenings caught {caught}/{all} ({rest} orders loom cannot tell from relaxed), {seconds:.1} s"
    ));
    assert_eq!(missed, [""; 0], "weakenings that no model notices");
    assert!(told.len() >= ORDERS_TOLD, "an order that matters is not noticed: only {told:?}");
}

/// The model with no more preemptions than that.
fn bounded(model: Model, bound: usize) -> Model {
    Model { bound: Some(model.bound.map_or(bound, |own| own.min(bound))), ..model }
}

/// How this model fails with this weakening, if it does: not for want of room.
fn notice(model: Model, weakness: Weakness) -> Option<String> {
    let failure = explore(model, Some(weakness)).failure?;
    let reason = failure.split([';', '\n']).next().unwrap_or_default();
    (!reason.contains("exceeded maximum number of branches"))
        .then(|| format!("{}: {reason}", model.name))
}
