//! Shift between sets of vectors of length 1: how well does one cover the other?
//!
//! For each vector of `to`, the cosine similarity of the nearest vector of `from`; within one set a vector does not find
//! itself, but it does find a copy of itself in another row. The shift is
//!
//! ```text
//! shift(from → to) = mean over b in `to` of  max{b·c : c in `to`, c ≠ b} − max{b·a : a in `from`}
//! ```
//!
//! 0: `from` covers `to` as well as `to` covers itself; above 0: worse; below 0: better. A larger set covers more by its
//! size alone, so sets are compared best at equal sizes. Left out: kernels (MMD) and Fréchet distances, which say that
//! two sets differ but not whether a near example can be retrieved. Every pair is looked at: time grows with the product
//! of the sizes.

use gradus_core::metrics::bootstrap;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::search::top_k;

/// Vectors this similar are the same text, or nearly: as in [`two_stage::Settings::cosine`](crate::two_stage::Settings).
const COPY: f32 = 0.98;

/// Vectors of length 1 under one name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Set<'a> {
    /// Name of the set, such as the dataset's.
    pub name: &'a str,
    /// One vector after the other; all sets from one encoder and, where they are reduced, one projection.
    pub rows: &'a [f32],
}

/// How well one set covers another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// The set that was searched.
    pub from: String,
    /// The set whose vectors were looked for.
    pub to: String,
    /// Vectors of `to` with a nearest one in `from`.
    pub count: usize,
    /// Vectors of `to` without: there is no other vector, or this one is no number.
    pub alone: usize,
    /// Summary of the similarities; none without any.
    pub spread: Option<Spread>,
    /// How much less similar the nearest of `from` is than the nearest other one of `to`; exactly 0 from a set to
    /// itself, none where no vector has both.
    pub shift: Option<Distance>,
    /// Of each of the `count` vectors, in their order.
    pub similarities: Vec<f32>,
}

/// Summary of similarities. Between two values quantiles are interpolated, as numpy does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// 5th percentile.
    pub low: f64,
    /// 25th percentile.
    pub lower_quartile: f64,
    /// Median.
    pub median: f64,
    /// 75th percentile.
    pub upper_quartile: f64,
    /// 95th percentile.
    pub high: f64,
    /// Share of similarities of at least 0.98.
    pub copies: f64,
}

/// A mean difference of similarities.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Distance {
    /// 0: no shift; similarities go from −1 to 1.
    pub value: f64,
    /// The lower end of its 95 % interval: with other vectors of the same kind in `to`, their neighbors held fixed.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A [`Shift`] for each ordered pair of sets: from the first to each, from the second to each, and so on.
///
/// Fails where `rows` do not make whole vectors.
pub fn shifts(sets: &[Set], dimension: usize) -> Result<Vec<Shift>> {
    if let Some(set) = sets.iter().find(|set| dimension == 0 || !set.rows.len().is_multiple_of(dimension)) {
        let values = set.rows.len();
        return Err(Error::Data(format!("{}: {values} values are not vectors of {dimension}", set.name)));
    }
    let within: Vec<Vec<Option<f32>>> =
        sets.iter().map(|set| nearest(set.rows, set.rows, dimension, |query, row| query != row)).collect();
    let pairs = (0..sets.len()).flat_map(|from| (0..sets.len()).map(move |to| (from, to)));
    Ok(pairs
        .map(|(from, to)| {
            let found = if from == to {
                within[to].clone()
            } else {
                nearest(sets[from].rows, sets[to].rows, dimension, |_, _| true)
            };
            let similarities: Vec<f32> = found.iter().copied().flatten().collect();
            Shift {
                from: sets[from].name.to_owned(),
                to: sets[to].name.to_owned(),
                count: similarities.len(),
                alone: found.len() - similarities.len(),
                spread: spread(&similarities),
                shift: distance(&within[to], &found),
                similarities,
            }
        })
        .collect())
}

/// For each query the similarity of the nearest row that may be found.
fn nearest(
    rows: &[f32],
    queries: &[f32],
    dimension: usize,
    may: impl Fn(usize, usize) -> bool + Sync,
) -> Vec<Option<f32>> {
    let found = top_k(rows, dimension, queries, 1, |query, row, _| may(query, row as usize));
    found.iter().map(|hits| hits.first().map(|hit| hit.similarity)).collect()
}

fn spread(similarities: &[f32]) -> Option<Spread> {
    let mut sorted: Vec<f64> = similarities.iter().copied().map(f64::from).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let quantile = |share: f64| {
        let at = share * last as f64;
        let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        below + (above - below) * at.fract()
    };
    let copies = similarities.iter().filter(|similarity| **similarity >= COPY).count();
    Some(Spread {
        mean: mean(&sorted),
        low: quantile(0.05),
        lower_quartile: quantile(0.25),
        median: quantile(0.5),
        upper_quartile: quantile(0.75),
        high: quantile(0.95),
        copies: copies as f64 / sorted.len() as f64,
    })
}

