//! Lines over sizes or numbers, as SVG: one drawing for wide windows, one for narrow windows.
//!
//! The drawing needs no script. The script shows all values at the pointer and hides series.

use maud::{Markup, html};

/// One line of a plot.
pub struct Curve {
    /// Its name.
    pub name: String,
    /// The class that gives it its colour.
    pub class: String,
    /// Points: position, value, origin of the figure.
    pub points: Vec<(f64, f64, String)>,
}

/// How an axis writes its values.
pub type Write = fn(f64) -> String;

/// One figure.
pub struct Plot<'a> {
    /// Its caption.
    pub title: &'a str,
    /// The horizontal axis: name, text of a value.
    pub across: (&'a str, Write),
    /// The vertical axis: name, text of a value, text of a tick.
    pub up: (&'a str, Write, Write),
    /// Whether the axes are logarithmic. Linear axes begin at 0.
    pub is_log: bool,
    /// The curves.
    pub lines: Vec<Curve>,
}

/// Width, height, and margins: left, right, top, bottom.
struct Paper(f64, f64, [f64; 4]);

const WIDE: Paper = Paper(880.0, 380.0, [84.0, 150.0, 14.0, 42.0]);
const NARROW: Paper = Paper(380.0, 330.0, [78.0, 12.0, 12.0, 40.0]);
/// Least distance of two names at the right.
const NAME_STEP: f64 = 13.0;

impl Plot<'_> {
    /// The figure with both drawings and its legend; empty without points.
    #[must_use]
    pub fn figure(&self) -> Markup {
        if self.lines.iter().all(|line| line.points.is_empty()) {
            return html! {};
        }
        html! {
            figure.plot {
                figcaption { (self.title) }
                div.w { (self.drawing(&WIDE, true)) }
                div.n { (self.drawing(&NARROW, false)) }
                div.keys {
                    @for line in &self.lines {
                        button type="button" class=(line.class) data-series=(line.name)
                            aria-pressed="true" { (line.name) }
                    }
                }
            }
        }
    }

    fn drawing(&self, paper: &Paper, is_wide: bool) -> Markup {
        let Paper(width, height, [left, right, top, bottom]) = *paper;
        let (x, y) = (self.xs(), self.ys());
        let across = |value: f64| {
            let share = match self.is_log {
                _ if x.1 <= x.0 => 0.5,
                true => (value / x.0).ln() / (x.1 / x.0).ln(),
                false => value / x.1,
            };
            round(left + share * (width - left - right))
        };
        let up = |value: f64| {
            let share = if self.is_log {
                (value.max(y.0) / y.0).ln() / (y.1 / y.0).ln()
            } else {
                (value - y.0) / (y.1 - y.0)
            };
            round(height - bottom - share * (height - top - bottom))
        };
        let names = if is_wide { self.names(&up) } else { vec![] };
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label=(self.title) {
                @for tick in self.ticks_up(y) {
                    line.grid x1=(left) x2=(width - right) y1=(up(tick)) y2=(up(tick)) {}
                    text.t x=(left - 6.0) y=(up(tick) + 4.0) text-anchor="end" {
                        ((self.up.2)(tick))
                    }
                }
                @for tick in self.ticks_across(if is_wide { 10 } else { 5 }, x) {
                    @let x = across(tick);
                    line.grid x1=(x) x2=(x) y1=(top) y2=(height - bottom) {}
                    text.t x=(x) y=(height - bottom + 15.0) text-anchor="middle" {
                        ((self.across.1)(tick))
                    }
                }
                text.t.a x=(f64::midpoint(left, width - right)) y=(height - 6.0)
                    text-anchor="middle" { (self.across.0) }
                @let middle = f64::midpoint(top, height - bottom);
                text.t.a x="12" y=(middle) text-anchor="middle"
                    transform={ "rotate(-90 12 " (middle) ")" } { (self.up.0) }
                @for line in &self.lines {
                    @let dense = if line.points.len() > 20 { " dense" } else { "" };
                    @let path = line.points.iter().map(|p| format!("{},{}", across(p.0), up(p.1)));
                    g class={ "s " (line.class) (dense) } data-series=(line.name) {
                        polyline points=(path.collect::<Vec<_>>().join(" ")) {}
                        @for point in &line.points {
                            circle cx=(across(point.0)) cy=(up(point.1)) r="3"
                                data-at=((self.across.1)(point.0))
                                data-v=((self.up.1)(point.1)) data-f=(point.2) {}
                        }
                    }
                }
                @for (name, class, at) in &names {
                    text class={ "name " (class) } data-series=(name) x=(width - right + 8.0)
                        y=(at + 4.0) { (name) }
                }
            }
        }
    }

    /// Names beside the ends of their lines, moved apart where they would overlap.
    fn names(&self, up: &dyn Fn(f64) -> f64) -> Vec<(String, String, f64)> {
        let (top, bottom) = (WIDE.2[2], WIDE.1 - WIDE.2[3]);
        let mut names: Vec<(String, String, f64)> = self
            .lines
            .iter()
            .filter(|line| line.points.last().is_some_and(|point| point.0 >= self.xs().1))
            .filter_map(|line| {
                Some((line.name.clone(), line.class.clone(), up(line.points.last()?.1)))
            })
            .collect();
        names.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut least = top;
        for name in &mut names {
            name.2 = round(name.2.max(least));
            least = name.2 + NAME_STEP;
        }
        let mut most = bottom;
        for name in names.iter_mut().rev() {
            name.2 = round(name.2.min(most));
            most = name.2 - NAME_STEP;
        }
        names
    }

    fn values(&self, of: impl Fn(&(f64, f64, String)) -> f64) -> (f64, f64) {
        let values = self.lines.iter().flat_map(|line| line.points.iter().map(&of));
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    }

    fn xs(&self) -> (f64, f64) {
        self.values(|point| point.0)
    }

    fn ys(&self) -> (f64, f64) {
        let (low, high) = self.values(|point| point.1);
        if self.is_log {
            (low / 1.3, high * 1.3)
        } else {
            (0.0, if high > 0.0 { high * 1.05 } else { 1.0 })
        }
    }

    fn ticks_across(&self, most: usize, (_, high): (f64, f64)) -> Vec<f64> {
        if !self.is_log {
            return even(high);
        }
        let mut all: Vec<f64> =
            self.lines.iter().flat_map(|line| line.points.iter().map(|p| p.0)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        let step = all.len().div_ceil(most).max(1);
        all.into_iter().step_by(step).collect()
    }

    fn ticks_up(&self, (low, high): (f64, f64)) -> Vec<f64> {
        if !self.is_log {
            return even(high);
        }
        let steps: &[f64] = if high / low < 60.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (-3..13)
            .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
            .filter(|value| (low..=high).contains(value))
            .collect()
    }
}

