//! Sockets: throughput, requests and answers, connections.

use m3ipc_report::columns::SOCKETS;
use m3ipc_report::schema::Placement;

use crate::job::{Load, Test};
use crate::plan::{MS, Plan, Step};
use crate::raw;
use crate::subject::Subject;

const WARM_NS: u64 = 3 * MS;
/// Period of trips to a sleeping server.
const PACE_NS: u64 = MS;
/// Sizes of messages in bytes, of a full run and of a quick one.
const SIZES: [usize; 10] =
    [1, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10];
const FEW_SIZES: [usize; 5] = [64, 1 << 10, 16 << 10, 64 << 10, 512 << 10];
/// Sizes of requests; 48 bytes is the size of a message of IPC2.
const TRIPS: [usize; 6] = [1, 48, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const FEW_TRIPS: [usize; 3] = [48, 4 << 10, 64 << 10];
/// Most bytes of one measurement of a stream: 1 GB, as in the paper.
const STREAM_BYTES: u64 = 1 << 30;
/// Connections of one measurement: each leaves TCP a minute of waiting.
const CONNECTIONS: u64 = 300;
/// The length of iperf3's blocks over TCP.
const BULK_BYTES: usize = 128 << 10;

/// The most connections of one measurement.
const MOST_CONNECTIONS: u32 = 10_000;
/// Descriptors of a process beside those of its connections, and a reserve.
const OTHER_DESCRIPTORS: u64 = 200;

/// The steps of the suite.
pub fn steps(plan: &Plan<'_>, subjects: &[&'static dyn Subject]) -> Vec<Step> {
    let placement = plan.cpus.apart_or(Placement::SameCpu);
    let step = |name, title: &str, loads: Vec<Load>| {
        let groups = loads.into_iter().map(|load| plan.cells(name, subjects, load, placement));
        Step::rows(format!("{title}; {placement}"), name, SOCKETS, groups.collect())
    };
    let loads = |test, sizes: &[usize], quick_ms, full_ms| -> Vec<Load> {
        let span_ns = plan.args.common.span_ns(quick_ms, full_ms);
        sizes.iter().map(|&bytes| Load::new(test, bytes).over(span_ns, WARM_NS)).collect()
    };
    let limited = |loads: Vec<Load>, limit| loads.into_iter().map(|it| it.limited(limit)).collect();
    let paced = |load: Load| Load { pace_ns: Some(PACE_NS), ..load };
    let sizes: &[usize] = plan.sized(&FEW_SIZES, &SIZES);
    let trips: &[usize] = plan.sized(&FEW_TRIPS, &TRIPS);
    let asleep: &[usize] = plan.sized(&FEW_TRIPS[..1], &FEW_TRIPS);
    let many: &[u32] = plan.sized(&[1, 64, 1_000], &[1, 64, 1_000, MOST_CONNECTIONS]);
    let stream = loads(Test::SockStream, sizes, 60, 300);
    let asleep = loads(Test::SockAsleep, asleep, 60, 300);
    let epoll = loads(Test::SockEpoll, &[48], 30, 150);
    let connect = loads(Test::SockConnect, &[1], 200, 1_000);
    vec![
        step(
            "sock-stream",
            "throughput: messages one way, none awaited",
            limited(stream, plan.sized(STREAM_BYTES / 8, STREAM_BYTES)),
        ),
        step(
            "sock-trip",
            "request and answer of one size, awake",
            loads(Test::SockTrip, trips, 30, 150),
        ),
        step(
            "sock-asleep",
            "request and answer, the server asleep, one a millisecond",
            asleep.into_iter().map(paced).collect(),
        ),
        step(
            "sock-epoll",
            "request and answer on each of several connections in turn, the server in epoll",
            many.iter()
                .filter(|count| fits(**count, raw::most_files()))
                .flat_map(|&count| epoll.iter().map(move |it| Load { count, ..*it }))
                .collect(),
        ),
        step(
            "sock-connect",
            "connect: the call, and to the first answer",
            limited(connect, plan.sized(CONNECTIONS / 3, CONNECTIONS)),
        ),
        step(
            "sock-bulk",
            "iperf3 over one connection, one way, also under the preload library",
            loads(Test::SockBulk, &[BULK_BYTES], 1_000, 1_000),
        ),
    ]
}

/// The reason for fewer than the most connections, if there are fewer.
pub fn left_out() -> Option<String> {
    let limit = raw::most_files();
    (!fits(MOST_CONNECTIONS, limit)).then(|| {
        format!(
            "sock-epoll n {MOST_CONNECTIONS}: a process may open {limit} files, one for each \
             connection; raise the limit (ulimit -Hn)"
        )
    })
}

/// Whether a process may have so many connections beside its other descriptors.
fn fits(count: u32, limit: u64) -> bool {
    u64::from(count) + OTHER_DESCRIPTORS <= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_beyond_the_limit_of_files_are_left_out() {
        assert!(fits(MOST_CONNECTIONS, 20_000) && !fits(MOST_CONNECTIONS, 10_000));
        assert!(fits(64, 1_024) && !fits(1_000, 1_024));
    }

    use crate::args::{BenchArgs, CommonArgs};
    use crate::cpus::Cpus;
    use crate::job::SuiteName;
    use crate::subjects;

    const CPUS: Cpus = Cpus { first: 0, second: Some(1), allowed: 2 };

    fn planned(only: &[&str]) -> Vec<Step> {
        let only = only.iter().map(|&word| word.into()).collect();
        let common = CommonArgs { only, ..CommonArgs::default() };
        let args = BenchArgs { common, ..BenchArgs::default() };
        let plan = Plan { args: &args, cpus: CPUS, libraries: &[], has_phases: false };
        let steps = steps(&plan, &subjects::all(SuiteName::Sock));
        steps.into_iter().filter(|step| !step.is_empty()).collect()
    }

    #[test]
    fn every_size_of_the_paper_has_its_rivals_and_its_floor() {
        let steps = planned(&[]);
        assert_eq!(steps.len(), 6);
        let sizes: Vec<usize> = steps[0].groups.iter().map(|cells| cells[0].load.bytes).collect();
        assert_eq!((sizes.first(), sizes.last()), (Some(&1), Some(&(512 << 10))));
        for cells in &steps[0].groups {
            for name in ["com-socket", "unix-stream", "tcp", "pipe", "memcpy"] {
                assert!(cells.iter().any(|cell| cell.subject.name() == name), "{name}");
            }
        }
        let trips = steps[1].groups.iter().flatten();
        let ipc2 = trips.filter(|cell| cell.subject.name() == "ipc2");
        assert_eq!(ipc2.map(|cell| cell.load.bytes).collect::<Vec<_>>(), [1, 48]);
    }

    #[test]
    fn only_narrows_down() {
        assert_eq!(planned(&["sock-connect", "tcp"]).len(), 1);
        assert!(planned(&["carrier-pigeon"]).is_empty());
    }
}
