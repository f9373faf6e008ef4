//! The machine of a run, read from /proc and /sys.

use m3ipc_report::schema::Machine;

use crate::clock::Clock;
use crate::cpus::Cpus;

/// Reads the machine.
pub fn find(cpus: &Cpus, clock: Clock) -> Machine {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let governor = format!("/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor", cpus.first);
    let name = rustix::system::uname();
    let kernel = [name.sysname(), name.release()].map(|part| part.to_string_lossy().into_owned());
    let clock = match clock {
        Clock::Counter { .. } => "counter",
        Clock::Monotonic => "monotonic",
    };
    Machine {
        cpu: cpu_model(&info),
        cpus: cpus.allowed,
        placed_on: [Some(cpus.first), cpus.second].into_iter().flatten().collect(),
        kernel: kernel.join(" "),
        r#virtual: has_flag(&info, "hypervisor"),
        governor: read(&governor),
        mitigations: mitigations(),
        clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        clock: clock.into(),
        claim: cpus.claim(),
        caches: caches(cpus.first),
        memory_bytes: memory_bytes(&read("/proc/meminfo").unwrap_or_default()),
        loadavg_start: loadavg(),
        loadavg_end: String::new(),
    }
}

/// The load averages.
pub fn loadavg() -> String {
    let text = read("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn caches(cpu: usize) -> Vec<String> {
    let cache = |index: u32| {
        let of =
            |what| read(&format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{what}"));
        let content = match of("type")?.as_str() {
            "Data" => " data",
            "Instruction" => " instructions",
            _ => "",
        };
        Some(format!("L{}{content} {}", of("level")?, of("size")?))
    };
    (0..8).map_while(cache).collect()
}

fn memory_bytes(info: &str) -> u64 {
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

fn cpu_model(info: &str) -> String {
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value)
    };
    field("model name").or_else(|| field("CPU part")).unwrap_or("unknown").to_owned()
}

fn has_flag(info: &str, flag: &str) -> bool {
    let flags = info.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|word| word == flag))
}

fn mitigations() -> Vec<String> {
    let files = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let mitigation = |file: std::fs::DirEntry| {
        let state = std::fs::read_to_string(file.path()).ok()?;
        let how = state.trim().strip_prefix("Mitigation: ")?;
        Some(format!("{}: {how}", file.file_name().to_string_lossy()))
    };
    let mut found: Vec<String> =
        files.into_iter().flatten().flatten().filter_map(mitigation).collect();
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
