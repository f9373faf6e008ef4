//! Text of a status.

use crate::status::{NodeStatus, State, Status, Traffic, now_s};

/// The table of `m3 node ls`, and below it why nodes cannot be reached.
pub fn text(status: &Status) -> String {
    let head =
        ["NODE", "ID", "STATE", "SINCE", "ROUND TRIP", "SENT", "RECEIVED", "LOST", "ADDRESS"];
    let own = [
        status.node.clone(),
        status.id.to_string(),
        "here".into(),
        age(status.since),
        "-".into(),
        "-".into(),
        "-".into(),
        "-".into(),
        status.address.clone(),
    ];
    let rows: Vec<[String; 9]> = std::iter::once(own).chain(status.nodes.iter().map(row)).collect();
    let mut width = head.map(str::len);
    for row in &rows {
        for (width, cell) in width.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |cells: [&str; 9]| {
        let padded = cells.iter().zip(width).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(head)];
    lines.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    for node in &status.nodes {
        if let Some(why) = &node.why {
            lines.push(format!("{}: {}", node.name, why.replace('\n', "\\n")));
        }
    }
    let end = status.certificate.as_ref();
    if let Some(warning) = end.and_then(|end| end.warning(now_s())) {
        lines.push(format!("{}: {warning}", status.node));
    }
    if !status.tls {
        lines.push("without_security: nothing proves who these nodes are".into());
    }
    m3ipc_sys::printable(&lines.join("\n")).into_owned()
}

fn row(node: &NodeStatus) -> [String; 9] {
    let state = match node.state {
        State::Awaited => "awaited",
        State::Up => "up",
        State::Lost => "lost",
    };
    let trip = node.round_trip_us.map_or_else(|| "-".into(), |us| format!("{us} us"));
    [
        node.name.clone(),
        node.id.to_string(),
        state.into(),
        age(node.since),
        trip,
        traffic(node.sent),
        traffic(node.received),
        node.lost.to_string(),
        node.address.clone(),
    ]
}

fn traffic(it: Traffic) -> String {
    let bytes = match it.bytes {
        0..10_000 => format!("{} B", it.bytes),
        10_000..10_000_000 => format!("{} kB", it.bytes / 1_000),
        _ => format!("{} MB", it.bytes / 1_000_000),
    };
    format!("{} ({bytes})", it.packets)
}

/// The time since then.
fn age(since_s: u64) -> String {
    match now_s().saturating_sub(since_s) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_and_ages_have_a_fitting_unit() {
        let shown = |bytes| traffic(Traffic { packets: 2, bytes });
        assert_eq!(
            [9_999, 10_000, 12_345_678].map(shown),
            ["2 (9999 B)", "2 (10 kB)", "2 (12 MB)"]
        );
        let shown = |seconds| age(now_s() - seconds);
        assert_eq!([0, 200, 8_000, 200_000].map(shown), ["0 s", "3 min", "2 h", "2 d"]);
    }
}
