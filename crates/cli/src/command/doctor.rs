//! `m3 doctor`: what this machine gives, what is off, and which fallback serves.

use crate::cli::Common;
use crate::doctor::{self, Finding, State};
use crate::fail::Result;
use crate::out::Out;
use crate::reach;
use clap::Args;
use std::process::ExitCode;

/// Look at this machine; exit code 1 where something is missing that m3ipc cannot do without.
#[derive(Args, Debug)]
pub struct Doctor {
    #[command(flatten)]
    pub common: Common,
}

/// Looks, and tells.
pub fn run(args: &Doctor, out: Out) -> Result<ExitCode> {
    let groups = doctor::examine(&reach::directory(&args.common));
    let all = || groups.iter().flat_map(|(_, findings)| findings);
    let missing = all().filter(|finding| finding.state == State::Missing).count();
    let off = all().filter(|finding| finding.state == State::Off).count();
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

fn line(finding: &Finding, out: Out) -> String {
    let state = match finding.state {
        State::Ok => out.good("ok     "),
        State::Off => out.bold("off    "),
        State::Note => out.dim("note   "),
        State::Missing => out.bad("MISSING"),
    };
    let mut line = format!("  {state} {:<22} {}", finding.name, finding.is);
    if let Some(instead) = &finding.instead {
        line.push_str(&format!("\n  {:<30} instead: {instead}", ""));
    }
    line
}

fn summary(missing: usize, off: usize) -> String {
    match (missing, off) {
        (0, 0) => "all is there".to_owned(),
        (0, off) => format!("{off} off, each with a fallback that serves; m3ipc works here"),
        (missing, _) => format!("{missing} missing: m3ipc does not work here until that is mended"),
    }
}
