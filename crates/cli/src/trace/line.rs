//! A traced message as a line of text or JSON: endpoints, verb, duration and phases.

use super::event::{TracedMessage, ns, phases_ns, verb};
use super::names::EndpointNames;
use crate::output::time;
use m3ipc::Address;
use m3ipc::trace::{CallPhases, Phases, StampScale, Transfer};

/// The longest bar.
const BAR_LETTERS: usize = 40;

/// The legend above the lines.
pub const LEGEND: &str = "\
bar: request, server, answer; 1 prepare, 2 deliver, ~ switch, 3 find, 4 handle (copy, sender),
     = work of the server; of a call to another node: the wire, and all of that node";

/// The line of a message.
pub fn text(message: &TracedMessage, names: &EndpointNames, scale: &StampScale) -> String {
    let transfer = &message.transfer;
    if let Some(call) = &message.call {
        let phases = call.phases();
        let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases.both()).map(time);
        return format!(
            "{} -> {}  call type {}{}  {}  [{}]  T1 {t1}, T2 {t2}, T3 {t3}, T4 {t4}, T5 {t5}, \
             {} {}",
            names.name(call.request.from),
            shown(names, call.request.to),
            call.request.m_type,
            long_bytes(call.request.bytes.max(call.answer.bytes)),
            time(ns(scale, call.ticks())),
            bar(&phases),
            phase_between(names, call.request.to),
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
        long_bytes(transfer.bytes),
        time(ns(scale, phases.total())),
    )
}

/// The name of an endpoint, with its node if that is another one.
fn shown(names: &EndpointNames, address: Address) -> String {
    let name = names.name(address);
    names.node(address).map_or(name.clone(), |node| format!("{name} ({node})"))
}

/// The name of what lies between request and answer.
fn phase_between(names: &EndpointNames, to: Address) -> &'static str {
    if names.node(to).is_some() { "wire" } else { "server" }
}

fn long_bytes(bytes: u32) -> String {
    if bytes == 0 { String::new() } else { format!(" and {bytes} bytes") }
}

/// A message as JSON. The keys T1 to T5 and server, or wire, are nanoseconds.
pub fn json(
    message: &TracedMessage,
    names: &EndpointNames,
    scale: &StampScale,
) -> serde_json::Value {
    let transfer = &message.transfer;
    let (verb, from, to, m_type, total, phases, server) = match &message.call {
        Some(call) => {
            let (request, phases) = (&call.request, call.phases());
            let server = Some(ns(scale, phases.server));
            let both = phases.both();
            ("call", request.from, request.to, request.m_type, call.ticks(), both, server)
        }
        None => {
            let phases = Phases::of(transfer);
            let Transfer { what, from, to, m_type, .. } = *transfer;
            (verb(what), from, to, m_type, phases.total(), phases, None)
        }
    };
    let [t1, t2, t3, t4, t5] = phases_ns(scale, &phases);
    let mut value = serde_json::json!({
        "verb": verb, "from": names.name(from), "to": names.name(to), "type": m_type,
        "bytes": transfer.bytes, "total_ns": ns(scale, total),
        "T1": t1, "T2": t2, "T3": t3, "T4": t4, "T5": t5,
    });
    if let Some(server) = server {
        value[phase_between(names, to)] = server.into();
    }
    if let Some(node) = names.node(to) {
        value["node"] = node.into();
    }
    value
}

/// The phases of a call in proportion; each phase that took any time has a letter.
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
    let letters = BAR_LETTERS.saturating_sub(parts.len()) as u128;
    parts
        .iter()
        .map(|(letter, ticks)| {
            let more = usize::try_from(u128::from(*ticks) * letters / total).unwrap_or(0);
            letter.to_string().repeat(1 + more)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_every_phase_and_a_limited_length() {
        let leg =
            Phases { prepare: 1, deliver: 1, to_read: 500, find: 2, copy: 3, ..Phases::default() };
        let shown = bar(&CallPhases { request: leg, server: 100, answer: leg });
        assert!(shown.starts_with("12~~~~~") && shown.contains("34=="), "{shown}");
        assert!(shown.len() <= BAR_LETTERS, "{shown}");
        let huge = Phases { to_run: u64::MAX / 4, ..leg };
        assert!(bar(&CallPhases { request: huge, server: 0, answer: huge }).len() <= BAR_LETTERS);
        assert_eq!(bar(&CallPhases::default()), "");
    }
}
