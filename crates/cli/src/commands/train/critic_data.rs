//! `gradus train critic-data`: solutions with known first errors, balanced and filtered, with their perplexities.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_backend::{Generator, GeneratorSettings, block_on};
use gradus_core::contracts::{LogProbs as _, LogProbsRequest, Message};
use gradus_train::critic;
use gradus_train::critic::{
    Answer, Balance, CriticExample, Curation, CurationCounts, TruthSource, curate, prompt,
};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::annotator::AnnotatorOption;
use crate::arguments::dataset::DatasetInput;
use crate::cost;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::output;
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
pub(crate) struct CriticDataArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file (JSONL)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    labels: AnnotatorOption,
    /// Take first errors from the scores of this name instead of labels, where they agree with the outcome
    #[arg(long, value_name = "NAME", conflicts_with = "annotator")]
    scores: Option<String>,
    /// With --scores, score threshold; the first step below it is the first error
    #[arg(long, default_value_t = 0.8, requires = "scores")]
    threshold: f64,
    /// How solutions are downsampled
    #[arg(long, value_enum, default_value = "generators", conflicts_with = "no_balance")]
    balance: BalanceArg,
    /// Keep all solutions: --balance none
    #[arg(long, alias = "unbalanced", hide = true)]
    no_balance: bool,
    /// Also write target critiques to this file, as conversations for gradus train sft
    #[arg(long, alias = "answers", value_name = "FILE")]
    sft_output: Option<PathBuf>,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

/// What is balanced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BalanceArg {
    /// As many correct as wrong solutions, and as many by each generator
    Generators,
    /// As many correct as wrong solutions by each generator
    Classes,
    /// Keep all solutions
    None,
}

impl From<BalanceArg> for Balance {
    fn from(balance: BalanceArg) -> Self {
        match balance {
            BalanceArg::Generators => Self::Generators,
            BalanceArg::Classes => Self::Classes,
            BalanceArg::None => Self::None,
        }
    }
}

#[derive(Debug, Serialize)]
struct CriticDataSummary {
    examples: usize,
    correct: usize,
    wrong: usize,
    /// Solutions that the model could not take: too long.
    without_perplexity: usize,
    /// Invalid records.
    skipped: u64,
    /// Examples by who says where the first error is.
    labels_by: BTreeMap<String, usize>,
    generators: BTreeMap<String, CurationCounts>,
}

pub(super) fn run(args: &CriticDataArgs) -> Result<Status> {
    args.generator.endpoints.refuse_local_concurrency()?;
    let (records, tally) = input::joined(&args.input, Need::Solutions)?;
    let truth = match (&args.scores, &args.labels.annotator) {
        (Some(model), _) => TruthSource::Scores { model: model.clone(), threshold: args.threshold },
        (None, Some(name)) => TruthSource::Annotator(name.clone()),
        (None, None) => TruthSource::Labels,
    };
    let balance = if args.no_balance { Balance::None } else { args.balance.into() };
    let curation = Curation { truth, balance, seed: args.seed };
    let (mut examples, generators) = curate(&records, &curation);
    let generator = Generator::open(&args.generator)?;
    cost::announce(&generator.spending);
    // As `gradus perplexity` and `bench preference` measure it: the text as it was generated.
    let texts: HashMap<(&str, &str), String> = records
        .iter()
        .flat_map(|record| record.solutions.iter().map(|solution| (&*record.problem.id, solution)))
        .map(|(problem, solution)| ((problem, &*solution.id), solution.full_text()))
        .collect();
    let mut progress = Progress::new(examples.len() as u64, false);
    let (mut without_perplexity, mut done) = (0, 0);
    let mut waiting = Vec::new();
    for chunk in examples.chunks_mut(AHEAD) {
        for example in chunk.iter() {
            let asked = generator.context(&example.problem);
            let continuation = texts[&(&*example.problem_id, &*example.solution_id)].clone();
            waiting.push(generator.logprobs(LogProbsRequest { prompt: asked, continuation }));
        }
        for (example, answer) in chunk.iter_mut().zip(waiting.drain(..)) {
            match block_on(answer)? {
                Ok(answer) => example.perplexity = answer.perplexity(),
                Err(error) => {
                    without_perplexity += 1;
                    printer::note(format!("no perplexity of `{}`: {error}", example.solution_id));
                }
            }
        }
        done += chunk.len() as u64;
        progress.now(done, "perplexities");
    }
    drop(progress);
    cost::conclude(&generator.spending);
    write(&args.output, &examples)?;
    if let Some(path) = &args.sft_output {
        write(path, &examples.iter().map(ideal).collect::<Vec<_>>())?;
    }
    let mut labels_by: BTreeMap<String, usize> = BTreeMap::new();
    for example in &examples {
        let name = match &example.source {
            TruthSource::Labels => "labels".to_owned(),
            TruthSource::Annotator(name) => name.clone(),
            TruthSource::Scores { model, .. } => format!("scores {model}"),
        };
        *labels_by.entry(name).or_default() += 1;
    }
    let kept = |is: fn(&CurationCounts) -> usize| generators.values().map(is).sum();
    let report = CriticDataSummary {
        examples: examples.len(),
        correct: kept(|counts| counts.correct),
        wrong: kept(|counts| counts.wrong),
        without_perplexity,
        skipped: tally.skipped,
        labels_by,
        generators,
    };
    show(args, &report)
}

