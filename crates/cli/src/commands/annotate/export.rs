//! `gradus annotate export`: labels as a training set. Steps after the first error are left out where their source says
//! nothing of them; so are solutions without labels, and texts that were sampled before. Everything that is left out is
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use gradus_core::{
    Annotation, FirstError, LabelChoice, LabelSource, LabelsAfterError, Mark, Record, Solution,
};
use gradus_data::files::{Sink, Target};
use gradus_data::readers::Format;
use gradus_durable::journal_key;
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::annotator::AnnotatorOption;
use crate::arguments::dataset::DatasetInput;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

/// Formats of training sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportForm {
    /// TRL stepwise supervision: prompt, completions, labels
    Trl,
    /// Gradus format, for gradus train prm
    Prm,
    /// RLHFlow conversations: each step is answered with + or -
    Chat,
}

/// Kinds of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportLabels {
    /// Correct or incorrect
    Hard,
    /// Numbers from 0 to 1 where the annotator gives them
    Soft,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate export agreed.jsonl --to trl --balance -o train.jsonl\n\n\
Steps after the first error are omitted unless their source judges every step on its own (annotate reference). A text \
that was sampled several times is written once."
)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output format
    #[arg(long, value_enum)]
    to: ExportForm,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    annotator: AnnotatorOption,
    /// Label type (default: soft for prm, hard for the others, since TRL's trainer rounds soft labels down)
    #[arg(long, value_enum)]
    labels: Option<ExportLabels>,
    /// Labels after the first error: keep or drop (default: keep those of annotate reference, drop all others)
    #[arg(long, value_name = "RULE")]
    labels_after_error: Option<LabelsAfterError>,
    /// Downsample to as many solutions with an error as without
    #[arg(long)]
    balance: bool,
    /// With --balance, random seed
    #[arg(long, default_value_t = 0, requires = "balance")]
    seed: u64,
    #[command(flatten)]
    print: JsonOption,
}

#[derive(Debug, Default, Serialize)]
struct ExportSummary {
    solutions: usize,
    written: usize,
    steps: usize,
    right: usize,
    wrong: usize,
    with_error: usize,
    /// Steps after the first error, or after the last label.
    steps_left_out: usize,
    /// Solutions by whose labels were taken, before balancing.
    labels_by: BTreeMap<String, usize>,
    /// Of these, solutions that others labeled, too.
    several_annotators: usize,
    /// Solutions by reason, and parts that the format has no place for by name.
    left_out: BTreeMap<&'static str, usize>,
}

pub(super) fn run(args: &ExportArgs) -> Result<Status> {
    let mut report = ExportSummary::default();
    let choice = args.annotator.choice();
    let (mut records, tally) = input::joined(&args.input, Need::Solutions)?;
    let available = available(&records);
    let soft_by_default = args.to == ExportForm::Prm;
    let hard = args.labels.map_or(!soft_by_default, |labels| labels == ExportLabels::Hard);
    for record in &mut records {
        report.solutions += record.solutions.len();
        let mut left_out = Vec::new();
        left_out.resize(record.unite_equal(), "solutions with the text of an earlier one");
        let after = args.labels_after_error;
        record.solutions.retain_mut(|solution| match target(solution, &choice, after) {
            Ok((mut kept, source)) => {
                if hard {
                    kept.labels.iter_mut().flatten().for_each(|label| label.value = None);
                }
                let whole = solution.annotations.iter().filter(|annotation| !annotation.is_partial());
                report.several_annotators += usize::from(whole.count() > 1);
                *report.labels_by.entry(source).or_default() += 1;
                report.steps_left_out += solution.steps.len() - kept.labels.len();
                solution.steps.truncate(kept.labels.len());
                // The whole text no longer is what the steps are.
                solution.text = None;
                solution.annotations = vec![kept];
                solution.scores.clear();
                solution.references = None;
                true
            }
            Err(reason) => {
                left_out.push(reason);
                false
            }
        });
        for reason in left_out {
            *report.left_out.entry(reason).or_default() += 1;
        }
    }
    records.retain(|record| !record.solutions.is_empty());
    if tally.skipped > 0 {
        *report.left_out.entry("records that could not be read").or_default() += tally.skipped as usize;
    }
    if args.balance {
        balance(&mut records, args.seed, &mut report);
    }
    let format = match args.to {
        ExportForm::Trl => Format::Trl,
        ExportForm::Prm => Format::Gradus,
        ExportForm::Chat => Format::RlhFlow,
    };
    let mut sink = Sink::create(Target::new(&args.output))?;
    for record in &records {
        let written = format.write(record);
        for row in &written.rows {
            sink.push(row)?;
        }
        for (what, count) in written.omitted() {
            *report.left_out.entry(what).or_default() += count;
        }
        if !written.rows.is_empty() {
            record.solutions.iter().for_each(|solution| report.count(solution));
        }
    }
    if report.written == 0 {
        let by = args.annotator.annotator.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
        let is_exact = |name: &String| name == LabelSource::Exact.kind();
        // Writers of other formats take no partial labels.
        let ask = match available.iter().any(is_exact) {
            true if args.annotator.annotator.is_none() || args.to != ExportForm::Prm => {
                "; those by exact are taken with --annotator exact --to prm"
            }
            _ => "",
        };
        let available = available.into_iter().collect::<Vec<_>>().join(", ");
        let has = if available.is_empty() { "" } else { "; the data has labels by " };
        bail!("no solution has training labels{by}{has}{available}{ask}");
    }
    sink.finish()?;
    report.print(args)
}

