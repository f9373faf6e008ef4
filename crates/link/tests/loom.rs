//! The data plane under loom: every interleaving of two or three parties, and every value that a
//! weak memory may show them.
//!
//! The models run the steps of m3ipc-link itself, on the words of the checker; also the order of
//! the steps is the product's ([`m3ipc_link::waiting`], `Link::cancel`, `copy_gate::unpark`). No
//! sleep has a limit, so a lost wake-up is a deadlock.
//!
//! A model that passes proves little unless it can fail. [`weakened`] runs a model with one step of
//! a caller planted in the wrong place. [`lines`] weakens the product line by line. Each weakening
//! must be noticed.
//!
//! Limits: loom treats sequentially consistent accesses as acquire and release accesses, and never
//! shows a load a later store. So a relaxed order that it accepts may still be wrong.
//!
//! The plain run bounds the preemptions of each model. `M3_LOOM_FULL=1 cargo test -p m3ipc-link
//! --release --test loom` explores deeper.
#![cfg(not(miri))]

#[path = "loom/copies.rs"]
mod copies;
#[path = "loom/delivery.rs"]
mod delivery;
#[path = "loom/discovery.rs"]
mod discovery;
#[path = "loom/held.rs"]
mod held;
#[path = "loom/model_endpoint.rs"]
mod model_endpoint;
#[path = "loom/model_memory.rs"]
mod model_memory;
#[path = "loom/requests.rs"]
mod requests;
#[path = "loom/weakness.rs"]
mod weakness;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weakness::{Cut, Site, Twist, Weakness};

/// One model.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    run: fn(),
    /// Preemptions of the plain run.
    bound: usize,
    /// Preemptions of the full run; `None` for no bound.
    full_bound: Option<usize>,
    /// Least number of different ends of the model. A model that always ends alike shows little.
    ends: usize,
}

/// Preemptions that a weakening needs to be noticed.
const WEAKENED_BOUND: usize = 3;
/// Preemptions of the runs with one weakened line.
const LINE_BOUND: usize = 2;
/// The orders that a model must notice: those of the publications and of `peek`.
const NOTICED_ORDERS: usize = 3;

thread_local! {
    static RUNS: Cell<u64> = const { Cell::new(0) };
}

/// The result of an exploration.
struct Outcome {
    interleavings: u64,
    ends: BTreeSet<String>,
    sites: BTreeSet<Site>,
    failure: Option<String>,
}

fn is_full() -> bool {
    std::env::var_os("M3_LOOM_FULL").is_some()
}

/// Explores a model in a thread of its own, because the weakening is a state of the thread.
fn explore(model: Model, bound: Option<usize>, weakness: Option<Weakness>) -> Outcome {
    let exploring = std::thread::spawn(move || {
        weakness::choose(weakness);
        weakness::note_sites();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = bound;
        builder.max_branches = 20_000;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            builder.check(move || {
                RUNS.set(RUNS.get() + 1);
                (model.run)();
            });
        }));
        let failure = checked.err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        });
        Outcome {
            interleavings: RUNS.get(),
            ends: weakness::noted_ends(),
            sites: weakness::noted_sites(),
            failure,
        }
    });
    exploring.join().expect("panics are caught inside")
}

/// Checks that a model holds.
fn check(model: Model) {
    let bound = if is_full() { model.full_bound } else { Some(model.bound) };
    let outcome = explore(model, bound, None);
    println!("{}: {} interleavings", model.name, outcome.interleavings);
    assert_eq!(outcome.failure, None, "the model fails");
    let ends = outcome.ends;
    assert!(ends.len() >= model.ends, "the model always ends alike: {ends:?}");
}

/// The failure of a weakened model, unless it is a lack of branches.
fn notice(model: Model, bound: usize, weakness: Weakness) -> Option<String> {
    let bound = model.full_bound.map_or(bound, |full| full.min(bound));
    let failure = explore(model, Some(bound), Some(weakness)).failure?;
    let reason = failure.split([';', '\n']).next().unwrap_or_default().to_owned();
    (!reason.contains("exceeded maximum number of branches")).then_some(reason)
}

