//! Figure 1 of M3-IPC: round trips by every mechanism, on two CPUs and on one, awake and asleep.

use maud::{Markup, html};

use super::Chapter;
use crate::book::bars::{bars, legend};
use crate::book::rows::{self, at, fastest, ours, time, versus};
use crate::job::Placement;
use crate::mechanism::Family;
use crate::record::{Results, Row};

const WORKS: [(&str, &str); 3] = [
    ("ipc2", "IPC2: sendrec, answered by receive and send"),
    ("ipc1", "IPC1: send and receive, both ways"),
    ("ipc3", "IPC3: notify and receive, both ways"),
];

/// IPC1 to IPC3 back to back.
pub fn awake(results: &Results) -> Option<Chapter> {
    let placements = [(Placement::TwoCpus, "two CPUs"), (Placement::SameCpu, "one CPU")];
    WORKS.iter().flat_map(|(test, _)| rows::of_test(results, test)).next()?;
    let title = [Placement::TwoCpus, Placement::SameCpu]
        .into_iter()
        .find_map(|placement| finding(results, placement))
        .unwrap_or_else(|| html! { "Round trips" });
    let body = html! {
        p {
            "48 bytes go to another process, are read there, and 48 bytes that depend on them come back and are checked: \
            the IPC1 to IPC3 of M3-IPC\u{2019}s paper (its Figure 1). For a mechanism of the kernel IPC1 and IPC2 are the same calls; \
            IPC3 carries one byte where something must be carried."
        }
        @if let Some(other) = second(results) { p.also { (other) "." } }
        (legend(results.rows.iter().any(|row| row.family == Family::Peer)))
        @for (test, what) in WORKS {
            h3 { (what) }
            div.pair {
                @for (placement, where_) in placements {
                    (bars(&format!("{}, {where_}, back to back", test.to_uppercase()), at(results, test, placement).collect(), true))
                }
            }
        }
    };
    Some(Chapter { id: "messages", name: "Messages", title, body })
}

fn finding(results: &Results, placement: Placement) -> Option<Markup> {
    let rows = at(results, "ipc2", placement);
    let (ours, kernel) = (ours(rows.clone())?, fastest(rows, Family::Kernel)?);
    let place = if placement == Placement::TwoCpus { "Between two CPUs" } else { "On one CPU" };
    Some(
        html! { (place) " a call and its answer take " (time(ours)) ": " (versus(ours, kernel)) ", the kernel\u{2019}s fastest" },
    )
}

/// What the title leaves out: one CPU, and the distance to the floor.
fn second(results: &Results) -> Option<Markup> {
    let two = || at(results, "ipc2", Placement::TwoCpus);
    let floor = |spin: &Row| {
        fastest(two().filter(|row| row.record.wait == spin.record.wait), Family::Floor)
    };
    let spin =
        two().find(|row| row.family == Family::Ours && row.record.wait == crate::job::Wait::Spin);
    let bare = spin.and_then(|spin| Some((spin, floor(spin)?)));
    let one = two().next().and_then(|_| finding(results, Placement::SameCpu));
    if bare.is_none() && one.is_none() {
        return None;
    }
    Some(html! {
        @if let Some((spin, floor)) = bare {
            "Both sides spinning, it costs " (rows::times(spin, floor)) " times the bare cache line that has to travel (" (floor.record.mechanism) ")"
            @if one.is_some() { ". " }
        }
        @if let Some(one) = one { (one) }
    })
}

/// IPC2 to a server that sleeps.
pub fn asleep(results: &Results) -> Option<Chapter> {
    let all = rows::of_test(results, "ipc2-paced");
    let ours = ours(all.clone())?;
    let floor = fastest(all.clone(), Family::Floor);
    let kernel = fastest(all.clone(), Family::Kernel);
    let title = html! {
        "A call to a sleeping server takes " (time(ours))
        @if let Some(floor) = floor { ", " (rows::times(ours, floor)) " times a bare futex wake" }
    };
    let body = html! {
        p {
            "One call a millisecond: the server sleeps in the kernel each time, on another CPU, and the wake-up is most of the time. \
            The client looks at the clock in between and does not sleep."
            @if let Some(kernel) = kernel { " The call is " (versus(ours, kernel)) "." }
        }
        (bars("IPC2, two CPUs, the server asleep, 1 call a millisecond", all.collect(), false))
    };
    Some(Chapter { id: "asleep", name: "Asleep", title, body })
}
