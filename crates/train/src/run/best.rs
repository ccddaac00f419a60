//! The best checkpoint of a run: the one whose evaluation has the lowest or highest value of a metric.

use serde::{Deserialize, Serialize};

use super::metrics::{EVAL, MetricsLine};

/// Which checkpoint is the best, by a metric of the evaluation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BestMetric {
    /// The metric's name.
    pub(crate) metric: String,
    /// Whether the `lowest` or the `highest` value is the best.
    pub(crate) is: BestValue,
}

/// Which value of a metric is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BestValue {
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
}

impl BestMetric {
    /// Whether `value` is better than `other`.
    pub(super) fn prefers(&self, value: f64, other: f64) -> bool {
        match self.is {
            BestValue::Lowest => value < other,
            BestValue::Highest => value > other,
        }
    }

    /// The metric's value on a line of the evaluation.
    pub(super) fn value(&self, line: &MetricsLine) -> Option<f64> {
        if line.split == EVAL { line.values.get(&self.metric).copied() } else { None }
    }

    /// Step and value of the best of the checkpoints at `steps`; of equals, the first.
    pub(super) fn best_of(&self, lines: &[MetricsLine], steps: &[u64]) -> Option<(u64, f64)> {
        lines
            .iter()
            .filter(|line| steps.contains(&line.step))
            .filter_map(|line| Some((line.step, self.value(line)?)))
            .filter(|(_, value)| value.is_finite())
            .reduce(|best, next| if self.prefers(next.1, best.1) { next } else { best })
    }
}
