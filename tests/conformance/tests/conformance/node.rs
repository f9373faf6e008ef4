//! drvs_init, drvs_end, vm_init, vm_end.

use crate::fixture::Fixture;
use crate::rows;
use m3ipc::{Code, Node, NodeParams, VmConfig};
use m3ipc_test_fixture::{NodeFixture, program, watchdog};
use std::path::Path;
use std::process::Command;

/// The code of drvs_init with these parameters, in a process of its own.
fn init(directory: &Path, params: &[&str]) -> String {
    let mut command = Command::new(program("m3-tests-partner"));
    command.env("M3_RUNTIME_DIR", directory).env("M3_DAEMON", program("m3-tests-daemon"));
    command.env("M3_TESTS_OWNER", std::process::id().to_string());
    let output =
        command.arg("init").args(params).stderr(std::process::Stdio::inherit()).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

rows! {
    fn drvs_init_starts_the_node_and_again_is_317() {
        let directory = fresh("init");
        assert_eq!(init(&directory, &["nodeid=3"]), "3");
        assert_eq!(init(&directory, &["nodeid=3"]), "-317");
        end(&directory);
    }

    fn drvs_init_with_a_nodeid_out_of_range_is_301() {
        let directory = fresh("nodeid");
        assert_eq!(init(&directory, &["nodeid=32"]), "-301");
        assert_eq!(init(&directory, &["nodeid=-1"]), "-301");
        end(&directory);
    }

    fn drvs_init_with_a_parameter_out_of_range_is_338() {
        let directory = fresh("range");
        for wrong in ["vms=0", "nodes=1025", "procs=35535", "tasks=-1"] {
            assert_eq!(init(&directory, &[wrong]), "-338", "{wrong}");
        }
        assert_eq!(init(&directory, &["nodeid=0"]), "0");
        end(&directory);
    }

    fn where_no_daemon_runs_the_node_is_318() {
        let directory = fresh("absent");
        assert_eq!(Node::find(&directory).unwrap_err().code(), Code::DrvsInit);
    }

    fn drvs_end_ends_every_vm_and_then_the_node() {
        let fixture = Fixture::new();
        let (mut peer, _) = fixture.bound(30, &["pipe"]);
        assert_eq!(peer.code(), 0);
        let Fixture { me, vm: _vm, node, node_fixture } = fixture;
        drop(me);
        node.end().unwrap();
        assert_eq!(peer.died_of(), Some(13));
        assert_eq!(Node::find(node_fixture.directory()).unwrap_err().code(), Code::DrvsInit);
    }

    fn vm_init_takes_the_id_or_the_lowest_free_one() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.vm.id(), 0);
        assert_eq!(fixture.node.vm_init(&VmConfig::new("nine").id(9)).unwrap().id(), 9);
        assert_eq!(fixture.node.vm_init(&VmConfig::new("one")).unwrap().id(), 1);
    }

    fn vm_init_with_an_id_out_of_range_is_302() {
        let mut fixture = Fixture::new();
        for id in [-1, 32] {
            assert_eq!(
                fixture.node.vm_init(&VmConfig::new("odd").id(id)).unwrap_err().code(),
                Code::BadVmId
            );
        }
    }

    fn vm_init_with_an_id_or_name_in_use_is_342() {
        let mut fixture = Fixture::new();
        assert_eq!(
            fixture.node.vm_init(&VmConfig::new("other").id(0)).unwrap_err().code(),
            Code::RscBusy
        );
        assert_eq!(
            fixture.node.vm_init(&VmConfig::new("fixture")).unwrap_err().code(),
            Code::RscBusy
        );
    }

    fn a_vm_name_of_15_bytes_fits_and_one_of_16_is_343() {
        let mut fixture = Fixture::new();
        fixture.node.vm_init(&VmConfig::new(&"n".repeat(15))).unwrap();
        assert_eq!(
            fixture.node.vm_init(&VmConfig::new(&"n".repeat(16))).unwrap_err().code(),
            Code::NameSize
        );
    }

    fn vm_init_with_limits_above_those_of_the_node_is_338() {
        let mut fixture = Fixture::new();
        for config in [VmConfig::new("big").procs(222), VmConfig::new("big").tasks(36)] {
            assert_eq!(fixture.node.vm_init(&config).unwrap_err().code(), Code::BadRange);
        }
    }

    fn a_vm_is_found_by_id_and_name() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.node.vm(0).unwrap().name(), "fixture");
        assert_eq!(fixture.node.vm_named("fixture").unwrap().id(), 0);
        assert_eq!(fixture.node.vm(32).unwrap_err().code(), Code::BadVmId);
        assert_eq!(fixture.node.vm(5).unwrap_err().code(), Code::VmNotRun);
    }

    fn vm_end_sends_sigpipe_to_every_member() {
        let mut fixture = Fixture::new();
        let peers = [30, 31].map(|slot| fixture.bound(slot, &["pipe"]).0);
        let peers = peers.map(|mut peer| {
            assert_eq!(peer.code(), 0);
            peer
        });
        fixture.node.vm_end(fixture.vm.id()).unwrap();
        assert_eq!(peers.map(|mut peer| peer.died_of()), [Some(13), Some(13)]);
    }

    fn vm_end_kills_after_the_grace_time() {
        let mut fixture = Fixture::new();
        let (mut deaf, _) = fixture.bound(30, &[]);
        fixture.node.vm_end(fixture.vm.id()).unwrap();
        assert_eq!(deaf.died_of(), Some(9));
    }

    fn calls_in_a_vm_that_ends_are_303() {
        let mut fixture = Fixture::new();
        // The grace time is long: the peer must tell its code before it is killed.
        let config = VmConfig::new("second").procs(64).grace_ms(20_000);
        fixture.vm = fixture.node.vm_init(&config).unwrap();
        let (mut peer, _) = fixture.bound(30, &["receive:any"]);
        fixture.until_blocked(30, "receive");
        let (mut node, vm) = (fixture.node_fixture.node(), fixture.vm.id());
        let ends = std::thread::spawn(move || node.vm_end(vm));
        assert_eq!(peer.code(), Code::VmNotRun.number());
        peer.kill();
        ends.join().unwrap().unwrap();
        assert!(fixture.node.vm_end(vm).is_err());
    }

    fn vm_end_of_an_unknown_vm_is_302_or_303() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.node.vm_end(32).unwrap_err().code(), Code::BadVmId);
        assert_eq!(fixture.node.vm_end(7).unwrap_err().code(), Code::VmNotRun);
    }

    fn an_endpoint_of_another_vm_is_not_there() {
        let mut fixture = Fixture::new();
        let (_peer, address) = fixture.bound(30, &[]);
        let second = fixture.node.vm_init(&VmConfig::new("second").procs(64)).unwrap();
        let found = fixture.node.endpoints(second.id()).unwrap();
        assert!(found.is_empty());
        assert_eq!(fixture.node.unbind(second.id(), address).unwrap_err().code(), Code::Endpoint);
    }

    fn the_node_tells_its_limits() {
        let fixture = NodeFixture::new("limits");
        let info = fixture.node().info().unwrap();
        assert_eq!((info.vms, info.nodes, info.procs, info.tasks), (32, 32, 221, 35));
        assert_eq!(NodeParams::default().nodeid, None);
    }
}

fn fresh(name: &str) -> std::path::PathBuf {
    watchdog(120);
    let directory = std::env::temp_dir().join(format!("m3-test-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

fn end(directory: &Path) {
    if let Ok(node) = Node::find(directory) {
        let _ = node.end();
    }
    let _ = std::fs::remove_dir_all(directory);
}
