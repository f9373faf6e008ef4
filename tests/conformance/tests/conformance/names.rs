//! Names of endpoints.

use crate::fixture::{Fixture, SHORT};
use crate::rows;
use m3ipc::{Address, Code, Timeout};

rows! {
    fn a_name_finds_its_endpoint() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), 0);
        assert_eq!(fixture.me.name_locate("shop"), Ok(address));
    }

    fn an_endpoint_may_have_several_names() {
        let mut fixture = Fixture::new();
        fixture.me.name_attach("one").unwrap();
        fixture.me.name_attach("two").unwrap();
        assert_eq!(fixture.me.name_locate("one"), Ok(Address(1)));
        assert_eq!(fixture.me.name_locate("two"), Ok(Address(1)));
    }

    fn a_name_that_is_taken_is_342() {
        let mut fixture = Fixture::new();
        fixture.me.name_attach("shop").unwrap();
        let (mut peer, _) = fixture.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), Code::RscBusy.number());
    }

    fn a_name_of_63_bytes_fits_and_one_of_64_is_343() {
        let mut fixture = Fixture::new();
        fixture.me.name_attach(&"n".repeat(63)).unwrap();
        assert_eq!(fixture.me.name_attach(&"n".repeat(64)).unwrap_err().code(), Code::NameSize);
    }

    fn an_unknown_name_is_316_and_waited_for_61() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.me.name_locate("nobody").unwrap_err().code(), Code::NoNode);
        assert_eq!(fixture.me.wait_name("nobody", SHORT).unwrap_err().code(), Code::TimedOut);
    }

    fn wait4name_returns_when_an_endpoint_takes_the_name() {
        let mut fixture = Fixture::new();
        let waiter = fixture.thread(31, |peer| peer.wait_name("late", Timeout::Never));
        fixture.until_blocked(31, "wait4");
        fixture.me.name_attach("late").unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(Address(1)));
    }

    fn a_name_is_freed_with_its_endpoint() {
        let mut fixture = Fixture::new();
        let (mut peer, address) = fixture.bound(30, &["name:shop"]);
        assert_eq!(peer.code(), 0);
        peer.kill();
        fixture.me.wait_unbind(address, Timeout::Never).unwrap();
        assert_eq!(fixture.me.name_locate("shop").unwrap_err().code(), Code::NoNode);
        fixture.me.name_attach("shop").unwrap();
    }
}
