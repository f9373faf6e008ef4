//! A line for a message as it happens: who, whom, what, how long, and where the time went.

use super::names::Names;
use super::{Seen, ns, phases_ns, verb};
use crate::out::time;
use m3ipc::trace::{CallPhases, Phases, StampScale};

/// Letters of a bar.
const BAR: usize = 40;

/// What a person reads above the lines.
pub const LEGEND: &str = "\
bar: 1 prepare, 2 deliver, ~ switch, 3 find, 4 handle (copy, sender), = the server's own work; request, server, answer";

/// The line of a message.
pub fn line(seen: &Seen, names: &Names, scale: &StampScale) -> String {
    let transfer = &seen.transfer;
    if let Some(call) = &seen.call {
        let phases = call.phases();
        let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases.both()).map(time);
        return format!(
            "{} -> {}  call type {}{}  {}  [{}]  T1 {t1}, T2 {t2}, T3 {t3}, T4 {t4}, T5 {t5}, server {}",
            names.name(call.request.from),
            names.name(call.request.to),
            call.request.m_type,
            beside(call.request.bytes.max(call.answer.bytes)),
            time(ns(scale, call.ticks())),
            bar(&phases),
            time(ns(scale, phases.server)),
        );
    }
    let phases = Phases::of(transfer);
    let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases).map(time);
    format!(
        "{} -> {}  {} type {}{}  {}  T1 {t1}, T2 {t2}, T3 {t3}, T4 {t4}, T5 {t5}",
        names.name(transfer.from),
        names.name(transfer.to),
        verb(transfer.what),
        transfer.m_type,
        beside(transfer.bytes),
        time(ns(scale, phases.total())),
    )
}

fn beside(bytes: u32) -> String {
    if bytes == 0 { String::new() } else { format!(" and {bytes} bytes") }
}

/// The phases of a call in proportion; each that took any time has a letter.
fn bar(phases: &CallPhases) -> String {
    let of = |phases: &Phases| {
        [
            ('1', phases.prepare),
            ('2', phases.deliver),
            ('~', phases.switch()),
            ('3', phases.find),
            ('4', phases.handle()),
        ]
    };
    let parts: Vec<(char, u64)> = of(&phases.request)
        .into_iter()
        .chain([('=', phases.server)])
        .chain(of(&phases.answer))
        .filter(|(_, ticks)| *ticks > 0)
        .collect();
    let total = parts.iter().map(|(_, ticks)| u128::from(*ticks)).sum::<u128>().max(1);
    let room = BAR.saturating_sub(parts.len()) as u128;
    parts
        .iter()
        .map(|(letter, ticks)| {
            let more = usize::try_from(u128::from(*ticks) * room / total).unwrap_or(0);
            letter.to_string().repeat(1 + more)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_every_phase_and_is_never_longer_than_its_room() {
        let leg =
            Phases { prepare: 1, deliver: 1, to_read: 500, find: 2, copy: 3, ..Phases::default() };
        let shown = bar(&CallPhases { request: leg, server: 100, answer: leg });
        assert!(shown.starts_with("12~~~~~") && shown.contains("34=="), "{shown}");
        assert!(shown.len() <= BAR, "{shown}");
        let huge = Phases { to_run: u64::MAX / 4, ..leg };
        assert!(bar(&CallPhases { request: huge, server: 0, answer: huge }).len() <= BAR);
        assert_eq!(bar(&CallPhases::default()), "");
    }
}
