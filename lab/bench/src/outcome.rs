//! The end of a run and its exit code.

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every measurement was made, or skipped with its reason; no judged promise falls short.
    Fine,
    /// A promise falls short, or a run is slower than another.
    FallsShort,
    /// A measurement failed.
    Failed,
}

impl Outcome {
    /// The exit code of the program: that of `m3`, which has 2 for wrong usage.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::FallsShort => 1,
            Self::Failed => 4,
        }
    }
}
