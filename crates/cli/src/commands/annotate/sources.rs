//! Annotators in data: labels of several files and scores of reward models, per solution.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::report::{Panel, PanelRow};
use gradus_core::metrics::process::first_error;
use gradus_core::{Annotation, LabelSource, Record, Solution};
use gradus_data::files::{Sink, Target};

use crate::arguments::dataset::OnError;
use crate::exit::Usage;
use crate::input;

/// Annotators whose labels are in the data.
#[derive(Debug, Args)]
pub(crate) struct SourcesArgs {
    /// Labeled datasets; solutions are matched by id
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// Use reward model scores as an annotator: steps below the threshold are wrong; *:0.5 matches every model;
    /// repeatable
    #[arg(long, value_name = "NAME:THRESHOLD", value_parser = name_and_threshold)]
    from_scores: Vec<(String, f64)>,
    /// Use only these annotators, named as in `annotate report`; human, injected and unstated name labels that are
    /// otherwise taken as true; repeatable
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

fn name_and_threshold(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("`{text}` is not NAME:THRESHOLD, such as my-prm:0.5");
    let (name, threshold) = text.rsplit_once(':').ok_or_else(wrong)?;
    let threshold: f64 = threshold.parse().map_err(|_| wrong())?;
    if name.is_empty() || !(0.0..=1.0).contains(&threshold) {
        return Err(format!("`{text}`: expected a name and a threshold from 0 to 1"));
    }
    Ok((name.to_owned(), threshold))
}

/// The solutions of all inputs and their labels by annotator.
pub(super) struct Gathered {
    /// The records of the inputs; a solution that occurs in several is merged.
    pub(super) records: Vec<Record>,
    /// Rows in the order of the solutions of `records`.
    pub(super) panel: Panel,
}

/// The annotations of a solution by annotator name.
type SolutionLabels = Vec<(String, Annotation)>;

/// Reads everything.
pub(super) fn gather(sources: &SourcesArgs) -> Result<Gathered> {
    let mut records: Vec<Record> = Vec::new();
    let mut problems: HashMap<String, usize> = HashMap::new();
    let mut solutions: HashMap<(usize, String), usize> = HashMap::new();
    let mut said: Vec<Vec<SolutionLabels>> = Vec::new();
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
                        "{}: the steps of solution {} differ from those in an earlier file",
                        path.display(),
                        solution.id
                    );
                }
                let said = &mut said[place][*known];
                for annotation in annotations {
                    if let Some(name) = annotation.annotator() {
                        said.push((unique(said, name, &stem), annotation));
                    } else if !kept.annotations.contains(&annotation) {
                        said.extend(
                            truth_name(&annotation).map(|name| (name.to_owned(), annotation.clone())),
                        );
                        kept.annotations.push(annotation);
                    }
                }
                said.extend(from_scores(&solution, &sources.from_scores, &stem, several));
            }
            Ok(())
        })?;
    }
    let names: BTreeSet<String> = said.iter().flatten().flatten().map(|(name, _)| name.clone()).collect();
    let names: Vec<String> = if sources.only.is_empty() {
        names.into_iter().filter(|name| !TRUTH.contains(&name.as_str())).collect()
    } else {
        if let Some(unknown) = sources.only.iter().find(|name| !names.contains(*name)) {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            bail!(Usage(format!("--only {unknown}: no such annotator; available: {}", known.join(", "))));
        }
        sources.only.clone()
    };
    if names.is_empty() {
        bail!(
            "no solution has labels from a model: annotate the data, use --from-scores, or name labels that are taken as \
             true with --only human, injected or unstated"
        );
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

/// Names of sources whose labels are taken as true: annotators only where `--only` names them.
const TRUTH: [&str; 3] = ["human", "injected", "unstated"];

/// The name of a source whose labels are taken as true; none without labels.
fn truth_name(annotation: &Annotation) -> Option<&'static str> {
    Some(match annotation.labels.iter().flatten().next()?.source {
        LabelSource::Human => TRUTH[0],
        LabelSource::Injected => TRUTH[1],
        _ => TRUTH[2],
    })
}

/// An annotator name that is unique for the solution.
fn unique(said: &SolutionLabels, name: String, stem: &str) -> String {
    if said.iter().any(|(other, _)| *other == name) { format!("{name} ({stem})") } else { name }
}

/// Labels by scores: the first step below the threshold is wrong.
fn from_scores(solution: &Solution, wanted: &[(String, f64)], stem: &str, several: bool) -> SolutionLabels {
    let mut said = SolutionLabels::new();
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

/// At least two annotators.
pub(super) fn several(sources: &SourcesArgs) -> Result<Gathered> {
    let gathered = gather(sources)?;
    if gathered.panel.names.len() < 2 {
        let name = &gathered.panel.names[0];
        bail!(
            "only one annotator ({name}): at least two are needed; labels that are taken as true count with \
             --only '{name}' --only human, injected or unstated"
        );
    }
    Ok(gathered)
}

/// Writes the solutions that have a label; problems without one are omitted.
pub(super) fn write(
    output: Option<&Path>,
    records: Vec<Record>,
    labels: Vec<Option<Annotation>>,
) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    let mut labels = labels.into_iter();
    let mut sink = Sink::create(Target::new(output))?;
    for mut record in records {
        record.solutions.retain_mut(|solution| match labels.next().flatten() {
            Some(annotation) => {
                solution.annotations.push(annotation);
                true
            }
            None => false,
        });
        if !record.solutions.is_empty() {
            sink.push(&record)?;
        }
    }
    sink.finish()?;
    Ok(())
}
