//! The benchmark as a program of its own.
use std::process::ExitCode;
use m3_bench::{job::*, measure::*, mechanism};
fn main() -> ExitCode {
    if let Some(code) = m3_bench::peer::if_asked() { return code; }
    let bench = Bench::new().unwrap();
    eprintln!("{:?} {:?}", bench.clock, bench.cpus);
    for placement in [Placement::TwoCpus, Placement::SameCpu] {
    for mechanism in mechanism::all() {
        for &wait in mechanism.waits() {
            if wait == Wait::Spin && placement == Placement::SameCpu || mechanism.name()=="futex-wake" {continue;}
            let cell = Cell { mechanism, work: Work::Ipc2, wait, placement, pairs: 1 };
            let t = std::time::Instant::now();
            match bench.trips(&cell, Task::Trips{pace_ns: None, span_ns: 50_000_000, limit: None}, 5_000_000) {
                Ok(r) => println!("{:16} {:8} p50 {:6} p99 {:6} max {:6} block {:?} per_s {:.0} cpu {:.0} sw {:.2} wall {:?}", mechanism.name(), wait, r.samples.quantile(0.5), r.samples.quantile(0.99), r.samples.max(), r.block_ns, r.per_s, r.cpu_ns_per_op, r.switches_per_op, t.elapsed()),
                Err(e) => println!("{} {e}", mechanism.name()),
            }
        }
    }}
    ExitCode::SUCCESS
}
