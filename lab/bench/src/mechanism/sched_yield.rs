//! The floor of a hand-off on one CPU: a shared word and sched_yield.

use rustix::thread::sched_yield;

use super::bounce::{self, Word};
use super::{Family, Inherited, Mechanism, Paces, Site, Transport};
use crate::error::Error;
use crate::job::{Report, Wait, Work};
use crate::peer::Run;

/// Each side yields until the word is its own to answer; nothing but the word travels.
pub struct SchedYield;

impl Mechanism for SchedYield {
    fn name(&self) -> &'static str {
        "sched-yield"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Ipc2]
    }

    fn waits(&self) -> &'static [Wait] {
        &[Wait::Yield]
    }

    fn bytes(&self, _: Work) -> usize {
        0
    }

    fn paces(&self) -> Paces {
        Paces::Awake
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        bounce::page()
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Word::new(inherited, sched_yield)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Word::new(inherited, sched_yield)?)
    }
}
