//! Votes over answers, merged where the grader says that two are the same: `1/2`, `0.5` and `\frac12` are one answer.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use gradus_grade::{Verdict, compare};

/// How far a vote trusts the scores: a candidate weighs its score raised to this, with the score's sign.
///
/// At 1 a vote of many candidates is nearly the majority's, since most scores are high and near to each other. A higher
/// power tells them apart; a very high one leaves the choice to the best candidate. Near 0 it is the majority's.
///
/// ```
/// use gradus_core::select::vote::Power;
/// let power: Power = "2".parse().unwrap();
/// assert_eq!((power.of(0.5), power.of(-0.5)), (0.25, -0.25));
/// assert!("0".parse::<Power>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Power(f64);

impl Power {
    /// A score weighs what it is.
    pub const ONE: Self = Self(1.0);

    /// What a score weighs.
    pub fn of(self, score: f64) -> f64 {
        if self == Self::ONE { score } else { score.abs().powf(self.0).copysign(score) }
    }
}

impl Default for Power {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<f64> for Power {
    type Error = String;

    fn try_from(power: f64) -> Result<Self, String> {
        if power > 0.0 && power.is_finite() {
            Ok(Self(power))
        } else {
            Err(format!("a vote's power is {power}: expected a number above 0"))
        }
    }
}

impl From<Power> for f64 {
    fn from(power: Power) -> Self {
        power.0
    }
}

impl FromStr for Power {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let power = text.parse::<f64>().map_err(|_| format!("`{text}` is not a number above 0"))?;
        Self::try_from(power)
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// For each candidate, the earliest candidate with an equivalent answer (itself, if it is the first); none without an
/// answer. What the grader cannot decide stays apart.
///
/// ```
/// use gradus_core::select::vote::groups;
/// assert_eq!(groups(&[Some("1/2"), Some("0.5"), None, Some("3")]), [Some(0), Some(0), None, Some(3)]);
/// ```
pub fn groups(answers: &[Option<&str>]) -> Vec<Option<usize>> {
    let mut firsts: Vec<(usize, &str)> = Vec::new();
    let mut found = Vec::with_capacity(answers.len());
    for (index, answer) in answers.iter().enumerate() {
        let Some(answer) = answer.map(str::trim).filter(|answer| !answer.is_empty()) else {
            found.push(None);
            continue;
        };
        let same = firsts.iter().find(|(_, first)| *first == answer);
        let same = same.or_else(|| firsts.iter().find(|(_, first)| compare(first, answer) == Verdict::Equal));
        found.push(Some(match same {
            Some((first, _)) => *first,
            None => {
                firsts.push((index, answer));
                index
            }
        }));
    }
    found
}

/// The answer with the largest sum of weights, as its earliest candidate; none when nobody votes. A candidate without an
/// answer does not vote; one without a score weighs nothing, which still makes its answer known.
pub fn weighted(groups: &[Option<usize>], scores: &[Option<f64>], power: Power) -> Option<usize> {
    let mut sums = vec![None; groups.len()];
    for (group, score) in groups.iter().zip(scores) {
        if let Some(group) = group {
            *sums[*group].get_or_insert(0.0) += score.map_or(0.0, |score| power.of(score));
        }
    }
    first_highest(&sums)
}

/// The answer that most candidates give, as its earliest candidate.
pub fn majority(groups: &[Option<usize>]) -> Option<usize> {
    weighted(groups, &vec![Some(1.0); groups.len()], Power::ONE)
}

/// The candidate with the highest score. When none has a score it is the first: a choice must be made.
pub fn best(scores: &[Option<f64>]) -> Option<usize> {
    first_highest(scores).or((!scores.is_empty()).then_some(0))
}

/// The candidate that stands for a winning answer: the one with the highest score among those that give it, or among all
/// where nobody voted.
///
/// ```
/// use gradus_core::select::vote::{groups, majority, representative};
/// let groups = groups(&[Some("3"), Some("1/2"), Some("0.5")]);
/// assert_eq!(representative(&groups, &[Some(0.9), Some(0.2), Some(0.4)], majority(&groups)), Some(2));
/// ```
pub fn representative(
    groups: &[Option<usize>],
    scores: &[Option<f64>],
    winner: Option<usize>,
) -> Option<usize> {
    let members: Vec<usize> =
        (0..groups.len()).filter(|index| winner.is_none() || groups[*index] == winner).collect();
    let own: Vec<Option<f64>> = members.iter().map(|index| scores[*index]).collect();
    best(&own).map(|index| members[index])
}

fn first_highest(values: &[Option<f64>]) -> Option<usize> {
    let mut highest: Option<(usize, f64)> = None;
    for (index, value) in values.iter().enumerate() {
        if let Some(value) = value
            && highest.is_none_or(|(_, highest)| *value > highest)
        {
            highest = Some((index, *value));
        }
    }
    highest.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_a_tie() {
        assert_eq!(majority(&[Some(0), Some(1), Some(1), Some(0)]), Some(0));
        assert_eq!(best(&[Some(0.3), Some(0.7), Some(0.7)]), Some(1));
    }

    #[test]
    fn who_has_no_answer_does_not_vote() {
        assert_eq!(majority(&[None, None, Some(2)]), Some(2));
        assert_eq!(majority(&[None, None]), None);
        assert_eq!(weighted(&[Some(0), Some(1)], &[None, Some(-0.5)], Power::ONE), Some(0));
    }

    #[test]
    fn without_scores_the_first() {
        assert_eq!(best(&[None, None]), Some(0));
        assert_eq!(best(&[None, Some(f64::NEG_INFINITY)]), Some(1));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn weights_can_overrule_the_majority() {
        let groups = [Some(0), Some(0), Some(2)];
        assert_eq!(majority(&groups), Some(0));
        assert_eq!(weighted(&groups, &[Some(0.1), Some(0.2), Some(0.9)], Power::ONE), Some(2));
    }

    #[test]
    fn a_higher_power_trusts_the_scores_more() {
        let (groups, scores) = ([Some(0), Some(0), Some(2)], [Some(0.6), Some(0.6), Some(0.9)]);
        let winner = |power: f64| weighted(&groups, &scores, Power::try_from(power).unwrap());
        assert_eq!((winner(0.01), winner(1.0), winner(2.0)), (Some(0), Some(0), Some(2)));
        for power in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Power::try_from(power).is_err(), "{power}");
        }
    }
}
