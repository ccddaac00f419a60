//! PRM profiles: what a reward model expects and where its verdict is read, as data.
//!
//! A profile is a TOML file (`assets/profiles/`) with two parts: `[input]` writes a solution out, `[score]` reads the
//! verdict; `[calibration]` and `[decision]` may say what becomes of it. Texts are Jinja templates. Three kinds of input cover the published families:
//!
//! - `tagged`: all steps in one text, a separator *token* after each, read at the separators
//! - `turns`: a conversation with one user turn per step, read where the assistant's answer is predicted
//! - `prompted`: one prompt per step, read at its end; prompts share almost all of their tokens, which are processed
//!   once (see [`crate::batch`])

mod assemble;
mod templates;
mod written;

use std::path::Path;

use gradus_core::select::DecisionRule;
use serde::Deserialize;

pub use assemble::{Assembled, Assembler};
pub use templates::Templates;
pub use written::Written;

use crate::head::Head;
use crate::{Error, HeadKind, Model, Result};

/// What a reward model expects.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name on the command line.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// How a solution is written out.
    pub input: Input,
    /// How the verdict is read.
    pub score: Score,
    /// What is done to the verdict before anyone sees it. Training looks at the verdict itself.
    #[serde(default)]
    pub calibration: Option<Calibration>,
    /// How the scores of a solution's steps become its first error; the official rule of published models by default.
    #[serde(default)]
    pub decision: DecisionRule,
    /// Whether a step whose arithmetic is proved wrong is an error whatever its score is. Published models are scored
    /// without.
    #[serde(default)]
    pub exact_checks: bool,
}

/// A verdict made less sure of itself, and weighed with what is known before reading: what says more goes wrong more
/// often.
///
/// ```text
/// odds of an error = (odds that the model gives)^(1 / temperature) × prior × length of the step / mean length so far
/// ```
///
/// The mean is over this step, those before it, and one of `characters` characters that is imagined before them all. So a
/// score does not change when more steps follow.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Above 1 for a model that is too sure.
    pub temperature: f64,
    /// Below 1 where errors are rarer than in training.
    pub prior: f64,
    /// How long a step is before anything is known.
    pub characters: f64,
}

impl Calibration {
    /// The scores of a solution's steps, whose numbers of characters are `lengths`.
    ///
    /// ```
    /// let calibration = gradus_engine::profile::Calibration { temperature: 2.0, prior: 1.0, characters: 100.0 };
    /// let scores = calibration.apply(&[0.9, 0.9], &[100, 400]);
    /// assert!((scores[0] - 0.75).abs() < 1e-12); // odds of 9 become 3
    /// assert!((scores[1] - 0.6).abs() < 1e-12); // and 3 / 2 in a step of twice the mean length, 200
    /// assert_eq!(calibration.apply(&[0.0, 1.0], &[10, 10]), [0.0, 1.0]);
    /// ```
    pub fn apply(&self, scores: &[f64], lengths: &[usize]) -> Vec<f64> {
        let (mut sum, mut count) = (self.characters, 1.0);
        let step = |(score, length): (&f64, &usize)| {
            let length = (*length).max(1) as f64;
            sum += length;
            count += 1.0;
            let odds = ((1.0 - score) / score).powf(1.0 / self.temperature);
            1.0 / (1.0 + odds * self.prior * length * count / sum)
        };
        scores.iter().zip(lengths).map(step).collect()
    }
}

/// How a solution is written out.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Input {
    /// All steps in one text, a separator token after each.
    Tagged(Tagged),
    /// A conversation with one user turn per step.
    Turns {
        /// The first user turn.
        first: String,
        /// Every later user turn.
        next: String,
        /// What the assistant is made to have answered.
        answer: String,
    },
    /// One prompt per step.
    Prompted {
        /// The system message; empty for none.
        #[serde(default)]
        system: String,
        /// The user message.
        user: String,
    },
}

impl Input {
    /// Whether the model's chat template writes the text.
    pub(crate) fn is_chat(&self) -> bool {
        match self {
            Self::Tagged(tagged) => tagged.chat,
            Self::Turns { .. } | Self::Prompted { .. } => true,
        }
    }
}

