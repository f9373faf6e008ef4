//! The machine card: what a figure must be read with.

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::place::Cpus;

/// What the measurements ran on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the CPU.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cpus: usize,
    /// The client's and the server's CPU in `two-cpus`; the first alone is `same-cpu`.
    pub placed_on: Vec<usize>,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Whether a hypervisor says it is there.
    pub r#virtual: bool,
    /// Frequency governor of the first CPU, if there is one.
    pub governor: Option<String>,
    /// Vulnerabilities that the kernel works around, with how.
    pub mitigations: Vec<String>,
    /// The kernel's clock source.
    pub clocksource: Option<String>,
    /// Ours: `counter` or `monotonic`.
    pub clock: String,
    /// Caches of the first CPU, from the nearest on.
    #[serde(default)]
    pub caches: Vec<String>,
    /// Memory in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Load averages at the start.
    pub loadavg_start: String,
    /// Load averages at the end; our own work is in it.
    pub loadavg_end: String,
}

impl Machine {
    /// Looks at the machine.
    #[must_use]
    pub fn find(cpus: &Cpus, clock: Clock) -> Self {
        let info = read("/proc/cpuinfo").unwrap_or_default();
        let governor =
            format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpus.first);
        let name = rustix::system::uname();
        Self {
            cpu: cpu_model(&info),
            cpus: cpus.allowed,
            placed_on: [Some(cpus.first), cpus.second].into_iter().flatten().collect(),
            kernel: format!(
                "{} {}",
                name.sysname().to_string_lossy(),
                name.release().to_string_lossy()
            ),
            r#virtual: has_flag(&info, "hypervisor"),
            governor: read(&governor),
            mitigations: mitigations(),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock: match clock {
                Clock::Counter { .. } => "counter",
                Clock::Monotonic => "monotonic",
            }
            .into(),
            caches: caches(cpus.first),
            memory_bytes: memory_bytes(&read("/proc/meminfo").unwrap_or_default()),
            loadavg_start: loadavg(),
            loadavg_end: String::new(),
        }
    }

    /// Notes the load at the end.
    pub fn end(&mut self) {
        self.loadavg_end = loadavg();
    }

    /// The card for a person, in a few lines.
    #[must_use]
    pub fn card(&self) -> String {
        let or = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
        format!(
            "machine  {}, {} CPUs{}, placed on {:?}\nkernel   {}, governor {}, clock source {}, load {}\nmitigated {}\n",
            self.cpu,
            self.cpus,
            if self.r#virtual { ", virtual" } else { "" },
            self.placed_on,
            self.kernel,
            or(&self.governor),
            or(&self.clocksource),
            self.loadavg_start,
            if self.mitigations.is_empty() {
                "nothing".into()
            } else {
                self.mitigations.join("; ")
            },
        )
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn loadavg() -> String {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn caches(cpu: usize) -> Vec<String> {
    let one = |index: u32| {
        let of =
            |what| read(&format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{what}"));
        let kind = match of("type")?.as_str() {
            "Data" => " data",
            "Instruction" => " instructions",
            _ => "",
        };
        Some(format!("L{}{kind} {}", of("level")?, of("size")?))
    };
    (0..8).map_while(one).collect()
}

fn memory_bytes(info: &str) -> u64 {
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn cpu_model(info: &str) -> String {
    let field = |name: &str| {
        info.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(": "))
            .map(|(_, value)| value)
    };
    field("model name").or_else(|| field("CPU part")).unwrap_or("unknown").to_owned()
}

fn has_flag(info: &str, flag: &str) -> bool {
    info.lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

fn mitigations() -> Vec<String> {
    let Ok(files) = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return vec![];
    };
    let mut found: Vec<String> = files
        .flatten()
        .filter_map(|file| {
            let state = std::fs::read_to_string(file.path()).ok()?;
            let how = state.trim().strip_prefix("Mitigation: ")?.to_owned();
            Some(format!("{}: {how}", file.file_name().to_string_lossy()))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_read_from_its_description() {
        let info = "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu hypervisor sse\n";
        assert_eq!(cpu_model(info), "Some CPU");
        assert!(has_flag(info, "hypervisor") && !has_flag(info, "hyper"));
        assert_eq!(cpu_model(""), "unknown");
    }
}
