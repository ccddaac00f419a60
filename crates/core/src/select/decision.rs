//! Where a solution first goes wrong, decided from the scores of its steps.
//!
//! - `threshold`: the first step whose score is below a threshold; the official rule of published reward models
//! - `posterior`: the most probable of 'the first error is in step j', for each step, and 'there is none'
//!
//! The posterior reads a score `s_i` as the probability that step `i` is right if all before it are:
//!
//! ```text
//! p(first error in step j) = prior × s_1 ⋯ s_(j-1) × (1 - s_j) / Z
//! p(no error)              =         s_1 ⋯ s_n                 / Z        Z: so that all sum to 1
//! ```
//!
//! `prior` multiplies the odds that there is an error at all. At 1 the scores are taken at their word; below 1 it is for
//! data in which errors are rarer than the scores say. Reference values: `tests/reference/decision.py`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The rule by which step scores become a first error. As a part of a profile:
///
/// ```toml
/// [decision]
/// rule = "posterior"    # or "threshold"
/// prior = 0.8           # with "threshold": threshold = 0.5
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum DecisionRule {
    /// The first step with a score below it. A score equal to it is no error.
    Threshold {
        /// The threshold.
        #[serde(default = "half")]
        threshold: f64,
    },
    /// The most probable of an error in each step and of none.
    Posterior {
        /// Factor on the odds that there is an error.
        #[serde(default = "one")]
        prior: f64,
    },
}

fn half() -> f64 {
    0.5
}

fn one() -> f64 {
    1.0
}

impl Default for DecisionRule {
    /// That of published reward models: the first step below 0.5.
    fn default() -> Self {
        RuleKind::Threshold.rule()
    }
}

/// A rule without its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleKind {
    /// See [`DecisionRule::Threshold`].
    Threshold,
    /// See [`DecisionRule::Posterior`].
    Posterior,
}

impl RuleKind {
    /// All there are.
    pub const ALL: [Self; 2] = [Self::Threshold, Self::Posterior];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Threshold => "threshold",
            Self::Posterior => "posterior",
        }
    }

    /// The rule with its usual number: 0.5 and 1.
    pub fn rule(self) -> DecisionRule {
        match self {
            Self::Threshold => DecisionRule::Threshold { threshold: half() },
            Self::Posterior => DecisionRule::Posterior { prior: one() },
        }
    }
}

impl FromStr for RuleKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is not one of threshold, posterior"))
    }
}

/// How probable it is that the first error is in each step, and that there is none. They sum to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Posterior {
    /// By step.
    pub steps: Vec<f64>,
    /// That there is no error.
    pub none: f64,
}

/// Where a solution first goes wrong, and how probable each place is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The first error, from 0; none where the solution is held for right.
    pub first_error: Option<usize>,
    /// With the rule's prior; a threshold has none, and 1 is taken.
    pub posterior: Posterior,
}

impl DecisionRule {
    /// Decides. An error that is proven in step `proven`, by an exact check of its arithmetic for instance, counts as a
    /// score of 0 there: the first error is then at or before that step, whatever the scores say.
    ///
    /// ```
    /// use gradus_core::select::DecisionRule;
    /// let scores = [0.9, 0.6, 0.6, 0.6];
    /// let threshold = DecisionRule::default();
    /// assert_eq!(threshold.decide(&scores, None).first_error, None);
    /// // No step is below 0.5, but that all four are right has a probability of 0.19, and step 1 is wrong with 0.36.
    /// let found = DecisionRule::Posterior { prior: 1.0 }.decide(&scores, None);
    /// assert_eq!(found.first_error, Some(1));
    /// assert!((found.posterior.steps[1] - 0.36).abs() < 1e-12 && (found.posterior.none - 0.1944).abs() < 1e-12);
    /// assert_eq!(threshold.decide(&scores, Some(2)).first_error, Some(2));
    /// ```
    pub fn decide(&self, scores: &[f64], proven: Option<usize>) -> Decision {
        let score =
            |(step, score): (usize, &f64)| if proven == Some(step) { f64::NEG_INFINITY } else { *score };
        let scores: Vec<f64> = scores.iter().enumerate().map(score).collect();
        match *self {
            Self::Threshold { threshold } => {
                Decision { first_error: below(&scores, threshold), posterior: Posterior::of(&scores, one()) }
            }
            Self::Posterior { prior } => {
                let posterior = Posterior::of(&scores, prior);
                Decision { first_error: posterior.most_probable(), posterior }
            }
        }
    }

    /// The first error by the scores alone.
    pub fn first_error(&self, scores: &[f64]) -> Option<usize> {
        match *self {
            Self::Threshold { threshold } => below(scores, threshold),
            Self::Posterior { prior } => Posterior::of(scores, prior).most_probable(),
        }
    }

    /// The other rule with its usual number, to show beside this one.
    pub fn other(&self) -> Self {
        match self.kind() {
            RuleKind::Threshold => RuleKind::Posterior.rule(),
            RuleKind::Posterior => RuleKind::Threshold.rule(),
        }
    }

