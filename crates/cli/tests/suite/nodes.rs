//! Commands of a node that knows other nodes. The test itself is its proxy.
#![allow(clippy::unwrap_used)]

use crate::fixture::Fixture;
use m3ipc::nodes::{ForeignRange, OtherNode, Proxy};

const FAILED: i32 = 1;

#[test]
fn a_node_that_cannot_be_reached_is_named() {
    let fixture = Fixture::with_vm("shop");
    let vm = m3ipc::Node::find(&fixture.directory()).unwrap().vm_named("shop").unwrap().id();
    let range = ForeignRange { vm, first: 20, last: 28, node: "beta".to_owned() };
    let mut proxy = Proxy::register(&fixture.directory(), vec![range]).unwrap();
    proxy.set_known(vec![OtherNode { id: 2, name: "beta".to_owned() }]).unwrap();
    // No endpoint is bound, and the other node is lost.
    let listed = fixture.run(&["ps"]).out;
    assert!(listed.contains("no endpoint is bound"), "{listed}");
    assert!(listed.contains("beta (2): not reachable"), "{listed}");
    for words in [
        &["call", "shop/20", "str:hello"][..],
        &["send", "shop/28", "str:hello"],
        &["notify", "shop/20"],
    ] {
        let lost = fixture.run(words);
        assert_eq!(lost.code, FAILED, "{words:?}: {lost:?}");
        for part in ["belongs to node beta", "cannot be reached", "-64", "m3 node ls"] {
            assert!(lost.err.contains(part), "{words:?}: {part}: {}", lost.err);
        }
    }
    // A slot of this node, and one of a node that can be reached, are free.
    let own = fixture.run(&["call", "shop/19", "str:hello"]);
    assert!(own.err.contains("-105") && own.err.contains("--wait"), "{}", own.err);
    proxy.set_reachable("beta", true).unwrap();
    let free = fixture.run(&["call", "shop/20", "str:hello"]);
    assert!(free.err.contains("-105") && free.err.contains("--wait"), "{}", free.err);
    drop(proxy);
    let alone = fixture.run(&["call", "shop/20", "str:hello"]);
    assert!(alone.err.contains("no proxy runs here") && alone.err.contains("m3 node join"));
}
