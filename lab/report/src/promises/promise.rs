//! One promise: the figure, its bound and the verdict.

use crate::notes::NOT_MEASURED;
use crate::results::Results;
use crate::text::time;

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
    /// A number of things.
    Number,
    /// A share of one CPU, in millionths.
    Ppm,
    /// A share of a whole.
    Share,
}

impl Unit {
    /// A figure with this unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Times if value < 1_000.0 => format!("{value:.2} x"),
            Self::Times | Self::Instructions | Self::Number => format!("{value:.0}"),
            Self::Ns => time(value),
            Self::Bytes => format!("{value:.0} B"),
            Self::Ppm => format!("{value:.0} ppm"),
            Self::Share => format!("{:.1} %", value * 100.0),
        }
    }
}

/// Finds a reason in a run.
type Reason = fn(&Results) -> Option<String>;

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
    /// The reason why this host cannot judge the promise, if there is one.
    pub obstacle: Reason,
    /// The reason for a missing figure, where the run knows it.
    pub missing: Reason,
}

/// A promise beside the results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The figure, if it was measured.
    pub figure: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for a missing judgement.
    pub why: Option<String>,
}

impl Judged {
    /// The verdict, and the reason for a missing judgement, in a table.
    #[must_use]
    pub fn text(&self) -> String {
        let name = match self.verdict {
            Verdict::NotMeasured if self.why.is_some() => NOT_MEASURED,
            verdict => verdict.name(),
        };
        self.why.as_ref().map_or_else(|| name.into(), |why| format!("{name}: {why}"))
    }
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
    /// This host cannot judge it.
    NotJudged,
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
            Self::NotJudged => "not judged here",
        }
    }
}

impl Promise {
    /// A promise without a stretch whose figure is a ratio.
    pub(super) const fn ratio(
        id: &'static str,
        what: &'static str,
        bound: Bound,
        figure: fn(&Results) -> Option<f64>,
    ) -> Self {
        let (obstacle, missing): (Reason, Reason) = (|_| None, |_| None);
        Self { id, what, bound, stretch: None, unit: Unit::Times, figure, obstacle, missing }
    }

    pub(super) const fn stretch(self, stretch: f64) -> Self {
        Self { stretch: Some(stretch), ..self }
    }

    pub(super) const fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// The promise is judged only where this finds no reason against it.
    pub(super) const fn unless(self, obstacle: Reason) -> Self {
        Self { obstacle, ..self }
    }

    /// A missing figure has this reason, where the run knows it.
    pub(super) const fn missing(self, missing: Reason) -> Self {
        Self { missing, ..self }
    }

    /// The figure and the verdict.
    #[must_use]
    pub fn judge(&self, results: &Results) -> Judged {
        let Some(figure) = (self.figure)(results).filter(|figure| figure.is_finite()) else {
            let why = (self.missing)(results);
            return Judged { figure: None, verdict: Verdict::NotMeasured, why };
        };
        if let Some(why) = (self.obstacle)(results) {
            let verdict = Verdict::NotJudged;
            return Judged { figure: Some(figure), verdict, why: Some(why) };
        }
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
        Judged { figure: Some(figure), verdict, why: None }
    }
}
