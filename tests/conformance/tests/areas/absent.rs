//! Blocks for endpoints that are dead or were never bound.

use m3ipc::{Address, AreaConfig, AreaError, BlockLifetime, Endpoint, Message, Unsent};
use m3ipc::{Delivered, ReplyError, SendError, SendRecError};
use m3ipc_test_fixture::{NodeFixture, area_turn};

/// The code, and whether the block came back.
fn told<E: std::error::Error>(
    unsent: Unsent<E>,
    code: impl FnOnce(&E) -> m3ipc::Code,
) -> m3ipc::Code {
    assert!(unsent.block.is_some(), "the block comes back");
    code(&unsent.error)
}

#[test]
fn a_block_for_nobody_fails_as_a_plain_message_does() {
    let _turn = area_turn();
    let fixture = NodeFixture::new("absent");
    let vm = fixture.vm("absent");
    let mut me = vm.bind(1).unwrap();
    let area = me.create_area(&AreaConfig::vm(1 << 20)).unwrap();
    let dead = vm.bind_additional(Some(30)).unwrap();
    let known = vm.bind_additional(Some(31)).unwrap();
    let peers =
        [dead.address(), known.address(), Address(5), Address(60), Address(9_999), me.address()];
    // A living member gets an index in the area, and dies then.
    let block = me.allocate(&area, 5, BlockLifetime::Short).unwrap();
    let unsent = me.send_block(known.address(), &Message::new(1), block, m3ipc::Timeout::NoWait);
    assert!(matches!(unsent.unwrap_err().error, SendError::WouldBlock(_)));
    drop((dead, known));
    let block = |me: &mut Endpoint| me.allocate(&area, 5, BlockLifetime::Short).unwrap();
    let message = Message::new(1);
    for to in peers {
        let unsent = block(&mut me);
        let unsent = me.send_block(to, &message, unsent, None).unwrap_err();
        let plain = me.send(to, &message).unwrap_err();
        assert_eq!(told(unsent, SendError::code), plain.code(), "send to {to}: {plain}");
        let unsent = block(&mut me);
        let unsent = me.sendrec_block(to, &message, unsent, None).unwrap_err();
        let plain = me.sendrec(to, &message).unwrap_err();
        assert_eq!(told(unsent, SendRecError::code), plain.code(), "sendrec to {to}: {plain}");
        let unsent = block(&mut me);
        let code = |replied: Result<Delivered, ReplyError>| {
            replied.and_then(Delivered::into_result).map_err(|why| why.code())
        };
        let (replied, back) = me.try_reply_block(to, &message, unsent);
        assert!(back.is_some(), "the block comes back");
        assert_eq!(code(replied), code(me.reply(to, &message)), "reply to {to}");
        let unsent = block(&mut me);
        let replied = me.reply_block(to, &message, unsent).map_err(|unsent| unsent.error);
        assert_eq!(replied, me.reply(to, &message), "reply to {to}");
        let mut shared = block(&mut me);
        let unshared = me.share_block(to, &message, &mut shared, None).unwrap_err();
        assert!(!matches!(unshared, SendError::Unbound(_)), "{unshared}");
        let ungiven = me.give_block(to, shared).unwrap_err();
        assert!(!matches!(ungiven.error, AreaError::Unbound(_)), "{ungiven:?}");
    }
    let none = me.create_area(&AreaConfig::pair(1 << 20, peers[0])).unwrap_err();
    assert!(matches!(none, AreaError::Died(_)), "{none}");
}
