//! Policies as people write them, and the line that the library reads.

use super::known::{self, Known};
use crate::fail::{Fail, Result};
use m3ipc_shim::policy::{BadWord, Policy};
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

/// A policy file. Everything may be left out.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    on: Option<bool>,
    defaults: Option<bool>,
    upgrade_after: Option<u32>,
    ring_bytes: Option<u32>,
    spin_us: Option<u32>,
    io_uring: Option<Uring>,
    programs: Rules,
    users: Rules,
    ports: Rules,
    paths: Rules,
    test: Test,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Uring {
    Refuse,
    Pass,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Rules {
    allow: Vec<Item>,
    deny: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Item {
    Number(u32),
    Text(String),
}

/// Switches that tests need.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Test {
    always_token: bool,
    same_process: bool,
}

/// What holds for a program.
pub struct Chosen {
    /// The line that the library reads.
    pub line: String,
    /// Where it comes from, as people read it.
    pub from: String,
    /// Programs that stay in the kernel because they are known to lose.
    pub known: Vec<&'static Known>,
}

/// The policy of a file; without one, that of the environment, or the default one. What is known of programs is added, unless the
/// policy, or `defaults`, says otherwise; who set the variable said all that is to hold.
pub fn choose(path: Option<&Path>, defaults: bool) -> Result<Chosen> {
    let variable = m3ipc_shim::policy::VARIABLE;
    let named = std::env::var(variable).ok().filter(|line| !line.is_empty());
    let (line, from, defaults, allowed) = match (path, named) {
        (Some(path), _) => {
            let file = read(path)?;
            let line = line(&file, path)?;
            let defaults = defaults && file.defaults.unwrap_or(true);
            (line, path.display().to_string(), defaults, file.programs.allow)
        }
        (None, Some(line)) => (checked(line, variable)?, variable.to_owned(), false, Vec::new()),
        (None, None) => (String::new(), "the default".to_owned(), defaults, Vec::new()),
    };
    let is_allowed = |known: &&Known| {
        allowed.iter().any(|item| matches!(item, Item::Text(name) if name == known.program))
    };
    let known: Vec<&Known> =
        known::ALL.iter().filter(|known| defaults && !is_allowed(known)).collect();
    Ok(Chosen { line: with(line, &known), from, known })
}

fn with(mut line: String, known: &[&Known]) -> String {
    let names: Vec<&str> = known.iter().map(|known| known.program).collect();
    if !names.is_empty() {
        // Into a string: cannot fail.
        let _ =
            write!(line, "{}!programs={}", if line.is_empty() { "" } else { " " }, names.join(","));
    }
    line
}

fn read(path: &Path) -> Result<File> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|cause| Fail::system(format!("cannot read {name}"), cause))?;
    toml::from_str(&text).map_err(|cause| {
        Fail::usage(format!("{name} is no policy: {cause}")).next("m3-sock-run(1) shows one")
    })
}

fn line(file: &File, path: &Path) -> Result<String> {
    let name = path.display().to_string();
    checked(written(file).map_err(|item| bad(&name, &item))?, &name)
}

fn bad(name: &str, item: &str) -> Fail {
    Fail::usage(format!("{name}: `{item}` cannot stand there"))
        .next("m3-sock-run(1) shows what can")
}

fn checked(line: String, name: &str) -> Result<String> {
    match Policy::read(&line) {
        Err(BadWord(word)) => Err(bad(name, word)),
        Ok(_) => Ok(line),
    }
}

fn written(file: &File) -> std::result::Result<String, String> {
    let mut line = String::new();
    let mut word = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            // Into a string: cannot fail.
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
            .map(|how| if matches!(how, Uring::Pass) { "pass" } else { "refuse" }.to_owned()),
    );
    word("wakeup", file.test.always_token.then(|| "always".to_owned()));
    word("same", file.test.same_process.then(|| "1".to_owned()));
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

fn items(items: &[Item]) -> std::result::Result<Option<String>, String> {
    let mut all = Vec::new();
    for item in items {
        let text = match item {
            Item::Number(number) => number.to_string(),
            Item::Text(text) => text.clone(),
        };
        // These end words and items of the line.
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
        let text = "upgrade-after = 0\nring-bytes = 64\nspin-us = 20\nio-uring = \"pass\"\n\
            [ports]\nallow = [6379, \"8000-8999\"]\ndeny = [22]\n[programs]\ndeny = [\"sshd\"]\n\
            [paths]\nallow = [\"/run/\"]\n[test]\nalways-token = true\n";
        let line = written(&toml::from_str(text).unwrap()).unwrap();
        let wanted = "after=0 ring=64 spin=20000 uring=pass wakeup=always !programs=sshd ports=6379,8000-8999 !ports=22 paths=/run/";
        assert_eq!(line, wanted);
        assert!(Policy::read(&line).is_ok());
    }

    #[test]
    fn who_is_known_to_lose_stays_in_the_kernel_unless_the_policy_says_otherwise() {
        let path = std::env::temp_dir().join(format!("m3-policy-{}", std::process::id()));
        let lets = |text: &str, defaults: bool| {
            std::fs::write(&path, text).unwrap();
            let chosen = choose(Some(&path), defaults).unwrap();
            Policy::read(&chosen.line).unwrap().allows_program("iperf3", 0)
        };
        assert!(
            !lets("", true)
                && !lets("upgrade-after = 0", true)
                && !lets("[programs]\ndeny = [\"x\"]", true)
        );
        assert!(lets("", false) && lets("defaults = false", true));
        assert!(lets("[programs]\nallow = [\"iperf3\", \"x\"]", true));
        assert!(!lets("defaults = false\n[programs]\ndeny = [\"iperf3\"]", true));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_the_library_would_not_understand_is_refused() {
        assert!(toml::from_str::<File>("colour = 1").is_err());
        for text in [
            "[paths]\nallow = [\"/a b\"]",
            "[paths]\ndeny = [\"a,b\"]",
            "[programs]\nallow = [\"\"]",
        ] {
            assert!(written(&toml::from_str(text).unwrap()).is_err(), "{text}");
        }
        let line = written(&toml::from_str("ring-bytes = 100").unwrap()).unwrap();
        assert!(checked(line, "x").is_err());
    }
}
