//! What people answer about steps in a labeling tool (Label Studio, Argilla), told by the names of the questions.
//!
//! | question | answer |
//! |---|---|
//! | `mark_N` (or `label_N`, `rating_N`) | a verdict on step N in words (`+`, `0`, `-`, `correct`, …), or 1 to 3 stars: wrong, neutral, right |
//! | `category_N` | error categories of step N |
//! | `comment_N` | a text about step N |
//! | `first_error` | the index of the first wrong step, or `none` |
//!
//! N counts as the steps do. Other questions are not about steps and stay where they are.

use serde_json::Value;

use super::fields::expected;
use gradus_core::{Annotation, Evidence, Fault, FirstError, LabelSource, Mark, StepLabel};

/// One person's, or one model's, answers about the steps of a solution.
#[derive(Default)]
pub(super) struct StepAnswers {
    /// The number of the first step in the names of questions.
    first: usize,
    marks: Vec<Option<Mark>>,
    evidence: Vec<Evidence>,
    first_error: Option<FirstError>,
}

/// What a question asks.
enum Question {
    Mark(usize),
    Category(usize),
    Comment(usize),
    FirstError,
}

impl StepAnswers {
    /// No answers yet about `steps` steps, whose numbers begin with `first`.
    pub(super) fn new(steps: usize, first: usize) -> Self {
        let evidence = vec![Evidence::default(); steps];
        Self { first, marks: vec![None; steps], evidence, first_error: None }
    }

    /// Takes the answer to a question. One that is not about steps is ignored.
    pub(super) fn take(&mut self, name: &str, value: &Value) -> Result<(), Fault> {
        let at = |message| Fault::new(name, message);
        match question(name) {
            None => {}
            Some(Question::Mark(number)) => self.mark(number, value).map_err(at)?,
            Some(Question::Category(number)) => {
                let step = self.step(number).map_err(at)?;
                self.evidence[step].errors.extend(texts(value).map_err(at)?);
            }
            Some(Question::Comment(number)) => {
                let step = self.step(number).map_err(at)?;
                self.evidence[step].explanation = texts(value).map_err(at)?.join("\n");
            }
            Some(Question::FirstError) => self.first_error = Some(self.first_error(value).map_err(at)?),
        }
        Ok(())
    }

    /// Takes the verdict on the step of that number.
    pub(super) fn mark(&mut self, number: usize, value: &Value) -> Result<(), String> {
        let step = self.step(number)?;
        self.marks[step] = Some(mark(value)?);
        Ok(())
    }

    fn step(&self, number: usize) -> Result<usize, String> {
        let step = number.checked_sub(self.first).filter(|step| *step < self.marks.len());
        step.ok_or_else(|| format!("is about step {number}, but there are {}", self.marks.len()))
    }

    fn first_error(&self, value: &Value) -> Result<FirstError, String> {
        let found = match value {
            Value::Number(number) => number.to_string(),
            other => texts(other)?.concat(),
        };
        match found.trim() {
            "none" => Ok(FirstError::None),
            "" | "unknown" => Ok(FirstError::Unknown),
            number => match number.parse() {
                Ok(number) => self.step(number).map(FirstError::At),
                Err(_) => Err(expected("the number of a step, none or unknown", value)),
            },
        }
    }

    /// The labels; none where nothing was answered. Where only the first error is said, the steps before it are right.
    pub(super) fn annotation(self, source: &LabelSource) -> Option<Annotation> {
        let Self { marks, evidence, first_error, .. } = self;
        if first_error.is_none() && marks.iter().all(Option::is_none) {
            return None;
        }
        let implied = match first_error {
            Some(FirstError::At(step)) => {
                Annotation::from_first_error(marks.len(), Some(step), source).labels
            }
            Some(FirstError::None) => Annotation::from_first_error(marks.len(), None, source).labels,
            _ => vec![None; marks.len()],
        };
        let answers = marks.into_iter().zip(evidence).zip(implied);
        let labels = answers.map(|((mark, evidence), implied)| {
            let label = mark.map(|mark| StepLabel::hard(mark, source.clone())).or(implied)?;
            let evidence = (evidence != Evidence::default()).then_some(evidence);
            Some(StepLabel { evidence, ..label })
        });
        let found = Annotation::from_labels(labels.collect());
        Some(Annotation { first_error: first_error.unwrap_or(found.first_error), ..found })
    }
}

