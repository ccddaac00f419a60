//! `gradus perplexity`: of a text, or of every solution of a dataset given its problem.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use gradus_backend::{Generator, GeneratorSettings, block_on};
use gradus_core::Record;
use gradus_core::contracts::{LogProbs as _, LogProbsRequest, Prompt, TokenLogProbs};
use gradus_data::files::{Sink, Target};
use serde::Serialize;
use serde_json::json;

use crate::arguments::JsonOption;
use crate::arguments::dataset::{DatasetOption, OnError};
use crate::cost;
use crate::exit::Status;
use crate::input::{self, Need, standard_input};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};

#[derive(Debug, Args)]
#[command(mut_arg("data", |arg| arg.help("Compute the perplexity of all solutions of these datasets, given their problems")))]
#[command(mut_arg("on_error", |arg| arg.help("With --data, how to handle invalid records and solutions that the model rejects")))]
#[command(
    after_help = "Examples:\n  gradus perplexity 'The sky is blue.'\n  gradus perplexity 'It is 42.' --prompt 'What is 6 × 7?'\n  \
gradus perplexity --data solutions.jsonl -o with-perplexity.jsonl"
)]
pub(super) struct PerplexityArgs {
    /// Text (default: standard input)
    #[arg(conflicts_with = "data")]
    text: Option<String>,
    /// User message that precedes the text, in the model's chat template
    #[arg(long, conflicts_with = "data")]
    prompt: Option<String>,
    /// With --data, output file with `perplexity` in each solution's metadata (Gradus format)
    #[arg(short, long, value_name = "FILE", requires = "data")]
    output: Option<PathBuf>,
    /// Print the log-probability of each token
    #[arg(long, conflicts_with = "data")]
    tokens: bool,
    #[command(flatten)]
    dataset: DatasetOption,
    #[command(flatten)]
    generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &PerplexityArgs) -> Result<Status> {
    args.generator.endpoints.refuse_local_concurrency()?;
    let generator = Generator::open(&args.generator)?;
    cost::announce(&generator.spending);
    let status =
        if args.dataset.data.is_empty() { text(args, &generator) } else { dataset(args, &generator) }?;
    cost::conclude(&generator.spending);
    Ok(status)
}

fn text(args: &PerplexityArgs, generator: &Generator) -> Result<Status> {
    let continuation = match &args.text {
        Some(text) => text.clone(),
        None => standard_input("a text")?,
    };
    let prompt = match &args.prompt {
        Some(prompt) => generator.context(prompt),
        None => Prompt::Text(String::new()),
    };
    let answer = block_on(generator.logprobs(LogProbsRequest { prompt, continuation }))??;
    let printer = Printer::new(None);
    let perplexity = answer.perplexity();
    if args.print.json {
        printer
            .json(&json!({ "perplexity": perplexity, "logprob": answer.sum(), "tokens": answer.tokens }))?;
        return Ok(Status::Done);
    }
    if args.tokens {
        let row = |token: &gradus_core::contracts::TokenLogProb| {
            vec![format!("{:?}", token.token), format!("{:.4}", token.logprob)]
        };
        printer.table(&["token", "log-probability"], &answer.tokens.iter().map(row).collect::<Vec<_>>())?;
    }
    let tokens = counted(answer.tokens.len(), "token");
    printer.line(format!("perplexity {:.4} over {tokens}", perplexity.unwrap_or(f64::NAN)))?;
    Ok(Status::Done)
}

#[derive(Debug, Default, Serialize)]
struct PerplexitySummary {
    solutions: u64,
    /// Solutions that the model rejected.
    refused: u64,
    /// Invalid records.
    skipped: u64,
    tokens: u64,
    generators: BTreeMap<String, GeneratorPerplexity>,
}

#[derive(Debug, Default, Serialize)]
struct GeneratorPerplexity {
    solutions: u64,
    median: f64,
    mean: f64,
    #[serde(skip)]
    values: Vec<f64>,
}

fn dataset(args: &PerplexityArgs, generator: &Generator) -> Result<Status> {
    let mut report = PerplexitySummary::default();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::for_each_of(&args.dataset, Need::Solutions, |item| {
        let mut record = item.record;
        judge(&mut record, generator, args.dataset.on_error, &mut report)?;
        sink.as_mut().map_or(Ok(()), |sink| sink.push(&record))?;
        Ok(())
    })?;
    if let Some(sink) = sink {
        sink.finish()?;
    }
    report.skipped = tally.skipped;
    for summary in report.generators.values_mut() {
        summary.values.sort_by(f64::total_cmp);
        summary.solutions = summary.values.len() as u64;
        summary.median = summary.values[summary.values.len() / 2];
        summary.mean = summary.values.iter().sum::<f64>() / summary.values.len() as f64;
    }
    let printer = Printer::new(args.output.as_deref());
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    let rows: Vec<Vec<String>> = report
        .generators
        .iter()
        .map(|(name, summary)| {
            vec![
                name.clone(),
                grouped(summary.solutions),
                format!("{:.3}", summary.median),
                format!("{:.3}", summary.mean),
            ]
        })
        .collect();
    printer.table(&["generator", "solutions", "median perplexity", "mean"], &rows)?;
    if report.refused + report.skipped > 0 {
        let (refused, skipped) = (counted(report.refused, "solution"), counted(report.skipped, "record"));
        printer.line(format!("{refused} refused, {skipped} skipped"))?;
    }
    Ok(Status::Done)
}

/// All solutions of a record at once: the engine batches them.
fn judge(
    record: &mut Record,
    generator: &Generator,
    on_error: OnError,
    report: &mut PerplexitySummary,
) -> Result<()> {
    let prompt = generator.context(&record.problem.question());
    let asked: Vec<_> = record
        .solutions
        .iter()
        .map(|solution| {
            let request = LogProbsRequest { prompt: prompt.clone(), continuation: solution.full_text() };
            generator.logprobs(request)
        })
        .collect();
    for (solution, answer) in record.solutions.iter_mut().zip(asked) {
        let answer: TokenLogProbs = match block_on(answer)? {
            Ok(answer) => answer,
            Err(error) if on_error == OnError::Skip => {
                report.refused += 1;
                printer::note(format!("solution `{}`: {error}", solution.id));
                continue;
            }
            Err(error) => {
                bail!("solution `{}`: {error} (use --on-error skip to skip such solutions)", solution.id)
            }
        };
        let Some(perplexity) = answer.perplexity() else { continue };
        report.solutions += 1;
        report.tokens += answer.usage.prompt_tokens;
        let generator = solution.generator.clone().unwrap_or_else(|| "unnamed".to_owned());
        report.generators.entry(generator).or_default().values.push(perplexity);
        solution.metadata.insert("perplexity".to_owned(), json!(perplexity));
    }
    Ok(())
}
