use super::*;
use m3ipc_link::{LINK_BYTES, Link, MessageKind, READY_BITMAP_BYTES, STATUS_BYTES};

/// The memory of a link: the link itself, the status and the ready bitmap of the peer.
fn memory() -> [OwnedFd; 3] {
    [LINK_BYTES, STATUS_BYTES, READY_BITMAP_BYTES]
        .map(|bytes| m3ipc_sys::create_memory("m3-test", bytes as u64).unwrap())
}

fn info(address: i32, index_here: u32) -> PeerInfo {
    PeerInfo {
        address,
        pid: 1,
        life: address.unsigned_abs().into(),
        uid: 1,
        gid: 1,
        index_here,
        index_there: 0,
        may_send: u32::MAX,
        may_receive: u32::MAX,
    }
}

fn adopt(peers: &mut Peers, address: i32, index: u32) {
    peers.adopt(&info(address, index), memory().into(), LinkSide::Zero).unwrap();
}

#[test]
fn a_reused_index_leaves_the_later_link_of_its_former_peer() {
    let mut peers = Peers::default();
    adopt(&mut peers, 7, 1);
    adopt(&mut peers, 7, 0);
    adopt(&mut peers, 8, 1);
    assert_eq!((peers.find(Address(7)), peers.find(Address(8))), (Some(0), Some(1)));
    assert_eq!(peers.count(), 2);
    // The former peer of an index has no other link.
    adopt(&mut peers, 9, 0);
    assert_eq!((peers.find(Address(7)), peers.find(Address(9))), (None, Some(0)));
}

#[test]
fn a_message_that_was_taken_on_a_replaced_link_is_not_repeated() {
    for is_taken in [false, true] {
        let mut peers = Peers::default();
        let fds = memory();
        let mut there = Link::map(&fds[0], LinkSide::One).unwrap();
        peers.adopt(&info(7, 0), fds.into(), LinkSide::Zero).unwrap();
        peers.get_mut(0).link_mut().post(MessageKind::Request, 1, 5, &[0; 40], &[]);
        if is_taken {
            let arrival = there.peek().unwrap().unwrap();
            there.take(arrival, &mut []).unwrap().unwrap();
        }
        adopt(&mut peers, 7, 1);
        assert!(peers.is_replaced_link(Address(7)));
        assert_eq!(peers.took_on_replaced_link(Address(7)), is_taken);
    }
}
