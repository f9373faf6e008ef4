//! The sections of the page. A section without results is left out.

mod blocks;
mod costs;
mod death;
mod libraries;
mod machine;
mod many;
mod memory;
mod messages;
mod papers;
mod phases;
mod sockets;
mod tables;

use super::section::Section;
use crate::results::Results;
use crate::schema::Run;

pub use machine::{card, headline, warnings};

/// All sections that have results.
pub fn all(run: &Run, results: &Results) -> Vec<Section> {
    let sections = [
        messages::awake(results),
        messages::asleep(results),
        many::pairs(results),
        many::clients(results),
        blocks::section(results),
        memory::attach(results),
        memory::handover(results),
        memory::fragmentation(results),
        sockets::section(results),
        death::section(results),
        libraries::section(results),
        costs::section(results),
        phases::section(results),
        tables::promises(results),
        papers::section(results),
        tables::figures(results),
        tables::left_out(run),
    ];
    sections.into_iter().flatten().collect()
}
