//! m3ipc beside libraries of others: like with like, one line for each piece of work, with who is first.
//!
//! A line takes one way of waiting of each: where both spin, where both sleep in the kernel, and what a user gets who
//! asks for nothing (of m3ipc `adaptive`; of a library what it does, or what its examples do). What a library does not offer is `-`.

use crate::job::{Placement, Wait};
use crate::mechanism::Family;
use crate::record::{Results, Row};
use crate::report::{Table, time};
use crate::rounds::{LEFT, UNTOLD};

/// Which figure of a row a line is about; less is better in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time of a round trip, or from a death to the news of it.
    Time,
    /// CPU time a trip, of both sides with all their threads.
    Cpu,
    /// Voluntary context switches a trip, of both sides.
    Switches,
}

impl Figure {
    /// The figure of this row.
    #[must_use]
    pub fn of(self, row: &Row) -> f64 {
        match self {
            Self::Time => row.trip_ns(),
            Self::Cpu => row.record.cpu_ns_per_op,
            Self::Switches => row.switches_per_op,
        }
    }

    fn text(self, row: &Row) -> String {
        if self == Self::Switches { format!("{:.2}", self.of(row)) } else { time(self.of(row)) }
    }
}

/// What is compared: the test, the placement, how m3ipc waits and how a library does.
struct Subject {
    what: &'static str,
    test: &'static str,
    placement: Placement,
    ours: Wait,
    theirs: Wait,
    figure: Figure,
}

const fn subject(
    what: &'static str,
    test: &'static str,
    placement: Placement,
    (ours, theirs): (Wait, Wait),
    figure: Figure,
) -> Subject {
    Subject { what, test, placement, ours, theirs, figure }
}

const SPIN: (Wait, Wait) = (Wait::Spin, Wait::Spin);
const BLOCK: (Wait, Wait) = (Wait::Block, Wait::Block);
const DEFAULT: (Wait, Wait) = (Wait::Adaptive, Wait::Block);

const SUBJECTS: [Subject; 12] = {
    use Figure::{Cpu, Switches, Time};
    use Placement::{Any, SameCpu, TwoCpus};
    [
        subject("IPC2, two CPUs, both spin", "ipc2", TwoCpus, SPIN, Time),
        subject("IPC2, two CPUs, default (m3ipc adaptive)", "ipc2", TwoCpus, DEFAULT, Time),
        subject("IPC2, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Time),
        subject("IPC2, any CPU, default", "pairs", Any, DEFAULT, Time),
        subject("IPC2, one CPU, both yield", "ipc2", SameCpu, (Wait::Adaptive, Wait::Yield), Time),
        subject("IPC2, one CPU, both block", "ipc2", SameCpu, BLOCK, Time),
        subject("IPC2 to a sleeping server, two CPUs", "ipc2-paced", TwoCpus, DEFAULT, Time),
        subject("CPU time a trip, two CPUs, default", "ipc2", TwoCpus, DEFAULT, Cpu),
        subject("CPU time a trip, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Cpu),
        subject("switches a trip, two CPUs, both block", "ipc2", TwoCpus, BLOCK, Switches),
        subject("kill -9 of the server to its client's error", "death", TwoCpus, DEFAULT, Time),
        subject("both sides started anew, to the first answer", "restart", TwoCpus, DEFAULT, Time),
    ]
};

/// One piece of work.
pub struct Line<'a> {
    /// What it is.
    pub what: &'static str,
    /// Which figure of the rows.
    pub figure: Figure,
    /// The row of m3ipc.
    pub ours: &'a Row,
    /// Each library, with its row where it has one, and what is said where it has none.
    pub theirs: Vec<(&'a str, Option<&'a Row>, &'static str)>,
}

/// How m3ipc stands in a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing<'a> {
    /// No library does this.
    Alone,
    /// It is first: the next one, and how many times its figure is that of m3ipc.
    First(&'a str, f64),
    /// It is not: who is first, and how many times the figure of m3ipc is the first one's.
    Behind(&'a str, f64),
}

impl<'a> Line<'a> {
    /// How m3ipc stands.
    #[must_use]
    pub fn standing(&self) -> Standing<'a> {
        let figure = |row: &Row| self.figure.of(row);
        let rows =
            self.theirs.iter().filter_map(|(name, row, _)| row.map(|row| (*name, figure(row))));
        let Some((name, best)) = rows.min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return Standing::Alone;
        };
        let ours = figure(self.ours);
        let least = f64::MIN_POSITIVE;
        if ours <= best {
            Standing::First(name, best / ours.max(least))
        } else {
            Standing::Behind(name, ours / best.max(least))
        }
    }
}

/// All lines that this run has both m3ipc and a library for.
#[must_use]
pub fn lines(results: &Results) -> Vec<Line<'_>> {
    let names: Vec<&str> = results.libraries.iter().map(|(name, _)| name.as_str()).collect();
    let placed = |subject: &Subject, row: &Row| {
        let it = &row.record;
        // A machine of one CPU measures deaths and restarts anywhere.
        let place =
            it.placement == subject.placement || ["death", "restart"].contains(&subject.test);
        it.test == subject.test && place && it.pairs == 1
    };
    SUBJECTS
        .iter()
        .filter_map(|subject| {
            let rows = || results.rows.iter().filter(|row| placed(subject, row));
            let ours =
                rows().find(|row| row.family == Family::Ours && row.record.wait == subject.ours)?;
            let theirs: Vec<_> = names
                .iter()
                .map(|&name| {
                    let is_it = |row: &&Row| {
                        row.family == Family::Peer
                            && row.record.mechanism == name
                            && row.record.wait == subject.theirs
                    };
                    let row = rows().find(is_it);
                    let untold = subject.test == "death"
                        && results
                            .counts
                            .iter()
                            .any(|count| count.test == UNTOLD && count.mechanism == name);
                    (name, row, if untold { "not told" } else { "-" })
                })
                .collect();
            let some = theirs.iter().any(|(_, row, said)| row.is_some() || *said != "-");
            some.then_some(Line { what: subject.what, figure: subject.figure, ours, theirs })
        })
        .collect()
}

