//! Every kind of connection is measured between two processes, and what it carries is checked. No bound on time is asserted.

use m3ipc_bench::Error;
use m3ipc_bench::job::Placement;
use m3ipc_bench::measure::Bench;
use m3ipc_bench::sock::{Cell, Shape, Test, measure, way};

#[test]
fn each_socket_is_measured_in_each_of_its_tests() {
    let bench = Bench::with_peers(env!("CARGO_BIN_EXE_m3-bench").into())
        .expect("the kernel says which CPUs there are");
    for way in way::ALL {
        for (test, bytes, connections) in [
            (Test::Stream, 1, 1),
            (Test::Stream, 70_001, 1),
            (Test::Trip, 48, 1),
            (Test::Asleep, 48, 1),
            (Test::Epoll, 48, 3),
            (Test::Connect, 1, 1),
        ] {
            if way.is_shim() {
                eprintln!("skipped: {}: the preload library has tests of its own", way.name());
                continue;
            }
            if !way.takes_part(test, bytes) {
                continue;
            }
            let what = format!("{} {test:?} {bytes}", way.name());
            let shape = Shape { test, bytes, connections, span_ns: 20_000_000, most: 1 << 22 };
            match measure(&bench, &Cell { way, shape, placement: Placement::Any }, 0) {
                Ok(round) => {
                    assert!(round.trips > 0 && round.per_s > 0.0, "{what}");
                    assert_eq!(
                        round.bells_per_op.is_some(),
                        way == way::Way::ComSocket && test != Test::Connect,
                        "{what}"
                    );
                }
                Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {what}: {error}"),
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    m3ipc_bench::ours::end();
}