/// Up to six values from 0, steps of one, two or five times a power of ten.
fn even(high: f64) -> Vec<f64> {
    let raw = high / 5.0;
    let decade = 10_f64.powf(raw.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|s| s * decade).find(|s| *s >= raw).unwrap_or(raw);
    let number = (high / step).floor();
    (0..=6).map(f64::from).filter(|n| *n <= number).map(|n| n * step).collect()
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(lines: Vec<Curve>) -> Plot<'static> {
        let write: Write = |value| format!("{value}");
        Plot { title: "t", across: ("x", write), up: ("y", write, write), is_log: true, lines }
    }

    fn line(name: &str, values: &[f64]) -> Curve {
        let number = |(&v, n): (&f64, i32)| (f64::from(n), v, format!("{name}{n}"));
        let points = values.iter().zip(1..).map(number).collect();
        Curve { name: name.into(), class: "k0".into(), points }
    }

    #[test]
    fn each_point_is_drawn_once_per_drawing_and_names_its_origin() {
        let text =
            plot(vec![line("a", &[1.0, 10.0]), line("b", &[2.0, 20.0])]).figure().into_string();
        assert_eq!(text.matches("<circle").count(), 8);
        assert_eq!(text.matches("data-f=\"a1\"").count(), 2);
        assert_eq!(text.matches("<button").count(), 2);
    }

    #[test]
    fn names_do_not_overlap() {
        let lines =
            (0..9).map(|n| line(&format!("n{n}"), &[5.0, 5.0 + f64::from(n) / 100.0])).collect();
        let plot = plot(lines);
        let names = plot.names(&|value| 300.0 - value);
        assert!(names.windows(2).all(|two| two[1].2 - two[0].2 >= NAME_STEP - 0.2), "{names:?}");
    }

    #[test]
    fn nothing_draws_nothing() {
        assert_eq!(plot(vec![]).figure().into_string(), "");
    }
}
