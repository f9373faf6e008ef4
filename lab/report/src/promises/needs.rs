//! Which measurements the promises read: `m3 bench --promises` makes these and no others.
//!
//! A test compares the figures from all rows of a run with those from the needed rows.

use crate::names::{BOUNCE, HEAVY_DEATH, SKETCH, SOCK_FIRST};
use crate::schema::{Family, Placement, Wait};

use super::blocks::{AREA_COPY_BYTES, ATTACH_BYTES};
use super::sockets::{MIDDLE_BYTES, REQUEST_BYTES};

/// A measurement, by the names of its row.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// Name of the test.
    pub test: &'a str,
    /// Name of the mechanism.
    pub mechanism: &'a str,
    /// What the mechanism stands for.
    pub family: Family,
    /// Where its sides run.
    pub placement: Placement,
    /// How they wait.
    pub wait: Wait,
    /// Payload each way, or size of the block.
    pub bytes: usize,
}

impl Measurement<'_> {
    /// Whether a promise reads it. Other libraries compare with m3ipc in all tests of messages.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        let Self { test, mechanism, family, placement, wait, bytes } = *self;
        let ours = family == Family::Ours;
        let is = |names: &[&str]| names.contains(&mechanism);
        if family == Family::Peer {
            return true;
        }
        match test {
            "ipc2" | "clients" | "contact" | "pairs" => true,
            "ipc1" | "ipc3" => {
                let spins = placement == Placement::TwoCpus && wait == Wait::Spin;
                spins && (ours || is(&[BOUNCE, SKETCH]))
            }
            "ipc2-paced" => ours || is(&["futex-wake"]),
            "death" | HEAVY_DEATH => is(&["unix-stream"]) || ours && wait != Wait::Spin,
            "copy1" => {
                let at_one_size = bytes == AREA_COPY_BYTES && is(&["memcpy", "vcopy-areas"]);
                let everywhere = is(&["vcopy", "process-vm", "pipe", "unix-stream"]);
                placement != Placement::SameCpu && (at_one_size || everywhere)
            }
            "attach" => {
                ATTACH_BYTES.contains(&bytes) && is(&["area", "file-write", "file-populate"])
            }
            "handover" => true,
            "sock-trip" => bytes == REQUEST_BYTES && is(&["com-socket", "tcp", "ipc2"]),
            "sock-epoll" => is(&["com-socket", "ipc2", "shim-tcp"]),
            "sock-bulk" => true,
            "sock-connect" | SOCK_FIRST => is(&["com-socket", "unix-stream"]),
            "sock-stream" => {
                bytes >= *MIDDLE_BYTES.start() && is(&["com-socket", "unix-stream", "memcpy"])
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::names::{BIND, C_CALLS};
    use crate::results::{Results, Row};

    #[test]
    fn what_a_promise_reads_is_needed_and_the_rest_is_not() {
        let spin = Measurement {
            test: "ipc1",
            mechanism: BOUNCE,
            family: Family::Floor,
            placement: Placement::TwoCpus,
            wait: Wait::Spin,
            bytes: 0,
        };
        assert!(spin.is_needed());
        assert!(!Measurement { placement: Placement::SameCpu, ..spin }.is_needed());
        let pipe = Measurement { mechanism: "pipe", family: Family::Kernel, ..spin };
        assert!(!pipe.is_needed() && Measurement { test: "ipc2", ..pipe }.is_needed());
        assert!(!Measurement { test: "copy2", bytes: 64, ..pipe }.is_needed());
        assert!(!Measurement { test: "restart", ..spin }.is_needed());
    }

    const TESTS: [&str; 20] = [
        "ipc1",
        "ipc2",
        "ipc3",
        "ipc2-paced",
        "pairs",
        "clients",
        "death",
        HEAVY_DEATH,
        "contact",
        BIND,
        "restart",
        "copy1",
        "attach",
        "handover",
        "sock-trip",
        "sock-stream",
        "sock-bulk",
        "sock-epoll",
        "sock-connect",
        SOCK_FIRST,
    ];
    const MECHANISMS: [(&str, Family); 24] = [
        ("m3ipc", Family::Ours),
        (C_CALLS, Family::Ours),
        ("com-socket", Family::Ours),
        ("shim-tcp", Family::Ours),
        ("shim-iperf3", Family::Ours),
        ("iperf3", Family::Kernel),
        ("vcopy", Family::Ours),
        ("vcopy-areas", Family::Ours),
        ("block", Family::Ours),
        ("sendrec", Family::Ours),
        ("area", Family::Ours),
        ("file-write", Family::Kernel),
        ("file-populate", Family::Kernel),
        ("pipe", Family::Kernel),
        ("unix-stream", Family::Kernel),
        ("tcp", Family::Kernel),
        ("process-vm", Family::Floor),
        ("memcpy", Family::Floor),
        ("ipc2", Family::Floor),
        (BOUNCE, Family::Floor),
        (SKETCH, Family::Floor),
        ("sched-yield", Family::Floor),
        ("futex", Family::Floor),
        ("futex-wake", Family::Floor),
    ];
    const BYTES: [usize; 11] =
        [1, 48, 64, 512, 1 << 10, 4 << 10, 64 << 10, 512 << 10, 1 << 20, 16 << 20, 1 << 28];

    /// A row of each combination, each with a time of its own.
    fn all_rows() -> Vec<Row> {
        let mut rows = vec![];
        let mut ns = 1_000_u64;
        for test in TESTS {
            for (mechanism, family) in MECHANISMS {
                for placement in [Placement::TwoCpus, Placement::SameCpu, Placement::Any] {
                    for wait in [Wait::Spin, Wait::Yield, Wait::Block, Wait::Adaptive] {
                        for bytes in BYTES {
                            ns = 1_000 + ns * 7_919 % 1_000_003;
                            let mut row =
                                fixture::row(test, mechanism, family, placement, wait, ns);
                            (row.record.bytes, row.record.per_s) = (bytes, 1e9 / ns as f64);
                            row.record.cpu_ns_per_op = ns as f64;
                            row.ring_share = Some(ns as f64 / 1e9);
                            row.record.pairs = if bytes == 64 { 4 } else { 1 };
                            let many: &[u32] = match (test, bytes) {
                                ("sock-epoll", REQUEST_BYTES) => &[64, 1_000, 10_000],
                                _ => &[],
                            };
                            for &pairs in many {
                                let mut of_many = row.clone();
                                of_many.record.pairs = pairs;
                                rows.push(of_many);
                            }
                            rows.push(row);
                        }
                    }
                }
            }
        }
        rows
    }

    #[test]
    fn the_needed_rows_give_the_figures_of_all_rows() {
        let all = Results { rows: all_rows(), cpus: 2, ..Results::default() };
        let is_needed = |row: &&Row| {
            let it = &row.record;
            // Binds are a second figure of contacts.
            let test = if it.test == BIND { "contact" } else { &it.test };
            let (mechanism, family) = (&*it.mechanism, row.family);
            let (placement, wait, bytes) = (it.placement, it.wait, it.bytes);
            Measurement { test, mechanism, family, placement, wait, bytes }.is_needed()
        };
        let rows: Vec<Row> = all.rows.iter().filter(is_needed).cloned().collect();
        assert!(rows.len() < all.rows.len() / 2);
        let needed = Results { rows, cpus: 2, ..Results::default() };
        for promise in super::super::all() {
            let (wanted, found) = (promise.judge(&all).figure, promise.judge(&needed).figure);
            assert_eq!(wanted, found, "{} {}", promise.id, promise.what);
            let is_counted = ["P14", "P15"].contains(&promise.id)
                || promise.what.starts_with("1,000 clients at once");
            assert!(found.is_some() || is_counted, "{} {}", promise.id, promise.what);
        }
    }
}
