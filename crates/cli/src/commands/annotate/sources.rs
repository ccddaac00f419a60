//! Annotators in data: labels of several files and scores of reward models, per solution.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use gradus_annotate::report::{Panel, PanelRow};
use gradus_core::metrics::process::first_error;
use gradus_core::{Annotation, JoinedPlace, LabelSource, Record, Solution};
use gradus_data::files::{Sink, Target};

use crate::arguments::dataset::OnError;
use crate::exit::Usage;
use crate::input::{self, JoinedFiles};
use crate::terminal::printer;

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
    /// Use only these annotators, by name as in `annotate report` or by kind such as judge; human, injected and unstated
    /// are labels that are otherwise taken as true; repeatable
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
type SolutionLabels = BTreeMap<String, Annotation>;

/// What one annotator says about a solution, and where: a file's name without its extensions.
struct Said {
    name: String,
    tag: String,
    annotation: Annotation,
}

/// Reads everything. Labels that were made from those of others, and those that are partial, count as an annotator's if
/// `all`, or if they are named.
pub(super) fn gather(sources: &SourcesArgs, all: bool) -> Result<Gathered> {
    let all = all || !sources.only.is_empty();
    let mut joined = JoinedFiles::default();
    let mut said: HashMap<JoinedPlace, Vec<Said>> = HashMap::new();
    let several = sources.inputs.len() > 1;
    let mut scorers = BTreeSet::new();
    // One file at a time: all say something about the same solutions, where other commands count samples over files.
    for path in &sources.inputs {
        let stem = stem(path);
        input::read(std::slice::from_ref(path), Default::default(), OnError::Fail, &mut |item| {
            let solutions = item.record.solutions.clone();
            for (place, solution) in joined.add(item)?.into_iter().zip(solutions) {
                scorers.extend(solution.scores.keys().cloned());
                let said = said.entry(place).or_default();
                said.extend(from_scores(&solution, &sources.from_scores, &stem, several));
                said.extend(said_in(&stem, solution.annotations, all));
            }
            Ok(())
        })?;
    }
    check_scorers(&sources.from_scores, &scorers)?;
    let records = joined.into_records();
    let apart = told_apart(&said);
    // Their labels are taken as true: they are annotators only where `--only` names them.
    let truths = said.values().flatten().filter(|said| said.annotation.is_truth());
    let truths: BTreeSet<String> = truths.map(|said| said.name.clone()).collect();
    let said: HashMap<JoinedPlace, SolutionLabels> =
        said.into_iter().map(|(place, said)| (place, named(said, &apart))).collect();
    let names: BTreeSet<String> = said.values().flat_map(BTreeMap::keys).cloned().collect();
    let names: Vec<String> = if sources.only.is_empty() {
        names.into_iter().filter(|name| !truths.contains(name)).collect()
    } else {
        only(&sources.only, &names)?
    };
    if names.is_empty() {
        bail!(
            "no solution has labels from a model: annotate the data, use --from-scores, or name labels that are taken as \
             true with --only human, injected or unstated"
        );
    }
    let mut rows = Vec::new();
    for (at, record) in records.iter().enumerate() {
        for (index, solution) in record.solutions.iter().enumerate() {
            let labels = &said[&(at, index)];
            rows.push(PanelRow {
                problem: record.problem.id.clone(),
                steps: solution.steps.len(),
                outcome: solution.outcome,
                truth: solution.truth().cloned(),
                annotations: names.iter().map(|name| labels.get(name).cloned()).collect(),
            });
        }
    }
    let runs: HashMap<String, String> = apart.iter().map(|known| (in_file(known), known.0.clone())).collect();
    let annotators = names.iter().map(|name| runs.get(name).unwrap_or(name).clone()).collect();
    Ok(Gathered { panel: Panel { names, annotators, rows }, records })
}

/// The annotators that are wanted, each by its name or its kind, the first word of its name.
fn only(wanted: &[String], names: &BTreeSet<String>) -> Result<Vec<String>> {
    let mut chosen: Vec<String> = Vec::new();
    for wanted in wanted {
        let of_kind = |name: &&String| name.split(' ').next() == Some(wanted.as_str());
        let found: Vec<&String> = match names.get(wanted) {
            Some(name) => vec![name],
            None => names.iter().filter(of_kind).collect(),
        };
        if found.is_empty() {
            let known: Vec<&str> = names.iter().map(String::as_str).collect();
            bail!(Usage(format!("--only {wanted}: no such annotator; available: {}", known.join(", "))));
        }
        for name in found {
            if !chosen.contains(name) {
                chosen.push(name.clone());
            }
        }
    }
    Ok(chosen)
}