/// All steps in one text, a separator token after each.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tagged {
    /// Whether the model's chat template goes around it; the steps are then the assistant's turn.
    #[serde(default)]
    pub chat: bool,
    /// With `chat`: the system message; empty for none.
    #[serde(default)]
    pub system: String,
    /// With `chat`: the user message.
    #[serde(default)]
    pub user: String,
    /// Without `chat`: what comes before the steps.
    #[serde(default)]
    pub before: String,
    /// Whether what comes before is cut into tokens apart from the first step, rather than together with it.
    #[serde(default)]
    pub separate: bool,
    /// Whether a separator inside a step's own text is cut out as one, too; it is not read.
    #[serde(default)]
    pub cut_at_tag: bool,
    /// With `chat`: whose turn the steps are.
    #[serde(default = "assistant")]
    pub role: String,
    /// With `chat`: what comes before the first step in that turn.
    #[serde(default)]
    pub opening: String,
    /// A step.
    pub step: String,
    /// The separator, one token.
    pub tag: String,
    /// What follows a separator, except the last.
    #[serde(default)]
    pub after: String,
    /// With `chat`: what follows the last separator in that turn.
    #[serde(default)]
    pub closing: String,
}

fn assistant() -> String {
    "assistant".to_owned()
}

/// How the verdict is read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Score {
    /// The share of one token in the probabilities of two.
    Tokens {
        /// The token for "right".
        positive: String,
        /// The token for "wrong".
        negative: String,
    },
    /// A class head's probability of one class.
    Classes {
        /// The class for "right".
        positive: usize,
    },
    /// A value head through a sigmoid.
    Value,
}

impl Score {
    /// The head that the verdict is read from.
    pub fn head(&self) -> HeadKind {
        match self {
            Self::Tokens { .. } => HeadKind::Tokens,
            Self::Classes { .. } => HeadKind::Classes,
            Self::Value => HeadKind::Value,
        }
    }
}

/// The profiles that ship with the program.
const BUILT_IN: [&str; 10] = [
    include_str!("../../../../assets/profiles/gradus.toml"),
    include_str!("../../../../assets/profiles/plain.toml"),
    include_str!("../../../../assets/profiles/brief.toml"),
    include_str!("../../../../assets/profiles/retrieval-prm.toml"),
    include_str!("../../../../assets/profiles/math-shepherd.toml"),
    include_str!("../../../../assets/profiles/spare-prm.toml"),
    include_str!("../../../../assets/profiles/rlhflow.toml"),
    include_str!("../../../../assets/profiles/qwen2.5-math-prm.toml"),
    include_str!("../../../../assets/profiles/skywork-prm.toml"),
    include_str!("../../../../assets/profiles/trl.toml"),
];

impl Profile {
    /// All profiles that ship with the program.
    pub fn built_in() -> Vec<Self> {
        let parsed = BUILT_IN.iter().map(|text| Self::parse(text).expect("built-in profiles are tested"));
        parsed.collect()
    }

    /// A profile by its name, or from a `.toml` file of one's own.
    ///
    /// ```
    /// use gradus_engine::profile::Profile;
    /// assert_eq!(Profile::find("math-shepherd")?.name, "math-shepherd");
    /// # Ok::<(), gradus_engine::Error>(())
    /// ```
    pub fn find(name: &str) -> Result<Self> {
        Self::parse(&Self::text(name)?).map_err(|message| Error::model(name, message))
    }

    /// The text of the profile that [`find`](Self::find) finds.
    fn text(name: &str) -> Result<String> {
        let built_in = Self::built_in();
        if let Some(found) = built_in.iter().position(|profile| profile.name == name) {
            return Ok(BUILT_IN[found].to_owned());
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|extension| extension == "toml") {
            return std::fs::read_to_string(path).map_err(|source| Error::io(path, source));
        }
        let known: Vec<&str> = built_in.iter().map(|profile| profile.name.as_str()).collect();
        Err(Error::request(format!(
            "profile `{name}` is neither a .toml file nor one of {}",
            known.join(", ")
        )))
    }

