//! The top of the page: the finding of all, the machine's card, and warnings.

use maud::{Markup, html};

use crate::book::{format, rows};
use crate::job::Placement;
use crate::mechanism::Family;
use crate::output::Output;
use crate::record::Results;

/// Above so many CPUs of others a step counts as disturbed.
const FOREIGN_CPUS: f64 = 0.05;
/// The same of what the hypervisor took.
const STOLEN_CPUS: f64 = 0.02;

/// The finding of all.
#[must_use]
pub fn headline(results: &Results) -> Markup {
    let two = rows::at(results, "ipc2", Placement::TwoCpus);
    let rows_ = if two.clone().next().is_some() {
        two.collect::<Vec<_>>()
    } else {
        rows::at(results, "ipc2", Placement::SameCpu).collect()
    };
    let all = || rows_.iter().copied();
    let found = rows::ours(all()).zip(rows::fastest(all(), Family::Kernel));
    let death = rows::ours(rows::of_test(results, "death"));
    html! {
        @match (found, death) {
            (Some((ours, kernel)), Some(death)) => {
                "A call in " (rows::time(ours)) " where the kernel\u{2019}s best takes " (rows::time(kernel))
                "; a killed server is an error " (rows::time(death)) " later"
            },
            (Some((ours, kernel)), None) => { "A call in " (rows::time(ours)) " where the kernel\u{2019}s best takes " (rows::time(kernel)) },
            _ => "What was measured",
        }
    }
}

/// The card of the machine and of the run.
#[must_use]
pub fn card(output: &Output) -> Markup {
    let machine = &output.machine;
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let entry = |name: &str, value: String| html! { div { dt { (name) } dd { (value) } } };
    html! {
        dl.card {
            (entry("CPU", format!("{}, {} in use{}", machine.cpu, machine.cpus, if machine.r#virtual { ", virtual machine" } else { "" })))
            (entry("Placed on", machine.placed_on.iter().map(|cpu| format!("CPU {cpu}")).collect::<Vec<_>>().join(" and ")))
            @if !machine.caches.is_empty() { (entry("Caches", machine.caches.join(", "))) }
            @if machine.memory_bytes > 0 { (entry("Memory", format!("{:.1} GB", machine.memory_bytes as f64 / f64::from(1 << 30)))) }
            (entry("Kernel", machine.kernel.clone()))
            (entry("Governor", or_none(&machine.governor)))
            (entry("Clock", format!("{} (source {})", machine.clock, or_none(&machine.clocksource))))
            (entry("Load", format!("{} at the start, {} at the end (our own in it)", machine.loadavg_start, machine.loadavg_end)))
            (entry("Mitigations", if machine.mitigations.is_empty() { "none".into() } else { machine.mitigations.join("; ") }))
            @if let Some(run) = &output.run {
                (entry("Run", format!("{}, {} minutes, version {}", format::date(run.began_s), run.ended_s.saturating_sub(run.began_s).div_ceil(60), run.version)))
            }
        }
    }
}

/// What a reader must know before believing anything.
#[must_use]
pub fn warnings(output: &Output) -> Markup {
    let mut texts: Vec<String> = vec![];
    let disturbed: Vec<_> =
        output.steps.iter().filter(|step| step.foreign_cpus > FOREIGN_CPUS).collect();
    if let Some(worst) = disturbed.iter().max_by(|a, b| a.foreign_cpus.total_cmp(&b.foreign_cpus)) {
        texts.push(format!(
            "Other processes used the CPUs during {} of {} steps; most of all {:.2} CPUs during \u{201c}{}\u{201d}. Figures of those steps are disturbed.",
            disturbed.len(), output.steps.len(), worst.foreign_cpus, worst.title
        ));
    }
    let stolen: Vec<_> =
        output.steps.iter().filter(|step| step.stolen_cpus > STOLEN_CPUS).collect();
    if let Some(worst) = stolen.iter().max_by(|a, b| a.stolen_cpus.total_cmp(&b.stolen_cpus)) {
        texts.push(format!(
            "The hypervisor took CPU time away during {} steps; most of all {:.2} CPUs during \u{201c}{}\u{201d}.",
            stolen.len(), worst.stolen_cpus, worst.title
        ));
    }
    if output.machine.r#virtual {
        texts.push("A virtual machine: a wake-up goes through the hypervisor, and tails (p99.9, longest) are its, not the mechanisms\u{2019}.".into());
    }
    if output.machine.placed_on.len() < 2 {
        texts.push(
            "This process may use one CPU only: everything between two CPUs is missing.".into(),
        );
    }
    if let Some(run) = output.run.as_ref().filter(|run| run.resumed > 0) {
        texts.push(format!(
            "The run was interrupted and gone on with {} times: steps of different times stand side by side.",
            run.resumed
        ));
    }
    if output.run.as_ref().is_some_and(|run| run.command.contains("--quick")) {
        texts.push("A quick run: few and short rounds, some mechanisms and sizes left out.".into());
    }
    if !output.failed.is_empty() {
        texts.push(format!(
            "{} measurements failed; their reasons are at the end.",
            output.failed.len()
        ));
    }
    html! {
        @if !texts.is_empty() { aside.warn { ul { @for text in &texts { li { (text) } } } } }
    }
}