macro_rules! models {
    ($($name:ident: $run:path, $bound:literal, $full:expr, $ends:literal;)*) => {
        /// All models.
        const MODELS: &[Model] = &[$(models::$name),*];

        mod models {
            use super::*;

            $(
                #[allow(non_upper_case_globals)]
                pub const $name: Model = Model {
                    name: stringify!($name),
                    run: $run,
                    bound: $bound,
                    full_bound: $full,
                    ends: $ends,
                };
            )*
        }

        mod holds {
            $(
                #[test]
                fn $name() {
                    super::check(super::models::$name);
                }
            )*
        }
    };
}

models! {
    deliver: delivery::deliver, 3, Some(5), 0;
    deliver_twice: delivery::deliver_twice, 2, Some(4), 0;
    short_delivery: delivery::short_delivery, 3, Some(5), 0;
    withdraw_against_take: delivery::withdraw, 4, Some(5), 4;
    notify: delivery::notify, 2, Some(4), 0;
    notify_waiting: delivery::notify_waiting, 2, Some(4), 3;
    pulse: delivery::pulse, 2, Some(4), 0;
    pulse_ring: delivery::pulse_ring, 3, None, 2;
    cross: delivery::cross, 2, Some(4), 0;
    cross_back: delivery::cross_back, 2, Some(4), 0;
    cross_at_once: delivery::cross_at_once, 2, Some(4), 0;
    answer: requests::answer, 3, Some(5), 0;
    cancel: requests::cancel, 3, Some(6), 3;
    short_answer: requests::short_answer, 3, Some(5), 0;
    short_cancel: requests::short_cancel, 3, Some(6), 3;
    long_answer: requests::long_answer, 3, Some(5), 0;
    long_cancel: requests::long_cancel, 3, Some(6), 3;
    ask_again: requests::ask_again, 3, Some(4), 3;
    death_before_take: requests::death_before_take, 3, None, 1;
    death_after_take: requests::death_after_take, 3, None, 2;
    death_after_answer: requests::death_after_answer, 3, None, 2;
    event_while_answering: requests::event_while_answering, 2, Some(3), 3;
    slot_of_answer: requests::slot_of_answer, 3, None, 0;
    wakeup: requests::wakeup, 3, None, 0;
    ready_bit: discovery::ready_bit, 3, None, 0;
    ready_bit_left: discovery::ready_bit_left, 3, None, 0;
    two_ready_bits: discovery::two_ready_bits, 2, Some(3), 0;
    hot_set: discovery::hot_set, 3, Some(6), 0;
    park: copies::park, 3, None, 2;
    park_for_two: copies::park_for_two, 3, Some(4), 3;
    held_taken: held::taken, 2, Some(4), 0;
    held_given_back: held::given_back, 2, Some(4), 0;
    held_lost: held::lost, 2, Some(4), 0;
    held_unanswered: held::unanswered, 2, Some(4), 0;
    held_ask_back: held::ask_back, 2, Some(4), 0;
    held_ask_too_late: held::ask_too_late, 2, Some(4), 0;
    held_withdraw_or_take: held::withdraw_or_take, 3, Some(5), 3;
    held_withdraw_or_give_back: held::withdraw_or_give_back, 3, Some(5), 3;
    held_withdraw_or_let_go: held::withdraw_or_let_go, 3, Some(5), 3;
    held_cancel_or_lose_answer: held::cancel_or_lose_answer, 3, Some(5), 2;
    held_death_of_the_proxy: held::death_of_the_proxy, 2, Some(4), 2;
    held_death_while_held: held::death_while_held, 2, Some(4), 0;
}

macro_rules! weakened {
    ($($test:ident: $twist:ident, $model:ident;)*) => {
        /// Each model fails with this step of a caller in the wrong place.
        mod weakened {
            use super::{Twist, WEAKENED_BOUND, Weakness, models, notice};

            $(
                #[test]
                fn $test() {
                    let weakness = Weakness::Twist(Twist::$twist);
                    let noticed = notice(models::$model, WEAKENED_BOUND, weakness);
                    println!("{noticed:?}");
                    assert!(noticed.is_some(), "the model does not notice it");
                }
            )*
        }
    };
}

