//! The suites: each plans its steps over the subjects of its name.

mod area;
mod copy;
mod ipc;
mod phases;
mod sock;

use crate::job::SuiteName;
use crate::plan::{Plan, Step};
use crate::subject::Subject;
use crate::subjects;

/// A suite.
struct Suite {
    name: SuiteName,
    steps: fn(&Plan<'_>, &[&'static dyn Subject]) -> Vec<Step>,
}

const SUITES: [Suite; 5] = [
    Suite { name: SuiteName::Ipc, steps: ipc::steps },
    Suite { name: SuiteName::Copy, steps: copy::steps },
    Suite { name: SuiteName::Area, steps: area::steps },
    Suite { name: SuiteName::Sock, steps: sock::steps },
    Suite { name: SuiteName::Phases, steps: phases::steps },
];

/// All steps of a plan, in the order of measurement. Steps without cells come last.
pub fn steps(plan: &Plan<'_>) -> Vec<Step> {
    let wanted = |suite: &&Suite| match suite.name {
        SuiteName::Phases => plan.has_phases,
        name => plan.args.wants(name),
    };
    let planned = SUITES.iter().filter(wanted).flat_map(|suite| {
        let mut subjects = subjects::all(suite.name);
        if suite.name == SuiteName::Ipc {
            subjects.extend_from_slice(plan.libraries);
        }
        (suite.steps)(plan, &subjects)
    });
    let mut steps: Vec<Step> = planned.filter(|step| !step.is_empty()).collect();
    steps.sort_by_key(|step| step.cells() == 0);
    steps
}

/// The measurements of these steps that the machine cannot make, as far as known before.
pub fn left_out(plan: &Plan<'_>, steps: &[Step]) -> Vec<String> {
    let has = |test: &str| steps.iter().any(|step| step.test.starts_with(test));
    let sockets = has("sock-").then(subjects::sock_left_out).flatten();
    let all_clients = has("clients") && plan.sized(false, true);
    let clients = all_clients.then(ipc::left_out).flatten();
    let connections = (has("sock-epoll") && plan.sized(false, true)).then(sock::left_out).flatten();
    sockets.into_iter().chain(clients).chain(connections).collect()
}