    /// The text of a profile with another decision rule, to be kept as a file of one's own.
    pub fn text_with(name: &str, decision: DecisionRule) -> Result<String> {
        let text = Self::text(name)?;
        let old = Self::parse(&text).map_err(|message| Error::model(name, message))?;
        let new = Self { decision, ..old };
        let numbers = match decision {
            DecisionRule::Threshold { threshold } => format!("threshold = {threshold:?}"),
            DecisionRule::Posterior { prior } => format!("prior = {prior:?}"),
        };
        let rule = decision.kind().name();
        let other = without_decision(&text);
        let text = format!("{}\n\n[decision]\nrule = \"{rule}\"\n{numbers}\n", other.trim_end());
        // Lines may be cut wrongly, in a text of several lines for instance.
        match Self::parse(&text) {
            Ok(read) if read == new => Ok(text),
            _ => Err(Error::model(
                name,
                "its decision rule cannot be replaced: write it as a table [decision] of its own lines",
            )),
        }
    }

    /// Whether a model's tokenizer has the tokens that the profile needs.
    pub fn fits(&self, model: &Model) -> bool {
        Assembler::new(self.clone(), &model.tokenizer).is_ok()
    }

    /// The profile that a model asks for by its architecture or its head: `plain` for a language model. A class head of
    /// one layer fits several, so that one must be named.
    pub fn for_model(model: &Model) -> Result<&'static str> {
        if model.architecture() == "Qwen2ForProcessRewardModel" {
            return Ok("qwen2.5-math-prm");
        }
        match model.any_head() {
            None => Ok("plain"),
            Some(Head::Value { .. }) => Ok("skywork-prm"),
            Some(Head::Classes { inner: Some(_), .. }) => Ok("qwen2.5-math-prm"),
            Some(Head::Classes { inner: None, .. }) => Err(Error::request(
                "the model has a class head and does not say which profile it was trained with: name it with --profile \
                 (gradus, trl or a .toml file)",
            )),
        }
    }

    /// The profile as far as it determines scores, which do not depend on what is decided by them.
    pub fn for_scores(&self) -> Self {
        Self { decision: DecisionRule::default(), exact_checks: false, ..self.clone() }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let profile: Self =
            toml::from_str(text).map_err(|error| format!("not a profile: {}", error.message()))?;
        if let Some(Calibration { temperature, prior, characters }) = profile.calibration
            && ![temperature, prior, characters].iter().all(|number| number.is_finite() && *number > 0.0)
        {
            return Err("`temperature`, `prior` and `characters` in [calibration] must be above 0".to_owned());
        }
        profile.decision.check()?;
        if let Input::Tagged(tagged) = &profile.input {
            let Tagged { system, user, opening, closing, role, before, .. } = tagged;
            let unused = if tagged.chat {
                !before.is_empty() || tagged.separate
            } else {
                role != "assistant" || [system, user, opening, closing].iter().any(|text| !text.is_empty())
            };
            if unused {
                let words = if tagged.chat {
                    "`before` and `separate` need"
                } else {
                    "`system`, `user`, `role`, `opening` and `closing` need"
                };
                return Err(format!("{words} chat = {}", !tagged.chat));
            }
        }
        Ok(profile)
    }
}

