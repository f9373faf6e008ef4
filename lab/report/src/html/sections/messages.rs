//! Figure 1 of M3-IPC: round trips by every mechanism, on two CPUs and on one, awake and asleep.

use maud::{Markup, html};

use crate::html::bars::{bars, legend};
use crate::html::rows::{at, fastest, ours, time, times, versus};
use crate::html::section::Section;
use crate::results::{Results, Row};
use crate::schema::{Family, Placement, Wait};

const WORKS: [(&str, &str); 3] = [
    ("ipc2", "IPC2: sendrec, answered by receive and send"),
    ("ipc1", "IPC1: send and receive, both ways"),
    ("ipc3", "IPC3: notify and receive, both ways"),
];
const PLACEMENTS: [(Placement, &str); 2] =
    [(Placement::TwoCpus, "two CPUs"), (Placement::SameCpu, "one CPU")];

/// IPC1 to IPC3, back to back.
pub fn awake(results: &Results) -> Option<Section> {
    WORKS.iter().flat_map(|(test, _)| results.of_test(test)).next()?;
    let title = PLACEMENTS.iter().find_map(|(placement, _)| finding(results, *placement));
    let has_libraries = results.rows.iter().any(|row| row.family == Family::Peer);
    let body = html! {
        p {
            "48 bytes go to another process, which reads them. 48 bytes that depend on them come "
            "back and are checked: IPC1 to IPC3 of M3-IPC\u{2019}s paper (its Figure 1). IPC1 and "
            "IPC2 are the same calls for a mechanism of the kernel. IPC3 carries at most one byte."
        }
        @if let Some(other) = second(results) { p.also { (other) "." } }
        (legend(has_libraries))
        @for (test, what) in WORKS {
            h3 { (what) }
            div.pair {
                @for (placement, cpus) in PLACEMENTS {
                    @let title = format!("{}, {cpus}, back to back", test.to_uppercase());
                    (bars(&title, at(results, test, placement).collect(), true))
                }
            }
        }
    };
    let title = title.unwrap_or_else(|| html! { "Round trips" });
    Some(Section { id: "messages", name: "Messages", title, body })
}

fn finding(results: &Results, placement: Placement) -> Option<Markup> {
    let rows = at(results, "ipc2", placement);
    let (ours, kernel) = (ours(rows.clone())?, fastest(rows, Family::Kernel)?);
    let cpus = if placement == Placement::TwoCpus { "Between two CPUs" } else { "On one CPU" };
    Some(html! {
        (cpus) " a call and its answer take " (time(ours)) ": " (versus(ours, kernel))
        ", the fastest of the kernel"
    })
}

/// The findings beside the title: the distance to the floor, and one CPU.
fn second(results: &Results) -> Option<Markup> {
    let two = || at(results, "ipc2", Placement::TwoCpus);
    let is_spin = |row: &&Row| row.family == Family::Ours && row.record.wait == Wait::Spin;
    let floor = || fastest(two().filter(|row| row.record.wait == Wait::Spin), Family::Floor);
    let bare = two().find(is_spin).and_then(|spin| Some((spin, floor()?)));
    let one = two().next().and_then(|_| finding(results, Placement::SameCpu));
    if bare.is_none() && one.is_none() {
        return None;
    }
    Some(html! {
        @if let Some((spin, floor)) = bare {
            "With both sides spinning, it costs " (times(spin, floor))
            " times the bare cache line that has to travel (" (floor.record.mechanism) ")"
            @if one.is_some() { ". " }
        }
        @if let Some(one) = one { (one) }
    })
}

/// IPC2 to a sleeping server.
pub fn asleep(results: &Results) -> Option<Section> {
    let all = results.of_test("ipc2-paced");
    let ours = ours(all.clone())?;
    let floor = fastest(all.clone(), Family::Floor);
    let kernel = fastest(all.clone(), Family::Kernel);
    let title = html! {
        "A call to a sleeping server takes " (time(ours))
        @if let Some(floor) = floor { ", " (times(ours, floor)) " times a bare futex wake" }
    };
    let body = html! {
        p {
            "One call a millisecond: the server sleeps in the kernel each time, on another CPU. "
            "The wake-up is most of the time. The client polls the clock in between and stays "
            "awake."
            @if let Some(kernel) = kernel { " The call is " (versus(ours, kernel)) "." }
        }
        (bars("IPC2, two CPUs, the server asleep, 1 call a millisecond", all.collect(), false))
    };
    Some(Section { id: "asleep", name: "Asleep", title, body })
}
