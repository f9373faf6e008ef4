//! Messages: round trips, wake-ups, many pairs, many clients, deaths, restarts, contacts.

use m3ipc_report::columns::TRIPS;
use m3ipc_report::names::{COUNTED, HEAVY_DEATH, UNTOLD};
use m3ipc_report::schema::{Family, Placement, Wait};

use crate::job::{Load, Test};
use crate::measure::Cell;
use crate::plan::{MS, Plan, Step, StepWork};
use crate::subject::Subject;
use crate::{raw, subjects};

/// Period of paced trips.
const PACE_NS: u64 = MS;
/// The most bound clients.
const MOST_CLIENTS: u32 = 10_000;
/// The most clients in all wait modes. The binds of more take seconds: the default mode has them.
const CLIENTS: u32 = 1_000;
/// Memory of a server of [`HEAVY_DEATH`].
const HEAVY_MB: u32 = 256;

type Subjects<'a> = &'a [&'static dyn Subject];

/// The steps of the suite.
pub fn steps(plan: &Plan<'_>, subjects: Subjects<'_>) -> Vec<Step> {
    let mut steps = awake(plan, subjects);
    steps.push(asleep(plan, subjects));
    steps.extend(pairs(plan, subjects));
    steps.push(clients(plan, subjects));
    steps.push(death(plan, subjects, "death", 0, 30));
    steps.push(death(plan, subjects, HEAVY_DEATH, HEAVY_MB, 3));
    steps.push(untold(plan, subjects));
    steps.push(restart(plan, subjects));
    steps.push(contact(plan, subjects));
    if COUNTED.iter().any(|test| plan.lets(&[test, "m3ipc"])) {
        steps.push(Step::of_work("instructions, memory and fairness", "counts", StepWork::Counts));
    }
    steps
}

/// Cells in the wait modes that fit the CPUs: a spinning side needs a CPU of its own.
fn cells(
    plan: &Plan<'_>,
    test: &str,
    subjects: Subjects<'_>,
    load: Load,
    placement: Placement,
    passes: impl Fn(&dyn Subject, Wait) -> bool,
) -> Vec<Cell> {
    let sides = if load.test == Test::Clients { 2 } else { load.count().saturating_mul(2) };
    let room = placement != Placement::SameCpu && sides <= plan.cpus.allowed;
    plan.cells_if(test, subjects, load, placement, |subject, wait| {
        (room || wait != Wait::Spin) && passes(subject, wait)
    })
}

/// IPC1 to IPC3, back to back, on two CPUs and on one.
fn awake(plan: &Plan<'_>, subjects: Subjects<'_>) -> Vec<Step> {
    let tests = [
        (Test::Ipc2, "ipc2", "IPC2: sendrec against receive and send"),
        (Test::Ipc1, "ipc1", "IPC1: send and receive, both ways"),
        (Test::Ipc3, "ipc3", "IPC3: notify and receive, both ways"),
    ];
    let (span_ns, warm_ns) = (plan.args.common.span_ns(30, 150), plan.args.common.span_ns(3, 10));
    let mut steps = vec![];
    for placement in [Placement::TwoCpus, Placement::SameCpu] {
        if placement == Placement::TwoCpus && plan.cpus.second.is_none() {
            continue;
        }
        for (test, name, title) in tests {
            let load = Load::new(test, 0).over(span_ns, warm_ns);
            // A quick run omits the IPC1 of kernel mechanisms: it makes the calls of IPC2.
            let all = plan.sized(false, true) || test == Test::Ipc2;
            let passes = |it: &dyn Subject, _| all || it.family() != Family::Kernel;
            let cells = cells(plan, name, subjects, load, placement, passes);
            let title = format!("{title}; {placement}, back to back");
            steps.push(Step::rows(title, name, TRIPS, vec![cells]));
        }
    }
    steps
}

/// IPC2 to a server that sleeps on another CPU.
fn asleep(plan: &Plan<'_>, subjects: Subjects<'_>) -> Step {
    let name = "ipc2-paced";
    // Trips before the window follow each other closely, so the server would be awake.
    let load = Load::new(Test::Ipc2, 0).over(plan.args.common.span_ns(100, 500), 0);
    let load = Load { pace_ns: Some(PACE_NS), ..load };
    let sleeps = |_: &dyn Subject, wait| wait != Wait::Spin && wait != Wait::Yield;
    let cells = match plan.cpus.second {
        Some(_) => cells(plan, name, subjects, load, Placement::TwoCpus, sleeps),
        None => vec![],
    };
    let title = "IPC2 to a sleeping server; two-cpus, one trip a millisecond".into();
    Step::rows(title, name, TRIPS, vec![cells])
}

/// IPC2 of many pairs on all CPUs.
fn pairs(plan: &Plan<'_>, subjects: Subjects<'_>) -> Vec<Step> {
    let numbers: &[u32] = plan.sized(&[1, 4, 16], &[1, 2, 4, 8, 16, 32]);
    let (span_ns, warm_ns) = (plan.args.common.span_ns(30, 100), plan.args.common.span_ns(5, 10));
    let step = |&count: &u32| {
        let load = Load { count, ..Load::new(Test::Ipc2, 0).over(span_ns, warm_ns) };
        // Libraries with threads of their own do best without pinning.
        let passes = |subject: &dyn Subject, _| match subject.family() {
            Family::Floor => false,
            Family::Peer => count == 1,
            Family::Ours | Family::Kernel => true,
        };
        let cells = cells(plan, "pairs", subjects, load, Placement::Any, passes);
        let title = format!("IPC2, pairs at once: {count}; on any of {} CPUs", plan.cpus.allowed);
        Step::rows(title, "pairs", TRIPS, vec![cells])
    };
    numbers.iter().map(step).collect()
}

/// IPC2 of one active client among many.
fn clients(plan: &Plan<'_>, all: Subjects<'_>) -> Step {
    let most = Some(subjects::most_clients(MOST_CLIENTS, raw::most_files()));
    let most = most.filter(|&most| most > CLIENTS && plan.sized(false, true));
    let numbers: &[u32] = plan.sized(&[1, 100], &[1, 10, 100, CLIENTS]);
    let placement = plan.cpus.apart_or(Placement::SameCpu);
    let (span_ns, warm_ns) = (plan.args.common.span_ns(30, 150), plan.args.common.span_ns(3, 10));
    let of = |&count: &u32| {
        let load = Load { count, ..Load::new(Test::Clients, 0).over(span_ns, warm_ns) };
        let passes = |_: &dyn Subject, wait| count <= CLIENTS || wait == Wait::Adaptive;
        cells(plan, "clients", all, load, placement, passes)
    };
    let title = format!("IPC2, one active client among many bound ones; {placement}");
    Step::rows(title, "clients", TRIPS, vec![numbers.iter().chain(&most).flat_map(of).collect()])
}

/// The reason for fewer than the most clients, if there are fewer.
pub fn left_out() -> Option<String> {
    let limit = raw::most_files();
    let most = subjects::most_clients(MOST_CLIENTS, limit).max(CLIENTS);
    (most < MOST_CLIENTS).then(|| {
        format!(
            "clients m3ipc n {MOST_CLIENTS}: the daemon may open {limit} files, four for each \
             client, so {most} are measured; raise the limit (ulimit -Hn)"
        )
    })
}

/// kill -9 of a server, with so much memory of its own, so many times a round.
fn death(
    plan: &Plan<'_>,
    subjects: Subjects<'_>,
    name: &'static str,
    own_mb: u32,
    times: u64,
) -> Step {
    let placement = plan.cpus.apart_or(Placement::Any);
    let load = Load::new(Test::Death { own_mb }, 0).limited(plan.sized(4, times));
    let passes = |subject: &dyn Subject, _| {
        let brief = ["m3ipc", "unix-stream"].contains(&subject.name());
        subject.tells_death() && (plan.sized(brief, true) || subject.family() == Family::Peer)
    };
    let server = match own_mb {
        0 => "the server".into(),
        mb => format!("a server with {mb} MB of its own"),
    };
    let title = format!("kill -9 of {server} to its client's error; {placement}");
    let cells = cells(plan, name, subjects, load, placement, passes);
    Step::rows(title, name, TRIPS, vec![cells])
}

/// kill -9 of the server, once per mechanism.
fn untold(plan: &Plan<'_>, subjects: Subjects<'_>) -> Step {
    let placement = plan.cpus.apart_or(Placement::Any);
    let load = Load::new(Test::Death { own_mb: 0 }, 0);
    let passes =
        |subject: &dyn Subject, wait| wait == Wait::Block && subject.family() != Family::Floor;
    let cells = cells(plan, UNTOLD, subjects, load, placement, passes);
    let title = format!(
        "kill -9 of the server: does its client get an error, and what is left behind; {placement}"
    );
    Step { work: StepWork::Untold, ..Step::rows(title, UNTOLD, TRIPS, vec![cells]) }
}

/// Both sides restarted, as after a death, up to the client's first answer.
fn restart(plan: &Plan<'_>, subjects: Subjects<'_>) -> Step {
    let placement = plan.cpus.apart_or(Placement::Any);
    let load = Load::new(Test::Restart, 0).limited(plan.sized(2, 5));
    let passes = |subject: &dyn Subject, wait| {
        let is_ours = subject.family() == Family::Ours;
        let brief = subject.name() == "unix-stream" || subject.family() != Family::Kernel;
        wait == if is_ours { Wait::Adaptive } else { Wait::Block }
            && subject.family() != Family::Floor
            && plan.sized(brief, true)
    };
    let cells = cells(plan, "restart", subjects, load, placement, passes);
    let title = format!("both sides started anew, to the client's first answer; {placement}");
    Step::rows(title, "restart", TRIPS, vec![cells])
}

/// First contacts and binds.
fn contact(plan: &Plan<'_>, subjects: Subjects<'_>) -> Step {
    let load = Load::new(Test::Contact, 0).limited(plan.sized(50, 200));
    let mut cells = cells(plan, "contact", subjects, load, Placement::Any, |_, _| true);
    // The wait mode changes nothing here.
    cells.truncate(1);
    let title = "first sendrec with a new peer (link creation)".into();
    Step::rows(title, "contact", TRIPS, vec![cells])
}
