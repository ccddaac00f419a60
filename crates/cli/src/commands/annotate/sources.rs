//! Annotators that stand in data: labels of several files, and reward models' scores, solution by solution.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Result, bail};
use gradus_annotate::report::{Panel, PanelRow};
use gradus_core::metrics::process::first_error;
use gradus_core::{Annotation, LabelSource, Record, Solution};

use crate::args::OnError;
use crate::args::annotate::Sources;
use crate::commands::Usage;
use crate::input;

/// The solutions of all inputs and who says what about them.
pub(super) struct Gathered {
    /// The records of the inputs; a solution that stands in several is one.
    pub(super) records: Vec<Record>,
    /// Rows in the order of the solutions of `records`.
    pub(super) panel: Panel,
}

/// A solution's place in the records, and what is said about it by whom.
type Said = Vec<(String, Annotation)>;

/// Reads everything.
pub(super) fn gather(sources: &Sources) -> Result<Gathered> {
    let mut records: Vec<Record> = Vec::new();
    let mut problems: HashMap<String, usize> = HashMap::new();
    let mut solutions: HashMap<(usize, String), usize> = HashMap::new();
    let mut said: Vec<Vec<Said>> = Vec::new();
    let several = sources.inputs.len() > 1;
    for path in &sources.inputs {
        let stem = stem(path);
        input::read(std::slice::from_ref(path), None, OnError::Fail, &mut |item| {
            let Record { problem, solutions: found, .. } = item.record;
            let place = *problems.entry(problem.id.clone()).or_insert_with(|| {
                records.push(Record::new(problem, Vec::new()));
                said.push(Vec::new());
                records.len() - 1
            });
            for mut solution in found {
                let annotations = std::mem::take(&mut solution.annotations);
                let known = solutions.entry((place, solution.id.clone())).or_insert_with(|| {
                    records[place].solutions.push(solution.clone());
                    said[place].push(Vec::new());
                    records[place].solutions.len() - 1
                });
                let kept = &mut records[place].solutions[*known];
                if kept.steps != solution.steps {
                    bail!(
                        "{}: solution {} has other steps than in a file before it: label the same solutions",
                        path.display(),
                        solution.id
                    );
                }
                let said = &mut said[place][*known];
                for annotation in annotations {
                    match annotation.annotator() {
                        Some(name) => said.push((unique(said, name, &stem), annotation)),
                        None if kept.annotations.contains(&annotation) => {}
                        None => kept.annotations.push(annotation),
                    }
                }
                said.extend(from_scores(&solution, &sources.from_scores, &stem, several));
            }
            Ok(())
        })?;
    }
    let names: BTreeSet<String> = said.iter().flatten().flatten().map(|(name, _)| name.clone()).collect();
    let names: Vec<String> = if sources.only.is_empty() {
        names.into_iter().collect()
    } else {
        if let Some(unknown) = sources.only.iter().find(|name| !names.contains(*name)) {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            bail!(Usage(format!(
                "--only {unknown}: there is no such annotator; there are {}",
                known.join(", ")
            )));
        }
        sources.only.clone()
    };
    if names.is_empty() {
        bail!("no solution has labels of a model; annotate the data, or take scores with --from-scores");
    }
    let rows = records.iter().zip(&said).flat_map(|(record, said)| {
        record.solutions.iter().zip(said).map(|(solution, said)| {
            let of =
                |name: &String| said.iter().find(|(other, _)| other == name).map(|(_, found)| found.clone());
            PanelRow {
                problem: record.problem.id.clone(),
                steps: solution.steps.len(),
                outcome: solution.outcome,
                truth: solution.truth().cloned(),
                annotations: names.iter().map(of).collect(),
            }
        })
    });
    let rows = rows.collect();
    Ok(Gathered { panel: Panel { names, rows }, records })
}

/// A name that the solution has no labels under yet.
fn unique(said: &Said, name: String, stem: &str) -> String {
    if said.iter().any(|(other, _)| *other == name) { format!("{name} ({stem})") } else { name }
}

/// Labels by scores: the first step below the threshold is wrong.
fn from_scores(solution: &Solution, wanted: &[(String, f64)], stem: &str, several: bool) -> Said {
    let mut said = Said::new();
    for (name, scores) in &solution.scores {
        let chosen = wanted
            .iter()
            .find(|(wanted, _)| wanted == name)
            .or_else(|| wanted.iter().find(|(all, _)| all == "*"));
        let Some((_, threshold)) = chosen else { continue };
        if scores.len() != solution.steps.len() || scores.is_empty() {
            continue;
        }
        let source = LabelSource::Prm { model: name.clone() };
        let found = Annotation::from_first_error(scores.len(), first_error(scores, *threshold), &source);
        let name = source.annotator().unwrap_or_default();
        said.push((if several { format!("{name} ({stem})") } else { name }, found));
    }
    said
}

fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.split('.').next().unwrap_or_default().to_owned()
}
