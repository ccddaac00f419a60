//! What the model is shown before it is asked: instructions that hold for every case, those of the domain, and
//! worked exemplars, in files under `prompts/reference/`.
//!
//! ```toml
//! instructions = "What is particular to this domain."
//! [[exemplars]]
//! name = "composite-step"
//! question = "…"
//! context = ["…"]
//! reference = ["…", "…"]
//! solution = ["…"]
//! [[exemplars.steps]]
//! explanation = "…"
//! context = [1]           # numbers from 1 on, as the ids C1, O1, R1 have them
//! outputs = []
//! references = [1, 2]
//! errors = []
//! label = 1
//! ```

use std::path::Path;

use gradus_core::Domain;
use gradus_core::contracts::Message;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::answer;
use super::case::Case;
use crate::error::{Error, Result};

/// A worked case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exemplar {
    /// What it shows.
    pub name: String,
    question: String,
    #[serde(default)]
    context: Vec<String>,
    reference: Vec<String>,
    solution: Vec<String>,
    steps: Vec<LabeledStep>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LabeledStep {
    explanation: String,
    #[serde(default)]
    context: Vec<usize>,
    #[serde(default)]
    outputs: Vec<usize>,
    #[serde(default)]
    references: Vec<usize>,
    #[serde(default)]
    errors: Vec<String>,
    label: i64,
}

impl Exemplar {
    pub(super) fn case(&self) -> Case {
        Case {
            question: self.question.clone(),
            context: self.context.clone(),
            reference: self.reference.clone(),
            solution: self.solution.clone(),
        }
    }

    /// Whether every step is right.
    pub(super) fn is_right(&self) -> bool {
        self.steps.iter().all(|step| step.label == 1)
    }

    /// The answer that is expected.
    pub(super) fn answer(&self) -> String {
        let ids = |letter: char, numbers: &[usize]| -> Vec<String> {
            numbers.iter().map(|number| format!("{letter}{number}")).collect()
        };
        let entries: Vec<String> = self
            .steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let entry = json!({
                    "explanation": step.explanation,
                    "context": ids('C', &step.context),
                    "outputs": ids('O', &step.outputs),
                    "references": ids('R', &step.references),
                    "errors": step.errors,
                    "label": step.label,
                });
                format!("\"{}\": {entry}", answer::id(index))
            })
            .collect();
        format!("{{\n{}\n}}", entries.join(",\n"))
    }

    /// An exemplar that breaks the rules it teaches is worse than none.
    fn check(&self) -> std::result::Result<(), String> {
        let read = answer::read(&self.answer(), &self.case());
        read.map(drop).map_err(|unusable| format!("exemplar `{}`: {unusable}", self.name))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainFile {
    instructions: String,
    exemplars: Vec<Exemplar>,
}

/// Instructions and exemplars of all domains.
#[derive(Debug, Clone)]
pub struct Guide {
    system: String,
    math: DomainFile,
    qa: DomainFile,
    spatial: DomainFile,
    /// A user's own, for every domain.
    own: Option<DomainFile>,
}

impl Guide {
    /// What ships.
    pub fn built_in() -> Self {
        let read = |name, text| domain(name, text).expect("the exemplars that ship are right");
        Self {
            system: include_str!("../../prompts/reference/system.md").trim().to_owned(),
            math: read("math.toml", include_str!("../../prompts/reference/math.toml")),
            qa: read("qa.toml", include_str!("../../prompts/reference/qa.toml")),
            spatial: read("spatial.toml", include_str!("../../prompts/reference/spatial.toml")),
            own: None,
        }
    }

    /// With a user's own instructions and exemplars in place of those that ship.
    pub fn with_exemplars(mut self, path: &Path) -> Result<Self> {
        self.own = Some(domain(&path.display().to_string(), &text(path)?)?);
        Ok(self)
    }

    /// With a user's own general instructions.
    pub fn with_system(mut self, path: &Path) -> Result<Self> {
        self.system = text(path)?.trim().to_owned();
        Ok(self)
    }

    /// The exemplars of a domain.
    #[cfg(test)]
    pub(super) fn exemplars(&self, domain: Domain) -> &[Exemplar] {
        &self.of(domain).exemplars
    }

    /// All that it says, which is part of what determines labels.
    pub fn text(&self) -> String {
        let files = [Some(&self.math), Some(&self.qa), Some(&self.spatial), self.own.as_ref()];
        let files = files.into_iter().flatten().map(|file| {
            let both = |exemplar: &Exemplar| [exemplar.case().written(), exemplar.answer()];
            let exemplars: Vec<String> = file.exemplars.iter().flat_map(both).collect();
            format!("{}\n{}", file.instructions, exemplars.join("\n"))
        });
        files.fold(self.system.clone(), |all, file| all + "\n" + &file)
    }

    fn of(&self, domain: Domain) -> &DomainFile {
        self.own.as_ref().unwrap_or(match domain {
            Domain::Math | Domain::Other => &self.math,
            Domain::Qa => &self.qa,
            Domain::Spatial => &self.spatial,
        })
    }

    /// The conversation that ends with `case`.
    pub(super) fn messages(&self, domain: Domain, case: &Case, count: usize, seed: u64) -> Vec<Message> {
        let file = self.of(domain);
        let mut messages =
            vec![Message::new("system", format!("{}\n\n{}", self.system, file.instructions.trim()))];
        for exemplar in draw(&file.exemplars, case, count, seed) {
            messages.push(Message::new("user", exemplar.case().written()));
            messages.push(Message::new("assistant", exemplar.answer()));
        }
        messages.push(Message::new("user", case.written()));
        messages
    }
}

/// `count` exemplars in random order, of both kinds where there are two or more, and never the case itself.
fn draw<'a>(all: &'a [Exemplar], case: &Case, count: usize, seed: u64) -> Vec<&'a Exemplar> {
    let same = |a: &str, b: &str| a.split_whitespace().eq(b.split_whitespace());
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn: Vec<&Exemplar> =
        all.iter().filter(|exemplar| !same(&exemplar.question, &case.question)).collect();
    drawn.shuffle(&mut random);
    let count = count.min(drawn.len());
    if count >= 2 {
        for right in [true, false] {
            let missing = drawn[..count].iter().all(|exemplar| exemplar.is_right() != right);
            let other = drawn[count..].iter().position(|exemplar| exemplar.is_right() == right);
            if let (true, Some(other)) = (missing, other) {
                drawn.swap(count - 1, count + other);
            }
        }
    }
    drawn.truncate(count);
    drawn
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn domain(name: &str, text: &str) -> Result<DomainFile> {
    let refuse = |message: String| Error::Prompt { file: name.to_owned(), message };
    let file: DomainFile = toml::from_str(text).map_err(|error| refuse(error.message().to_owned()))?;
    for exemplar in &file.exemplars {
        exemplar.check().map_err(refuse)?;
    }
    Ok(file)
}
