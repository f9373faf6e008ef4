//! The plan of a run: steps of cells that take turns.

use m3ipc_report::columns::Column;
use m3ipc_report::promises::Measurement;
use m3ipc_report::schema::{Placement, Wait};

use crate::args::BenchArgs;
use crate::cpus::Cpus;
use crate::job::Load;
use crate::measure::Cell;
use crate::subject::Subject;

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// The parameters of a plan.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The command line.
    pub args: &'a BenchArgs,
    /// The CPUs.
    pub cpus: Cpus,
    /// Subjects of other libraries.
    pub libraries: &'a [&'static dyn Subject],
    /// Whether phases are wanted.
    pub has_phases: bool,
}

/// One step of a run, short enough to be repeated after an interruption.
pub struct Step {
    /// Its title, which no other step of a run has.
    pub title: String,
    /// Name of its test in the JSON.
    pub test: &'static str,
    /// Cells that take turns, one group per size.
    pub groups: Vec<Vec<Cell>>,
    /// Whether the groups take turns too, because a promise compares their sizes: the host changes
    /// during a run.
    pub sizes_in_turn: bool,
    /// The work and its text.
    pub work: StepWork,
}

/// The work of a step.
#[derive(Clone, Copy)]
pub enum StepWork {
    /// Rows with these columns.
    Rows(&'static [Column]),
    /// Death of the server: does the client get an error, and which named objects stay?
    Untold,
    /// Phases of a round trip.
    Phases,
    /// Fragmentation of areas.
    Fragmentation,
    /// Instructions and memory.
    Counts,
}

impl Step {
    /// A step of one group with rows.
    pub fn rows(
        title: String,
        test: &'static str,
        columns: &'static [Column],
        groups: Vec<Vec<Cell>>,
    ) -> Self {
        let groups = groups.into_iter().filter(|cells| !cells.is_empty()).collect();
        Self { title, test, groups, sizes_in_turn: false, work: StepWork::Rows(columns) }
    }

    /// A step without cells.
    pub fn of_work(title: &str, test: &'static str, work: StepWork) -> Self {
        Self { title: title.into(), test, groups: vec![], sizes_in_turn: false, work }
    }

    /// The same step with groups that take turns.
    pub fn in_turn(self) -> Self {
        Self { sizes_in_turn: true, ..self }
    }

    /// The cells that take turns, as one list for each turn of them.
    pub fn turns(&self) -> Vec<Vec<Cell>> {
        if self.sizes_in_turn { vec![self.groups.concat()] } else { self.groups.clone() }
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        let has_cells = !matches!(self.work, StepWork::Fragmentation | StepWork::Counts);
        has_cells && self.groups.is_empty()
    }
}

impl Plan<'_> {
    /// Whether `--only` leaves a measurement with these names.
    pub fn lets(&self, names: &[&str]) -> bool {
        m3ipc_report::matches(&self.args.common.only, names)
    }

    /// The value for a quick run, or that for a full one.
    pub fn sized<T>(&self, quick: T, full: T) -> T {
        if self.args.common.quick { quick } else { full }
    }

    /// A cell for each subject and wait mode that takes part and that `--only` leaves.
    pub fn cells(
        &self,
        test: &str,
        subjects: &[&'static dyn Subject],
        load: Load,
        placement: Placement,
    ) -> Vec<Cell> {
        self.cells_if(test, subjects, load, placement, |_, _| true)
    }

    /// The same for subjects and wait modes that pass.
    pub fn cells_if(
        &self,
        test: &str,
        subjects: &[&'static dyn Subject],
        load: Load,
        placement: Placement,
        passes: impl Fn(&dyn Subject, Wait) -> bool,
    ) -> Vec<Cell> {
        let mut cells = vec![];
        for &subject in subjects {
            let placement = subject.placement(placement);
            let load = Load { bytes: subject.bytes(&load), ..load };
            for &wait in subject.waits(&load) {
                let names = [test, subject.name(), placement.name(), wait.name()];
                let measurement = Measurement {
                    test,
                    mechanism: subject.name(),
                    family: subject.family(),
                    placement,
                    wait,
                    bytes: load.bytes,
                };
                let wanted = self.lets(&names) && self.args.needs(&measurement);
                if wanted && passes(subject, wait) {
                    cells.push(Cell { subject, load, wait, placement, experiment: None });
                }
            }
        }
        cells
    }
}
