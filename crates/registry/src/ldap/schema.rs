//! The schema of a cluster: its attributes and classes, in the two forms that OpenLDAP reads.
//!
//! The numbers begin with 2.25 and a UUID (ITU-T X.667), which need no registration. A number keeps
//! its meaning for ever; new attributes get new ones.

use std::fmt::Write;

const ROOT: &str = "2.25.273471218343207675174487543735694099281";

const INTEGER: &str = "EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27";
const TEXT: &str = "EQUALITY caseExactIA5Match SYNTAX 1.3.6.1.4.1.1466.115.121.1.26";

/// Number, name, description, kind, whether there is one value.
const ATTRIBUTES: &[(u32, &str, &str, &str, bool)] = &[
    (1, "m3NodeId", "id of a node in its cluster", INTEGER, true),
    (2, "m3NodeAddress", "IP address and port at which the proxy of a node listens", TEXT, true),
    (3, "m3VmId", "id of a VM on all nodes", INTEGER, true),
    (4, "m3VmSlots", "node, first slot and last slot of a range, with spaces between", TEXT, false),
    (5, "m3Vms", "most VMs of a node", INTEGER, true),
    (6, "m3Nodes", "most nodes of a cluster", INTEGER, true),
    (7, "m3Procs", "process slots of a VM", INTEGER, true),
    (8, "m3Tasks", "task slots of a VM", INTEGER, true),
    (9, "m3MaxCopyBytes", "most bytes of one copy", INTEGER, true),
    (10, "m3VmMode", "access to a VM, as octal digits", TEXT, true),
    (11, "m3VmGraceMs", "time between SIGPIPE and SIGKILL, in ms", INTEGER, true),
    (12, "m3VmCopy", "open or granted", TEXT, true),
    (13, "m3VmLife", "ended, creator or members", TEXT, true),
    (14, "m3VmBackup", "slot, node of its backup, perhaps left, refused or silence", TEXT, false),
];

/// Number, name, description, attributes it must have and may have.
const CLASSES: &[(u32, &str, &str, &str, &str)] = &[
    (
        1,
        "m3Cluster",
        "a DRVS: nodes and VMs",
        "cn",
        "m3Vms $ m3Nodes $ m3Procs $ m3Tasks $ m3MaxCopyBytes $ description",
    ),
    (2, "m3Node", "a node", "cn $ m3NodeId $ m3NodeAddress", "description"),
    (
        3,
        "m3Vm",
        "a VM over some nodes",
        "cn $ m3VmId",
        "m3VmSlots $ m3VmBackup $ m3Procs $ m3Tasks $ m3VmMode $ m3VmGraceMs $ m3VmCopy \
         $ m3VmLife $ description",
    ),
];

fn definitions() -> impl Iterator<Item = (&'static str, String)> {
    let attributes = ATTRIBUTES.iter().map(|(number, name, about, kind, single)| {
        let single = if *single { " SINGLE-VALUE" } else { "" };
        let text = format!("( {ROOT}.1.{number} NAME '{name}' DESC '{about}' {kind}{single} )");
        ("attribute", text)
    });
    let classes = CLASSES.iter().map(|(number, name, about, must, may)| {
        let text = format!(
            "( {ROOT}.2.{number} NAME '{name}' DESC '{about}' SUP top STRUCTURAL \
             MUST ( {must} ) MAY ( {may} ) )"
        );
        ("class", text)
    });
    attributes.chain(classes)
}

/// The attributes that an entry of a class may lack.
pub fn optional(class: &str) -> impl Iterator<Item = &'static str> {
    let found = CLASSES.iter().find(|it| it.1 == class);
    let names = found.map_or("", |it| it.4).split(" $ ");
    names.filter(|name| !name.is_empty() && *name != "description")
}

/// For `include` in `slapd.conf`.
pub fn text() -> String {
    let mut text = String::from("# Clusters of m3ipc: made by `m3 ldap schema`.\n");
    for (what, definition) in definitions() {
        let word = if what == "class" { "objectclass" } else { "attributetype" };
        let _ = writeln!(text, "{word} {definition}");
    }
    text
}

/// For `ldapadd` below `cn=schema,cn=config`.
pub fn ldif() -> String {
    let mut text = String::from(
        "# Clusters of m3ipc: made by `m3 ldap schema --ldif`.\n\
         dn: cn=m3ipc,cn=schema,cn=config\nobjectClass: olcSchemaConfig\ncn: m3ipc\n",
    );
    for (what, definition) in definitions() {
        let word = if what == "class" { "olcObjectClasses" } else { "olcAttributeTypes" };
        let _ = writeln!(text, "{word}: {definition}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_and_name_is_used_once() {
        let numbers: BTreeSet<u32> = ATTRIBUTES.iter().map(|it| it.0).collect();
        let names: BTreeSet<&str> = ATTRIBUTES.iter().map(|it| it.1).collect();
        assert_eq!((numbers.len(), names.len()), (ATTRIBUTES.len(), ATTRIBUTES.len()));
        for (.., must, may) in CLASSES {
            for name in must.split(" $ ").chain(may.split(" $ ")) {
                assert!(names.contains(name) || ["cn", "description"].contains(&name), "{name}");
            }
        }
        assert_eq!(text().lines().count(), 1 + ATTRIBUTES.len() + CLASSES.len());
    }
}
