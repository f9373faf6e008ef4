//! Everything that is measured of memory runs once, in small. No bound on time is asserted.

use m3ipc_bench::Error;
use m3ipc_bench::area::{Cell, Shape, Test, measure, way};
use m3ipc_bench::job::Placement;
use m3ipc_bench::measure::Bench;

#[test]
fn each_way_measures_something() {
    let bench = Bench::with_peers(env!("CARGO_BIN_EXE_m3-bench").into())
        .expect("the kernel names its CPUs");
    for way in way::all() {
        let bytes = if way.test() == Test::Pool { 4_096 } else { 64 << 10 };
        let shape = Shape { test: way.test(), bytes, span_ns: 0 };
        match measure(&bench, &Cell { way, shape, placement: Placement::Any }, 0) {
            Ok(round) => assert!(round.trips > 0 && round.samples.count() > 0, "{}", way.name()),
            Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {}: {error}", way.name()),
            Err(error) => panic!("{}: {error}", way.name()),
        }
    }
}