/// The labels in one file, each with its annotator and where it stands.
fn said_in(stem: &str, annotations: Vec<Annotation>, all: bool) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    let is_annotator = |found: &Annotation| !found.is_by("consensus") && !found.is_partial();
    for annotation in annotations.into_iter().filter(|found| all || is_annotator(found)) {
        // Of labels that are taken as true, the first says whose they are.
        let first = annotation.labels.iter().flatten().next().map(|label| label.source.name());
        let Some(name) = annotation.annotator().or(first) else { continue };
        let before = said.iter().filter(|other| other.name == name).count();
        let tag = if before == 0 { stem.to_owned() } else { format!("{stem} {}", before + 1) };
        said.push(Said { name, tag, annotation });
    }
    said
}

/// Annotators of one name that say different things in different places are two: all but the first are known by where
/// they stand, too. Where they say the same of every solution, one is a copy of the other.
fn told_apart(said: &HashMap<JoinedPlace, Vec<Said>>) -> HashSet<(String, String)> {
    let mut apart = HashSet::new();
    for said in said.values() {
        for (index, later) in said.iter().enumerate() {
            let first = said[..index].iter().find(|earlier| earlier.name == later.name);
            if first.is_some_and(|first| !first.annotation.says_the_same(&later.annotation)) {
                apart.insert((later.name.clone(), later.tag.clone()));
            }
        }
    }
    apart
}

/// The name of an annotator that stands in several places and says different things there.
fn in_file((name, tag): &(String, String)) -> String {
    format!("{name} ({tag})")
}

/// The labels of one solution by annotator.
fn named(said: Vec<Said>, apart: &HashSet<(String, String)>) -> SolutionLabels {
    let mut labels = SolutionLabels::new();
    for Said { name, tag, annotation } in said {
        let known = (name, tag);
        let name = if apart.contains(&known) { in_file(&known) } else { known.0 };
        labels.entry(name).or_insert(annotation);
    }
    labels
}

/// Labels by scores: the first step below the threshold is wrong.
fn from_scores(solution: &Solution, wanted: &[(String, f64)], stem: &str, several: bool) -> Vec<Said> {
    let mut said = Vec::new();
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
        let name = if several { format!("{name} ({stem})") } else { name };
        said.push(Said { name, tag: stem.to_owned(), annotation: found });
    }
    said
}

/// Refuses `--from-scores` of a name that no solution has scores by.
fn check_scorers(wanted: &[(String, f64)], scorers: &BTreeSet<String>) -> Result<()> {
    let missing = wanted.iter().find(|(name, _)| name != "*" && !scorers.contains(name));
    let Some((name, _)) = missing else { return Ok(()) };
    let known: Vec<&str> = scorers.iter().map(String::as_str).collect();
    match known.as_slice() {
        [] => bail!("--from-scores {name}: no solution has scores, run gradus score first"),
        known => bail!("--from-scores {name}: no solution has such scores, there are {}", known.join(", ")),
    }
}

fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    name.split('.').next().unwrap_or_default().to_owned()
}

/// At least two annotators.
pub(super) fn several(sources: &SourcesArgs) -> Result<Gathered> {
    let gathered = gather(sources, false)?;
    if gathered.panel.names.len() < 2 {
        let name = &gathered.panel.names[0];
        bail!(
            "only one annotator ({name}): at least two are needed; labels that are taken as true count with \
             --only '{name}' --only human, injected or unstated"
        );
    }
    Ok(gathered)
}

/// Writes the solutions that have a label; problems without one are omitted. Says so where nothing is left.
pub(super) fn write(
    output: Option<&Path>,
    records: Vec<Record>,
    labels: Vec<Option<Annotation>>,
) -> Result<()> {
    let Some(output) = output else { return Ok(()) };
    if labels.iter().all(Option::is_none) {
        printer::note(format!(
            "no solution was kept: {} is empty, and no command can read it",
            output.display()
        ));
    }
    let mut labels = labels.into_iter();
    let mut sink = Sink::create(Target::new(output))?;
    for mut record in records {
        record.solutions.retain_mut(|solution| match labels.next().flatten() {
            Some(annotation) => {
                let name = annotation.source_name();
                solution.annotations.retain(|other| other.source_name() != name);
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
