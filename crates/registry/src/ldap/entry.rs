//! A registry as entries of a directory, and back.
//!
//! ```text
//! cn=lab,o=example            m3Cluster   parameters of all nodes
//!   cn=alpha                  m3Node      id, address
//!   cn=shop                   m3Vm        id, slots, backups, parameters
//! ```

use crate::backend::BackendError;
use crate::output::{copy_name, life_name};
use m3ipc_fabric::{EndSign, Registry};
use toml::{Table, Value};

/// An entry: its name, and the values of its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub dn: String,
    pub attributes: Vec<(String, Vec<String>)>,
}

impl Entry {
    fn new(dn: String, class: &str, name: &str) -> Self {
        let mut entry = Self { dn, attributes: Vec::new() };
        entry.push("objectClass", Some(class));
        entry.push("cn", Some(name));
        entry
    }

    fn push(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.attributes.push((name.to_owned(), vec![value.to_string()]));
        }
    }

    pub fn values(&self, name: &str) -> &[String] {
        let mut all = self.attributes.iter();
        let found = all.find(|(attribute, _)| attribute.eq_ignore_ascii_case(name));
        found.map_or(&[], |(_, values)| values)
    }

    fn is_a(&self, class: &str) -> bool {
        self.values("objectClass").iter().any(|value| value.eq_ignore_ascii_case(class))
    }
}

/// Attributes that are numbers, and their names in a file.
const OF_CLUSTER: &[(&str, &str)] = &[
    ("m3Vms", "vms"),
    ("m3Nodes", "nodes"),
    ("m3Procs", "procs"),
    ("m3Tasks", "tasks"),
    ("m3MaxCopyBytes", "max_copy_bytes"),
];
const OF_VM: &[(&str, &str)] =
    &[("m3Procs", "procs"), ("m3Tasks", "tasks"), ("m3VmGraceMs", "grace_ms")];
const TEXTS_OF_VM: &[(&str, &str)] = &[("m3VmCopy", "copy"), ("m3VmLife", "life")];

/// Reads entries. The rules of a registry are checked as those of a file.
pub fn to_registry(what: &str, entries: &[Entry]) -> Result<Registry, BackendError> {
    let reader = Reader { what };
    let of_class = |class: &'static str| entries.iter().filter(move |entry| entry.is_a(class));
    let clusters: Vec<&Entry> = of_class("m3Cluster").collect();
    let [cluster] = clusters[..] else {
        return Err(BackendError::Entry {
            what: what.to_owned(),
            entry: "of the URL".to_owned(),
            wrong: format!("{} m3Cluster entries; name the one to read", clusters.len()),
        });
    };
    let mut raw = Table::new();
    raw.insert("cluster".into(), reader.text(cluster, "cn")?.into());
    raw.insert("parameters".into(), reader.numbers(cluster, OF_CLUSTER)?.into());
    let nodes: Result<Vec<Value>, _> = of_class("m3Node").map(|it| reader.node(it)).collect();
    raw.insert("node".into(), Value::Array(nodes?));
    let vms: Result<Vec<Value>, _> = of_class("m3Vm").map(|it| reader.vm(it)).collect();
    raw.insert("vm".into(), Value::Array(vms?));
    let content = |cause| BackendError::Content { what: what.to_owned(), cause };
    // One reader of registries, so that both have the same rules.
    let text = raw.to_string();
    Registry::parse(&text).map_err(content)
}

