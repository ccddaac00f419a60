//! Judge labels: a model reviews the solution and gives the index of the first wrong paragraph in `\boxed{}`, −1 for none
//! (ProcessBench's critic protocol).
//!
//! With several votes the index that most of them give wins; where two are equally frequent, and where no vote can be read,
//! the solution is undecided.

use std::collections::BTreeMap;

use gradus_core::contracts::{CallError, FinishReason, Generate, GenerateRequest, Message, Prompt, Sampling};
use gradus_core::{Annotation, LabelSource, Problem, Solution};
use gradus_grade::{Found, extract};
use minijinja::context;
use serde::{Deserialize, Serialize};

use crate::annotated::{Annotated, refused};
use crate::error::{Error, Result};
use crate::metered_model::MeteredModel;
use crate::prompt::Template;
use crate::seed::seed_of;

/// How a judge is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeConfig {
    /// Independent reviews.
    pub votes: usize,
    /// Maximum tokens per review.
    pub max_tokens: usize,
    /// Sampling parameters.
    pub sampling: Sampling,
    /// Random seed.
    pub seed: u64,
}

impl Default for JudgeConfig {
    fn default() -> Self {
        let sampling = Sampling { temperature: 0.0, ..Sampling::default() };
        Self { votes: 1, max_tokens: 2048, sampling, seed: 0 }
    }
}

impl JudgeConfig {
    /// Validates the settings.
    pub fn check(&self) -> Result<()> {
        let refuse = |field, message: &str| Err(Error::Setting { field, message: message.to_owned() });
        if self.votes == 0 {
            return refuse("votes", "is 0: expected at least 1");
        }
        if self.votes > 1 && self.sampling.temperature == 0.0 {
            return refuse("temperature", "is 0: all votes would be the same");
        }
        Ok(())
    }
}

/// Who is asked, and how: the model's name stands in the labels.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// The model.
    pub model: &'a dyn Generate,
    /// Its name.
    pub name: &'a str,
    /// The prompt.
    pub template: &'a Template,
    /// A system message.
    pub system: Option<&'a str>,
}

/// Refuses a prompt that asks for something else than a problem and its paragraphs.
pub fn check_template(template: &Template) -> Result<()> {
    template.render(context! { problem => "1 + 1?", tagged => tagged(&["1 + 1 = 2".to_owned()]) }).map(drop)
}

/// A vote that could be read: `None` is 'no error'.
type Vote = Option<usize>;

/// Labels the steps of one solution.
pub async fn annotate(
    judge: Judge<'_>,
    problem: &Problem,
    solution: &Solution,
    config: &JudgeConfig,
) -> std::result::Result<Annotated, CallError> {
    let invalid = |error: Error| CallError::Invalid(error.to_string());
    config.check().map_err(invalid)?;
    if let Some(refused) = refused(None, solution) {
        return Ok(refused);
    }
    let said = judge
        .template
        .render(context! { problem => problem.question(), tagged => tagged(&solution.steps) })
        .map_err(invalid)?;
    let system = judge.system.map(|system| Message::new("system", system));
    let messages = system.into_iter().chain([Message::new("user", said)]).collect();
    let mut model = MeteredModel::new(judge.model);
    let answer = model
        .generate(GenerateRequest {
            n: config.votes,
            sampling: config.sampling.clone(),
            seed: seed_of(config.seed, &[&problem.id, &solution.id]),
            ..GenerateRequest::new(Prompt::Chat(messages), config.max_tokens)
        })
        .await?;
    let steps = solution.steps.len();
    let mut votes: BTreeMap<Vote, u32> = BTreeMap::new();
    let mut notes: BTreeMap<String, u64> = BTreeMap::new();
    for choice in &answer.choices {
        match read(&choice.text, steps, choice.finish == FinishReason::Length) {
            Ok(vote) => *votes.entry(vote).or_default() += 1,
            Err(reason) => *notes.entry(reason.to_owned()).or_default() += 1,
        }
    }
    let cost = model.cost;
    let said = || answer.choices.iter().map(|choice| choice.text.clone()).collect();
    let most = votes.values().copied().max().unwrap_or(0);
    let winners: Vec<Vote> =
        votes.iter().filter(|(_, count)| **count == most).map(|(vote, _)| *vote).collect();
    match winners[..] {
        [winner] => {
            let source = LabelSource::Judge {
                model: judge.name.to_owned(),
                agreeing: most,
                votes: config.votes as u32,
            };
            let mut annotation = Annotation::from_first_error(steps, winner, &source);
            annotation.cost = Some(cost.clone());
            Ok(Annotated { annotation: Some(annotation), undecided: None, cost, notes })
        }
        [] => {
            let reason = notes.keys().next().map_or("nothing was written", String::as_str).to_owned();
            Ok(Annotated { notes, ..Annotated::undecided(&reason, said(), cost) })
        }
        _ => Ok(Annotated { notes, ..Annotated::undecided("the votes are tied", said(), cost) }),
    }
}