    /// The rule without its number.
    pub fn kind(&self) -> RuleKind {
        match self {
            Self::Threshold { .. } => RuleKind::Threshold,
            Self::Posterior { .. } => RuleKind::Posterior,
        }
    }

    /// The threshold, of a rule that has one.
    pub fn threshold(&self) -> Option<f64> {
        match *self {
            Self::Threshold { threshold } => Some(threshold),
            Self::Posterior { .. } => None,
        }
    }

    /// The score below which a single step is held for wrong, where each is judged on its own.
    pub fn step_threshold(&self) -> f64 {
        self.threshold().unwrap_or(half())
    }

    /// Refuses numbers that decide nothing.
    pub fn check(&self) -> Result<(), String> {
        match *self {
            Self::Threshold { threshold } if !threshold.is_finite() => {
                Err("the threshold of a decision must be a finite number".to_owned())
            }
            Self::Posterior { prior } if !(prior.is_finite() && prior > 0.0) => {
                Err("the prior of a decision must be a finite number above 0".to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DecisionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threshold { threshold } => write!(f, "threshold {threshold}"),
            Self::Posterior { prior } => write!(f, "posterior, prior {prior}"),
        }
    }
}

/// What is asked for in place of a profile's own rule; nothing by default.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DecisionChoice {
    /// Another rule.
    pub rule: Option<RuleKind>,
    /// The threshold rule, with this threshold.
    pub threshold: Option<f64>,
    /// The posterior, with this prior.
    pub prior: Option<f64>,
}

impl DecisionChoice {
    /// The rule that is meant, where `own` is the profile's. A rule that is named without its number has the profile's,
    /// or else the usual one.
    ///
    /// ```
    /// use gradus_core::select::{DecisionChoice, DecisionRule, RuleKind};
    /// let own = DecisionRule::Posterior { prior: 0.8 };
    /// let named = |rule| DecisionChoice { rule: Some(rule), ..DecisionChoice::default() };
    /// assert_eq!(DecisionChoice::default().over(own), Ok(own));
    /// assert_eq!(named(RuleKind::Posterior).over(own), Ok(own));
    /// assert_eq!(named(RuleKind::Threshold).over(own), Ok(DecisionRule::default()));
    /// ```
    pub fn over(&self, own: DecisionRule) -> Result<DecisionRule, String> {
        let rule = match (self.rule, self.threshold, self.prior) {
            (_, Some(_), Some(_))
            | (Some(RuleKind::Threshold), _, Some(_))
            | (Some(RuleKind::Posterior), Some(_), _) => {
                return Err(
                    "a threshold belongs to the rule `threshold` and a prior to `posterior`: give one of the two".to_owned()
                );
            }
            (_, Some(threshold), None) => DecisionRule::Threshold { threshold },
            (_, None, Some(prior)) => DecisionRule::Posterior { prior },
            (Some(kind), None, None) if kind != own.kind() => kind.rule(),
            (_, None, None) => own,
        };
        rule.check().map(|()| rule)
    }

