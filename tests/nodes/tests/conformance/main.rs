//! The cases of `tests/conformance` once more, with the roles of each case on two nodes: the same
//! names, the same bodies, the same expectations. What differs is in [`differences`].

#![allow(clippy::unwrap_used)]

mod differences;
mod fixture;
mod placement;

#[path = "../../../conformance/tests/conformance/peer.rs"]
mod peer;

#[path = "../../../conformance/tests/conformance/binding.rs"]
mod binding;
#[path = "../../../conformance/tests/conformance/checks.rs"]
mod checks;
#[path = "../../../conformance/tests/conformance/copies.rs"]
mod copies;
#[path = "../../../conformance/tests/conformance/death.rs"]
mod death;
#[path = "../../../conformance/tests/conformance/messages.rs"]
mod messages;
#[path = "../../../conformance/tests/conformance/names.rs"]
mod names;
#[path = "../../../conformance/tests/conformance/node.rs"]
mod node;
#[path = "../../../conformance/tests/conformance/notices.rs"]
mod notices;
#[path = "../../../conformance/tests/conformance/numbers.rs"]
mod numbers;
#[path = "../../../conformance/tests/conformance/requests.rs"]
mod requests;
#[path = "../../../conformance/tests/conformance/rights.rs"]
mod rights;
#[path = "../../../conformance/tests/conformance/unbinding.rs"]
mod unbinding;

use differences::End;
use placement::Placement;
use std::any::Any;
use std::panic::catch_unwind;
use std::sync::mpsc;
use std::time::Duration;

const PAGE: &str = include_str!("../../../../docs/nodes.md");

/// A case that goes on for so long counts as one that does not end, if that is expected.
const HANG: Duration = Duration::from_secs(8);

/// The same if it is not.
const WATCHDOG: Duration = Duration::from_secs(280);

/// The cases of one family, each a test.
macro_rules! rows {
    ($(fn $name:ident() $body:block)*) => {
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { crate::run(stringify!($name), || $body); })*
    };
}
pub(crate) use rows;

const NAMES: [&[&str]; 12] = [
    binding::NAMES,
    checks::NAMES,
    copies::NAMES,
    death::NAMES,
    messages::NAMES,
    names::NAMES,
    node::NAMES,
    notices::NAMES,
    numbers::NAMES,
    requests::NAMES,
    rights::NAMES,
    unbinding::NAMES,
];

/// Runs a case in each placement that parts its roles in another way.
fn run(name: &'static str, case: fn()) {
    for placement in Placement::ALL {
        let (end, has_pairs) = run_in(name, placement, case);
        differences::judge(name, placement, &end);
        if !has_pairs {
            return;
        }
    }
}

/// How a case ends in a placement, and whether it has roles that another placement parts.
fn run_in(name: &str, placement: Placement, case: fn()) -> (End, bool) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        placement::set(placement);
        let ended = catch_unwind(case);
        let end = match ended {
            Ok(()) => End::Passed,
            Err(panic) => End::Failed(text_of(&*panic)),
        };
        let _ = tell.send((end, placement::has_pairs()));
    });
    let hangs = differences::find(name, placement).is_some_and(|it| it.says.is_none());
    // A slow machine makes a case that should hang pass, and no other one fail.
    let limit = if hangs { HANG } else { WATCHDOG };
    told.recv_timeout(limit).unwrap_or_else(|_| {
        fixture::remove_directories();
        (End::Hangs, false)
    })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned()
}

#[test]
fn each_difference_is_one_of_a_case_and_on_the_page() {
    for it in differences::ALL {
        let is_case = NAMES.iter().any(|names| names.contains(&it.case));
        assert!(is_case, "{} is no case", it.case);
        assert!(PAGE.contains(&format!("`{}`", it.case)), "{} is not on the page", it.case);
    }
    for case in PAGE.lines().filter(|line| line.starts_with("| `")).flat_map(cases_of) {
        assert!(differences::ALL.iter().any(|it| it.case == case), "{case} is on the page alone");
    }
}

/// The cases in the first column of a row.
fn cases_of(row: &str) -> impl Iterator<Item = &str> {
    let first = row.split('|').nth(1).unwrap_or_default();
    first.split('`').skip(1).step_by(2)
}
