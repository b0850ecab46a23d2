//! Axes: the range that the data needs, the positions of ticks, and their labels.

use super::super::units::fixed;

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal differences at equal distances.
    #[default]
    Linear,
    /// Equal ratios at equal distances, ticks at 1, 2, 5, 10, …
    Log10,
    /// Equal ratios at equal distances, ticks at powers of two (block sizes, depths).
    Log2,
}

/// The kind of values on an axis, which determines the format of its ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain numbers, large ones as 10k, 10M.
    #[default]
    Number,
    /// Bytes, as 4K, 1M.
    Bytes,
    /// Nanoseconds, as 100 ns, 10 us.
    Nanoseconds,
    /// Percent.
    Percent,
}

/// An axis of a plot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Axis {
    pub(super) label: String,
    scale: Scale,
    format: Format,
    zero: bool,
}

/// Values of larger magnitude are not drawn: differences between them could overflow.
const LARGEST: f64 = 1e300;
/// Smaller values are not drawn on a logarithmic axis, and are 0 on a linear one.
const SMALLEST: f64 = 1e-290;

impl Axis {
    /// A linear axis of plain numbers, labelled with the quantity and its unit.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Chooses the scale.
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// Chooses how ticks are written.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Makes a linear axis include 0.
    pub fn from_zero(mut self) -> Self {
        self.zero = true;
        self
    }

    /// Whether a value has a place on the axis.
    pub(super) fn takes(&self, value: f64) -> bool {
        value.abs() <= LARGEST && (self.scale == Scale::Linear || value >= SMALLEST)
    }

    /// A single value as it is written in a tooltip.
    pub(super) fn show(&self, value: f64) -> String {
        if !value.is_finite() {
            return fixed(value, 0);
        }
        let (unit, name) = self.format.unit(value.abs());
        let scaled = value / unit;
        let decimals = match scaled.abs() {
            s if s == s.trunc() && s < 1000.0 => 0,
            s if s < 0.1 => 9,
            s if s < 10.0 => 2,
            s if s < 100.0 => 1,
            _ => 0,
        };
        write(scaled, decimals) + name
    }

    /// Lays the axis over those of `values` that it takes, with about `target` ticks.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>, target: f64) -> Fitted {
        let start = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut low, mut high) =
            values.filter(|&v| self.takes(v)).fold(start, |(low, high), v| (v.min(low), v.max(high)));
        let target = target.max(2.0);
        if low > high {
            // Nothing to draw: any range will do.
            (low, high) = (1.0, 10.0);
        }
        match self.scale {
            Scale::Linear => self.fit_linear(low, high, target),
            Scale::Log10 => self.fit_log10(low, high, target),
            Scale::Log2 => self.fit_log2(low, high, target),
        }
    }

    fn fit_linear(&self, mut low: f64, mut high: f64, target: f64) -> Fitted {
        if self.zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let smallest = (low.abs().max(high.abs()) * 1e-9).max(SMALLEST);
        if high - low < smallest {
            let margin = if high.abs() < SMALLEST { 1.0 } else { high.abs() * 0.1 };
            (low, high) = (low - if self.zero { 0.0 } else { margin }, high + margin);
        }
        let step = match self.format {
            Format::Bytes => ((high - low) / target).log2().ceil().exp2(),
            _ => nice_step((high - low) / target),
        };
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let top = (first * step).abs().max((last * step).abs());
        let (unit, name) = self.format.unit(top);
        let decimals = decimals(step / unit);
        let count = (last - first).clamp(1.0, 100.0) as usize;
        let tick = |i: usize| {
            let value = (first + i as f64) * step;
            let label = if value == 0.0 { "0".to_owned() } else { write(value / unit, decimals) + name };
            (value, label)
        };
        let ticks = (0..=count).map(tick).collect();
        Fitted { scale: self.scale, low: first * step, high: last * step, ticks }
    }

    fn fit_log10(&self, low: f64, high: f64, target: f64) -> Fitted {
        // Candidates are numbered: 3 per decade, 1, 2 and 5.
        let value = |n: i32| [1.0, 2.0, 5.0][n.rem_euclid(3) as usize] * 10f64.powi(n.div_euclid(3));
        let mut first = low.log10().floor() as i32 * 3;
        while value(first + 1) <= low {
            first += 1;
        }
        let mut last = high.log10().floor() as i32 * 3;
        while value(last) < high {
            last += 1;
        }
        last = last.max(first + 1);
        let mut every = match f64::from(last - first) {
            all if all <= target => 1,
            all if all < 6.0 => 1,
            all => 3 * ((all / 3.0 / target).ceil() as i32).max(1),
        };
        let ticks = |every: i32| (first..=last).filter(move |n| n.rem_euclid(every) == 0);
        // Where the range begins decides how many fall into it; one alone shows no scale.
        while every > 3 && ticks(every).count() < 2 {
            every -= 3;
        }
        let ticks = ticks(every).map(|n| self.log_tick(value(n)));
        Fitted { scale: self.scale, low: value(first), high: value(last), ticks: ticks.collect() }
    }

    fn fit_log2(&self, low: f64, high: f64, target: f64) -> Fitted {
        let first = low.log2().floor() as i32;
        let last = (high.log2().ceil() as i32).max(first + 1);
        let every = (f64::from(last - first) / target).ceil().max(1.0) as i32;
        let ticks = (first..=last).filter(|n| (n - first) % every == 0).map(|n| self.log_tick(2f64.powi(n)));
        Fitted { scale: self.scale, low: 2f64.powi(first), high: 2f64.powi(last), ticks: ticks.collect() }
    }

    fn log_tick(&self, value: f64) -> (f64, String) {
        let (unit, name) = self.format.unit(value);
        let scaled = value / unit;
        (value, write(scaled, decimals(scaled)) + name)
    }
}

