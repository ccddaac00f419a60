//! What is learnt, and the settings of each: only the section of the chosen objective may be in a recipe.

use serde::{Deserialize, Serialize};

/// What is learnt.
#[derive(Debug, Clone, PartialEq)]
pub enum Objective {
    /// The next token of given answers.
    Sft(Sft),
    /// Whether each step is right.
    Prm(Prm),
    /// Whether the whole solution is right.
    Orm(Orm),
    /// Better solutions over worse ones, without a reference model.
    Orpo(Orpo),
    /// To criticise, by reward.
    Grpo(Grpo),
}

impl Objective {
    /// Its name, as in `gradus train NAME`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sft(_) => "sft",
            Self::Prm(_) => "prm",
            Self::Orm(_) => "orm",
            Self::Orpo(_) => "orpo",
            Self::Grpo(_) => "grpo",
        }
    }
}

/// `[sft]`: the next token of given answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sft {
    /// Learn the answer's tokens only, not the question's. Default true.
    pub answer_only: bool,
    /// Problems of the evaluation data that are answered greedily and graded at each evaluation. Default 0.
    pub answer_problems: usize,
    /// Most tokens of such an answer. Default 256.
    pub answer_tokens: usize,
}

impl Default for Sft {
    fn default() -> Self {
        Self { answer_only: true, answer_problems: 0, answer_tokens: 256 }
    }
}

/// `[prm]`: whether each step is right.
#[derive(Debug, Clone, PartialEq)]
pub struct Prm {
    /// How solutions are written out and where verdicts are read: a built-in profile or a .toml file. Default `plain`.
    pub profile: String,
    /// What is compared with the label. Default `cross_entropy`, which needs hard labels.
    pub loss: Loss,
    /// What gives the verdict, which must be what the profile reads. Default `tokens`.
    pub head: Head,
    /// Which tokens compete, for the head `tokens` only. Default `verdict_tokens`.
    pub readout: Option<Readout>,
    /// Solutions of one problem are one example, so that what they share is processed once. Default false.
    pub by_problem: bool,
    /// How much more a wrong step counts than a right one. Default 1. Right steps are many: with more weight for the
    /// wrong ones, 0.5 becomes a threshold that finds them.
    pub wrong_weight: f64,
}

/// `[orm]`: whether the whole solution is right, read at its last step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orm {
    /// Like [`Prm::profile`].
    pub profile: String,
    /// Like [`Prm::head`].
    pub head: Head,
    /// Like [`Prm::readout`].
    pub readout: Option<Readout>,
}

/// What is compared with the label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// For labels that are right or wrong.
    #[default]
    CrossEntropy,
    /// For labels between 0 and 1, which are not rounded.
    SquaredError,
}

/// What gives the verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// Two tokens of the language model.
    #[default]
    Tokens,
    /// A head with two classes.
    Classes,
    /// A head with one number.
    Value,
}

