//! Figures as the page shows them.

/// A time with three digits or four and its unit.
#[must_use]
pub fn time(ns: f64) -> String {
    crate::text::time(ns).replace("us", "\u{b5}s").replace(' ', "\u{a0}")
}

/// A time of an axis, with few digits.
#[must_use]
pub fn time_tick(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "\u{b5}s")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| ns >= 0.999 * unit).unwrap_or((1.0, "ns"));
    format!("{}\u{a0}{name}", short(ns / unit))
}

/// A byte rate of an axis; a byte per nanosecond is a gigabyte per second.
#[must_use]
pub fn gb_tick(bytes_per_ns: f64) -> String {
    match bytes_per_ns {
        rate if rate >= 0.999 => format!("{}\u{a0}GB/s", short(rate)),
        rate if rate >= 0.000_999 => format!("{}\u{a0}MB/s", short(rate * 1e3)),
        rate => format!("{}\u{a0}KB/s", short(rate * 1e6)),
    }
}

/// A number of an axis: 20000 is 20k.
#[must_use]
pub fn number_tick(value: f64) -> String {
    match value {
        value if value >= 999_999.0 => format!("{}M", short(value / 1e6)),
        value if value >= 9_999.0 => format!("{}k", short(value / 1e3)),
        value => short(value),
    }
}

fn short(value: f64) -> String {
    let tenth = (value * 10.0).round() / 10.0;
    if tenth.fract() == 0.0 { format!("{tenth:.0}") } else { format!("{tenth:.1}") }
}

/// A ratio: two decimals below ten, one below a hundred, none above.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A rate per second.
#[must_use]
pub fn rate(per_s: f64) -> String {
    format!("{}/s", crate::text::rate(per_s)).replace(' ', "\u{a0}")
}

/// A size in bytes.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    match crate::stats::whole(bytes) {
        small if small < 1_024 => format!("{small}\u{a0}B"),
        large => {
            let units = [(1_u64 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
            let (unit, name) =
                units.into_iter().find(|(unit, _)| large >= *unit).unwrap_or((1, "B"));
            let value = large as f64 / unit as f64;
            if value.fract() == 0.0 {
                format!("{value:.0}\u{a0}{name}")
            } else {
                format!("{value:.1}\u{a0}{name}")
            }
        }
    }
}

/// A byte rate; a byte per nanosecond is a gigabyte per second.
#[must_use]
pub fn gb_per_s(bytes_per_ns: f64) -> String {
    if bytes_per_ns < 0.1 {
        format!("{:.1}\u{a0}MB/s", bytes_per_ns * 1e3)
    } else if bytes_per_ns < 10.0 {
        format!("{bytes_per_ns:.2}\u{a0}GB/s")
    } else {
        format!("{bytes_per_ns:.1}\u{a0}GB/s")
    }
}

/// Date and time in UTC, from seconds since 1970.
///
/// # Source
/// H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
#[must_use]
pub fn date(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3_600, second % 3_600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units() {
        assert_eq!(time(12_345.0), "12.3\u{a0}\u{b5}s");
        assert_eq!([3.25, 32.46, 314.2].map(ratio), ["3.25", "32.5", "314"]);
        assert_eq!([64.0, 4_096.0, 1_536.0].map(bytes), ["64\u{a0}B", "4\u{a0}KB", "1.5\u{a0}KB"]);
        assert_eq!(
            [0.05, 4.0, 12.34].map(gb_per_s),
            ["50.0\u{a0}MB/s", "4.00\u{a0}GB/s", "12.3\u{a0}GB/s"]
        );
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_271_400), "2026-11-21 14:30 UTC");
    }
}
