//! Step labels: what somebody says about each step, who says so, and what it cost.
//!
//! `y_j` says whether steps 0..=j are all right, so what comes after the first error is unknown. Some sources judge
//! later steps on their own (PRM800K, PRMBench, SPARE); those labels are kept as the source gave them. Whether they
//! are training targets is said by [`LabelsAfterError`], and by default by the source: SPARE's are.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::record::labels_for_steps;
use crate::Fault;

/// A verdict about one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Right and useful.
    Correct,
    /// Wrong.
    Incorrect,
    /// Neither: PRM800K's 0, a redundant step. Counts as correct unless a setting says otherwise.
    Neutral,
}

impl Mark {
    /// Correct or incorrect.
    pub fn from_correct(correct: bool) -> Self {
        if correct { Self::Correct } else { Self::Incorrect }
    }

    /// PRM800K's rating: 1, 0 or -1.
    pub fn from_rating(rating: i64) -> Option<Self> {
        match rating {
            1 => Some(Self::Correct),
            0 => Some(Self::Neutral),
            -1 => Some(Self::Incorrect),
            _ => None,
        }
    }

    /// PRM800K's rating: 1, 0 or -1.
    pub fn rating(self) -> i64 {
        match self {
            Self::Correct => 1,
            Self::Neutral => 0,
            Self::Incorrect => -1,
        }
    }
}

/// Where a label comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LabelSource {
    /// The file does not say.
    #[default]
    Unstated,
    /// A person whose name the file does not say.
    Human,
    /// A person, by name.
    Person {
        /// The name.
        name: String,
    },
    /// A program or model put the error there on purpose, so its place is known.
    Injected,
    /// Completions sampled from the prefix that ends with this step.
    MonteCarlo {
        /// The model that completed; empty where the file does not say.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model: String,
        /// Completions that reached the right answer.
        successes: u32,
        /// Completions sampled.
        samples: u32,
    },
    /// A model that reviewed the solution.
    Judge {
        /// The model.
        model: String,
        /// Votes for this label.
        agreeing: u32,
        /// Votes in all.
        votes: u32,
    },
    /// A model that compared the solution with a reference (SPARE).
    Reference {
        /// The model.
        model: String,
    },
    /// A reward model's score on one side of a threshold.
    Prm {
        /// The reward model.
        model: String,
    },
    /// An exact check: arithmetic in the step is proved wrong. It says nothing about other steps.
    Exact,
    /// Several annotators that agreed.
    Consensus {
        /// Their names.
        of: Vec<String>,
    },
}

impl LabelSource {
    /// Whether labels are to be believed: a person's, a program's that put the error there, or a dataset's that does not
    /// say; a model's opinion is none.
    pub fn is_truth(&self) -> bool {
        matches!(self, Self::Human | Self::Person { .. } | Self::Injected | Self::Unstated)
    }

    /// Whether labels of this source say nothing about the steps that they leave out, not even that somebody looked at
    /// them.
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::Exact)
    }

    /// The [name](Self::name) of a model that annotated; none for a source of truth.
    pub fn annotator(&self) -> Option<String> {
        (!self.is_truth()).then(|| self.name())
    }
}

/// Why a reference-guided annotator labelled a step as it did (SPARE).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The annotator's explanation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explanation: String,
    /// Context sentences the step rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<usize>,
    /// Other steps of the solution it goes with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<usize>,
    /// Reference steps it corresponds to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<usize>,
    /// Error categories, such as `NUMERIC`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// One step's label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepLabel {
    /// The verdict.
    pub mark: Mark,
    /// A soft label in [0, 1], where the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Who says so.
    #[serde(default)]
    pub source: LabelSource,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

impl StepLabel {
    /// A hard label.
    pub fn hard(mark: Mark, source: LabelSource) -> Self {
        Self { mark, value: None, source, evidence: None }
    }

    /// A soft label: correct from one half on.
    pub fn soft(value: f64, source: LabelSource) -> Self {
        Self { mark: Mark::from_correct(value >= 0.5), value: Some(value), source, evidence: None }
    }
}

