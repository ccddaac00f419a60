//! Scores of steps: assembled solutions through the model in one pass, verdicts at the positions that the profile names.

use std::hash::{DefaultHasher, Hash, Hasher};

use candle_core::Tensor;
use gradus_core::contracts::{ScoreRequest, StepScores, Usage};

use crate::batch::Forest;
use crate::join::{Joined, Place};
use crate::model::Model;
use crate::profile::{Assembled, Assembler, Score};
use crate::{Error, Result};

/// Scores solutions with one profile.
pub(crate) struct Scorer {
    assembler: Assembler,
    /// Whether prompts share tokens; off only to measure what sharing gives.
    pub(crate) packed: bool,
}

/// Solutions of one problem with their shared tokens.
pub(crate) struct Tree {
    pub(crate) forest: Forest,
    /// The problem with its references, as a number: trees with the same one are joined in a pass.
    pub(crate) problem: Option<u64>,
    /// Tokens of the forest. They are what the call is charged with, whatever else is in its pass.
    tokens: usize,
    solutions: Vec<Placed>,
}

/// A solution in a tree.
struct Placed {
    /// Index in the call.
    number: usize,
    /// Where each step's verdict is read.
    reads: Vec<(usize, usize)>,
    /// Each step's characters.
    lengths: Vec<usize>,
}

impl Tree {
    /// Indices in the call of the solutions it holds.
    pub(crate) fn solutions(&self) -> Vec<usize> {
        self.solutions.iter().map(|placed| placed.number).collect()
    }
}

impl Scorer {
    /// Prepares a profile for a model, and refuses one that the model cannot serve.
    pub(crate) fn new(assembler: Assembler, model: &Model) -> Result<Self> {
        match assembler.profile().score {
            Score::Tokens { .. } => drop(model.language_head()?),
            Score::Classes { positive } => {
                if let Some(classes) = model.head("class head")?.outputs()
                    && classes <= positive
                {
                    return Err(no_such_class(&assembler.profile().name, positive, classes));
                }
            }
            Score::Value => drop(model.head("value head")?),
        }
        let profile = assembler.profile();
        if profile.input.is_chat() && !model.tokenizer.has_template() {
            return Err(Error::request(format!(
                "profile `{}` writes conversations, and this model's tokenizer has no chat template that can be read: use \
                 an instruct model, or a profile that writes plain text",
                profile.name
            )));
        }
        Ok(Self { assembler, packed: true })
    }

    /// The tokens for right and wrong, when two tokens are compared.
    pub(crate) fn verdict_tokens(&self) -> Option<[u32; 2]> {
        self.assembler.verdict()
    }

    /// The separator's token, where the profile has one.
    pub(crate) fn tag(&self) -> Option<u32> {
        self.assembler.tag()
    }