/// `<paragraph_0>` … as ProcessBench writes it.
fn tagged(steps: &[String]) -> String {
    let paragraphs: Vec<String> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| format!("<paragraph_{index}>\n{step}\n</paragraph_{index}>"))
        .collect();
    paragraphs.join("\n\n")
}

/// The index in the last box: −1 is none.
fn read(text: &str, steps: usize, cut: bool) -> std::result::Result<Option<usize>, &'static str> {
    let boxed = extract(text).filter(|found| found.found == Found::Boxed);
    let Some(found) = boxed else {
        return Err(if cut { "cut off before an index" } else { "no index in \\boxed{}" });
    };
    let inside = found.answer.trim().trim_start_matches("paragraph_").trim_start_matches("paragraph\\_");
    match inside.replace('−', "-").parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(index) if (0..steps as i64).contains(&index) => Ok(Some(index as usize)),
        Ok(_) => Err("an index that no paragraph has"),
        Err(_) => Err("no number in \\boxed{}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::FirstError;
    use gradus_llm::Scripted;

    fn solution() -> (Problem, Solution) {
        let problem = Problem { id: "p".into(), text: "What is 1 + 2 + 3?".into(), ..Problem::default() };
        let steps = vec!["1 + 2 = 3".to_owned(), "3 + 3 = 7".to_owned(), "So it is 7.".to_owned()];
        (problem, Solution { id: "s".into(), steps, ..Solution::default() })
    }

    async fn ask(model: &Scripted, votes: usize) -> Annotated {
        let (problem, solution) = solution();
        let template = Template::judge();
        let judge = Judge { model, name: "m", template: &template, system: None };
        let sampling = Sampling { temperature: 0.7, ..Sampling::default() };
        let config = JudgeConfig { votes, sampling, ..JudgeConfig::default() };
        annotate(judge, &problem, &solution, &config).await.unwrap()
    }

    #[tokio::test]
    async fn votes_are_counted() {
        let model =
            Scripted::new().then("\\boxed{1}").then("I think \\boxed{1}").then("\\boxed{-1}").then("hm");
        let found = ask(&model, 4).await;
        let annotation = found.annotation.unwrap();
        assert_eq!(annotation.first_error, FirstError::At(1));
        let source = LabelSource::Judge { model: "m".into(), agreeing: 2, votes: 4 };
        assert_eq!(annotation.labels[0].as_ref().unwrap().source, source);
        assert_eq!(annotation.labels[2], None);
        assert_eq!(found.notes["no index in \\boxed{}"], 1);
        // Words count as tokens: the prompt once, the four samples one, three, one and one.
        let words = |text: &str| text.split_whitespace().count() as u64;
        let gradus_core::contracts::Prompt::Chat(asked) = &model.generated()[0].prompt else {
            panic!("a chat")
        };
        assert_eq!(asked[0].content.matches("<paragraph_1>").count(), 1);
        assert_eq!((found.cost.requests, found.cost.completion_tokens), (1, 6));
        assert_eq!(found.cost.prompt_tokens, words(&asked[0].content));
    }

    #[tokio::test]
    async fn what_cannot_be_read_or_is_tied_is_undecided_and_kept() {
        let tied = ask(&Scripted::new().then("\\boxed{0}").then("\\boxed{-1}"), 2).await;
        let undecided = tied.undecided.unwrap();
        assert_eq!((undecided.reason.as_str(), undecided.said.len()), ("the votes are tied", 2));
        let beyond = ask(&Scripted::new().then("\\boxed{3}"), 1).await;
        assert_eq!(beyond.undecided.unwrap().reason, "an index that no paragraph has");
        assert_eq!((beyond.annotation, beyond.cost.requests), (None, 1));
    }

    #[test]
    fn indices_are_read_leniently_but_not_guessed() {
        assert_eq!(read("Paragraph 2 adds wrongly. \\boxed{2}", 4, false), Ok(Some(2)));
        assert_eq!(read("All is well: \\boxed{-1}", 4, false), Ok(None));
        assert!(read("\\boxed{7}", 4, false).is_err());
        assert_eq!(read("so $\\boxed{paragraph_1}$", 3, false), Ok(Some(1)));
        assert_eq!(read("\\boxed{\u{2212}1}", 3, false), Ok(None));
        assert_eq!(read("first \\boxed{0}, no: \\boxed{2}", 3, false), Ok(Some(2)));
        assert_eq!(read("The error is in paragraph 1.", 3, false), Err("no index in \\boxed{}"));
        assert_eq!(read("Paragraph 0 is", 3, true), Err("cut off before an index"));
        assert_eq!(read("\\boxed{none}", 3, false), Err("no number in \\boxed{}"));
        assert_eq!(read("\\boxed{-2}", 3, false), Err("an index that no paragraph has"));
    }
}
