//! Round trips that are cut into phases, and experiments with software choices.

use m3ipc_report::schema::{Placement, Wait};

use crate::args::Experiment;
use crate::job::{Carries, Load, Test};
use crate::measure::Cell;
use crate::payload::MESSAGE_BYTES;
use crate::plan::{MS, Plan, Step, StepWork};
use crate::subject::Subject;
use crate::subjects::OURS;

const WARM_NS: u64 = 20 * MS;
/// Payloads in bytes.
const LONG_BYTES: usize = 1_792;
const BLOCK_BYTES: usize = 64 << 10;
const VCOPY_BYTES: usize = 4 << 10;
const INLINE_BYTES: usize = 40;

/// Placements and wait modes of m3ipc.
const MODES: [(Placement, Wait); 3] = [
    (Placement::TwoCpus, Wait::Spin),
    (Placement::SameCpu, Wait::Adaptive),
    (Placement::TwoCpus, Wait::Block),
];
const PAYLOADS: [(Carries, usize); 4] = [
    (Carries::Short, MESSAGE_BYTES),
    (Carries::Long, LONG_BYTES),
    (Carries::Block, BLOCK_BYTES),
    (Carries::Vcopy, VCOPY_BYTES),
];
/// Mechanisms of the kernel with their payloads.
const KERNEL: [(&str, Carries, usize); 3] = [
    ("pipe", Carries::Short, MESSAGE_BYTES),
    ("unix-stream", Carries::Short, MESSAGE_BYTES),
    ("futex", Carries::Nothing, 0),
];

/// The one step of the suite.
pub fn steps(plan: &Plan<'_>, subjects: &[&'static dyn Subject]) -> Vec<Step> {
    let groups = vec![cells(plan, subjects)];
    let title = "phases of a round trip".into();
    vec![Step { work: StepWork::Phases, ..Step::rows(title, "phases", &[], groups) }]
}

fn cells(plan: &Plan<'_>, subjects: &[&'static dyn Subject]) -> Vec<Cell> {
    let span_ns = plan.args.common.span_ns(40, 120);
    let cell = |name: &str, carries, bytes, queued, (placement, wait)| {
        let subject = *subjects.iter().find(|subject| subject.name() == name)?;
        let load = Load::new(Test::Phases { carries, queued }, bytes).over(span_ns, WARM_NS);
        Some(Cell { subject, load, wait, placement, experiment: None })
    };
    let mut cells: Vec<Cell> = vec![];
    if plan.args.experiment.is_none() {
        for mode in MODES {
            let of = |&(carries, bytes)| cell(OURS, carries, bytes, false, mode);
            cells.extend(PAYLOADS.iter().filter_map(of));
        }
        for placement in [Placement::TwoCpus, Placement::SameCpu] {
            let mode = (placement, Wait::Block);
            let of = |&(name, carries, bytes)| cell(name, carries, bytes, false, mode);
            cells.extend(KERNEL.iter().filter_map(of));
        }
    }
    let ours = |carries, bytes, queued, mode| cell(OURS, carries, bytes, queued, mode);
    let short = |queued, mode| ours(Carries::Short, MESSAGE_BYTES, queued, mode);
    for experiment in [Experiment::Sender, Experiment::Copy, Experiment::Switch] {
        if plan.args.experiment.is_some_and(|wanted| wanted != experiment) {
            continue;
        }
        // The library's choice, and the choice it is compared with.
        let [awake, yields, sleeps] = [MODES[0], MODES[1], (Placement::SameCpu, Wait::Block)];
        let variants = match experiment {
            Experiment::Sender => [("header", short(false, awake)), ("queue", short(true, awake))],
            Experiment::Copy => [
                ("inline", short(false, awake)),
                ("memory", ours(Carries::Long, INLINE_BYTES, false, awake)),
            ],
            Experiment::Switch => {
                [("yield", short(false, yields)), ("futex", short(false, sleeps))]
            }
        };
        let experiment = experiment.name();
        cells.extend(variants.into_iter().filter_map(|(variant, cell)| {
            Some(Cell { experiment: Some((experiment, variant)), ..cell? })
        }));
    }
    cells.retain(|cell| {
        let experiment = cell.experiment.map_or("", |(experiment, _)| experiment);
        let Test::Phases { carries, .. } = cell.load.test else { return false };
        let (placement, wait) = (cell.placement.name(), cell.wait.name());
        let names = ["phases", cell.subject.name(), carries.name(), placement, wait, experiment];
        (cell.placement != Placement::TwoCpus || plan.cpus.second.is_some()) && plan.lets(&names)
    });
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BenchArgs;
    use crate::cpus::Cpus;
    use crate::job::SuiteName;
    use crate::subjects;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    fn planned(args: &BenchArgs, cpus: Cpus) -> Vec<Cell> {
        let plan = Plan { args, cpus, libraries: &[], has_phases: true };
        cells(&plan, &subjects::all(SuiteName::Phases))
    }

    #[test]
    fn a_table_has_each_payload_in_each_placement() {
        let cells = planned(&BenchArgs::default(), CPUS);
        let is_ours = |cell: &&Cell| cell.subject.name() == OURS;
        let of = |wanted: Carries| {
            let plain = cells.iter().filter(|it| is_ours(it) && it.experiment.is_none());
            let is = |test| matches!(test, Test::Phases { carries, .. } if carries == wanted);
            plain.filter(|cell| is(cell.load.test)).count()
        };
        let all = [Carries::Short, Carries::Long, Carries::Block, Carries::Vcopy];
        assert_eq!(all.map(of), [3, 3, 3, 3]);
        assert_eq!(cells.iter().filter(|cell| !is_ours(cell)).count(), 6);
        assert_eq!(cells.iter().filter(|cell| cell.experiment.is_some()).count(), 6);
    }

    #[test]
    fn an_experiment_can_be_repeated_alone() {
        let args = BenchArgs { experiment: Some(Experiment::Switch), ..BenchArgs::default() };
        let variants: Vec<_> = planned(&args, CPUS).iter().map(|cell| cell.experiment).collect();
        assert_eq!(variants, ["yield", "futex"].map(|variant| Some(("switch", variant))));
    }

    #[test]
    fn one_cpu_has_no_rows_of_two() {
        let cells = planned(&BenchArgs::default(), Cpus { second: None, ..CPUS });
        assert!(!cells.is_empty() && cells.iter().all(|it| it.placement == Placement::SameCpu));
    }
}
