//! The chapters of the page, each of what was measured for it; a chapter without results is not there.

mod blocks;
mod costs;
mod death;
mod libraries;
mod machine;
mod memory;
mod messages;
mod pairs;
mod papers;
mod phases;
mod sockets;
mod tables;

use maud::Markup;

use crate::output::Output;
use crate::record::Results;

pub use machine::{card, headline, warnings};

/// One chapter.
pub struct Chapter {
    /// Its anchor.
    pub id: &'static str,
    /// Its name in the list of chapters.
    pub name: &'static str,
    /// What was found.
    pub title: Markup,
    /// The rest.
    pub body: Markup,
}

/// All chapters that there are results for.
#[must_use]
pub fn all(output: &Output, results: &Results) -> Vec<Chapter> {
    let chapters = [
        messages::awake(results),
        messages::asleep(results),
        pairs::pairs(results),
        pairs::clients(results),
        blocks::copies(results),
        memory::attach(results),
        memory::handover(results),
        memory::pieces(results),
        sockets::chapter(results),
        death::chapter(results),
        libraries::chapter(results),
        costs::chapter(results),
        phases::chapter(results),
        tables::promises(results),
        papers::chapter(results),
        tables::figures(results),
        tables::left_out(output),
    ];
    chapters.into_iter().flatten().collect()
}
