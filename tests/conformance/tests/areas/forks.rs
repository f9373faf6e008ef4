//! Areas and blocks in a child by fork: its parent's give errors, and its own work.

use m3ipc::{AreaConfig, AreaError, BlockLifetime, Endpoint, Vm};
use m3ipc_test_fixture::{NodeFixture, area_turn, in_child, watchdog};
use std::sync::atomic::{AtomicBool, Ordering};

fn makes_a_block(endpoint: &mut Endpoint) -> bool {
    let area = endpoint.create_area(&AreaConfig::vm(1 << 20));
    let block = area.and_then(|area| endpoint.allocate(&area, 64, BlockLifetime::Short));
    block.is_ok_and(|mut block| block.copy_from(&[7; 64]).is_ok() && block.get(63) == Some(7))
}

fn binds_and_makes_a_block(vm: &Vm) -> bool {
    vm.bind_any().is_ok_and(|mut own| makes_a_block(&mut own))
}

#[test]
fn a_child_by_fork_gets_errors_of_inherited_areas() {
    watchdog(300);
    let _turn = area_turn();
    let fixture = NodeFixture::new("areas-fork");
    let vm = fixture.vm("areas");
    let mut own = vm.bind(1).expect("a slot");
    let area = own.create_area(&AreaConfig::vm(1 << 20)).expect("an area");
    let mut block = own.allocate(&area, 64, BlockLifetime::Short).expect("room");
    block.copy_from(&[3; 64]).expect("a block of this process");
    let other = own.allocate(&area, 64, BlockLifetime::Short).expect("room");
    let told = in_child(|| {
        let is_forked = |error: AreaError| matches!(error, AreaError::Unbound(_));
        assert!(block.read_at(0, &mut [0; 4]).is_err_and(is_forked));
        assert!(block.copy_from(&[4; 64]).is_err_and(is_forked));
        assert_eq!((block.get(0), block.len()), (None, 64));
        assert_eq!((area.members().len(), area.free_and_total_bytes()), (0, (0, 0)));
        assert!(area.renounce_writing().is_err_and(is_forked));
        assert!(own.allocate(&area, 64, BlockLifetime::Short).is_err_and(is_forked));
        drop((other, block, area, own));
        binds_and_makes_a_block(&vm)
    });
    assert!(told, "see the panic of the child");
}

/// The threads hold the locks of their areas, and that of the table of areas, at many moments.
#[test]
fn children_make_areas_beside_threads_that_make_areas() {
    watchdog(300);
    let _turn = area_turn();
    let fixture = NodeFixture::new("areas-forks");
    let vm = fixture.vm("areas");
    let _own = vm.bind(1).expect("a slot");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut own = vm.bind_additional(None).expect("a slot");
                while !stop.load(Ordering::Relaxed) {
                    assert!(makes_a_block(&mut own));
                }
            });
        }
        let failed = (0..100).find(|_| !in_child(|| binds_and_makes_a_block(&vm)));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "this child failed");
    });
}
