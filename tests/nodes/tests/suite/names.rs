//! Names, watches and waits reach endpoints of other nodes.

use m3ipc::{Address, Code, Message, Source};
use m3ipc_test_fixture::{until, watchdog};
use m3ipc_test_nodes::Cluster;

const CLIENT: i32 = 1;
const SERVER: i32 = 10;
const SERVER_ADDRESS: Address = Address(SERVER);

#[test]
fn a_name_is_found_on_the_other_node_while_its_endpoint_lives() {
    watchdog(120);
    let mut cluster = Cluster::new("names");
    let mut server = cluster.beta.vm.bind(SERVER).expect("the slot is of beta");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    server.name_attach("lamp").expect("the name is free");
    assert_eq!(client.wait_name("lamp", None).expect("it comes"), SERVER_ADDRESS);
    // Unique in the VM: the other node refuses it.
    let taken = client.name_attach("lamp").expect_err("the server has it");
    assert_eq!(taken.code(), Code::RscBusy);
    // A proxy that comes later learns of it, and tells it again.
    cluster.beta.restart_proxy();
    until("the node was lost", || {
        client.name_locate("lamp").is_err() || cluster.alpha.knows(SERVER_ADDRESS)
    });
    assert_eq!(client.wait_name("lamp", None).expect("it comes again"), SERVER_ADDRESS);
    drop(server);
    until("the name has ended", || client.name_locate("lamp").is_err());
    // What the first life of the proxy announced may be late.
    until("the name is free again", || client.name_attach("lamp").is_ok());
}

#[test]
fn a_death_on_the_other_node_is_watched_and_awaited() {
    watchdog(120);
    let cluster = Cluster::new("watch");
    let mut client = cluster.alpha.vm.bind(CLIENT).expect("the slot is of alpha");
    let mut server = cluster.beta.program("deaf", SERVER);
    assert_eq!(client.wait_bind(SERVER_ADDRESS, None).expect("it comes"), SERVER_ADDRESS);
    client.watch(SERVER_ADDRESS).expect("it lives");
    server.kill();
    let heard = client.receive_long(Source::Any, &mut [], None).expect("the death comes");
    assert_eq!(heard.died, Some(SERVER_ADDRESS));
    let _server = cluster.beta.program("echo", SERVER);
    client.wait_bind(SERVER_ADDRESS, None).expect("it comes again");
    assert!(client.sendrec(SERVER_ADDRESS, &Message::new(1)).is_ok());
    drop(_server);
    client.wait_unbind(SERVER_ADDRESS, None).expect("it ends");
}
