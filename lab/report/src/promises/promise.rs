//! One promise: the figure, its bound and the verdict.

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
    pub(super) const fn ratio(
        id: &'static str,
        what: &'static str,
        bound: Bound,
        figure: fn(&Results) -> Option<f64>,
    ) -> Self {
        Self { id, what, bound, stretch: None, unit: Unit::Times, figure }
    }

    pub(super) const fn stretch(self, stretch: f64) -> Self {
        Self { stretch: Some(stretch), ..self }
    }

    pub(super) const fn unit(self, unit: Unit) -> Self {
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