/// Where a solution first goes wrong. In JSON: a 0-based index, `"none"`, or `"unknown"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FirstError {
    /// Nobody has said.
    #[default]
    Unknown,
    /// Every step is right.
    None,
    /// The 0-based index of the first wrong step.
    At(usize),
}

impl Serialize for FirstError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Unknown => serializer.serialize_str("unknown"),
            Self::None => serializer.serialize_str("none"),
            Self::At(index) => serializer.serialize_u64(*index as u64),
        }
    }
}

impl<'de> Deserialize<'de> for FirstError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Index(usize),
            Word(String),
        }
        match Raw::deserialize(deserializer) {
            Ok(Raw::Index(index)) => Ok(Self::At(index)),
            Ok(Raw::Word(word)) if word == "none" => Ok(Self::None),
            Ok(Raw::Word(word)) if word == "unknown" => Ok(Self::Unknown),
            _ => Err(de::Error::custom("expected a 0-based step index, \"none\" or \"unknown\"")),
        }
    }
}

/// What becomes of labels after the first error in training. In recipes and on the command line: `keep` or `drop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelsAfterError {
    /// They are targets: each step is judged on its own, as SPARE does.
    Keep,
    /// They are no targets: a label says whether all steps so far are right, as Monte Carlo's do.
    Drop,
}

impl FromStr for LabelsAfterError {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "keep" => Ok(Self::Keep),
            "drop" => Ok(Self::Drop),
            _ => Err(format!("`{text}` is neither keep nor drop")),
        }
    }
}

/// What an annotation cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cost {
    /// Model requests.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Completion tokens.
    pub completion_tokens: u64,
    /// Wall-clock seconds, where they are kept: they differ from run to run.
    #[serde(skip_serializing_if = "is_zero")]
    pub seconds: f64,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// What one annotator says about one solution.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotation {
    /// One entry per step; `null` is unknown.
    pub labels: Vec<Option<StepLabel>>,
    /// Where the solution first goes wrong.
    #[serde(default)]
    pub first_error: FirstError,
    /// What it cost, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// Sampled without seeds, so that asking again may give other labels.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseeded: bool,
}

impl Annotation {
    /// From the place of the first error: right before it, wrong at it, unknown after it.
    ///
    /// ```
    /// use gradus_core::{Annotation, LabelSource, Mark};
    /// let annotation = Annotation::from_first_error(3, Some(1), &LabelSource::Human);
    /// let marks: Vec<_> = annotation.labels.iter().map(|l| l.as_ref().map(|l| l.mark)).collect();
    /// assert_eq!(marks, [Some(Mark::Correct), Some(Mark::Incorrect), None]);
    /// ```
    pub fn from_first_error(steps: usize, first_error: Option<usize>, source: &LabelSource) -> Self {
        let label = |mark| Some(StepLabel::hard(mark, source.clone()));
        let labels = (0..steps)
            .map(|step| match first_error {
                Some(error) if step > error => None,
                Some(error) if step == error => label(Mark::Incorrect),
                _ => label(Mark::Correct),
            })
            .collect();
        let first_error = first_error.map_or(FirstError::None, FirstError::At);
        Self { labels, first_error, ..Self::default() }
    }

    /// From labels alone. The first error is the first incorrect label; without one it is known to be none only
    /// when every step has a label.
    pub fn from_labels(labels: Vec<Option<StepLabel>>) -> Self {
        let wrong = labels.iter().position(|label| label.as_ref().is_some_and(|l| l.mark == Mark::Incorrect));
        let first_error = match wrong {
            Some(index) => FirstError::At(index),
            None if labels.iter().all(Option::is_some) => FirstError::None,
            None => FirstError::Unknown,
        };
        Self { labels, first_error, ..Self::default() }
    }

