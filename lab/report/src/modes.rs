//! How and where the sides of a measurement run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// It polls and never leaves the CPU.
    Spin,
    /// It polls and yields the CPU between two polls.
    Yield,
    /// It sleeps in the kernel.
    Block,
    /// It spins while that pays, then sleeps.
    Adaptive,
}

/// Where the two sides run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both are pinned to one CPU.
    SameCpu,
    /// Each is pinned to its own CPU.
    TwoCpus,
    /// The kernel places them.
    Any,
}

/// What a mechanism stands for in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// m3ipc.
    Ours,
    /// A mechanism of the kernel.
    Kernel,
    /// The least that any mechanism of this shape can cost on this machine.
    Floor,
    /// Another library.
    Peer,
}

/// What a machine says about the two CPUs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// They are two cores.
    TwoCores,
    /// They are two threads of one core.
    OneCore,
}

macro_rules! named {
    ($($kind:ident { $($variant:ident = $name:literal),* })*) => {$(
        impl $kind {
            /// Its name in tables.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}
named! {
    Wait { Spin = "spin", Yield = "yield", Block = "block", Adaptive = "adaptive" }
    Placement { SameCpu = "same-cpu", TwoCpus = "two-cpus", Any = "any" }
    Claim { TwoCores = "two cores", OneCore = "two threads of one core" }
}

impl Family {
    /// The mark in the last column of a table.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Ours => "<- ours",
            Self::Floor => "floor",
            Self::Kernel => "",
            Self::Peer => "library",
        }
    }
}
