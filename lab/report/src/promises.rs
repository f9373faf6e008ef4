//! The promises as data: the figures that compare, the bound, the verdict.
//!
//! A figure uses results of one run only. A promise without results is "not measured", and
//! one that this host cannot judge is "not judged here": neither a failure nor a success.

mod blocks;
mod costs;
mod messages;
mod needs;
mod promise;
mod sockets;

pub use self::needs::Measurement;
pub use self::promise::{Bound, Judged, Promise, Unit, Verdict};
use crate::results::Results;
use crate::text::{Table, or_dash};

/// All promises in the order of their ids; the promises about sockets come last.
#[must_use]
pub fn all() -> Vec<&'static Promise> {
    let number =
        |promise: &&Promise| promise.id.trim_start_matches('P').parse().unwrap_or(u32::MAX);
    let parts = [&messages::PROMISES[..], &blocks::PROMISES, &costs::PROMISES];
    let mut all: Vec<&Promise> = parts.into_iter().flatten().collect();
    all.sort_by_key(number);
    all.extend(&sockets::PROMISES);
    all
}

/// The table of all promises, and the number that fall short.
#[must_use]
pub fn text(results: &Results) -> (String, usize) {
    let mut table = Table::new(&["", "promise", "figure", "bound", "stretch", ""]);
    let (mut short, mut unmeasured, mut unjudged) = (0, 0, 0);
    let promises = all();
    for promise in &promises {
        let judged = promise.judge(results);
        let show = |value: f64| promise.unit.show(value);
        short += usize::from(judged.verdict == Verdict::FallsShort);
        unmeasured += usize::from(judged.verdict == Verdict::NotMeasured);
        unjudged += usize::from(judged.verdict == Verdict::NotJudged);
        table.row(vec![
            promise.id.into(),
            promise.what.into(),
            or_dash(judged.figure, show),
            match promise.bound {
                Bound::AtMost(limit) => format!("<= {}", show(limit)),
                Bound::AtLeast(limit) => format!(">= {}", show(limit)),
                Bound::Stated => "-".into(),
            },
            or_dash(promise.stretch, show),
            judged.text(),
        ]);
    }
    let measured = promises.len() - unmeasured;
    let text = format!(
        "\npromises\n{}{measured} of {} measured, {unjudged} not judged here, {short} fall short\n",
        table.text(),
        promises.len()
    );
    (text, short)
}