weakened! {
    poll_before_the_mode: PollBeforeMode, deliver;
    poll_before_the_wake_word_is_read: PollBeforeWakeWord, deliver;
    mode_read_before_the_post: ModeBeforePost, deliver;
    take_without_a_wake_up: TakeWithoutWakeUp, deliver;
    short_take_without_a_wake_up: TakeWithoutWakeUp, short_delivery;
    repeated_message_number: SameNumber, withdraw_against_take;
    poll_before_the_cancellation: PollBeforeCancel, cancel;
    answer_without_a_second_check: AnswerBlindly, cancel;
    answer_to_another_request: AnyAnswer, ask_again;
    sleep_without_the_event_word: NoEventWord, death_before_take;
    death_counted_as_not_taken: DeathIsNotTaken, death_after_take;
    ready_bit_before_the_post: ReadyBitBeforePost, ready_bit;
    no_poll_of_the_former_hot_link: NoPollOfFormer, hot_set;
    poll_before_the_hot_set_changes: PollBeforeHotSet, hot_set;
    no_party_of_a_crossing_yields: NoPartyYields, cross;
    both_parties_of_a_crossing_yield: BothYield, cross;
    answer_taken_without_a_wake_up: AnswerTakenWithoutWakeUp, slot_of_answer;
    flags_read_before_the_event_word: FlagsBeforeEvents, wakeup;
    notifications_merged_in_a_wait: MergeInWait, notify_waiting;
    unpark_without_a_check: UnparkBlindly, park;
    copy_without_the_gate: CopyWithoutGate, park;
    end_of_copy_without_a_wake_up: EndWithoutWakeUp, park;
    code_of_a_proxy_in_the_cell: CodeInCell, held_withdraw_or_give_back;
    decision_without_a_wake_up: DecideWithoutWakeUp, held_taken;
    question_without_a_wake_up: AskWithoutWakeUp, held_ask_back;
    held_message_left_blindly: LeaveBlindly, held_withdraw_or_take;
}

/// The lines of m3ipc-link that the models run, found by a first run, and the models of each line.
fn sites(cut: Cut) -> Vec<(Site, Vec<Model>)> {
    let seen: Vec<_> =
        MODELS.iter().map(|model| (*model, explore(*model, Some(1), None).sites)).collect();
    let all: BTreeSet<Site> = seen.iter().flat_map(|(_, sites)| sites.iter().copied()).collect();
    let models = |site: &Site| {
        let touched = seen.iter().filter(|(_, sites)| sites.contains(site));
        touched.map(|(model, _)| *model).collect()
    };
    all.into_iter().filter(|site| site.cut == cut).map(|site| (site, models(&site))).collect()
}

/// The first notice of a weakened line by one of its models.
fn notice_line(site: Site, models: &[Model], bound: usize) -> Option<String> {
    models.iter().find_map(|model| {
        let reason = notice(*model, bound, Weakness::Site(site))?;
        Some(format!("{}: {reason}", model.name))
    })
}

/// Each line of the product is needed: without it, a model fails.
mod lines {
    use super::{Cut, LINE_BOUND, NOTICED_ORDERS, WEAKENED_BOUND, notice_line, sites};

    fn all_are_noticed(cut: Cut) {
        let mut missed = Vec::new();
        for (site, models) in sites(cut) {
            let noticed =
                (LINE_BOUND..=WEAKENED_BOUND).find_map(|bound| notice_line(site, &models, bound));
            println!("without {site}: {noticed:?}");
            if noticed.is_none() {
                missed.push(site.to_string());
            }
        }
        assert_eq!(missed, [""; 0], "weakenings that no model notices");
    }

    #[test]
    fn fences() {
        all_are_noticed(Cut::Fence);
    }

    #[test]
    fn exchanges() {
        all_are_noticed(Cut::Exchange);
    }

    #[test]
    fn wake_words() {
        all_are_noticed(Cut::Bump);
    }

    /// Loom cannot tell most sequentially consistent accesses from relaxed ones.
    #[test]
    fn orders() {
        let all = sites(Cut::Order);
        let noticed: Vec<String> = all
            .iter()
            .filter_map(|(site, models)| {
                Some(format!("relaxed {site}: {}", notice_line(*site, models, LINE_BOUND)?))
            })
            .collect();
        println!("{} of {} orders are noticed: {noticed:#?}", noticed.len(), all.len());
        assert!(noticed.len() >= NOTICED_ORDERS, "an order that matters is not noticed");
    }
}