/// The table for a person; empty where no library was measured.
#[must_use]
pub fn text(results: &Results) -> String {
    let lines = lines(results);
    if lines.is_empty() {
        return String::new();
    }
    let names = results.libraries.iter().map(|(name, _)| name.as_str());
    let heads: Vec<&str> = ["work", "m3ipc"].into_iter().chain(names).chain([""]).collect();
    let mut table = Table::new(&heads);
    for line in &lines {
        let theirs = line.theirs.iter().map(|(_, row, said)| {
            row.map_or_else(|| (*said).to_owned(), |row| line.figure.text(row))
        });
        let first = [line.what.to_owned(), line.figure.text(line.ours)].into_iter();
        table.row(first.chain(theirs).chain([said(&line.standing())]).collect());
    }
    let left = |name: &str| {
        let of = |count: &&crate::record::Count| count.test == LEFT && count.mechanism == name;
        results
            .counts
            .iter()
            .find(of)
            .map_or_else(|| "-".to_owned(), |count| format!("{:.0}", count.value))
    };
    if results.counts.iter().any(|count| count.test == LEFT) {
        let names = results.libraries.iter().map(|(name, _)| name.as_str());
        let cells = ["names left behind by a kill -9".to_owned()].into_iter();
        let cells = cells.chain(["m3ipc"].into_iter().chain(names).map(left));
        table.row(cells.chain([String::new()]).collect());
    }
    format!(
        "\nbeside libraries of others: medians, the same work, payload, placement and way of waiting\n{}",
        table.text()
    )
}

/// How m3ipc stands, in words.
#[must_use]
pub fn said(standing: &Standing<'_>) -> String {
    match standing {
        Standing::Alone => "m3ipc alone".into(),
        Standing::First(name, ratio) => format!("m3ipc first, {name} {ratio:.2} x its figure"),
        Standing::Behind(name, ratio) => format!("m3ipc NOT first: {ratio:.2} x {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Round;
    use crate::record::{Count, Subject as Of};

    fn row(mechanism: &'static str, family: Family, wait: Wait, ns: u64) -> Row {
        let mut round = Round::default();
        (0..9).for_each(|_| round.samples.record(ns));
        let of = Of {
            test: "ipc2",
            mechanism,
            family,
            placement: Placement::TwoCpus,
            wait,
            bytes: 48,
            pairs: 1,
        };
        Row::of(&of, &[round])
    }

    fn results(theirs: u64) -> Results {
        Results {
            rows: vec![
                row("m3ipc", Family::Ours, Wait::Spin, 2_000),
                row("iceoryx2", Family::Peer, Wait::Spin, theirs),
                row("zeromq", Family::Peer, Wait::Block, 90_000),
            ],
            libraries: ["iceoryx2", "zeromq"].map(|name| (name.into(), "1".into())).to_vec(),
            ..Results::default()
        }
    }

    #[test]
    fn who_is_not_first_says_so_and_only_like_is_compared_with_like() {
        let first = results(3_000);
        let lines_of = lines(&first);
        assert_eq!(lines_of.len(), 1, "m3ipc was measured spinning only");
        // A histogram keeps three digits.
        let standing = lines_of[0].standing();
        assert!(
            matches!(standing, Standing::First("iceoryx2", ratio) if (ratio - 1.5).abs() < 0.01),
            "{standing:?}"
        );
        let behind = text(&results(1_000));
        assert!(behind.contains("m3ipc NOT first: 2.00 x iceoryx2"), "{behind}");
    }

    #[test]
    fn without_libraries_there_is_no_table_and_who_is_not_told_is_named() {
        assert_eq!(text(&Results::default()), "");
        let mut results = results(3_000);
        let death = |row: Row| Row {
            record: crate::record::Record { test: "death".into(), ..row.record },
            ..row
        };
        results.rows = vec![death(row("m3ipc", Family::Ours, Wait::Adaptive, 100_000))];
        results.counts = vec![Count {
            test: UNTOLD.into(),
            mechanism: "zeromq".into(),
            what: "waited".into(),
            value: 3.0,
            unit: "s".into(),
        }];
        assert!(text(&results).contains("not told"), "{}", text(&results));
    }
}