struct Reader<'a> {
    what: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, entry: &Entry, wrong: String) -> BackendError {
        BackendError::Entry { what: self.what.to_owned(), entry: entry.dn.clone(), wrong }
    }

    fn text(&self, entry: &Entry, name: &str) -> Result<String, BackendError> {
        match entry.values(name) {
            [value] => Ok(value.clone()),
            values => Err(self.wrong(entry, format!("{} values of {name}, not one", values.len()))),
        }
    }

    fn number(&self, entry: &Entry, name: &str) -> Result<i64, BackendError> {
        let text = self.text(entry, name)?;
        text.parse().map_err(|_| self.wrong(entry, format!("{name} {text:?}, which is no number")))
    }

    fn numbers(&self, entry: &Entry, names: &[(&str, &str)]) -> Result<Table, BackendError> {
        let mut table = Table::new();
        for (attribute, key) in names {
            if !entry.values(attribute).is_empty() {
                table.insert((*key).into(), self.number(entry, attribute)?.into());
            }
        }
        Ok(table)
    }

    fn node(&self, entry: &Entry) -> Result<Value, BackendError> {
        let mut table = Table::new();
        table.insert("id".into(), self.number(entry, "m3NodeId")?.into());
        table.insert("name".into(), self.text(entry, "cn")?.into());
        table.insert("address".into(), self.text(entry, "m3NodeAddress")?.into());
        Ok(table.into())
    }

    fn vm(&self, entry: &Entry) -> Result<Value, BackendError> {
        let mut parameters = self.numbers(entry, OF_VM)?;
        for (attribute, key) in TEXTS_OF_VM {
            if !entry.values(attribute).is_empty() {
                parameters.insert((*key).into(), self.text(entry, attribute)?.into());
            }
        }
        if !entry.values("m3VmMode").is_empty() {
            let text = self.text(entry, "m3VmMode")?;
            let mode = i64::from_str_radix(&text, 8);
            let wrong = |_| self.wrong(entry, format!("m3VmMode {text:?}, which is no octal mode"));
            parameters.insert("mode".into(), mode.map_err(wrong)?.into());
        }
        let mut table = Table::new();
        table.insert("id".into(), self.number(entry, "m3VmId")?.into());
        table.insert("name".into(), self.text(entry, "cn")?.into());
        table.insert("slots".into(), self.slots(entry)?.into());
        table.insert("backups".into(), self.backups(entry)?.into());
        table.insert("parameters".into(), parameters.into());
        Ok(table.into())
    }

    fn slots(&self, entry: &Entry) -> Result<Table, BackendError> {
        let mut slots = Table::new();
        for value in entry.values("m3VmSlots") {
            let mut words = value.split_whitespace();
            let parts = (words.next(), words.next(), words.next(), words.next());
            let (Some(node), Some(first), Some(last), None) = parts else {
                let wrong = format!("m3VmSlots {value:?}; write `NODE FIRST LAST`");
                return Err(self.wrong(entry, wrong));
            };
            let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) else {
                let wrong = format!("m3VmSlots {value:?}; the slots are numbers");
                return Err(self.wrong(entry, wrong));
            };
            let range = Value::Array(vec![first.into(), last.into()]);
            let ranges = slots.entry(node).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(ranges) = ranges {
                ranges.push(range);
            }
        }
        Ok(slots)
    }

    fn backups(&self, entry: &Entry) -> Result<Vec<Value>, BackendError> {
        let backup = |value: &String| {
            let words: Vec<&str> = value.split_whitespace().collect();
            let (slot, node, after) = match words[..] {
                [slot, node] => (slot, node, EndSign::default().word()),
                [slot, node, after] => (slot, node, after),
                _ => return None,
            };
            let is_sign = EndSign::ALL.iter().any(|(_, word)| *word == after);
            is_sign.then_some(())?;
            let mut table = Table::new();
            table.insert("slot".into(), slot.parse::<i64>().ok()?.into());
            table.insert("node".into(), node.into());
            table.insert("after".into(), after.into());
            Some(table.into())
        };
        let read = |value: &String| {
            backup(value).ok_or_else(|| {
                let form = "`SLOT NODE` or `SLOT NODE left|refused|silence`";
                self.wrong(entry, format!("m3VmBackup {value:?}; write {form}"))
            })
        };
        entry.values("m3VmBackup").iter().map(read).collect()
    }
}