/// The lines of a profile without its decision: the table, or keys before the first table.
fn without_decision(text: &str) -> String {
    let (mut top, mut inside) = (true, false);
    let other = text.lines().filter(|line| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            top = false;
            inside = header.split(']').next().is_some_and(|name| name.trim() == "decision");
        }
        let key = line.split(['=', '.']).next().unwrap_or_default().trim();
        let is_decision = inside || top && key == "decision" && line.contains('=');
        !is_decision
    });
    other.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_parse_and_have_their_own_names() {
        let names: std::collections::BTreeSet<String> =
            Profile::built_in().into_iter().map(|profile| profile.name).collect();
        assert_eq!(names.len(), BUILT_IN.len());
    }

    #[test]
    fn a_calibration_needs_sizes() {
        let profile = |calibration: &str| {
            let text = "name='x'\ndescription=''\n[input]\nkind='tagged'\nstep='{{ step }}'\ntag='t'\n[score]\nkind='value'\n[calibration]\n";
            Profile::parse(&format!("{text}{calibration}"))
        };
        assert!(profile("temperature=2\nprior=1\ncharacters=100").unwrap().calibration.is_some());
        assert!(profile("temperature=0\nprior=1\ncharacters=100").unwrap_err().contains("above 0"));
    }

    #[test]
    fn a_decision_rule_has_its_own_number() {
        let profile = |decision: &str| {
            let text = "name='x'\ndescription=''\n[input]\nkind='tagged'\nstep='{{ step }}'\ntag='t'\n[score]\nkind='value'\n";
            Profile::parse(&format!("{text}{decision}"))
        };
        assert_eq!(profile("").unwrap().decision, DecisionRule::Threshold { threshold: 0.5 });
        let posterior = profile("[decision]\nrule='posterior'\nprior=2").unwrap();
        assert_eq!(posterior.decision, DecisionRule::Posterior { prior: 2.0 });
        assert_eq!(posterior.for_scores(), profile("").unwrap());
        assert!(profile("[decision]\nrule='posterior'\nprior=0").unwrap_err().contains("above 0"));
        assert!(
            profile("[decision]\nrule='posterior'\nthreshold=0.5").unwrap_err().contains("unknown field")
        );
        for rule in [posterior.decision, DecisionRule::Threshold { threshold: 0.35 }] {
            let root = tempfile::tempdir().unwrap();
            let own = root.path().join("own.toml");
            for name in ["gradus".to_owned(), own.display().to_string()] {
                std::fs::write(&own, Profile::text_with(&name, rule).unwrap()).unwrap();
                let found = Profile::find(&own.display().to_string()).unwrap();
                assert_eq!(found, Profile { decision: rule, ..Profile::find("gradus").unwrap() });
            }
        }
        assert!(profile("[decision]\nrule='best'").unwrap_err().contains("unknown variant"));
    }

    #[test]
    fn a_decision_is_replaced_however_it_is_written() {
        let root = tempfile::tempdir().unwrap();
        let (own, new) = (root.path().join("own.toml"), root.path().join("new.toml"));
        let rule = DecisionRule::Posterior { prior: 2.0 };
        let top = "name='x'\ndescription=''\n";
        let rest = "[input]\nkind='tagged'\nstep='{{ step }}'\ntag='t'\n[score]\nkind='value'\n";
        for text in [
            format!("{top}decision = {{ rule = 'threshold', threshold = 0.3 }} # by hand\n{rest}"),
            format!("{top}decision.rule = 'threshold'\ndecision.threshold = 0.3\n{rest}"),
            format!("{top}{rest}[decision] # by hand\nrule = 'threshold'\nthreshold = 0.3\n"),
            format!("{top}  [ decision ]\n  rule = 'threshold'\n  threshold = 0.3\n{rest}"),
        ] {
            std::fs::write(&own, &text).unwrap();
            std::fs::write(&new, Profile::text_with(&own.display().to_string(), rule).unwrap()).unwrap();
            let find = |path: &Path| Profile::find(&path.display().to_string()).unwrap();
            assert_eq!(find(&own).decision, DecisionRule::Threshold { threshold: 0.3 }, "{text}");
            assert_eq!(find(&new), Profile { decision: rule, ..find(&own) }, "{text}");
        }
        std::fs::write(&own, format!("{top}decision = {{\n  rule = 'posterior',\n  prior = 3\n}}\n{rest}"))
            .unwrap();
        let own = own.display().to_string();
        assert!(Profile::find(&own).is_err() || Profile::text_with(&own, rule).is_err());
    }

    #[test]
    fn a_setting_without_effect_is_refused() {
        let text = "name='x'\ndescription=''\n[input]\nkind='tagged'\nsystem='s'\nstep='{{ step }}'\ntag='t'\n[score]\nkind='value'";
        assert_eq!(
            Profile::parse(text).unwrap_err(),
            "`system`, `user`, `role`, `opening` and `closing` need chat = true"
        );
        let text = text.replace("system='s'", "colour='s'");
        assert!(Profile::parse(&text).unwrap_err().contains("unknown field `colour`"));
    }
}
