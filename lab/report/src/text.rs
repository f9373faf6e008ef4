//! Text for a terminal: aligned columns, and figures with their units.

/// Rows of text. The first two columns and the last are aligned left, the others right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    #[must_use]
    pub fn new(heads: &[&str]) -> Self {
        Self { rows: vec![heads.iter().map(|&head| head.into()).collect()] }
    }

    /// Adds a row with one cell per heading.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The table as lines.
    #[must_use]
    pub fn text(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                let left = column < 2 || column + 1 == columns;
                if left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text.push_str("  ");
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// A time with three or four digits and its unit.
#[must_use]
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 100.0 => format!("{ns:.1} ns"),
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A size in bytes as a whole number of its largest unit.
#[must_use]
pub fn size(bytes: usize) -> String {
    let units = [(1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// A rate per second.
#[must_use]
pub fn rate(per_s: f64) -> String {
    match per_s {
        rate if rate >= 1e6 => format!("{:.2} M", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} k", rate / 1e3),
        rate => format!("{rate:.0}"),
    }
}

/// A figure, or a dash where there is none.
#[must_use]
pub fn or_dash<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".into(), show)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_units() {
        let times = [73.25, 431.0, 13_240.0, 1_500_000.0, 2e9].map(time);
        assert_eq!(times, ["73.2 ns", "431 ns", "13.2 us", "1.50 ms", "2.00 s"]);
        assert_eq!([999.0, 12_345.0, 8_000_000.0].map(rate), ["999", "12.3 k", "8.00 M"]);
    }

    #[test]
    fn sizes_are_whole() {
        let sizes = [0, 64, 1 << 10, 1_500, 64 << 10, 3 << 20, 1 << 30].map(size);
        assert_eq!(sizes, ["0", "64", "1K", "1500", "64K", "3M", "1G"]);
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["a", "b", "c", "d"]);
        table.row(vec!["long".into(), "x".into(), "1".into(), "end".into()]);
        table.row(vec!["s".into(), "y".into(), "1000".into(), String::new()]);
        assert_eq!(table.text(), "  a     b     c  d\n  long  x     1  end\n  s     y  1000\n");
    }
}
