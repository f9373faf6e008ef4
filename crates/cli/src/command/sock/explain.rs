//! `m3 sock run --explain`: the policy in effect, and its consequence for a program.

use super::obstacle::Obstruction;
use crate::error::{CliError, Result};
use crate::output::{Output, table};
use crate::sock::executable::{self, PreloadSupport};
use crate::sock::policy::EffectivePolicy;
use m3ipc_shim::policy::Policy;
use std::path::Path;

/// The name that a policy uses for a program: the file name behind all links, of a script that of
/// its interpreter.
fn name(path: &Path) -> String {
    let path = executable::binary_of(path);
    let file = path.canonicalize().unwrap_or(path);
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(effective: &EffectivePolicy) -> Result<Policy<'_>> {
    Policy::read(&effective.line).map_err(|word| {
        CliError::usage(format!("{}: `{}` is not allowed there", effective.from, word.0))
    })
}

/// Whether the policy allows the program and the user of this process.
pub fn allows(effective: &EffectivePolicy, path: &Path) -> Result<bool> {
    let user = rustix::process::geteuid().as_raw();
    Ok(read(effective)?.allows_program(&name(path), user))
}

/// Prints the policy and its consequence.
pub fn show(
    effective: &EffectivePolicy,
    path: &Path,
    obstruction: Option<&Obstruction>,
    out: Output,
) -> Result<()> {
    let name = name(path);
    let policy = read(effective)?;
    let user = rustix::process::geteuid().as_raw();
    let why = match executable::inspect(path)? {
        PreloadSupport::Unsupported(why) => Some(why),
        PreloadSupport::Supported if policy.allows_program(&name, user) => {
            obstruction.map(Obstruction::line)
        }
        PreloadSupport::Supported => {
            Some(format!("the policy does not allow the program or its user ({user})"))
        }
    };
    if out.is_json() {
        return out.json(&serde_json::json!({
            "program": name, "path": path, "moves": why.is_none(), "why": why,
            "policy": effective.line, "from": effective.from,
        }));
    }
    let consequence = match &why {
        None => "its local streams use shared memory".to_owned(),
        Some(why) => format!("it keeps the kernel's sockets: {why}"),
    };
    let settings = policy.settings;
    let mut rows = vec![
        [name.as_str(), consequence.as_str()].map(str::to_owned),
        ["policy".to_owned(), effective.from.clone()],
        ["upgrade-after".to_owned(), settings.upgrade_after_calls.to_string()],
        ["ring-bytes".to_owned(), settings.ring_bytes.to_string()],
        ["spin-us".to_owned(), (settings.spin_ns / 1000).to_string()],
        ["io-uring".to_owned(), if policy.refuse_uring { "refuse" } else { "pass" }.to_owned()],
    ];
    let children = effective.line.split_ascii_whitespace().filter_map(|word| {
        word.strip_prefix("children=").map(|names| if names == "*" { "all" } else { names })
    });
    let children = children.collect::<Vec<_>>().join(",");
    let without = "without the library".to_owned();
    rows.push(["children".to_owned(), if children.is_empty() { without } else { children }]);
    let rules = effective.line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    for (rule, items) in rules {
        let (verb, rule) = rule.strip_prefix('!').map_or(("allow", rule), |rule| ("deny", rule));
        if ["programs", "users", "ports", "paths"].contains(&rule) {
            rows.push([format!("{verb} {rule}"), items.to_owned()]);
        }
    }
    out.line(table(&["SETTING", "VALUE"], &rows.into_iter().map(Vec::from).collect::<Vec<_>>()))
}
