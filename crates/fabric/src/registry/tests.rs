//! The registry: owners, round trips, and each mistake.

use super::*;
use crate::ids::EndpointId;
use m3ipc_abi::Address;

const HEAD: &str = r#"
    cluster = "lab"
    [[node]]
    id = 1
    name = "alpha"
    address = "192.0.2.1:7400"
    [[node]]
    id = 2
    name = "beta"
    address = "192.0.2.2:7400"
"#;

fn parse(rest: &str) -> Result<Registry, RegistryError> {
    Registry::parse(&format!("{HEAD}\n{rest}"))
}

#[test]
fn a_registry_names_the_owner_of_each_slot() {
    let registry = parse(
        "[[vm]]\nid = 3\nname = \"shop\"\n\
         slots = { alpha = [[-35, 99], [200, 220]], beta = [[100, 199]] }",
    )
    .expect("a registry");
    let owner = |slot| registry.owners.owner(EndpointId::new(3, Address::new(1, slot)));
    assert_eq!([owner(-35), owner(99), owner(210)], [Some(NodeId(1)); 3]);
    assert_eq!([owner(100), owner(221)], [Some(NodeId(2)), None]);
    assert_eq!(registry.vms[0].nodes, [NodeId(1), NodeId(2)]);
    assert_eq!(registry.node("beta").map(|node| node.id), Some(NodeId(2)));
}

#[test]
fn a_registry_becomes_the_same_text_and_back() {
    let text = format!(
        "parameters = {{ vms = 4 }}\n{HEAD}\n[[vm]]\nid = 3\nname = \"shop\"\n\
         slots = {{ alpha = [[-35, 99], [200, 220]], beta = [[100, 199]] }}\n\
         parameters = {{ mode = 0o640, life = \"members\" }}\n"
    );
    let mut registry = Registry::parse(&text).expect("a registry");
    assert_eq!(registry.parameters.vms, Some(4));
    assert_eq!(registry.vms[0].parameters.mode, Some(0o640));
    let again = Registry::parse(&registry.to_toml().expect("a text")).expect("a registry");
    assert_eq!(again, registry);
    registry.give("shop", "beta", (300, 309)).expect("a free range");
    let refused = registry.give("shop", "alpha", (309, 309)).expect_err("an overlap");
    assert!(refused.to_string().contains("overlap 300..309 of node beta (2)"), "{refused}");
    assert!(registry.give("shop", "alpha", (-36, 0)).is_err());
    assert!(registry.give("shops", "alpha", (0, 0)).is_err());
}

#[test]
fn each_mistake_is_named() {
    for (rest, name) in [
        (
            "[[vm]]\nid = 3\nname = \"a\"\nslots = { alpha = [[0, 9]], beta = [[9, 9]] }",
            "`a`: the slots 9..9 of node beta (2) overlap 0..9 of node alpha (1);",
        ),
        ("[[vm]]\nid = 3\nname = \"a\"\nslots = { gamma = [[0, 9]] }", "`gamma`"),
        ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[9, 0]] }", "9..0 is empty"),
        ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[-36, 0]] }", "-36..0"),
        ("[[vm]]\nid = 3\nname = \"a\"\nslots = { beta = [[0, 35534]] }", "0..35534"),
        ("[[vm]]\nid = 1024\nname = \"a\"", "0 to 1023"),
        ("[[vm]]\nid = -1\nname = \"a\"", "0 to 1023"),
        ("[[vm]]\nid = 1\nname = \"sixteen-bytes-no\"", "1 to 15"),
        ("[[vm]]\nid = 1\nname = \"a\"\n[[vm]]\nid = 1\nname = \"b\"", "two VMs have the id 1"),
        ("[[vm]]\nid = 1\nname = \"a\"\n[[vm]]\nid = 2\nname = \"a\"", "two VMs are named a"),
        ("[[node]]\nid = 1\nname = \"c\"\naddress = \"192.0.2.3:1\"", "two nodes have the id 1"),
        (
            "[[node]]\nid = 3\nname = \"beta\"\naddress = \"192.0.2.3:1\"",
            "two nodes are named beta",
        ),
        ("[[node]]\nid = 3\nname = \"c\"\naddress = \"192.0.2.2:7400\"", "192.0.2.2:7400"),
        ("[[node]]\nid = 3\nname = \"c/d\"\naddress = \"192.0.2.3:1\"", "c/d"),
        ("[[vm]]\nid = 1\nname = \"a\"\nslot = {}", "unknown field"),
    ] {
        let text = parse(rest).expect_err(rest).to_string();
        assert!(text.contains(name), "{rest}\n{text}");
    }
}

#[test]
fn a_registry_names_backups_and_each_wrong_one() {
    let with = |backups: &str| {
        parse(&format!(
            "[[node]]\nid = 3\nname = \"gamma\"\naddress = \"192.0.2.3:7400\"\n\
             [[vm]]\nid = 3\nname = \"shop\"\n\
             slots = {{ alpha = [[0, 9]], beta = [[10, 19]] }}\nbackups = [{backups}]\n"
        ))
    };
    let registry = with(
        "{ slot = 5, node = \"beta\" }, \
         { slot = 12, node = \"alpha\", after = \"silence\" }",
    );
    let registry = registry.expect("a registry");
    let backups: Vec<_> = registry.backups(3).collect();
    assert_eq!(backups, [(5, "beta", EndSign::Left), (12, "alpha", EndSign::Silence)]);
    let again = Registry::parse(&registry.to_toml().expect("a text")).expect("a registry");
    assert_eq!(again, registry);
    for (backups, named) in [
        ("{ slot = 5, node = \"delta\" }", "`delta` cannot be the backup of slot 5: no"),
        ("{ slot = 20, node = \"beta\" }", "slot 20: no node has the slot"),
        ("{ slot = 5, node = \"alpha\" }", "slot 5: the node has the slot itself"),
        ("{ slot = 5, node = \"gamma\" }", "slot 5: the node has no slots of this VM"),
        (
            "{ slot = 5, node = \"beta\" }, { slot = 5, node = \"beta\" }",
            "slot 5: the slot has a backup already",
        ),
        ("{ slot = 5, node = \"beta\", silence = 1 }", "unknown field"),
        ("{ slot = 5, node = \"beta\", after = \"sleep\" }", "unknown variant"),
    ] {
        let text = with(backups).expect_err(backups).to_string();
        assert!(text.contains(named), "{backups}\n{text}");
    }
}

#[test]
fn a_claim_beyond_the_ranges_that_a_daemon_takes_is_refused_with_a_remedy() {
    let vm = "[[vm]]\nid = 3\nname = \"shop\"\n";
    let mut registry = parse(vm).expect("a registry");
    // Each range makes a gap before it: two ranges for beta. Behind the last one all is free.
    for number in 0..255 {
        let slot = 30 + 2 * number;
        registry.give("shop", "alpha", (slot, slot)).expect("free");
        assert_eq!(registry.check_ranges(), Ok(()), "{number}");
    }
    registry.give("shop", "alpha", (600, 600)).expect("free");
    let refused = registry.check_ranges().expect_err("513 ranges").to_string();
    assert!(refused.contains("`beta` would know 513 ranges"), "{refused}");
}