fn distance(within: &[Option<f32>], across: &[Option<f32>]) -> Option<Distance> {
    let both = within.iter().zip(across).filter_map(|(within, across)| within.zip(*across));
    let differences: Vec<f64> = both.map(|(within, across)| f64::from(within) - f64::from(across)).collect();
    let interval = bootstrap::means(&[&differences], &bootstrap::Settings::default())?.pop()?;
    Some(Distance { value: mean(&differences), low: interval.low, high: interval.high })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors on the circle.
    fn at(degrees: &[f64]) -> Vec<f32> {
        let vector = |degrees: &f64| {
            let (sin, cos) = degrees.to_radians().sin_cos();
            [cos as f32, sin as f32]
        };
        degrees.iter().flat_map(vector).collect()
    }

    fn cosine(degrees: f64) -> f64 {
        degrees.to_radians().cos()
    }

    #[test]
    fn a_set_that_is_far_covers_less() {
        let (a, b) = (at(&[0.0, 20.0, 40.0]), at(&[90.0, 100.0, 110.0, 130.0]));
        let found = shifts(&[Set { name: "a", rows: &a }, Set { name: "b", rows: &b }], 2).unwrap();
        let pairs: Vec<(&str, &str)> = found.iter().map(|one| (one.from.as_str(), one.to.as_str())).collect();
        assert_eq!(pairs, [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]);
        assert_eq!(found.iter().map(|one| one.count).collect::<Vec<_>>(), [3, 4, 3, 4]);

        let expected = [50.0, 60.0, 70.0, 90.0].map(cosine);
        for (found, expected) in found[1].similarities.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-6, "{found}, expected {expected}");
        }
        let within = (3.0 * cosine(10.0) + cosine(20.0)) / 4.0;
        let shift = found[1].shift.unwrap();
        assert!((shift.value - (within - expected.iter().sum::<f64>() / 4.0)).abs() < 1e-6, "{shift:?}");
        assert!(0.0 < shift.low && shift.low < shift.value && shift.value < shift.high, "{shift:?}");

        let itself = found[3].shift.unwrap();
        assert_eq!((itself.value, itself.low, itself.high), (0.0, 0.0, 0.0));
    }

    #[test]
    fn a_copy_in_another_row_is_found_and_counted() {
        let rows = at(&[0.0, 0.0, 90.0, 100.0]);
        let found = shifts(&[Set { name: "one", rows: &rows }], 2).unwrap();
        let spread = found[0].spread.unwrap();
        assert_eq!((found[0].similarities[0], found[0].similarities[1]), (1.0, 1.0));
        // 10 degrees are 0.985.
        assert_eq!(spread.copies, 1.0);
        let apart = at(&[0.0, 0.0, 90.0, 102.0]);
        assert_eq!(shifts(&[Set { name: "one", rows: &apart }], 2).unwrap()[0].spread.unwrap().copies, 0.5);
    }

    #[test]
    fn quantiles_are_numpy_s() {
        // numpy.quantile([0.1, 0.5, 0.2, 0.4, 0.9, 0.3], [0.05, 0.25, 0.5, 0.75, 0.95])
        let found = spread(&[0.1, 0.5, 0.2, 0.4, 0.9, 0.3]).unwrap();
        let quantiles = [found.low, found.lower_quartile, found.median, found.upper_quartile, found.high];
        for (found, expected) in quantiles.iter().zip([0.125, 0.225, 0.35, 0.475, 0.8]) {
            assert!((found - expected).abs() < 1e-7, "{quantiles:?}");
        }
        assert!((found.mean - 0.4).abs() < 1e-7 && found.copies == 0.0);
    }

    #[test]
    fn what_has_no_neighbour_is_counted() {
        let (one, none, broken) = (at(&[0.0]), [], [f32::NAN, 0.0, 1.0, 0.0]);
        let set = |name, rows| Set { name, rows };
        let found = shifts(&[set("one", &one[..]), set("none", &none), set("broken", &broken)], 2).unwrap();
        let counts: Vec<(usize, usize)> = found.iter().map(|one| (one.count, one.alone)).collect();
        // From 'one', from 'none', from 'broken'; each to 'one', to 'none', to 'broken'.
        assert_eq!(
            counts,
            [(0, 1), (0, 0), (1, 1), (0, 1), (0, 0), (0, 2), (1, 0), (0, 0), (0, 2)],
            "{found:?}"
        );
        assert!(found.iter().all(|one| one.shift.is_none()));
        assert!(found.iter().all(|one| one.spread.is_some() == (one.count > 0)));
        let error = shifts(&[set("odd", &broken[..3])], 2).unwrap_err().to_string();
        assert_eq!(error, "odd: 3 values are not vectors of 2");
        assert!(shifts(&[set("odd", &[])], 0).is_err());
    }

    #[test]
    fn a_shift_is_written_and_read() {
        let rows = at(&[0.0, 30.0, 75.0]);
        let found = shifts(&[Set { name: "a", rows: &rows }], 2).unwrap();
        let read: Vec<Shift> = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
        assert_eq!(read, found);
    }
}