/// Whose labels there are, for who asks for others.
fn available(records: &[Record]) -> BTreeSet<String> {
    let annotations = records.iter().flat_map(|record| &record.solutions).flat_map(|s| &s.annotations);
    annotations.map(Annotation::source_name).collect()
}

/// The labels to train on, those from the first step on that have no gap, and whose they are.
fn target(
    solution: &Solution,
    choice: &LabelChoice,
    after: Option<LabelsAfterError>,
) -> Result<(Annotation, String), &'static str> {
    let annotation = solution.labels(choice).ok_or("solutions without labels")?;
    let labels: Vec<_> = annotation
        .training_targets(after)
        .enumerate()
        .take_while(|(place, (step, _))| place == step)
        .map(|(_, (_, label))| Some(label.clone()))
        .collect();
    if labels.is_empty() {
        return Err("solutions whose first step has no label");
    }
    let mut kept = Annotation::from_labels(labels);
    kept.cost.clone_from(&annotation.cost);
    Ok((kept, annotation.source_name()))
}

/// Leaves out solutions of the more frequent kind, those with the largest hashes, until both are equally many.
fn balance(records: &mut Vec<Record>, seed: u64, report: &mut ExportSummary) {
    let is_wrong = |solution: &Solution| matches!(solution.annotations[0].first_error, FirstError::At(_));
    let all = || records.iter().flat_map(|record| &record.solutions);
    let wrong = all().filter(|solution| is_wrong(solution)).count();
    let right = all().count() - wrong;
    let more = wrong > right;
    let mut keys: Vec<String> = all()
        .filter(|solution| is_wrong(solution) == more)
        .map(|solution| journal_key(&(seed, &solution.problem_id, &solution.id)))
        .collect();
    keys.sort_unstable();
    let few = wrong.min(right);
    let Some(limit) = keys.get(few).cloned() else { return };
    for record in records.iter_mut() {
        record.solutions.retain(|solution| {
            is_wrong(solution) != more || journal_key(&(seed, &solution.problem_id, &solution.id)) < limit
        });
    }
    records.retain(|record| !record.solutions.is_empty());
    *report.left_out.entry("solutions, to balance the kinds").or_default() += wrong.max(right) - few;
}

impl ExportSummary {
    fn count(&mut self, solution: &Solution) {
        self.written += 1;
        let annotation = &solution.annotations[0];
        self.with_error += usize::from(matches!(annotation.first_error, FirstError::At(_)));
        for label in annotation.labels.iter().flatten() {
            self.steps += 1;
            *if label.mark == Mark::Incorrect { &mut self.wrong } else { &mut self.right } += 1;
        }
    }

    fn print(&self, args: &ExportArgs) -> Result<Status> {
        let printer = Printer::new(Some(&args.output));
        if args.print.json {
            printer.json(self)?;
            return Ok(Status::Done);
        }
        printer.line(format!(
            "{} of {} with {} {}",
            paint::bold(&grouped(self.written)),
            counted(self.solutions, "solution"),
            counted(self.steps, "labeled step"),
            printer::written_to(&args.output)
        ))?;
        printer.counts(&[
            (self.right as u64, "step", "correct"),
            (self.wrong as u64, "step", "wrong"),
            (self.with_error as u64, "solution", "with an error"),
            (self.steps_left_out as u64, "step", "omitted: after the first error or unlabeled"),
        ])?;
        for (name, count) in &self.labels_by {
            printer.line(format!("{:>8}  labeled by {name}", grouped(*count)))?;
        }
        if args.annotator.annotator.is_none() {
            let chosen = "labeled by others, too: the most trusted was taken (see --annotator)";
            printer.counts(&[(self.several_annotators as u64, "solution", chosen)])?;
        }
        for (reason, count) in &self.left_out {
            printer.line(format!("{:>8}  omitted: {reason}", grouped(*count)))?;
        }
        Ok(Status::Done)
    }
}
