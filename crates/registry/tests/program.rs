//! The program `m3-registry` from outside.

use std::process::Command;

fn run(words: &[&str]) -> (bool, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_m3-registry")).args(words).output();
    let done = done.expect("it starts");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).expect("text"))
}

/// A registry of another cluster.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/other.toml");

#[test]
fn the_schema_has_two_forms() {
    for (words, named) in [
        (&["ldap", "schema"][..], "attributetype ( 2.25."),
        (&["ldap", "schema", "--ldif"], "dn: cn=m3ipc,cn=schema,cn=config"),
    ] {
        let (done, text) = run(words);
        assert!(done && text.contains(named), "{text}");
    }
}

#[test]
fn each_mistake_is_named_and_ends_the_program() {
    for (words, named) in [
        (&["show", "--source", "/no/such/file"][..], "/no/such/file"),
        (&["show", "--source", "ldap://192.0.2.1/cn=lab"], "--starttls"),
        (&["show", "--source", "ldapi://%2Fno%2Fsuch%2Fsocket/cn=lab"], "cannot be reached"),
        (&["claim", "--source", "x", "--node", "a", "--vm", "v", "--slots", "7"], "FIRST..LAST"),
        (&["ldap", "get", "vm", "shop"], "--url"),
        (&["ldap", "import", "--url", "ldapi:///cn=lab", "FILE"], "give both one name"),
    ] {
        let words: Vec<&str> =
            words.iter().map(|it| if *it == "FILE" { FILE } else { it }).collect();
        let (done, text) = run(&words);
        assert!(!done && text.contains(named), "{words:?}: {text}");
    }
}
