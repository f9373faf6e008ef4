//! Names of endpoints.

use crate::rows;
use crate::world::{SHORT, World};
use m3ipc::{Address, Code, Timeout};

rows! {
    fn a_name_finds_its_endpoint() {
        let mut world = World::new();
        let (mut peer, address) = world.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), 0);
        assert_eq!(world.me.name_locate("shop"), Ok(address));
    }

    fn an_endpoint_may_have_several_names() {
        let mut world = World::new();
        world.me.name_attach("one").unwrap();
        world.me.name_attach("two").unwrap();
        assert_eq!(world.me.name_locate("one"), Ok(Address(1)));
        assert_eq!(world.me.name_locate("two"), Ok(Address(1)));
    }

    fn a_name_that_is_taken_is_342() {
        let mut world = World::new();
        world.me.name_attach("shop").unwrap();
        let (mut peer, _) = world.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), Code::RscBusy.number());
    }

    fn a_name_of_63_bytes_fits_and_one_of_64_is_343() {
        let mut world = World::new();
        world.me.name_attach(&"n".repeat(63)).unwrap();
        assert_eq!(world.me.name_attach(&"n".repeat(64)).unwrap_err().code(), Code::NameSize);
    }

    fn a_name_that_nobody_has_is_316_and_waited_for_61() {
        let mut world = World::new();
        assert_eq!(world.me.name_locate("nobody").unwrap_err().code(), Code::NoNode);
        assert_eq!(world.me.wait_name("nobody", SHORT).unwrap_err().code(), Code::TimedOut);
    }

    fn wait4name_returns_when_somebody_takes_the_name() {
        let mut world = World::new();
        let waiter = world.thread(31, |peer| peer.wait_name("late", Timeout::Never));
        world.until_blocked(31, "wait4");
        world.me.name_attach("late").unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(Address(1)));
    }

    fn a_name_is_freed_with_its_endpoint() {
        let mut world = World::new();
        let (mut peer, address) = world.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), 0);
        peer.kill();
        world.me.wait_unbind(address, Timeout::Never).unwrap();
        assert_eq!(world.me.name_locate("shop").unwrap_err().code(), Code::NoNode);
        world.me.name_attach("shop").unwrap();
    }
}