/// Which tokens compete for the verdict's probability.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Readout {
    /// The two verdict tokens.
    #[default]
    VerdictTokens,
    /// All tokens, as in ordinary instruction tuning (RetrievalPRM).
    Vocabulary,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPrm {
    #[serde(default = "plain")]
    profile: String,
    #[serde(default)]
    loss: Loss,
    #[serde(default)]
    head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    readout: Option<Readout>,
    #[serde(default)]
    by_problem: bool,
    #[serde(default = "one")]
    wrong_weight: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenOrm {
    #[serde(default = "plain")]
    profile: String,
    #[serde(default)]
    head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    readout: Option<Readout>,
}

fn one() -> f64 {
    1.0
}

fn plain() -> String {
    "plain".to_owned()
}

impl Default for WrittenPrm {
    fn default() -> Self {
        Self {
            profile: plain(),
            loss: Loss::default(),
            head: Head::default(),
            readout: None,
            by_problem: false,
            wrong_weight: one(),
        }
    }
}

impl Default for WrittenOrm {
    fn default() -> Self {
        Self { profile: plain(), head: Head::default(), readout: None }
    }
}

impl WrittenPrm {
    pub(super) fn resolve(self) -> Result<Prm, String> {
        let readout = readout("prm", self.head, self.readout)?;
        if readout == Some(Readout::Vocabulary) && self.loss == Loss::SquaredError {
            return Err(
                "`readout = \"vocabulary\"` in [prm] goes with `loss = \"cross_entropy\"` only".to_owned()
            );
        }
        let Self { profile, loss, head, by_problem, wrong_weight, .. } = self;
        if !(wrong_weight.is_finite() && wrong_weight > 0.0) {
            return Err(format!("`wrong_weight` in [prm] is {wrong_weight}: expected a number above 0"));
        }
        Ok(Prm { profile, loss, head, readout, by_problem, wrong_weight })
    }
}

impl WrittenOrm {
    pub(super) fn resolve(self) -> Result<Orm, String> {
        let readout = readout("orm", self.head, self.readout)?;
        Ok(Orm { profile: self.profile, head: self.head, readout })
    }
}

fn readout(section: &str, head: Head, given: Option<Readout>) -> Result<Option<Readout>, String> {
    match (head, given) {
        (Head::Tokens, given) => Ok(Some(given.unwrap_or_default())),
        (_, None) => Ok(None),
        (_, Some(_)) => {
            Err(format!("`readout` in [{section}] has no effect: only `head = \"tokens\"` reads tokens"))
        }
    }
}

impl From<Prm> for WrittenPrm {
    fn from(prm: Prm) -> Self {
        let Prm { profile, loss, head, readout, by_problem, wrong_weight } = prm;
        Self { profile, loss, head, readout, by_problem, wrong_weight }
    }
}

impl From<Orm> for WrittenOrm {
    fn from(orm: Orm) -> Self {
        Self { profile: orm.profile, head: orm.head, readout: orm.readout }
    }
}

/// `[orpo]`: better solutions over worse ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Orpo {
    /// How much the odds ratio counts beside the likelihood. Default 0.1.
    pub lambda: f64,
    /// Which of two solutions is better. Default `outcome`.
    pub pairs: Pairs,
    /// Most pairs of one problem. Default none: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pairs_per_problem: Option<usize>,
    /// Like [`Sft::answer_problems`].
    pub answer_problems: usize,
    /// Like [`Sft::answer_tokens`].
    pub answer_tokens: usize,
}

impl Default for Orpo {
    fn default() -> Self {
        Self {
            lambda: 0.1,
            pairs: Pairs::default(),
            max_pairs_per_problem: None,
            answer_problems: 0,
            answer_tokens: 256,
        }
    }
}

/// Which of two solutions is better.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairs {
    /// The one that is right, if the other is wrong.
    #[default]
    Outcome,
    /// The same, if its mean step label is higher, too (SPARE).
    OutcomeAndSteps,
}

/// `[grpo]`: a critic learns from rewards for its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grpo {
    /// Critiques of one solution. Default 5.
    pub group: usize,
    /// Of sampling, and so of the policy that is trained. Default 1.0.
    pub temperature: f64,
    /// Most tokens of a critique. Default 1024.
    pub max_new_tokens: usize,
    /// The probability ratio counts from 1 − this. Default 0.2.
    pub clip_low: f64,
    /// The probability ratio counts up to 1 + this. Default 0.2.
    pub clip_high: f64,
    /// How much distance from the starting policy costs. Default 0.04.
    pub kl: f64,
    /// Whether advantages are divided by the group's standard deviation. Default true; Dr.GRPO: false.
    pub advantage_std: bool,
    /// What tokens of critiques of different length count. Default `per_sample`.
    pub length: LengthWeight,
    /// Weight advantages by the solution's perplexity. Default false.
    pub perplexity_aware: bool,
    /// Average within right and wrong solutions first, then over both. Default false.
    pub class_level: bool,
    /// Changes of weights for one set of critiques. Default 1.
    pub inner_epochs: usize,
}

impl Default for Grpo {
    fn default() -> Self {
        Self {
            group: 5,
            temperature: 1.0,
            max_new_tokens: 1024,
            clip_low: 0.2,
            clip_high: 0.2,
            kl: 0.04,
            advantage_std: true,
            length: LengthWeight::default(),
            perplexity_aware: false,
            class_level: false,
            inner_epochs: 1,
        }
    }
}

/// What tokens of critiques of different length count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthWeight {
    /// Every critique counts the same, whatever its length (GRPO).
    #[default]
    PerSample,
    /// A sum over tokens divided by `max_new_tokens`, a constant (Dr.GRPO).
    Constant,
    /// Every token of the batch counts the same (DAPO).
    PerToken,
}
