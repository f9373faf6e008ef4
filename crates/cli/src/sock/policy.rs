//! Policies: files in TOML, and the line that the library reads.

use crate::error::{CliError, Result};
use m3ipc_shim::policy::{BadWord, Policy};
use serde::Deserialize;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

/// The longest policy file.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// A policy file; every key is optional.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct PolicyFile {
    on: Option<bool>,
    upgrade_after: Option<u32>,
    ring_bytes: Option<u32>,
    spin_us: Option<u32>,
    io_uring: Option<IoUringRule>,
    children: Vec<RuleItem>,
    programs: Rules,
    users: Rules,
    ports: Rules,
    paths: Rules,
    test: TestSettings,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum IoUringRule {
    Refuse,
    Pass,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Rules {
    allow: Vec<RuleItem>,
    deny: Vec<RuleItem>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RuleItem {
    Number(u32),
    Text(String),
}

/// Settings for tests.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct TestSettings {
    always_wakeup: bool,
    same_process: bool,
    never_bulk: bool,
    always_ring: bool,
    never_rest: bool,
}

/// The policy that is in effect.
pub struct EffectivePolicy {
    /// The line that the library reads.
    pub line: String,
    /// The source of the policy, for the user.
    pub from: String,
}

/// The policy of the file, else of the environment, else the default. `children` are further
/// programs that load the library where they are executed.
pub fn choose(path: Option<&Path>, children: &[String]) -> Result<EffectivePolicy> {
    let variable = m3ipc_shim::policy::VARIABLE;
    let from_environment = m3ipc_sys::text_variable(variable);
    let (mut line, from) = match (path, from_environment) {
        (Some(path), _) => (line(&read(path)?, path)?, path.display().to_string()),
        (None, Some(line)) => (checked(line, variable)?, variable.to_owned()),
        (None, None) => (String::new(), "the default".to_owned()),
    };
    let children: Vec<_> = children.iter().cloned().map(RuleItem::Text).collect();
    if let Some(names) = items(&children).map_err(|item| invalid("--children", &item))? {
        line = checked(format!("{line} children={names}").trim_start().to_owned(), "--children")?;
    }
    Ok(EffectivePolicy { line, from })
}

/// A file of text. A device may have no end.
fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let bytes = std::fs::File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    if bytes as u64 > FILE_MAX_BYTES {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn read(path: &Path) -> Result<PolicyFile> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|cause| {
        CliError::system(format!("cannot read {name}"), cause)
            .advice("name a readable file with --policy")
    })?;
    toml::from_str(&text).map_err(|cause| {
        CliError::usage(format!("{name} is not a policy: {}", cause.to_string().trim_end()))
            .advice("see the example in m3-sock-run(1)")
    })
}

fn line(file: &PolicyFile, path: &Path) -> Result<String> {
    let name = path.display().to_string();
    checked(to_line(file).map_err(|item| invalid(&name, &item))?, &name)
}

fn invalid(name: &str, item: &str) -> CliError {
    CliError::usage(format!("{name}: `{item}` is not allowed there"))
        .advice("see the allowed values in m3-sock-run(1)")
}

/// The line, if the library accepts it.
fn checked(line: String, name: &str) -> Result<String> {
    match Policy::read(&line) {
        Err(BadWord(word)) => Err(invalid(name, word)),
        Ok(_) => Ok(line),
    }
}

/// The line of a policy file; an error is an item that the line cannot hold.
fn to_line(file: &PolicyFile) -> std::result::Result<String, String> {
    let mut line = String::new();
    let mut word = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = write!(line, "{}{name}={value}", if line.is_empty() { "" } else { " " });
        }
    };
    word("on", file.on.map(|on| u32::from(on).to_string()));
    word("after", file.upgrade_after.map(|calls| calls.to_string()));
    word("ring", file.ring_bytes.map(|bytes| bytes.to_string()));
    word("spin", file.spin_us.map(|us| us.saturating_mul(1000).to_string()));
    word(
        "uring",
        file.io_uring
            .map(|how| if matches!(how, IoUringRule::Pass) { "pass" } else { "refuse" }.to_owned()),
    );
    word("children", items(&file.children)?);
    word("wakeup", file.test.always_wakeup.then(|| "always".to_owned()));
    word("same", file.test.same_process.then(|| "1".to_owned()));
    word("bulk", file.test.never_bulk.then(|| "0".to_owned()));
    word("message", file.test.always_ring.then(|| "0".to_owned()));
    word("rest", file.test.never_rest.then(|| "0".to_owned()));
    let rules = [
        ("programs", &file.programs),
        ("users", &file.users),
        ("ports", &file.ports),
        ("paths", &file.paths),
    ];
    for (name, rules) in rules {
        word(name, items(&rules.allow)?);
        word(&format!("!{name}"), items(&rules.deny)?);
    }
    Ok(line)
}

fn items(items: &[RuleItem]) -> std::result::Result<Option<String>, String> {
    let mut all = Vec::new();
    for item in items {
        let text = match item {
            RuleItem::Number(number) => number.to_string(),
            RuleItem::Text(text) => text.clone(),
        };
        // These characters separate words and items of the line.
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == ',' || c == '\0') {
            return Err(text);
        }
        all.push(text);
    }
    Ok((!all.is_empty()).then(|| all.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_line() {
        let text = "upgrade-after = 0\nring-bytes = 64\nspin-us = 20\n\
            io-uring = \"pass\"\nchildren = [\"sh\", \"redis-server\"]\n\
            [ports]\nallow = [6379, \"8000-8999\"]\ndeny = [22]\n[programs]\ndeny = [\"sshd\"]\n\
            [paths]\nallow = [\"/run/\"]\n[test]\nalways-wakeup = true\n\
            always-ring = true\nnever-rest = true\n";
        let line = to_line(&toml::from_str(text).unwrap()).unwrap();
        let wanted = "after=0 ring=64 spin=20000 uring=pass children=sh,redis-server \
                      wakeup=always message=0 rest=0 !programs=sshd ports=6379,8000-8999 \
                      !ports=22 paths=/run/";
        assert_eq!(line, wanted);
        assert!(Policy::read(&line).is_ok());
    }

    #[test]
    fn no_program_is_denied_by_name() {
        let path = std::env::temp_dir().join(format!("m3-policy-{}", std::process::id()));
        for text in ["", "upgrade-after = 0", "[programs]\ndeny = [\"x\"]"] {
            std::fs::write(&path, text).unwrap();
            let policy = choose(Some(&path), &[]).unwrap();
            assert!(Policy::read(&policy.line).unwrap().allows_program("iperf3", 0), "{text}");
        }
        std::fs::write(&path, "defaults = false").unwrap();
        assert!(choose(Some(&path), &[]).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn values_that_the_library_would_reject_are_refused() {
        assert!(toml::from_str::<PolicyFile>("colour = 1").is_err());
        for text in [
            "[paths]\nallow = [\"/a b\"]",
            "[paths]\ndeny = [\"a,b\"]",
            "[programs]\nallow = [\"\"]",
        ] {
            assert!(to_line(&toml::from_str(text).unwrap()).is_err(), "{text}");
        }
        let line = to_line(&toml::from_str("ring-bytes = 100").unwrap()).unwrap();
        assert!(checked(line, "x").is_err());
    }
}