    /// The same annotation, if it has a label for each of `steps` steps; `field` names the labels in the fault.
    pub fn check_length(self, steps: usize, field: &str) -> Result<Self, Fault> {
        if self.labels.len() == steps {
            Ok(self)
        } else {
            Err(Fault::new(field, labels_for_steps(self.labels.len(), steps)))
        }
    }

    /// The name of the model that labeled; none where the labels are to be believed, or there are none.
    pub fn annotator(&self) -> Option<String> {
        (!self.is_truth()).then(|| self.source_name())
    }

    /// Whether every label is of a [partial](LabelSource::is_partial) source: the steps between them may be right or
    /// wrong. Such an annotation is evidence, and never an annotator's verdict on the solution.
    ///
    /// ```
    /// use gradus_core::{Annotation, LabelSource, Mark, StepLabel};
    /// let proved = Annotation::from_labels(vec![None, Some(StepLabel::hard(Mark::Incorrect, LabelSource::Exact))]);
    /// assert!(proved.is_partial() && proved.has_error());
    /// assert!(!Annotation::from_first_error(2, Some(1), &LabelSource::Human).is_partial());
    /// ```
    pub fn is_partial(&self) -> bool {
        let mut sources = self.labels.iter().flatten().map(|label| &label.source).peekable();
        sources.peek().is_some() && sources.all(LabelSource::is_partial)
    }

    /// Whether it says that a step is wrong, also where it leaves open which is the first.
    pub fn has_error(&self) -> bool {
        matches!(self.first_error, FirstError::At(_))
            || self.labels.iter().flatten().any(|label| label.mark == Mark::Incorrect)
    }

    /// Whether two annotations have the same labels, whatever they cost.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.first_error == other.first_error && self.labels == other.labels
    }

    /// What its source does with labels after the first error: a reference-guided annotator (SPARE) judges every step on
    /// its own, all others say whether the steps so far are right.
    pub fn labels_after_error(&self) -> LabelsAfterError {
        let mut sources = self.labels.iter().flatten().map(|label| &label.source).peekable();
        let by_reference = |source: &LabelSource| matches!(source, LabelSource::Reference { .. });
        match sources.peek().is_some() && sources.all(by_reference) {
            true => LabelsAfterError::Keep,
            false => LabelsAfterError::Drop,
        }
    }

    /// The labels to train on: every known one, those after the first error as `after_error` says, by default as the
    /// [source does](Self::labels_after_error).
    ///
    /// ```
    /// use gradus_core::{Annotation, LabelSource, LabelsAfterError, Mark, StepLabel};
    /// let source = LabelSource::Reference { model: "m".into() };
    /// let label = |mark| Some(StepLabel::hard(mark, source.clone()));
    /// let spare = Annotation::from_labels(vec![label(Mark::Incorrect), label(Mark::Correct)]);
    /// assert_eq!(spare.training_targets(None).count(), 2);
    /// assert_eq!(spare.training_targets(Some(LabelsAfterError::Drop)).count(), 1);
    /// ```
    pub fn training_targets(
        &self,
        after_error: Option<LabelsAfterError>,
    ) -> impl Iterator<Item = (usize, &StepLabel)> {
        let end = match after_error.unwrap_or_else(|| self.labels_after_error()) {
            LabelsAfterError::Keep => self.labels.len(),
            LabelsAfterError::Drop => self.up_to_first_error(),
        };
        self.known(end)
    }

    /// The labels that say whether all steps so far are right: every known one up to and including the first error.
    pub fn targets(&self) -> impl Iterator<Item = (usize, &StepLabel)> {
        self.known(self.up_to_first_error())
    }

    fn up_to_first_error(&self) -> usize {
        match self.first_error {
            FirstError::At(index) => index + 1,
            FirstError::None | FirstError::Unknown => self.labels.len(),
        }
    }

    fn known(&self, end: usize) -> impl Iterator<Item = (usize, &StepLabel)> {
        self.labels.iter().take(end).enumerate().filter_map(|(step, label)| Some((step, label.as_ref()?)))
    }
}