fn question(name: &str) -> Option<Question> {
    if name == "first_error" {
        return Some(Question::FirstError);
    }
    let (stem, number) = name.rsplit_once('_')?;
    let number = number.parse().ok()?;
    match stem {
        "mark" | "label" | "rating" => Some(Question::Mark(number)),
        "category" => Some(Question::Category(number)),
        "comment" => Some(Question::Comment(number)),
        _ => None,
    }
}

/// The texts of an answer: one, or a list.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(expected("a text", other)),
    };
    match value {
        Value::Array(items) => items.iter().map(one).collect(),
        other => one(other).map(|text| vec![text]),
    }
}

fn mark(value: &Value) -> Result<Mark, String> {
    let wrong = || expected("one of +, 0, -, correct, neutral, incorrect, or 1 to 3 stars", value);
    if let Value::Number(stars) = value {
        return match stars.as_i64() {
            Some(1) => Ok(Mark::Incorrect),
            Some(2) => Ok(Mark::Neutral),
            Some(3) => Ok(Mark::Correct),
            _ => Err(wrong()),
        };
    }
    let words = texts(value)?;
    let [word] = words.as_slice() else { return Err(wrong()) };
    match word.trim().to_lowercase().as_str() {
        "+" | "1" | "correct" | "right" | "good" | "positive" | "true" => Ok(Mark::Correct),
        "0" | "neutral" | "ok" | "okay" | "redundant" => Ok(Mark::Neutral),
        "-" | "−" | "-1" | "incorrect" | "wrong" | "bad" | "negative" | "false" => Ok(Mark::Incorrect),
        _ => Err(wrong()),
    }
}

/// How a verdict is written.
pub(super) fn word(mark: Mark) -> &'static str {
    match mark {
        Mark::Correct => "+",
        Mark::Neutral => "0",
        Mark::Incorrect => "-",
    }
}

/// The answers that an annotation stands for, question by question; `first` is the number of the first step.
pub(super) fn answers(annotation: &Annotation, first: usize) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    for (step, label) in (first..).zip(&annotation.labels) {
        let Some(label) = label else { continue };
        answers.push((format!("mark_{step}"), word(label.mark).into()));
        let Some(evidence) = &label.evidence else { continue };
        if !evidence.errors.is_empty() {
            answers.push((format!("category_{step}"), evidence.errors.clone().into()));
        }
        if !evidence.explanation.is_empty() {
            answers.push((format!("comment_{step}"), evidence.explanation.as_str().into()));
        }
    }
    if annotation.first_error != Annotation::from_labels(annotation.labels.clone()).first_error {
        let said = match annotation.first_error {
            FirstError::At(step) => (first + step).to_string(),
            FirstError::None => "none".to_owned(),
            FirstError::Unknown => "unknown".to_owned(),
        };
        answers.push(("first_error".to_owned(), said.into()));
    }
    answers
}

/// Whose answers are written as a person's: of labels that are to be believed.
pub(super) fn person(annotation: &Annotation) -> Option<Option<&str>> {
    let source = &annotation.labels.iter().flatten().next()?.source;
    match source {
        LabelSource::Person { name } => Some(Some(name)),
        _ if annotation.is_truth() => Some(None),
        _ => None,
    }
}

/// What a model is called in a labeling tool, where every model judges.
pub(super) fn model(annotation: &Annotation) -> String {
    let name = annotation.source_name();
    name.strip_prefix("judge ").map_or_else(|| name.clone(), str::to_owned)
}

/// The steps of a list of texts, or of objects with a text.
pub(super) fn steps_of(list: &Value, path: &str) -> Result<Vec<String>, Fault> {
    let Value::Array(items) = list else { return Err(Fault::new(path, expected("a list", list))) };
    if items.is_empty() {
        return Err(Fault::new(path, "there are no steps".to_owned()));
    }
    let text = |(index, item): (usize, &Value)| {
        let inner = ["text", "content"].iter().find_map(|key| item.get(key)).unwrap_or(item);
        let found = inner.as_str().map(str::to_owned);
        found.ok_or_else(|| Fault::new(format!("{path}[{index}]"), expected("a text or {\"text\": …}", item)))
    };
    items.iter().enumerate().map(text).collect()
}
