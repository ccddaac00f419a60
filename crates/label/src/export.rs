//! Finished labels as records of a format.
//!
//! Our format takes them all: an annotation per person, beside what the records came with. PRM800K and TRL take one label per
//! step, so the labels of several people are combined, and solutions that nobody has finished are left out. A combined
//! label has a mark for every step up to the first error: neutral where most people say so.

use std::collections::BTreeMap;
use std::str::FromStr;

use gradus_annotate::consensus::{self, FirstErrorVote};
use gradus_annotate::dawid_skene::{DawidSkene, SolutionVotes};
use gradus_annotate::ensemble::{Rule, combine};
use gradus_core::{Annotation, Mark, Record, Solution};
use gradus_data::readers::Format;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::state::State;
use crate::{Project, SolutionLabel, agreement};

/// Metadata key of a solution: comments on steps without a mark.
const COMMENTS: &str = "comments";

/// What an export is written as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// Ours: one annotation per person.
    #[default]
    Gradus,
    /// PRM800K as published.
    Prm800k,
    /// TRL's stepwise supervision.
    Trl,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "gradus" => Ok(Self::Gradus),
            "prm800k" => Ok(Self::Prm800k),
            "trl" => Ok(Self::Trl),
            _ => Err(format!("`{text}` is not one of gradus, prm800k, trl")),
        }
    }
}

/// How the labels of several people become one, where a format takes one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Combine {
    /// The most probable first error after Dawid and Skene.
    #[default]
    DawidSkene,
    /// The first step that more than half of them call wrong.
    Majority,
}

impl FromStr for Combine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dawid-skene" | "dawid_skene" => Ok(Self::DawidSkene),
            "majority" => Ok(Self::Majority),
            _ => Err(format!("`{text}` is not one of dawid-skene, majority")),
        }
    }
}

/// An export.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exported {
    /// Records of the format.
    pub rows: Vec<Value>,
    /// Solutions with a finished label.
    pub labeled: usize,
    /// What is left out: solutions by reason, parts that the format has no place for by name.
    pub dropped: BTreeMap<&'static str, usize>,
    /// Solutions whose steps after the first error were left out, because the format wants a label for every step.
    pub cut: usize,
}

impl Exported {
    /// As JSON Lines.
    pub fn to_json_lines(&self) -> String {
        self.rows.iter().map(|row| format!("{row}\n")).collect()
    }
}

pub(crate) fn export(project: &Project, state: &State, format: ExportFormat, combine: Combine) -> Exported {
    match format {
        ExportFormat::Gradus => all_labels(project, state),
        ExportFormat::Prm800k => one_label(project, state, Format::Prm800k, combine),
        ExportFormat::Trl => one_label(project, state, Format::Trl, combine),
    }
}

fn all_labels(project: &Project, state: &State) -> Exported {
    let mut exported = Exported::default();
    let mut records = project.records.clone();
    for (item, (record, solution)) in project.places().iter().enumerate() {
        let solution = &mut records[*record].solutions[*solution];
        let mut loose = Vec::new();
        let mut labeled = false;
        for (name, label) in state.finished(item) {
            labeled = true;
            solution.annotations.push(label.annotation(name));
            let comments = label.loose_comments();
            loose.extend(comments.map(|(step, text)| json!({"person": name, "step": step, "text": text})));
        }
        exported.labeled += usize::from(labeled);
        if !loose.is_empty() {
            solution.metadata.insert(COMMENTS.to_owned(), loose.into());
        }
    }
    let row = |record: &Record| serde_json::to_value(record).expect("a record serializes to JSON");
    exported.rows = records.iter().map(row).collect();
    exported
}

fn one_label(project: &Project, state: &State, format: Format, combine: Combine) -> Exported {
    let names: Vec<&str> = state.people().collect();
    let votes: BTreeMap<usize, SolutionVotes> =
        agreement::votes(project, state, &names).into_iter().collect();
    let all: Vec<SolutionVotes> = votes.values().cloned().collect();
    let model = DawidSkene::fit(&all, names.len());
    let mut exported = Exported::default();
    for (item, place) in project.places().iter().enumerate() {
        let record = &project.records[place.0];
        let solution = &record.solutions[place.1];
        let labels: Vec<(&str, &SolutionLabel)> = state.finished(item).collect();
        let Some(votes) = votes.get(&item).filter(|_| !labels.is_empty()) else {
            *exported.dropped.entry("nobody has finished it").or_default() += 1;
            continue;
        };
        let Some(annotation) = combined(&labels, votes, model.as_ref(), combine) else {
            *exported.dropped.entry("the first error is unknown").or_default() += 1;
            continue;
        };
        exported.labeled += 1;
        let solution = Solution { annotations: vec![annotation], ..solution.clone() };
        let written = format.write(&Record::new(record.problem.clone(), vec![solution]));
        for (what, count) in written.omitted() {
            *exported.dropped.entry(what).or_default() += count;
        }
        exported.rows.extend(written.rows);
        exported.cut += written.cut;
    }
    exported
}

/// One annotation of several: a single person's is taken as it is.
fn combined(
    labels: &[(&str, &SolutionLabel)],
    votes: &SolutionVotes,
    model: Option<&DawidSkene>,
    rule: Combine,
) -> Option<Annotation> {
    if let [(name, label)] = labels {
        return Some(label.annotation(name));
    }
    let first_error: FirstErrorVote = match rule {
        Combine::Majority => combine(Rule::Majority, &votes.votes),
        Combine::DawidSkene => model?.estimate(votes).map(|estimate| estimate.first_error),
    };
    let names: Vec<String> = labels.iter().map(|(name, _)| format!("human {name}")).collect();
    let mut annotation = consensus::annotation(votes.steps, first_error?, &names, &[]);
    for (step, found) in annotation.labels.iter_mut().enumerate() {
        let Some(found) = found.as_mut().filter(|found| found.mark == Mark::Correct) else { continue };
        let marks = labels.iter().filter_map(|(_, label)| label.marks[step]);
        let (neutral, all) = marks
            .fold((0, 0), |(neutral, all), mark| (neutral + usize::from(mark == Mark::Neutral), all + 1));
        if 2 * neutral > all {
            found.mark = Mark::Neutral;
        }
    }
    Some(annotation)
}