/// The entries of a registry, parents first. `base` is the name of the entry of the cluster.
pub fn from_registry(registry: &Registry, base: &str) -> Vec<Entry> {
    let mut cluster = Entry::new(base.to_owned(), "m3Cluster", &registry.cluster);
    let own = &registry.parameters;
    cluster.push("m3Vms", own.vms);
    cluster.push("m3Nodes", own.nodes);
    cluster.push("m3Procs", own.procs);
    cluster.push("m3Tasks", own.tasks);
    cluster.push("m3MaxCopyBytes", own.max_copy_bytes);
    let mut entries = vec![cluster];
    for node in &registry.nodes {
        let mut entry = Entry::new(format!("cn={},{base}", node.name), "m3Node", &node.name);
        entry.push("m3NodeId", Some(node.id.0));
        entry.push("m3NodeAddress", Some(node.address));
        entries.push(entry);
    }
    for vm in &registry.vms {
        let mut entry = Entry::new(format!("cn={},{base}", vm.name), "m3Vm", &vm.name);
        let own = &vm.parameters;
        entry.push("m3VmId", Some(vm.id));
        let slots = registry.nodes.iter().flat_map(|node| {
            let ranges = registry.owners.of_node(node.id).filter(|(of, _)| *of == vm.id);
            ranges.map(|(_, range)| format!("{} {} {}", node.name, range.first, range.last))
        });
        let slots: Vec<String> = slots.collect();
        if !slots.is_empty() {
            entry.attributes.push(("m3VmSlots".to_owned(), slots));
        }
        let backups = registry.backups(vm.id).map(|(slot, node, after)| match after {
            EndSign::Left => format!("{slot} {node}"),
            EndSign::Refused | EndSign::Silence => format!("{slot} {node} {}", after.word()),
        });
        let backups: Vec<String> = backups.collect();
        if !backups.is_empty() {
            entry.attributes.push(("m3VmBackup".to_owned(), backups));
        }
        entry.push("m3Procs", own.procs);
        entry.push("m3Tasks", own.tasks);
        entry.push("m3VmMode", own.mode.map(|mode| format!("{mode:04o}")));
        entry.push("m3VmGraceMs", own.grace_ms);
        entry.push("m3VmCopy", own.copy.map(copy_name));
        entry.push("m3VmLife", own.life.map(life_name));
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::parse(
            "cluster = \"lab\"\nparameters = { vms = 4, procs = 300 }\n\
             [[node]]\nid = 1\nname = \"alpha\"\naddress = \"192.0.2.1:7400\"\n\
             [[node]]\nid = 2\nname = \"beta\"\naddress = \"[2001:db8::2]:7400\"\n\
             [[vm]]\nid = 3\nname = \"shop\"\n\
             slots = { alpha = [[-35, 9], [29, 99]], beta = [[100, 199]] }\n\
             backups = [{ slot = 5, node = \"beta\" }, \
             { slot = 100, node = \"alpha\", after = \"silence\" }]\n\
             parameters = { mode = 0o640, copy = \"granted\", life = \"members\", tasks = 7 }\n\
             [[vm]]\nid = 4\nname = \"bare\"\n",
        )
        .expect("a registry")
    }

    #[test]
    fn entries_become_the_same_registry() {
        let entries = from_registry(&registry(), "cn=lab,o=m3");
        assert_eq!(entries[1].dn, "cn=alpha,cn=lab,o=m3");
        assert_eq!(to_registry("x", &entries).expect("a registry"), registry());
    }

    #[test]
    fn each_mistake_names_its_entry() {
        for (at, attribute, values, named) in [
            (0, "cn", &[][..], "0 values of cn"),
            (1, "m3NodeId", &["x"], "no number"),
            (1, "m3NodeId", &["2"], "two nodes have the id 2"),
            (2, "m3NodeAddress", &["nowhere"], "invalid socket address"),
            (3, "m3VmSlots", &["alpha 0 9", "beta 9 19"], "overlap"),
            (3, "m3VmSlots", &["alpha 0"], "NODE FIRST LAST"),
            (3, "m3VmSlots", &["gamma 0 1"], "`gamma`"),
            (3, "m3VmBackup", &["5"], "SLOT NODE"),
            (3, "m3VmBackup", &["5 beta sleep"], "SLOT NODE"),
            (3, "m3VmBackup", &["5 alpha"], "slot 5: the node has the slot itself"),
            (3, "m3VmMode", &["0888"], "no octal mode"),
            (3, "m3VmLife", &["short"], "short"),
        ] {
            let mut entries = from_registry(&registry(), "cn=lab,o=m3");
            let attributes = &mut entries[at].attributes;
            attributes.retain(|(name, _)| name != attribute);
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            attributes.push((attribute.to_owned(), values));
            let text = to_registry("ldapi:", &entries).expect_err(named).to_string();
            assert!(text.contains(named), "{named}: {text}");
        }
        assert!(to_registry("x", &[]).is_err());
    }
}
