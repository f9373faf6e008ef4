//! Every way copies blocks between processes, checked at their destination; a spoilt one is found.
//! No bound on time is asserted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use m3ipc_bench::Error;
use m3ipc_bench::copy::{Cell, Kind, Shape, measure, way};
use m3ipc_bench::job::Placement;
use m3ipc_bench::measure::Bench;

/// A bench, and the turn of this test: a run has one thread.
fn bench() -> (Bench, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let binary = env!("CARGO_BIN_EXE_m3-bench");
    (Bench::with_peers(binary.into()).expect("the kernel says which CPUs there are"), turn)
}

fn cell(way: &'static dyn way::Way, kind: Kind, bytes: usize, aligned: bool) -> Cell {
    Cell { way, shape: Shape { kind, bytes, aligned, span_ns: 0 }, placement: Placement::Any }
}

#[test]
fn each_way_copies_blocks_of_each_kind() {
    let (bench, _turn) = bench();
    for way in way::all() {
        for &kind in way.kinds() {
            for (bytes, aligned) in [(16, true), (64, false), (4_096, true), (70_001, false)] {
                if bytes > way.most_bytes() {
                    continue;
                }
                let what = format!("{} {kind:?} {bytes} {aligned}", way.name());
                match measure(&bench, &cell(way, kind, bytes, aligned), 0) {
                    Ok(round) => assert!(round.trips > 0 && round.per_s > 0.0, "{what}"),
                    Err(error @ Error::Unavailable { .. }) => eprintln!("skipped: {what}: {error}"),
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_spoilt_block_is_found() {
    let (bench, _turn) = bench();
    let planted = way::by_name("planted-copy").expect("it can be found by its name");
    for kind in [Kind::Copy1, Kind::Copy2, Kind::Stream] {
        let error = measure(&bench, &cell(planted, kind, 4_096, true), 0)
            .expect_err("its last block is spoilt");
        let text = error.to_string();
        assert!(text.contains("server") && text.contains("payload corrupted"), "{kind:?}: {text}");
    }
}
