//! Votes over answers, merged where the grader says that two are the same: `1/2`, `0.5` and `\frac12` are one answer.

use crate::grade::{Verdict, compare};

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
pub fn weighted(groups: &[Option<usize>], weights: &[Option<f64>]) -> Option<usize> {
    let mut sums = vec![None; groups.len()];
    for (group, weight) in groups.iter().zip(weights) {
        if let Some(group) = group {
            *sums[*group].get_or_insert(0.0) += weight.unwrap_or(0.0);
        }
    }
    first_highest(&sums)
}

/// The answer that most candidates give, as its earliest candidate.
pub fn majority(groups: &[Option<usize>]) -> Option<usize> {
    weighted(groups, &vec![Some(1.0); groups.len()])
}

/// The candidate with the highest score. When none has a score it is the first: a choice must be made.
pub fn best(scores: &[Option<f64>]) -> Option<usize> {
    first_highest(scores).or((!scores.is_empty()).then_some(0))
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
        assert_eq!(weighted(&[Some(0), Some(1)], &[None, Some(-0.5)]), Some(0));
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
        assert_eq!(weighted(&groups, &[Some(0.1), Some(0.2), Some(0.9)]), Some(2));
    }
}
