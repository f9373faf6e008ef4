//! Reports of a benchmark run, made from its JSON alone.
//!
//! ```text
//! schema   what the JSON holds            file      reads and writes it
//! results  rows: rounds summed up         stats     medians and quantiles
//! text     aligned columns, units         columns   one text table per suite
//! phases   phases of a round trip         libraries other libraries beside m3ipc
//! host     two cores, or one?             compare   is run B slower than run A?
//! promises figure, bound, verdict         html      one page: sections, bars, plots
//! ```
//! Arrows point from later lines to earlier ones. The crate depends on no other crate of the
//! workspace, so a run of any version can be reported without the code that measured it.
#![forbid(unsafe_code)]

pub mod columns;
pub mod compare;
mod file;
pub mod host;
mod html;
pub mod libraries;
mod modes;
pub mod notes;
mod phase_record;
pub mod phases;
pub mod promises;
pub mod results;
pub mod schema;
pub mod stats;
pub mod text;

#[cfg(test)]
mod fixture;

pub use file::{Error, replace};
pub use html::page;

/// Words of the JSON that the benchmark writes and the reports look for.
pub mod names {
    /// Tests whose figures are counts.
    pub const COUNTED: [&str; 3] = ["instructions", "memory", "fairness"];
    /// Test of a death whose server has memory of its own.
    pub const HEAVY_DEATH: &str = "death-heavy";
    /// Test of mechanisms whose client gets no error, and the counts of them.
    pub const UNTOLD: &str = "untold";
    /// Counts of named objects that outlive a killed pair.
    pub const LEFT: &str = "left";
    /// Test of binds, measured together with first contacts.
    pub const BIND: &str = "bind";
    /// Counts of the fragmentation study.
    pub const FRAGMENTATION: &str = "fragmentation";
    /// The floor that every promised exchange of messages contains: the bare sketch of it.
    pub const SKETCH: &str = "sketch";
    /// m3ipc by the calls of its C library.
    pub const C_CALLS: &str = "m3ipc-c";
    /// The floor of one cache line that two CPUs pass to each other.
    pub const BOUNCE: &str = "bounce";
    /// Test of a connection up to its first answer.
    pub const SOCK_FIRST: &str = "sock-first";
}

/// Size of a page in bytes, as the tests of memory count pages.
pub const PAGE_BYTES: usize = 4_096;

/// Whether names match the words of `--only`: each word must match, commas separate alternatives.
#[must_use]
pub fn matches(only: &[String], names: &[&str]) -> bool {
    let any =
        |words: &String| words.split(',').any(|word| names.iter().any(|name| name.contains(word)));
    only.iter().all(any)
}