    /// Writes solutions out and joins those of the same problem, given by their index in the call. A tree holds
    /// `budget` tokens at most, or one solution.
    pub(crate) fn trees(
        &self,
        requests: &[ScoreRequest],
        model: &Model,
        budget: usize,
    ) -> (Vec<Tree>, Vec<(usize, Error)>) {
        let mut trees: Vec<(&ScoreRequest, Tree)> = Vec::new();
        let mut failed = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            let assembled = match self.assembler.assemble(request, &model.tokenizer, model.context()) {
                Ok(assembled) => assembled,
                Err(error) => {
                    failed.push((number, error));
                    continue;
                }
            };
            let same = |other: &ScoreRequest| {
                other.problem == request.problem && other.references == request.references
            };
            // The last tree of a problem is the one with room.
            let known = trees.iter_mut().rev().find(|(other, _)| self.packed && same(other));
            let lengths = request.steps.iter().map(|step| step.chars().count()).collect();
            let mut placed = Placed { number, reads: Vec::new(), lengths };
            if let Some((_, tree)) = known {
                let before = tree.forest.nodes();
                placed.reads = self.insert(&mut tree.forest, &assembled);
                if tree.forest.tokens() <= budget {
                    tree.solutions.push(placed);
                    continue;
                }
                tree.forest.truncate(before);
            }
            let mut forest = Forest::default();
            placed.reads = self.insert(&mut forest, &assembled);
            let problem = self.packed.then(|| hash(&(&request.problem, &request.references)));
            trees.push((request, Tree { forest, problem, tokens: 0, solutions: vec![placed] }));
        }
        let trees = trees.into_iter().map(|(_, tree)| Tree { tokens: tree.forest.tokens(), ..tree });
        (trees.collect(), failed)
    }

    /// Where each step's verdict is read.
    fn insert(&self, forest: &mut Forest, assembled: &Assembled) -> Vec<(usize, usize)> {
        let mut reads: Vec<Vec<(usize, usize)>> = Vec::new();
        // The last prompt is the longest: the others branch off it.
        for (tokens, positions) in assembled.prompts.iter().rev() {
            if self.packed {
                let path = forest.insert(tokens);
                reads.push(positions.iter().map(|position| path.locate(*position)).collect());
            } else {
                let node = forest.root(tokens.clone());
                reads.push(positions.iter().map(|position| (node, *position)).collect());
            }
        }
        reads.into_iter().rev().flatten().collect()
    }

    /// One pass over several problems' trees, whose forests are `joined`; scores by the solution's index in the call.
    pub(crate) fn score(
        &self,
        trees: Vec<(Tree, Place)>,
        joined: &Joined,
        model: &Model,
    ) -> Result<Vec<(usize, StepScores)>> {
        let mut reads = Vec::new();
        let mut solutions = Vec::new();
        for (tree, place) in trees {
            // What a tree costs is divided evenly among its solutions, the rest to the first.
            let (tokens, count) = (tree.tokens, tree.solutions.len());
            for (position, placed) in tree.solutions.into_iter().enumerate() {
                reads.extend(placed.reads.iter().map(|(node, offset)| place.locate(*node, *offset)));
                let share = tokens / count + if position == 0 { tokens % count } else { 0 };
                solutions.push((placed.number, placed.lengths, share));
            }
        }
        let hidden = model.hidden(joined.forests(), &reads)?;
        let mut verdicts = self.verdicts(&hidden, model)?.into_iter();
        let calibration = self.assembler.profile().calibration;
        let scored = solutions.into_iter().map(|(number, lengths, tokens)| {
            let scores: Vec<f64> = verdicts.by_ref().take(lengths.len()).collect();
            let scores = match &calibration {
                Some(calibration) => calibration.apply(&scores, &lengths),
                None => scores,
            };
            let usage = Usage { prompt_tokens: tokens as u64, completion_tokens: 0 };
            (number, StepScores { scores, usage })
        });
        Ok(scored.collect())
    }

    /// One score per hidden state.
    fn verdicts(&self, hidden: &Tensor, model: &Model) -> Result<Vec<f64>> {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let scores: Vec<f64> = match &self.assembler.profile().score {
            Score::Tokens { .. } => {
                let tokens = self.assembler.verdict().expect("two tokens are looked up for this kind");
                let logits: Vec<Vec<f32>> = model.decoder()?.logits(hidden, Some(&tokens))?.to_vec2()?;
                // exp(l₊) / (exp(l₊) + exp(l₋))
                logits.iter().map(|pair| sigmoid(f64::from(pair[0]) - f64::from(pair[1]))).collect()
            }
            Score::Classes { positive } => {
                let logits: Vec<Vec<f32>> = model.head("class head")?.forward(hidden)?.to_vec2()?;
                let name = &self.assembler.profile().name;
                let share = |row: &Vec<f32>| {
                    probability(row, *positive).ok_or_else(|| no_such_class(name, *positive, row.len()))
                };
                logits.iter().map(share).collect::<Result<_>>()?
            }
            Score::Value => {
                let values: Vec<Vec<f32>> = model.head("value head")?.forward(hidden)?.to_vec2()?;
                values.iter().map(|row| sigmoid(f64::from(row[0]))).collect()
            }
        };
        match scores.iter().position(|score| !score.is_finite()) {
            None => Ok(scores),
            Some(_) => {
                Err(Error::request("the model gave a score that is not a number: its weights may be damaged"))
            }
        }
    }
}

/// A number for what is the same only together.
pub(crate) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn no_such_class(profile: &str, class: usize, classes: usize) -> Error {
    Error::request(format!(
        "profile `{profile}` reads class {class}, counted from 0, and the model's head has {classes} in all: use another profile"
    ))
}

/// The share of a class, if there is such a class.
fn probability(logits: &[f32], class: usize) -> Option<f64> {
    let wanted = logits.get(class)?;
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - wanted).exp()).sum();
    Some(1.0 / sum)
}