impl Format {
    /// The largest unit not above `top`, and its name.
    fn unit(self, top: f64) -> (f64, &'static str) {
        let units: &[(f64, &str)] = match self {
            Self::Number => &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")],
            Self::Nanoseconds => &[(1.0, " ns"), (1e3, " us"), (1e6, " ms"), (1e9, " s")],
            Self::Percent => &[(1.0, " %")],
            Self::Bytes => &[
                (1.0, ""),
                (1024.0, "K"),
                (1_048_576.0, "M"),
                (1_073_741_824.0, "G"),
                (1_099_511_627_776.0, "T"),
            ],
        };
        let mut fitting = units.iter().copied().take_while(|&(unit, _)| unit <= top * 1.000_001);
        let first = fitting.next().unwrap_or(units[0]);
        fitting.last().unwrap_or(first)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= step * 0.999_999).unwrap_or(10.0);
    factor * power
}

/// A number on an axis; with an exponent if it would be long otherwise.
fn write(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e7 || (decimals == 9 && value != 0.0) {
        return format!("{value:.1e}");
    }
    fixed(value, decimals)
}

/// How many decimals multiples of `step` need, at most 9.
fn decimals(step: f64) -> usize {
    let whole = |d: &usize| {
        let scaled = step * 10f64.powi(*d as i32);
        scaled.round() >= 1.0 && (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    (0..9).find(whole).unwrap_or(9)
}

/// An axis with its range and ticks.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Fitted {
    /// The position of a value on the axis: 0 at its low end, 1 at its high end, never outside.
    pub(super) fn position(&self, value: f64) -> f64 {
        let along = |v: f64| if self.scale == Scale::Linear { v } else { v.ln() };
        let (low, high) = (along(self.low), along(self.high));
        ((along(value) - low) / (high - low)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(axis: &Axis, values: &[f64], target: f64) -> Vec<String> {
        axis.fit(values.iter().copied(), target).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn linear_ticks_are_round_numbers() {
        let axis = Axis::new("");
        assert_eq!(labels(&axis, &[3.0, 17.2], 5.0), ["0", "5", "10", "15", "20"]);
        assert_eq!(labels(&axis, &[0.0, 17.2e6], 5.0), ["0", "5M", "10M", "15M", "20M"]);
        assert_eq!(labels(&axis, &[1.01, 1.04], 4.0), ["1.01", "1.02", "1.03", "1.04"]);
        assert_eq!(labels(&axis, &[-3.0, 5.0], 4.0), ["-4", "-2", "0", "2", "4", "6"]);
        assert_eq!(labels(&axis.clone().from_zero(), &[60.0, 80.0], 4.0), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(&axis, &[7.0], 2.0), ["6", "7", "8"]);
        assert_eq!(labels(&axis, &[0.0], 2.0), ["-1", "0", "1"]);
        assert_eq!(labels(&axis.clone().from_zero(), &[0.0], 2.0), ["0", "0.5", "1.0"]);
        let bytes = Axis::new("").format(Format::Bytes).from_zero();
        assert_eq!(labels(&bytes, &[100_000.0], 4.0), ["0", "32K", "64K", "96K", "128K"]);
        let percent = Axis::new("").format(Format::Percent).from_zero();
        assert_eq!(labels(&percent, &[93.0], 5.0), ["0", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn logarithmic_ticks_thin_out() {
        let ns = Axis::new("").scale(Scale::Log10).format(Format::Nanoseconds);
        assert_eq!(labels(&ns, &[80.0, 900.0], 6.0), ["50 ns", "100 ns", "200 ns", "500 ns", "1 us"]);
        assert_eq!(labels(&ns, &[80.0, 2e6], 6.0), ["100 ns", "1 us", "10 us", "100 us", "1 ms"]);
        assert_eq!(labels(&ns, &[1.0, 1e12], 4.0), ["1 ns", "1 us", "1 ms", "1 s", "1000 s"]);
        assert_eq!(labels(&ns, &[2.0, 2000.0], 2.0), ["10 ns", "100 ns", "1 us"]);
        let bs = Axis::new("").scale(Scale::Log2).format(Format::Bytes);
        assert_eq!(labels(&bs, &[512.0, 4096.0], 6.0), ["512", "1K", "2K", "4K"]);
        assert_eq!(labels(&bs, &[4096.0, 1048576.0], 4.0), ["4K", "16K", "64K", "256K", "1M"]);
        assert_eq!(labels(&bs, &[4096.0], 4.0), ["4K", "8K"]);
        assert_eq!(labels(&Axis::new("").scale(Scale::Log10), &[0.001, 0.02], 6.0).first().unwrap(), "0.001");
        assert_eq!(labels(&Axis::new(""), &[0.0, 1e200], 2.0), ["0", "5.0e187T", "1.0e188T"]);
    }

    #[test]
    fn single_values() {
        let ns = Axis::new("").format(Format::Nanoseconds);
        assert_eq!([ns.show(950.0), ns.show(1234.0), ns.show(45.6e6)], ["950 ns", "1.23 us", "45.6 ms"]);
        assert_eq!(ns.show(f64::NAN), "n/a");
        assert_eq!(Axis::new("").show(17.2e6), "17.2M");
        assert_eq!([1e40, 0.05, -2e-30].map(|v| Axis::new("").show(v)), ["1.0e28T", "5.0e-2", "-2.0e-30"]);
    }

    #[test]
    fn unusable_values_have_no_place() {
        let (linear, log) = (Axis::new(""), Axis::new("").scale(Scale::Log10));
        for value in [f64::NAN, f64::INFINITY, f64::MAX] {
            assert!(!linear.takes(value) && !log.takes(value));
        }
        assert!(linear.takes(0.0) && linear.takes(-1.0) && !log.takes(0.0) && !log.takes(-1.0));
        assert!(labels(&log, &[], 5.0).len() >= 2);
    }

    proptest! {
        #[test]
        fn every_value_lies_between_few_ticks(
            values in prop::collection::vec((-20i32..20, -9.99f64..9.99), 1..20),
            target in 2.0f64..15.0,
            format in prop::sample::select(vec![Format::Number, Format::Bytes, Format::Nanoseconds]),
            scale in prop::sample::select(vec![Scale::Linear, Scale::Log10, Scale::Log2]),
            zero: bool,
        ) {
            let values: Vec<f64> = values.iter().map(|(e, m)| m * 10f64.powi(*e)).collect();
            let axis = Axis { zero, ..Axis::new("").scale(scale).format(format) };
            let fitted = axis.fit(values.iter().copied(), target);
            prop_assert!(fitted.low < fitted.high);
            for &v in values.iter().filter(|&&v| axis.takes(v)) {
                let slack = 1e-9 * v.abs();
                prop_assert!(fitted.low <= v + slack && v <= fitted.high + slack, "{v} not in {fitted:?}");
            }
            prop_assert!((2..=20).contains(&fitted.ticks.len()), "{fitted:?}");
            prop_assert!(fitted.ticks.iter().map(|t| t.0).is_sorted_by(|a, b| a < b));
            prop_assert!(fitted.ticks.iter().all(|t| (0.0..=1.0).contains(&fitted.position(t.0))));
        }
    }
}
