//! One number from the scores of a solution's steps.
//!
//! Which one matters: a product sinks with every step, so it prefers short solutions; the minimum looks at the weakest
//! step alone; the last score is what a model says after reading everything. PRMs trained on Monte-Carlo labels do best with `last`,
//! those trained on human or judge labels with `min` (Qwen, 2025).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How step scores become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// The last step's score.
    Last,
    /// The lowest score.
    Min,
    /// The product of all scores.
    Product,
    /// The arithmetic mean.
    Mean,
    /// The geometric mean: the product without its preference for short solutions.
    NormProduct,
}

impl Aggregation {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Last, Self::Min, Self::Product, Self::Mean, Self::NormProduct];

    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Min => "min",
            Self::Product => "product",
            Self::Mean => "mean",
            Self::NormProduct => "norm_product",
        }
    }

    /// The aggregate. None without a score, or with one that is not a number: such a solution was not scored.
    ///
    /// ```
    /// use gradus_core::select::Aggregation;
    /// let scores = [0.9, 0.5, 0.8];
    /// assert_eq!(Aggregation::Last.of(&scores), Some(0.8));
    /// assert_eq!(Aggregation::Min.of(&scores), Some(0.5));
    /// assert_eq!(Aggregation::Min.of(&[]), None);
    /// ```
    pub fn of(self, scores: &[f64]) -> Option<f64> {
        let last = *scores.last()?;
        if scores.iter().any(|score| score.is_nan()) {
            return None;
        }
        let count = scores.len() as f64;
        Some(match self {
            Self::Last => last,
            Self::Min => scores.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Product => scores.iter().product(),
            Self::Mean => scores.iter().sum::<f64>() / count,
            Self::NormProduct => {
                let logarithm = |score: &f64| if *score > 0.0 { score.ln() } else { f64::NEG_INFINITY };
                (scores.iter().map(logarithm).sum::<f64>() / count).exp()
            }
        })
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Aggregation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is not one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_zero_sinks_both_products() {
        assert_eq!(Aggregation::Product.of(&[0.5, 0.0]), Some(0.0));
        assert_eq!(Aggregation::NormProduct.of(&[0.5, 0.0]), Some(0.0));
        assert_eq!(Aggregation::Mean.of(&[0.5, f64::NAN]), None);
    }

    #[test]
    fn names_are_read_back() {
        for kind in Aggregation::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("avg".parse::<Aggregation>().unwrap_err().contains("norm_product"));
    }

    proptest! {
        #[test]
        fn between_the_lowest_and_the_highest(scores in prop::collection::vec(0.0f64..=1.0, 1..12)) {
            let lowest = Aggregation::Min.of(&scores).unwrap();
            let highest = scores.iter().copied().fold(0.0, f64::max);
            for kind in [Aggregation::Last, Aggregation::Mean, Aggregation::NormProduct] {
                let found = kind.of(&scores).unwrap();
                prop_assert!(lowest - 1e-12 <= found && found <= highest + 1e-12);
            }
            prop_assert!(Aggregation::Product.of(&scores).unwrap() <= lowest + 1e-12);
        }
    }
}
