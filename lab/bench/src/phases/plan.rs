//! Which trips are cut.

use super::{Carries, Cell, Experiment, OURS, Shape};
use crate::args::BenchArgs;
use crate::job::{Placement, Wait};
use crate::payload::MESSAGE_BYTES;
use crate::place::Cpus;

const MS: u64 = 1_000_000;
/// Sizes of what is measured, in bytes.
const LONG_BYTES: usize = 1_792;
const BLOCK_BYTES: usize = 64 << 10;
const VCOPY_BYTES: usize = 4 << 10;
const INLINE_BYTES: usize = 40;

/// All trips that the arguments ask for.
#[must_use]
pub fn cells(args: &BenchArgs, cpus: &Cpus) -> Vec<Cell> {
    let span_ns = args.millis.unwrap_or(if args.quick { 40 } else { 120 }) * MS;
    let shape = |carries, bytes| Shape { carries, bytes, span_ns, queued: false };
    let ours =
        |shape, placement, wait| Cell { mechanism: OURS, shape, placement, wait, experiment: None };
    let mut cells = vec![];
    if args.experiment.is_none() {
        for (placement, wait) in [
            (Placement::TwoCpus, Wait::Spin),
            (Placement::SameCpu, Wait::Adaptive),
            (Placement::TwoCpus, Wait::Block),
        ] {
            for (carries, bytes) in [
                (Carries::Short, MESSAGE_BYTES),
                (Carries::Long, LONG_BYTES),
                (Carries::Block, BLOCK_BYTES),
                (Carries::Vcopy, VCOPY_BYTES),
            ] {
                cells.push(ours(shape(carries, bytes), placement, wait));
            }
        }
        for placement in [Placement::TwoCpus, Placement::SameCpu] {
            for (mechanism, carries, bytes) in [
                ("pipe", Carries::Short, MESSAGE_BYTES),
                ("unix-stream", Carries::Short, MESSAGE_BYTES),
                ("futex", Carries::Nothing, 0),
            ] {
                let shape = shape(carries, bytes);
                cells.push(Cell { mechanism, ..ours(shape, placement, Wait::Block) });
            }
        }
    }
    for experiment in [Experiment::Sender, Experiment::Copy, Experiment::Switch] {
        if args.experiment.is_none_or(|wanted| wanted == experiment) {
            cells.extend(sides(experiment, &shape, &ours));
        }
    }
    cells.retain(|cell| {
        let experiment = cell.experiment.map_or("", |(experiment, _)| experiment.name());
        let names = [
            "phases",
            cell.mechanism,
            cell.shape.carries.name(),
            cell.placement.name(),
            cell.wait.name(),
            experiment,
        ];
        (cell.placement != Placement::TwoCpus || cpus.second.is_some()) && args.lets(&names)
    });
    cells
}

/// Both sides of an experiment.
fn sides(
    experiment: Experiment,
    shape: &dyn Fn(Carries, usize) -> Shape,
    ours: &dyn Fn(Shape, Placement, Wait) -> Cell,
) -> [Cell; 2] {
    let short = shape(Carries::Short, MESSAGE_BYTES);
    let (two, same) = (Placement::TwoCpus, Placement::SameCpu);
    let sides = match experiment {
        Experiment::Sender => {
            [ours(short, two, Wait::Spin), ours(Shape { queued: true, ..short }, two, Wait::Spin)]
        }
        Experiment::Copy => [
            ours(short, two, Wait::Spin),
            ours(shape(Carries::Long, INLINE_BYTES), two, Wait::Spin),
        ],
        Experiment::Switch => [ours(short, same, Wait::Adaptive), ours(short, same, Wait::Block)],
    };
    let [first, second] = experiment.variants();
    [(sides[0], first), (sides[1], second)]
        .map(|(cell, variant)| Cell { experiment: Some((experiment, variant)), ..cell })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    #[test]
    fn a_table_has_each_kind_of_message_in_each_placement() {
        let cells = cells(&BenchArgs::default(), &CPUS);
        let of = |carries: Carries| {
            cells
                .iter()
                .filter(|cell| {
                    cell.mechanism == OURS
                        && cell.shape.carries == carries
                        && cell.experiment.is_none()
                })
                .count()
        };
        let all = [Carries::Short, Carries::Long, Carries::Block, Carries::Vcopy];
        assert_eq!(all.map(of), [3, 3, 3, 3]);
        assert_eq!(cells.iter().filter(|cell| cell.mechanism != OURS).count(), 6);
        assert_eq!(cells.iter().filter(|cell| cell.experiment.is_some()).count(), 6);
    }

    #[test]
    fn an_experiment_can_be_repeated_alone() {
        let args = BenchArgs { experiment: Some(Experiment::Switch), ..BenchArgs::default() };
        let variants: Vec<_> = cells(&args, &CPUS).iter().map(|cell| cell.experiment).collect();
        assert_eq!(variants, ["yield", "futex"].map(|variant| Some((Experiment::Switch, variant))));
    }

    #[test]
    fn one_cpu_has_no_rows_of_two() {
        let alone = Cpus { second: None, ..CPUS };
        let cells = cells(&BenchArgs::default(), &alone);
        assert!(!cells.is_empty() && cells.iter().all(|cell| cell.placement == Placement::SameCpu));
    }
}
