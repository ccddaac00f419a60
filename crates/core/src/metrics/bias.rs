//! Does a judge of whole solutions lean to one side? (the OPS benchmark of Tian et al., 2026)
//!
//! 'Positive' is the verdict 'correct':
//! - FPR = wrong solutions judged correct / wrong solutions
//! - FNR = correct solutions judged wrong / correct solutions
//! - BI = FPR − FNR: above 0 the judge is lenient, below 0 harsh
//!
//! A verdict that could not be read is neither a false positive nor a false negative, but it is not right either:
//! it stays in every denominator and is counted apart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::share;

/// One judged solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgment {
    /// Whether the solution is correct.
    pub correct: bool,
    /// Whether it was judged to be; none when the verdict could not be read.
    pub judged: Option<bool>,
}

/// A judge's errors, as shares of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Bias {
    /// Correct solutions.
    pub correct: usize,
    /// Wrong solutions.
    pub wrong: usize,
    /// Verdicts that could not be read.
    pub undecided: usize,
    /// Share of wrong solutions judged correct.
    pub fpr: Option<f64>,
    /// Share of correct solutions judged wrong.
    pub fnr: Option<f64>,
    /// FPR − FNR.
    pub bi: Option<f64>,
    /// Share of all solutions judged right.
    pub accuracy: Option<f64>,
}

/// A judge's errors over `judgements`.
///
/// ```
/// use gradus_core::metrics::bias::{Judgment, bias};
/// let judged = |correct, judged| Judgment { correct, judged: Some(judged) };
/// let lenient = bias(&[judged(true, true), judged(true, true), judged(false, true), judged(false, false)]);
/// assert_eq!((lenient.fpr, lenient.fnr, lenient.bi), (Some(0.5), Some(0.0), Some(0.5)));
/// ```
pub fn bias(judgements: &[Judgment]) -> Bias {
    let count = |correct: bool, judged: Option<bool>| {
        judgements.iter().filter(|j| j.correct == correct && j.judged == judged).count()
    };
    let correct = judgements.iter().filter(|judgement| judgement.correct).count();
    let wrong = judgements.len() - correct;
    let fpr = share(count(false, Some(true)), wrong);
    let fnr = share(count(true, Some(false)), correct);
    Bias {
        correct,
        wrong,
        undecided: count(true, None) + count(false, None),
        fpr,
        fnr,
        bi: fpr.zip(fnr).map(|(fpr, fnr)| fpr - fnr),
        accuracy: share(count(true, Some(true)) + count(false, Some(false)), judgements.len()),
    }
}

/// A judge's errors on each generator's solutions and over them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BiasReport {
    /// By generator.
    pub generators: BTreeMap<String, Bias>,
    /// Mean of |BI| over the generators that have one.
    pub mean_absolute_bi: Option<f64>,
    /// Mean accuracy over the generators.
    pub mean_accuracy: Option<f64>,
}

/// A judge's errors, by generator.
pub fn by_generator<'a>(judgements: impl IntoIterator<Item = (&'a str, Judgment)>) -> BiasReport {
    let mut groups: BTreeMap<String, Vec<Judgment>> = BTreeMap::new();
    for (generator, judgement) in judgements {
        groups.entry(generator.to_owned()).or_default().push(judgement);
    }
    let generators: BTreeMap<String, Bias> =
        groups.into_iter().map(|(generator, judgements)| (generator, bias(&judgements))).collect();
    let mean =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    BiasReport {
        mean_absolute_bi: mean(generators.values().filter_map(|bias| bias.bi.map(f64::abs)).collect()),
        mean_accuracy: mean(generators.values().filter_map(|bias| bias.accuracy).collect()),
        generators,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opposite_leanings_do_not_cancel() {
        let of = |generator, correct, judged| (generator, Judgment { correct, judged: Some(judged) });
        let report = by_generator([
            of("lenient", true, true),
            of("lenient", false, true),
            of("harsh", true, false),
            of("harsh", false, false),
        ]);
        assert_eq!(report.generators["lenient"].bi, Some(1.0));
        assert_eq!(report.generators["harsh"].bi, Some(-1.0));
        assert_eq!((report.mean_absolute_bi, report.mean_accuracy), (Some(1.0), Some(0.5)));
    }

    #[test]
    fn what_cannot_be_read_is_in_the_denominator() {
        let found = bias(&[
            Judgment { correct: false, judged: None },
            Judgment { correct: false, judged: Some(true) },
        ]);
        assert_eq!((found.fpr, found.fnr, found.bi), (Some(0.5), None, None));
        assert_eq!((found.undecided, found.accuracy), (1, Some(0.0)));
        assert_eq!(bias(&[]), Bias::default());
    }
}
