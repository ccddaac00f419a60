//! From values to positions: linear and by powers of two, with round numbers for ticks.

use crate::number::Unit;

/// How an axis is spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spacing {
    /// Equal differences are equal lengths.
    #[default]
    Linear,
    /// Doublings are equal lengths. Values that are not positive cannot be shown and count as missing.
    Log2,
}

impl Spacing {
    /// Where a value stands, in the units of the axis; `None` where it cannot.
    pub(crate) fn position(self, value: f64) -> Option<f64> {
        match self {
            Spacing::Linear => value.is_finite().then_some(value),
            Spacing::Log2 => (value > 0.0 && value.is_finite()).then(|| value.log2()),
        }
    }

    /// The value at a position.
    pub(crate) fn value(self, position: f64) -> f64 {
        match self {
            Spacing::Linear => position,
            Spacing::Log2 => position.exp2(),
        }
    }
}

/// A stretch of positions, with ticks on round numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    pub(crate) spacing: Spacing,
    /// First and last position.
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Positions of ticks, inside.
    pub(crate) ticks: Vec<f64>,
}

impl Scale {
    /// From the lowest to the highest of these values, without room around them, and at most so many ticks.
    pub(crate) fn tight(values: impl Iterator<Item = f64>, spacing: Spacing, most: usize) -> Self {
        let (low, high) = span(values.filter_map(|value| spacing.position(value)));
        let ticks = match spacing {
            Spacing::Linear => ticks(low, high, most),
            Spacing::Log2 => ticks(low, high, most).into_iter().filter(|t| t.fract() == 0.0).collect(),
        };
        Scale { spacing, low, high, ticks }
    }

    /// Linear, from a round number to a round number around these values, inside the bounds of the unit.
    pub(crate) fn round(values: impl Iterator<Item = f64>, unit: Unit, most: usize) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let (least, greatest) = unit.bounds();
        let (low, high) = span(values.iter().copied());
        let step = step(high - low, most);
        let (mut bottom, mut top) = ((low / step).floor() * step, (high / step).ceil() * step);
        if values.iter().all(|value| *value >= least) {
            bottom = bottom.max(least);
        }
        if values.iter().all(|value| *value <= greatest) {
            top = top.min(greatest);
        }
        Scale { spacing: Spacing::Linear, low: bottom, high: top, ticks: ticks(bottom, top, most) }
    }

    /// The ticks' values.
    pub(crate) fn tick_values(&self) -> impl Iterator<Item = f64> {
        self.ticks.iter().map(|position| self.spacing.value(*position))
    }

    /// How far along a value is, from 0 to 1 and beyond.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let position = self.spacing.position(value).expect("only values that can be shown are drawn");
        (position - self.low) / (self.high - self.low)
    }
}

/// Round numbers between two ends, so many at most (two at least when there is room for any).
fn ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let step = step(high - low, most);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// The smallest of 1, 2, 2.5 and 5 times a power of ten that needs at most so many ticks.
fn step(length: f64, most: usize) -> f64 {
    let gaps = most.max(2) as f64 - 1.0;
    let rough = length / gaps;
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// From the lowest to the highest value, never nothing.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        (0.0, 1.0)
    } else if high - low > low.abs().max(high.abs()) * 1e-9 {
        (low, high)
    } else {
        let around = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
        (low - around, high + around)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn linear(low: f64, high: f64, most: usize) -> Vec<f64> {
        Scale::tight([low, high].into_iter(), Spacing::Linear, most).ticks
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(linear(0.0, 1.0, 6), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(linear(0.0, 100.0, 5), [0.0, 25.0, 50.0, 75.0, 100.0]);
        assert_eq!(linear(61.0, 78.0, 5), [65.0, 70.0, 75.0]);
        assert_eq!(linear(-3.0, 3.0, 4), [-2.0, 0.0, 2.0]);
    }

    #[test]
    fn doublings() {
        let scale = Scale::tight([1.0, 256.0].into_iter(), Spacing::Log2, 9);
        assert_eq!(
            scale.tick_values().collect::<Vec<_>>(),
            [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0]
        );
        let few = Scale::tight([1.0, 256.0].into_iter(), Spacing::Log2, 5);
        assert_eq!(few.tick_values().collect::<Vec<_>>(), [1.0, 4.0, 16.0, 64.0, 256.0]);
        assert_eq!(Spacing::Log2.position(0.0), None);
        assert_eq!(Spacing::Log2.position(-1.0), None);
    }

    #[test]
    fn round_ends_stay_in_the_bounds() {
        let scale = Scale::round([0.62, 0.97].into_iter(), Unit::Share, 5);
        assert_eq!((scale.low, scale.high), (0.6000000000000001, 1.0));
        // A value beyond the bounds is still shown.
        let beyond = Scale::round([0.5, 1.04].into_iter(), Unit::Share, 5);
        assert!(beyond.high >= 1.04);
    }

    #[test]
    fn nothing_and_one_value_have_a_length() {
        for values in [vec![], vec![5.0], vec![0.0], vec![f64::NAN], vec![-2.0, -2.0]] {
            let scale = Scale::round(values.iter().copied(), Unit::Number, 5);
            assert!(scale.high > scale.low, "{values:?}: {scale:?}");
            let tight = Scale::tight(values.into_iter(), Spacing::Linear, 5);
            assert!(tight.high > tight.low);
        }
    }

    proptest! {
        #[test]
        fn ticks_are_few_inside_and_in_order(low in -1e6f64..1e6, length in 1e-3f64..1e6, most in 2usize..12) {
            let scale = Scale::tight([low, low + length].into_iter(), Spacing::Linear, most);
            let slack = length * 1e-6;
            prop_assert!(scale.ticks.len() <= most);
            prop_assert!(scale.ticks.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert!(scale.ticks.iter().all(|tick| *tick >= low - slack && *tick <= low + length + slack));
        }

        #[test]
        fn round_scales_hold_their_values(values in proptest::collection::vec(-1e3f64..1e3, 1..9)) {
            let scale = Scale::round(values.iter().copied(), Unit::Number, 6);
            for value in values {
                let share = scale.share(value);
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&share));
            }
        }
    }
}
