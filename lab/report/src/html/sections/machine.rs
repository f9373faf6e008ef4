//! The top of the page: the main finding, the machine, and warnings.

use maud::{Markup, html};

use crate::host;
use crate::html::{format, rows};
use crate::results::Results;
use crate::schema::{Family, Placement, Run, StepCard};

/// A step with more CPUs of other processes than this is disturbed.
const FOREIGN_CPUS: f64 = 0.05;
/// A step that lost more CPUs to the hypervisor than this is disturbed.
const STOLEN_CPUS: f64 = 0.02;

/// The main finding.
pub fn headline(results: &Results) -> Markup {
    let call = [Placement::TwoCpus, Placement::SameCpu].into_iter().find_map(|placement| {
        let rows = rows::at(results, "ipc2", placement);
        rows.clone().next()?;
        Some((rows::ours(rows.clone())?, rows::fastest(rows, Family::Kernel)?))
    });
    let Some((ours, kernel)) = call else { return html! { "Results" } };
    html! {
        "A call in " (rows::time(ours)) " where the best of the kernel takes " (rows::time(kernel))
        @if let Some(death) = rows::ours(results.of_test("death")) {
            "; a killed server is an error " (rows::time(death)) " later"
        }
    }
}

/// The machine and the run.
pub fn card(run: &Run) -> Markup {
    let machine = &run.machine;
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
    let hypervisor = if machine.r#virtual { ", virtual machine" } else { "" };
    let mut entries = vec![
        ("CPU", format!("{}, {} in use{hypervisor}", machine.cpu, machine.cpus)),
        (
            "Placed on",
            machine
                .placed_on
                .iter()
                .map(|it| format!("CPU {it}"))
                .collect::<Vec<_>>()
                .join(" and "),
        ),
    ];
    if let Some(host) = host::text(&run.results()) {
        entries.push(("Host", host));
    }
    if !machine.caches.is_empty() {
        entries.push(("Caches", machine.caches.join(", ")));
    }
    if machine.memory_bytes > 0 {
        let gb = machine.memory_bytes as f64 / f64::from(1 << 30);
        entries.push(("Memory", format!("{gb:.1} GB")));
    }
    let (start, end) = (&machine.loadavg_start, &machine.loadavg_end);
    let mitigations = machine.mitigations.join("; ");
    let clock = format!("{} (source {})", machine.clock, or_none(&machine.clocksource));
    entries.extend([
        ("Kernel", machine.kernel.clone()),
        ("Governor", or_none(&machine.governor)),
        ("Clock", clock),
        ("Load", format!("{start} at the start, {end} at the end (the run included)")),
        ("Mitigations", if mitigations.is_empty() { "none".into() } else { mitigations }),
    ]);
    if let Some(run) = &run.run {
        let minutes = run.ended_s.saturating_sub(run.began_s).div_ceil(60);
        let began = format::date(run.began_s);
        entries.push(("Run", format!("{began}, {minutes} minutes, version {}", run.version)));
    }
    html! { dl.card { @for (name, value) in entries { div { dt { (name) } dd { (value) } } } } }
}

/// Reasons to doubt the figures.
pub fn warnings(run: &Run) -> Markup {
    let mut texts: Vec<String> = vec![];
    let worst = |of: fn(&StepCard) -> f64, limit: f64| {
        let disturbed: Vec<&StepCard> = run.steps.iter().filter(|step| of(step) > limit).collect();
        let worst = disturbed.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let title = &worst.title;
        let most = format!("most: {:.2} CPUs during \u{201c}{title}\u{201d}", of(worst));
        Some((disturbed.len(), most))
    };
    if let Some((number, most)) = worst(|step| step.foreign_cpus, FOREIGN_CPUS) {
        texts.push(format!(
            "Other processes disturbed {number} of {} steps; {most}.",
            run.steps.len()
        ));
    }
    if let Some((number, most)) = worst(|step| step.stolen_cpus, STOLEN_CPUS) {
        texts.push(format!("The hypervisor took CPU time during {number} steps; {most}."));
    }
    if run.machine.r#virtual {
        texts.push(
            "A virtual machine: a wake-up passes the hypervisor, which shapes the tails (p99.9, \
             longest)."
                .into(),
        );
    }
    if run.machine.placed_on.len() < 2 {
        texts.push("The run had one CPU: all tests between two CPUs are missing.".into());
    }
    if let Some(card) = &run.run {
        if card.resumed > 0 {
            let number = card.resumed;
            texts
                .push(format!("The run was resumed {number} times: its steps are of other times."));
        }
        if card.command.contains("--quick") {
            texts.push(
                "A quick run: few and short rounds, some mechanisms and sizes omitted.".into(),
            );
        }
    }
    if !run.failed.is_empty() {
        let number = run.failed.len();
        texts.push(format!("{number} measurements failed; the reasons are at the end."));
    }
    html! {
        @if !texts.is_empty() { aside.warn { ul { @for text in &texts { li { (text) } } } } }
    }
}
