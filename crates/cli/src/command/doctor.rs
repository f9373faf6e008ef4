//! `m3 doctor`: checks this machine for everything that m3ipc needs.

use crate::doctor::{
    self,
    finding::{Finding, FindingState},
};
use crate::error::Result;
use crate::lookup;
use crate::options::NodeOptions;
use crate::output::Output;
use clap::Args;
use std::process::ExitCode;

/// Check this machine: what works, what is off, and which fallback is in use.
///
/// Exit code 1 if m3ipc cannot run here.
///
/// Example: m3 doctor --json
#[derive(Args, Debug)]
pub struct Doctor {
    #[command(flatten)]
    node: NodeOptions,
}

/// Runs all checks and prints their findings.
pub fn run(args: &Doctor, out: Output) -> Result<ExitCode> {
    let groups = doctor::examine(&lookup::directory(&args.node));
    let all = || groups.iter().flat_map(|(_, findings)| findings);
    let missing = all().filter(|finding| finding.state == FindingState::Missing).count();
    let off = all().filter(|finding| finding.state == FindingState::Off).count();
    if out.is_json() {
        let findings: Vec<&Finding> = all().collect();
        out.json(&serde_json::json!({ "findings": findings, "missing": missing, "off": off }))?;
    } else {
        for (title, findings) in &groups {
            out.line(out.bold(title))?;
            findings.iter().try_for_each(|finding| out.line(line(finding, out)))?;
        }
        out.line(summary(missing, off))?;
    }
    Ok(ExitCode::from(u8::from(missing > 0)))
}

fn line(finding: &Finding, out: Output) -> String {
    let state = match finding.state {
        FindingState::Ok => out.good("ok     "),
        FindingState::Off => out.bold("off    "),
        FindingState::Note => out.dim("note   "),
        FindingState::Missing => out.bad("MISSING"),
    };
    let mut line = format!("  {state} {:<22} {}", finding.name, finding.is);
    if let Some(instead) = &finding.instead {
        line.push_str(&format!("\n  {:<30} instead: {instead}", ""));
    }
    line
}

fn summary(missing: usize, off: usize) -> String {
    match (missing, off) {
        (0, 0) => "all checks passed".to_owned(),
        (0, off) => format!("{off} off, each with a fallback; m3ipc works here"),
        (missing, _) => format!("{missing} missing; m3ipc does not work here until they are fixed"),
    }
}
