//! Copies of blocks, in all sizes.

use m3ipc_report::columns::COPIES;
use m3ipc_report::schema::Placement;

use crate::job::{Load, Test};
use crate::plan::{MS, Plan, Step};
use crate::subject::Subject;

const WARM_NS: u64 = 3 * MS;
/// Sizes in bytes, of a full run and of a quick one.
const SIZES: [usize; 10] =
    [64, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];
const FEW_SIZES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
/// Beyond this size the placement makes little difference.
const SAME_CPU_BYTES: usize = 64 << 10;

/// The steps of the suite.
pub fn steps(plan: &Plan<'_>, subjects: &[&'static dyn Subject]) -> Vec<Step> {
    let sizes: &[usize] = plan.sized(&FEW_SIZES, &SIZES);
    let few: &[usize] = plan.sized(&FEW_SIZES[1..2], &FEW_SIZES);
    let small = sizes.partition_point(|&bytes| bytes <= SAME_CPU_BYTES);
    let across = plan.cpus.apart_or(Placement::SameCpu);
    let span_ns = plan.args.common.span_ns(8, 40);
    let mut steps = vec![];
    let mut add = |test: Test, placement: Placement, sizes: &[usize]| {
        let (name, title) = names(test);
        let group = |&bytes: &usize| {
            let load = Load::new(test, bytes).over(span_ns, WARM_NS);
            plan.cells(name, subjects, load, placement)
        };
        let groups = sizes.iter().map(group).collect();
        steps.push(Step::rows(format!("{title}; {placement}"), name, COPIES, groups));
    };
    add(Test::Copy1 { aligned: true }, across, sizes);
    add(Test::Copy1 { aligned: false }, across, plan.sized(few, sizes));
    if across == Placement::TwoCpus && plan.sized(false, true) {
        add(Test::Copy1 { aligned: true }, Placement::SameCpu, &sizes[..small]);
    }
    add(Test::Copy2 { aligned: true }, across, sizes);
    add(Test::Copy2 { aligned: false }, across, few);
    add(Test::Stream, across, sizes);
    steps
}

/// Name in the JSON, and title.
const fn names(test: Test) -> (&'static str, &'static str) {
    match test {
        Test::Copy1 { aligned: true } => {
            ("copy1", "COPY1: from the requester's memory into another process")
        }
        Test::Copy1 { aligned: false } => (
            "copy1-misaligned",
            "COPY1: from the requester's memory into another process, misaligned",
        ),
        Test::Copy2 { aligned: true } => {
            ("copy2", "COPY2: from one process into another, requested by a third")
        }
        Test::Copy2 { aligned: false } => (
            "copy2-misaligned",
            "COPY2: from one process into another, requested by a third, misaligned",
        ),
        _ => ("stream", "streams: block after block, none awaited; p50 is of the rate"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchArgs, CommonArgs};
    use crate::cpus::Cpus;
    use crate::job::SuiteName;
    use crate::measure::Cell;
    use crate::subjects;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    fn planned(only: &[&str]) -> Vec<Step> {
        let only = only.iter().map(|&word| word.into()).collect();
        let common = CommonArgs { only, ..CommonArgs::default() };
        let args = BenchArgs { common, ..BenchArgs::default() };
        let plan = Plan { args: &args, cpus: CPUS, libraries: &[], has_phases: false };
        steps(&plan, &subjects::all(SuiteName::Copy))
    }

    fn cells(only: &[&str]) -> Vec<Cell> {
        planned(only).into_iter().flat_map(|step| step.groups).flatten().collect()
    }

    #[test]
    fn every_size_has_its_floors() {
        for step in planned(&[]).iter().filter(|step| step.title.starts_with("COPY1")) {
            for cells in &step.groups {
                for floor in ["memcpy", "process-vm"] {
                    let has_floor = cells.iter().any(|cell| cell.subject.name() == floor);
                    assert!(has_floor, "{}", step.title);
                }
            }
        }
    }

    #[test]
    fn only_narrows_down() {
        let found = cells(&["misaligned", "pipe"]);
        assert!(!found.is_empty());
        let is_misaligned =
            |test| matches!(test, Test::Copy1 { aligned: false } | Test::Copy2 { aligned: false });
        assert!(found.iter().all(|it| it.subject.name() == "pipe" && is_misaligned(it.load.test)));
        assert!(cells(&["carrier-pigeon"]).is_empty());
    }

    #[test]
    fn a_block_fits_its_mechanism() {
        let found = cells(&[]);
        let queue = found.iter().filter(|cell| cell.subject.name() == "posix-mq");
        assert!(queue.clone().count() > 0 && queue.clone().all(|it| it.load.bytes < 16 << 20));
        assert!(found.iter().any(|cell| cell.load.bytes == 16 << 20));
    }
}