    /// Whether anything is asked for.
    pub fn is_given(&self) -> bool {
        *self != Self::default()
    }
}

/// The first step whose score is below `threshold`. A score that is not a number is no verdict and counts as below.
fn below(scores: &[f64], threshold: f64) -> Option<usize> {
    scores.iter().position(|&score| score.is_nan() || score < threshold)
}

impl Posterior {
    /// The probabilities of scores. A score that is not a number counts as 0, as it counts as below every threshold.
    pub fn of(scores: &[f64], prior: f64) -> Self {
        let mut right = 1.0;
        let step = |score: &f64| {
            let score = if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) };
            let weight = prior * right * (1.0 - score);
            right *= score;
            weight
        };
        let mut steps: Vec<f64> = scores.iter().map(step).collect();
        let sum = steps.iter().sum::<f64>() + right;
        steps.iter_mut().for_each(|weight| *weight /= sum);
        Self { steps, none: right / sum }
    }

    /// The most probable first error. Among equals 'no error' comes first, as a score equal to a threshold is no error,
    /// and then the earliest step.
    pub fn most_probable(&self) -> Option<usize> {
        let mut found = (None, self.none);
        for (step, &probability) in self.steps.iter().enumerate() {
            if probability > found.1 {
                found = (Some(step), probability);
            }
        }
        found.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const RULES: [DecisionRule; 4] = [
        DecisionRule::Threshold { threshold: 0.5 },
        DecisionRule::Threshold { threshold: 0.3 },
        DecisionRule::Posterior { prior: 1.0 },
        DecisionRule::Posterior { prior: 0.4 },
    ];

    fn numbers(value: &Value) -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    }

    #[test]
    fn probabilities_are_numpys() {
        let all: Value = serde_json::from_str(include_str!("../../tests/reference/decision.json")).unwrap();
        let cases = all.as_array().unwrap();
        assert!(cases.len() > 20);
        for case in cases {
            let (scores, prior) = (numbers(&case["scores"]), case["prior"].as_f64().unwrap());
            let proven = case["proven"].as_u64().map(|step| step as usize);
            let found = DecisionRule::Posterior { prior }.decide(&scores, proven);
            let expected = numbers(&case["steps"]);
            assert_eq!(found.posterior.steps.len(), expected.len());
            let pairs = found.posterior.steps.iter().zip(&expected);
            for (found, expected) in pairs.chain([(&found.posterior.none, &case["none"].as_f64().unwrap())]) {
                assert!((found - expected).abs() < 1e-13, "{found} is not {expected}: {case}");
            }
            assert_eq!(found.first_error, case["first_error"].as_u64().map(|step| step as usize), "{case}");
        }
    }

    #[test]
    fn ties_are_no_error_and_then_the_earliest_step() {
        let posterior = DecisionRule::Posterior { prior: 1.0 };
        assert_eq!(posterior.first_error(&[0.5]), None);
        assert_eq!(posterior.first_error(&[0.5, 0.0]), Some(0));
        assert_eq!(DecisionRule::default().first_error(&[0.5]), None);
        for rule in RULES {
            assert_eq!(rule.first_error(&[]), None);
            assert_eq!(rule.first_error(&[0.99, f64::NAN]), Some(1));
            assert_eq!(rule.first_error(&[1.0, 1.0]), None);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let own = DecisionRule::Threshold { threshold: 0.4 };
        let choice = |rule, threshold, prior| DecisionChoice { rule, threshold, prior }.over(own);
        assert_eq!(choice(None, None, Some(2.0)), Ok(DecisionRule::Posterior { prior: 2.0 }));
        assert_eq!(choice(Some(RuleKind::Threshold), None, None), Ok(own));
        assert_eq!(choice(Some(RuleKind::Posterior), None, None), Ok(RuleKind::Posterior.rule()));
        for refused in [
            choice(None, Some(0.5), Some(1.0)),
            choice(Some(RuleKind::Threshold), None, Some(1.0)),
            choice(Some(RuleKind::Posterior), Some(0.5), None),
        ] {
            assert!(refused.unwrap_err().contains("give one of the two"));
        }
        assert!(choice(None, None, Some(0.0)).unwrap_err().contains("above 0"));
        assert!(choice(None, Some(f64::NAN), None).is_err());
    }

    #[test]
    fn a_rule_is_written_as_it_is_read() {
        for rule in RULES {
            let text = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<DecisionRule>(&text).unwrap(), rule);
        }
        assert_eq!(
            serde_json::from_str::<DecisionRule>(r#"{"rule": "threshold"}"#).unwrap(),
            DecisionRule::default()
        );
        assert!(serde_json::from_str::<DecisionRule>(r#"{"rule": "threshold", "prior": 1}"#).is_err());
    }

    fn some_scores() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(
            prop_oneof![4 => 0.0..=1.0, 1 => Just(0.0), 1 => Just(1.0), 1 => Just(0.5)],
            0..40,
        )
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one(scores in some_scores(), prior in 0.001..1000.0) {
            let found = Posterior::of(&scores, prior);
            prop_assert!((found.steps.iter().sum::<f64>() + found.none - 1.0).abs() < 1e-12);
            prop_assert!(found.steps.iter().chain([&found.none]).all(|share| (0.0..=1.0).contains(share)));
        }

        #[test]
        fn a_higher_prior_means_more_errors(scores in some_scores(), prior in 0.001..1000.0, factor in 1.0..100.0) {
            let (low, high) = (Posterior::of(&scores, prior), Posterior::of(&scores, prior * factor));
            prop_assert!(high.none <= low.none + 1e-12);
            // Who finds an error finds the same one with a higher prior: steps keep their order among themselves.
            if let Some(step) = low.most_probable() {
                let found = high.most_probable().unwrap();
                prop_assert!(found == step || (high.steps[found] - high.steps[step]).abs() < 1e-12);
            }
        }

        #[test]
        fn a_lower_score_draws_the_first_error(
            mut scores in prop::collection::vec(0.01..=0.99, 1..20),
            at in any::<prop::sample::Index>(),
            share in 0.0..1.0,
            prior in 0.01..100.0,
        ) {
            let at = at.index(scores.len());
            let before = Posterior::of(&scores, prior);
            scores[at] *= share;
            let after = Posterior::of(&scores, prior);
            prop_assert!(after.steps[at] >= before.steps[at] - 1e-12);
            prop_assert!(after.none <= before.none + 1e-12);
        }

        #[test]
        fn what_is_proven_is_never_overlooked(scores in some_scores(), at in any::<prop::sample::Index>()) {
            prop_assume!(!scores.is_empty());
            let at = at.index(scores.len());
            for rule in RULES {
                let found = rule.decide(&scores, Some(at));
                prop_assert!(found.first_error.is_some_and(|step| step <= at), "{rule}: {found:?}");
                prop_assert_eq!(rule.decide(&scores, None).first_error, rule.first_error(&scores));
            }
        }
    }
}
