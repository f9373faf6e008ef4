//! The steps of a hand-over: a member dies, leaves or stops at each of them.

use m3ipc::{Address, AreaConfig, BlockLifetime, Code, Message, Source, Timeout};
use m3ipc_test_fixture::{AreaProcess, NodeFixture, area_turn, until};

#[test]
fn the_receiver_keeps_a_block_whose_giver_leaves_at_once() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("leaver");
    let vm = fixture.vm("leaver");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    for _ in 0..12 {
        let mut two = AreaProcess::start(&fixture, &vm, 3, &["pass_and_leave", "1"]);
        let mut one = AreaProcess::start(&fixture, &vm, 2, &["pass_and_leave", "3"]);
        let mut block = me.allocate(&area, 600_000, BlockLifetime::Short).unwrap();
        block.fill(7).unwrap();
        me.send_block(Address(2), &Message::new(1), block, Timeout::Never).unwrap();
        me.receive(Source::From(Address(3))).unwrap();
        let block = me.take_block().unwrap().expect("a block that was sent");
        assert!(block.iter().step_by(64).all(|byte| byte == 9), "each of the two adds one");
        drop(block);
        assert!(one.wait().success() && two.wait().success());
    }
}

#[test]
fn a_block_whose_message_is_withdrawn_from_a_stopped_receiver_is_free_again() {
    if !m3ipc_sys::HAS_PAUSE_POINTS {
        eprintln!("SKIP: this build has no pause points");
        return;
    }
    let _turn = area_turn();
    let fixture = NodeFixture::new("hesitant");
    let vm = fixture.vm("hesitant");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let sum = AreaProcess::start_paused(&fixture, &vm, 2, &["sum"], "server.block_accepted");
    let block = me.allocate(&area, 600_000, BlockLifetime::Short).unwrap();
    let limit = Timeout::After(std::time::Duration::from_millis(500));
    let unsent = me.send_block(Address(2), &Message::new(1), block, limit).unwrap_err();
    assert_eq!(unsent.error.code(), Code::TimedOut);
    assert!(unsent.block.is_none(), "it was accepted already");
    sum.until_paused();
    assert!(
        me.allocate(&area, 600_000, BlockLifetime::Short).is_err(),
        "somebody living claims it"
    );
    sum.signal(m3ipc_sys::Signal::CONT);
    let mut again = None;
    until("its room is free again", || {
        again = me.allocate(&area, 600_000, BlockLifetime::Short).ok();
        again.is_some()
    });
    let answer = me.sendrec_block(Address(2), &Message::new(1), again.unwrap(), Timeout::Never);
    assert_eq!(answer.unwrap().m_type, 0);
}

/// A kill in the middle of each operation loses no block and leaves none with two holders.
#[test]
fn a_kill_at_each_step_of_a_hand_over_loses_no_block() {
    if !m3ipc_sys::HAS_PAUSE_POINTS {
        eprintln!("SKIP: this build has no pause points");
        return;
    }
    let _turn = area_turn();
    let fixture = NodeFixture::new("steps");
    let vm = fixture.vm("steps");
    let mut me = vm.bind(1).unwrap();
    let _sum = AreaProcess::start(&fixture, &vm, 3, &["sum"]);
    let cases = [
        ("client.area_mapped", "hold"),
        ("server.block_claimed", "hold"),
        ("server.block_accepted", "hold"),
        ("client.block_given", "pass"),
        ("client.area_mapped", "give"),
        ("client.extent_given", "give"),
        ("client.block_given", "give"),
    ];
    for (point, name) in cases {
        let area = me.create_area(&AreaConfig::vm(4 << 20)).unwrap();
        // The next member for `pass`, the area for `give`.
        let argument = if name == "give" { area.id().to_string() } else { "1".to_owned() };
        let role = [name, &argument];
        let what = format!("{point} of {name}");
        let mut member = AreaProcess::start_paused(&fixture, &vm, 2, &role, point);
        let allocates = name == "give";
        if point == "client.area_mapped" && allocates {
            member.until_paused();
        } else if allocates {
            // No answer comes: the death of the member withdraws the request.
            let (to, limit) = (Address(2), std::time::Duration::from_millis(1));
            until(&what, || {
                let _ = me.sendrec_timeout(to, &Message::new(1), limit);
                member.is_paused()
            });
        } else {
            // A message is taken when its block is accepted. A member that stops before that does
            // not take it.
            let limit = Timeout::After(std::time::Duration::from_millis(100));
            until(&what, || {
                let block = me.allocate(&area, 300_000, BlockLifetime::Short).unwrap();
                let _ = me.send_block(Address(2), &Message::new(1), block, limit);
                member.is_paused()
            });
        }
        member.kill();
        me.wait_unbind(Address(2), Timeout::Never).unwrap();
        let mut block = None;
        until(&what, || {
            // A member that needs room finds the blocks that the dead held.
            block = me.allocate(&area, 3 << 20, BlockLifetime::Long).ok();
            block.is_some()
        });
        drop(block);
        assert_eq!(
            AreaProcess::ask(&mut me, Address(3), &area, 1000).long(0),
            1000,
            "after {what}"
        );
        me.detach_area(&area).unwrap();
    }
}
