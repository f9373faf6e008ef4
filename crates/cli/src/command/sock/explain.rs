//! `m3 sock run --explain`: which policy holds, and what it means for a program.

use crate::fail::{Fail, Result};
use crate::out::{Out, table};
use crate::sock::known::Known;
use crate::sock::policy::Chosen;
use crate::sock::target::{self, Fit};
use m3ipc_shim::policy::Policy;
use std::path::Path;

/// The name that a policy knows a program by: that of its file, behind all links.
fn name(path: &Path) -> String {
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Why a program stays in the kernel by default, if it does.
pub fn known(chosen: &Chosen, path: &Path) -> Option<&'static Known> {
    let name = name(path);
    chosen.known.iter().find(|known| known.program == name).copied()
}

/// Shows it.
pub fn show(chosen: &Chosen, path: &Path, out: Out) -> Result<()> {
    let name = name(path);
    let policy = Policy::read(&chosen.line)
        .map_err(|bad| Fail::usage(format!("{}: `{}` cannot stand there", chosen.from, bad.0)))?;
    let user = rustix::process::geteuid().as_raw();
    let why = match (target::look(path)?, known(chosen, path)) {
        (Fit::Not(why), _) => Some(why),
        (_, Some(known)) => Some(format!("by default, since {}", known.why)),
        (Fit::Ours, None) if policy.allows_program(&name, user) => None,
        _ => Some(format!("the policy leaves out the program or its user ({user})")),
    };
    if out.is_json() {
        return out.json(&serde_json::json!({
            "program": name, "path": path, "moves": why.is_none(), "why": why,
            "policy": chosen.line, "from": chosen.from,
            "defaults": chosen.known.iter().map(|known| serde_json::json!({
                "program": known.program, "why": known.why })).collect::<Vec<_>>(),
        }));
    }
    let fate = match &why {
        None => "its local streams move to shared memory".to_owned(),
        Some(why) => format!("it keeps the kernel's sockets: {why}"),
    };
    let settings = policy.settings;
    let mut rows = vec![
        [name.as_str(), fate.as_str()].map(str::to_owned),
        ["policy".to_owned(), chosen.from.clone()],
        ["upgrade-after".to_owned(), settings.upgrade_after_calls.to_string()],
        ["ring-bytes".to_owned(), settings.ring_bytes.to_string()],
        ["spin-us".to_owned(), (settings.spin_ns / 1000).to_string()],
        ["io-uring".to_owned(), if policy.refuse_uring { "refuse" } else { "pass" }.to_owned()],
    ];
    let rules = chosen.line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    for (rule, items) in rules {
        let (verb, rule) = rule.strip_prefix('!').map_or(("allow", rule), |rule| ("deny", rule));
        if ["programs", "users", "ports", "paths"].contains(&rule) {
            rows.push([format!("{verb} {rule}"), items.to_owned()]);
        }
    }
    rows.extend(
        chosen
            .known
            .iter()
            .map(|known| [format!("default: {}", known.program), known.why.to_owned()]),
    );
    out.line(table(&["WHAT", "HOLDS"], &rows.into_iter().map(Vec::from).collect::<Vec<_>>()))
}
