//! The promises as data: the figures that compare, the bound, the verdict.
//!
//! A figure uses results of one run only. A promise without results is "not measured", which is
//! neither a failure nor a success.

mod blocks;
mod messages;
mod sockets;

use crate::results::Results;
use crate::text::{Table, or_dash, time};

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// No bound: the figure is stated.
    Stated,
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A ratio of two figures of this run.
    Times,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Instructions.
    Instructions,
    /// A share of one CPU, in millionths.
    Ppm,
}

impl Unit {
    /// A figure with this unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Times if value < 1_000.0 => format!("{value:.2} x"),
            Self::Times | Self::Instructions => format!("{value:.0}"),
            Self::Ns => time(value),
            Self::Bytes => format!("{value:.0} B"),
            Self::Ppm => format!("{value:.0} ppm"),
        }
    }
}

/// One promise.
pub struct Promise {
    /// Its id.
    pub id: &'static str,
    /// The figures that compare.
    pub what: &'static str,
    /// The bound.
    pub bound: Bound,
    /// The bound that is hoped for.
    pub stretch: Option<f64>,
    /// The unit of the figure.
    pub unit: Unit,
    /// Computes the figure.
    pub figure: fn(&Results) -> Option<f64>,
}

/// The verdict on a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds, and so does its stretch.
    Stretch,
    /// It holds.
    Holds,
    /// It does not hold.
    FallsShort,
    /// It has no bound.
    Stated,
    /// The run has no results for it.
    NotMeasured,
}

impl Verdict {
    /// The verdict in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stretch => "holds, stretch too",
            Self::Holds => "holds",
            Self::FallsShort => "FALLS SHORT",
            Self::Stated => "stated",
            Self::NotMeasured => "not measured",
        }
    }
}

impl Promise {
    /// A promise without a stretch whose figure is a ratio.
    const fn ratio(
        id: &'static str,
        what: &'static str,
        bound: Bound,
        figure: fn(&Results) -> Option<f64>,
    ) -> Self {
        Self { id, what, bound, stretch: None, unit: Unit::Times, figure }
    }

    const fn stretch(self, stretch: f64) -> Self {
        Self { stretch: Some(stretch), ..self }
    }

    const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The figure and the verdict.
    #[must_use]
    pub fn judge(&self, results: &Results) -> (Option<f64>, Verdict) {
        let Some(figure) = (self.figure)(results).filter(|figure| figure.is_finite()) else {
            return (None, Verdict::NotMeasured);
        };
        let meets = |limit: f64| match self.bound {
            Bound::AtMost(_) => figure <= limit,
            Bound::AtLeast(_) => figure >= limit,
            Bound::Stated => true,
        };
        let verdict = match self.bound {
            Bound::Stated => Verdict::Stated,
            Bound::AtMost(limit) | Bound::AtLeast(limit) if !meets(limit) => Verdict::FallsShort,
            _ if self.stretch.is_some_and(meets) => Verdict::Stretch,
            _ => Verdict::Holds,
        };
        (Some(figure), verdict)
    }
}

/// All promises in the order of their ids; the promises about sockets come last.
#[must_use]
pub fn all() -> Vec<&'static Promise> {
    let number =
        |promise: &&Promise| promise.id.trim_start_matches('P').parse().unwrap_or(u32::MAX);
    let mut all: Vec<&Promise> = messages::PROMISES.iter().chain(&blocks::PROMISES).collect();
    all.sort_by_key(number);
    all.extend(&sockets::PROMISES);
    all
}

/// The table of all promises, and the number that fall short.
#[must_use]
pub fn text(results: &Results) -> (String, usize) {
    let mut table = Table::new(&["", "promise", "figure", "bound", "stretch", ""]);
    let (mut short, mut unmeasured) = (0, 0);
    let promises = all();
    for promise in &promises {
        let (figure, verdict) = promise.judge(results);
        let show = |value: f64| promise.unit.show(value);
        short += usize::from(verdict == Verdict::FallsShort);
        unmeasured += usize::from(verdict == Verdict::NotMeasured);
        table.row(vec![
            promise.id.into(),
            promise.what.into(),
            or_dash(figure, show),
            match promise.bound {
                Bound::AtMost(limit) => format!("<= {}", show(limit)),
                Bound::AtLeast(limit) => format!(">= {}", show(limit)),
                Bound::Stated => "-".into(),
            },
            or_dash(promise.stretch, show),
            verdict.name().into(),
        ]);
    }
    let measured = promises.len() - unmeasured;
    let text = format!(
        "\npromises\n{}{measured} of {} measured, {short} fall short\n",
        table.text(),
        promises.len()
    );
    (text, short)
}
