//! `gradus perplexity`: how surprised a model is by a text, or by every solution of a dataset given its problem.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gradus_core::Record;
use gradus_core::contracts::{LogProbs as _, LogProbsRequest, Message, Prompt, TokenLogProbs};
use gradus_data::files::{Sink, Target};
use serde::Serialize;
use serde_json::json;

use super::Status;
use super::generate::standard_input;
use crate::args::OnError;
use crate::args::engine::Perplexity;
use crate::input;
use crate::local::{self, Local, Purpose};
use crate::printer::{self, Printer};

pub(super) fn run(args: &Perplexity) -> Result<Status> {
    let local = local::start(&args.model, &args.options, &Purpose::default())?;
    if args.data.is_empty() { text(args, &local) } else { dataset(args, &local) }
}

fn text(args: &Perplexity, local: &Local) -> Result<Status> {
    let continuation = match &args.text {
        Some(text) => text.clone(),
        None => standard_input("a text")?,
    };
    let prompt = match &args.prompt {
        Some(prompt) => Prompt::Chat(vec![Message::new("user", prompt)]),
        None => Prompt::Text(String::new()),
    };
    let answer = local::wait(local.engine.logprobs(LogProbsRequest { prompt, continuation }))??;
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
    let tokens = printer::counted(answer.tokens.len() as u64, "token");
    printer.line(format!("perplexity {:.4} over {tokens}", perplexity.unwrap_or(f64::NAN)))?;
    Ok(Status::Done)
}

#[derive(Debug, Default, Serialize)]
struct Report {
    solutions: u64,
    /// Solutions the model could not take.
    refused: u64,
    /// Records that could not be read.
    skipped: u64,
    tokens: u64,
    generators: BTreeMap<String, Summary>,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    solutions: u64,
    median: f64,
    mean: f64,
    #[serde(skip)]
    values: Vec<f64>,
}

fn dataset(args: &Perplexity, local: &Local) -> Result<Status> {
    let mut report = Report::default();
    let mut sink = args.output.as_ref().map(|path| Sink::create(Target::new(path))).transpose()?;
    let tally = input::read(&args.data, args.from, args.on_error, &mut |item| {
        let mut record = item.record;
        judge(&mut record, local, args.on_error, &mut report)?;
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
                printer::count(summary.solutions),
                format!("{:.3}", summary.median),
                format!("{:.3}", summary.mean),
            ]
        })
        .collect();
    printer.table(&["generator", "solutions", "median perplexity", "mean"], &rows)?;
    if report.refused + report.skipped > 0 {
        printer.line(format!(
            "{} refused, {} skipped",
            report.refused,
            printer::counted(report.skipped, "record")
        ))?;
    }
    Ok(Status::Done)
}

/// All solutions of a record at once: the engine puts them into common passes.
fn judge(record: &mut Record, local: &Local, on_error: OnError, report: &mut Report) -> Result<()> {
    let prompt = Prompt::Chat(vec![Message::new("user", record.problem.question())]);
    let asked: Vec<_> = record
        .solutions
        .iter()
        .map(|solution| {
            let request = LogProbsRequest { prompt: prompt.clone(), continuation: solution.full_text() };
            local.engine.logprobs(request)
        })
        .collect();
    for (solution, answer) in record.solutions.iter_mut().zip(asked) {
        let answer: TokenLogProbs = match local::wait(answer)? {
            Ok(answer) => answer,
            Err(error) if on_error == OnError::Skip => {
                report.refused += 1;
                printer::note(format!("solution `{}`: {error}", solution.id));
                continue;
            }
            Err(error) => {
                bail!("solution `{}`: {error} (--on-error skip leaves such solutions out)", solution.id)
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