/// Solutions that are with the engine at once.
const AHEAD: usize = 64;

/// A conversation in which the critic is right. It repeats each step before it judges it: a small model learns to judge
/// what it has just written, and from a mere list of verdicts learns nothing (docs/experiments.md).
fn ideal(example: &CriticExample) -> serde_json::Value {
    let read = example.truth.map_or(example.steps.len(), |first| first + 1);
    let judged = example.steps[..read].iter().enumerate();
    let judged = judged.map(|(index, step)| {
        let verdict = if example.truth == Some(index) { "Wrong" } else { "Right" };
        format!("{step} {verdict}.")
    });
    let critique = judged.collect::<Vec<_>>().join(" ");
    let mut messages = prompt(&example.problem, &example.steps);
    let answer = critic::format(&Answer { critique, first_error: example.truth });
    messages.push(Message::new("assistant", answer));
    serde_json::json!({ "id": example.solution_id, "messages": messages })
}

/// Writes one row a line.
fn write(path: &Path, rows: &[impl Serialize]) -> Result<()> {
    let mut text = String::new();
    for row in rows {
        text += &serde_json::to_string(row)?;
        text.push('\n');
    }
    output::write(path, text.as_bytes())
}

fn show(args: &CriticDataArgs, report: &CriticDataSummary) -> Result<Status> {
    let printer = Printer::new(Some(&args.output));
    if args.print.json {
        printer.json(report)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} ({} correct, {} wrong) {}",
        counted(report.examples, "example"),
        grouped(report.correct),
        grouped(report.wrong),
        printer::written_to(&args.output)
    ))?;
    for (name, count) in &report.labels_by {
        printer.line(format!("{:>8}  first errors by {name}", grouped(*count)))?;
    }
    let rows: Vec<Vec<String>> = report
        .generators
        .iter()
        .map(|(generator, counts)| {
            let dropped: Vec<String> = counts
                .dropped
                .iter()
                .map(|(reason, number)| {
                    let reason = serde_json::to_value(reason).unwrap_or_default();
                    format!("{number} {}", reason.as_str().unwrap_or_default().replace('_', " "))
                })
                .collect();
            let name = if generator.is_empty() { "(unnamed)" } else { generator };
            vec![name.to_owned(), counts.correct.to_string(), counts.wrong.to_string(), dropped.join(", ")]
        })
        .collect();
    printer.table(&["generator", "correct", "wrong", "omitted"], &rows)?;
    Ok(Status::Done)
}
