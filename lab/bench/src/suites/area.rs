//! Shared memory: attach, hand-over, pools, fragmentation.
//!
//! AnT's paper measures attach, per 4 KB: pages of its area against scattered pages.

use m3ipc_report::columns::{ATTACHES, BLOCKS, Column};
use m3ipc_report::names::FRAGMENTATION;
use m3ipc_report::schema::Placement;

use crate::job::{Load, Test};
use crate::plan::{MS, Plan, Step, StepWork};
use crate::subject::Subject;

const WARM_NS: u64 = 2 * MS;

/// The steps of the suite.
pub fn steps(plan: &Plan<'_>, subjects: &[&'static dyn Subject]) -> Vec<Step> {
    let attach: &[usize] =
        plan.sized(&[1 << 20, 16 << 20], &[64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20]);
    let hand_over: &[usize] = plan
        .sized(&[4 << 10, 1 << 20], &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30]);
    let pool: &[usize] = plan.sized(&[4 << 10], &[64, 4 << 10, 64 << 10, 1 << 20]);
    let placement = plan.cpus.apart_or(Placement::SameCpu);
    let span_ns = plan.args.common.span_ns(8, 60);
    let step = |test, name, columns: &'static [Column], sizes: &[usize], title: &str| {
        let group = |&bytes: &usize| {
            let load = Load::new(test, bytes).over(span_ns, WARM_NS);
            plan.cells(name, subjects, load, placement)
        };
        Step::rows(title.into(), name, columns, sizes.iter().map(group).collect())
    };
    let title = "attach: memory of another process comes into this process, all pages";
    let mut steps = vec![step(Test::Attach, "attach", ATTACHES, attach, title)];
    let title = "hand-over: a block to another process and back, which is two hand-overs";
    steps.push(step(Test::HandOver, "handover", BLOCKS, hand_over, title).in_turn());
    let title = "pool: the oldest of 1,000 blocks is freed, a new one allocated; sizes up to";
    steps.push(step(Test::Pool, "pool", BLOCKS, pool, title));
    if plan.lets(&[FRAGMENTATION]) && !plan.args.is_of_promises() {
        let work = StepWork::Fragmentation;
        steps.push(Step::of_work("fragmentation of areas", FRAGMENTATION, work));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::BenchArgs;
    use crate::cpus::Cpus;
    use crate::job::SuiteName;
    use crate::subjects;

    #[test]
    fn every_size_of_a_hand_over_has_its_turn_in_each_round() {
        let cpus = Cpus { first: 0, second: Some(1), allowed: 2 };
        let args = BenchArgs::default();
        let plan = Plan { args: &args, cpus, libraries: &[], has_phases: false };
        let steps = steps(&plan, &subjects::all(SuiteName::Area));
        let step = steps.iter().find(|step| step.test == "handover").unwrap();
        let turns = step.turns();
        assert_eq!((step.groups.len(), turns.len()), (6, 1));
        assert_eq!(turns[0].len(), step.cells());
    }
}
