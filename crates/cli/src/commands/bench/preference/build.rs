//! `gradus bench preference build`: the same problems and final answers by several families of models.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use gradus_backend::decision_of_scores;
use gradus_bench::preference::build::{self, PreferencePlan};
use gradus_core::Record;
use gradus_data::files::{Sink, Target};
use serde_json::json;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetInput;
use crate::arguments::decision::DecisionOptions;
use crate::exit::Status;
use crate::input::{self, Need};
use crate::terminal::printer::{self, Printer};
use gradus_core::count::{counted, grouped};
use gradus_core::select::DecisionRule;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus bench preference build gsm8k.jsonl.gz math.jsonl.gz -o ops.jsonl\n  \
gradus bench preference build solutions.jsonl --families llama,qwen,mistral -o ops.jsonl\n\n\
To keep only solutions on which a reward model agrees with the outcome: --candidates -o c.jsonl, gradus score c.jsonl -o s.jsonl --name prm,\n\
then build from s.jsonl with --prm prm."
)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    input: DatasetInput,
    /// Output file with the benchmark (Gradus format)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Number of model families, those with the most problems in common
    #[arg(long, default_value_t = 3, conflicts_with = "families")]
    count: usize,
    /// Model families, comma-separated, such as llama,qwen,mistral (default: chosen by --count)
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// Maximum problems with a common correct answer, and with a common wrong one
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Omit solutions whose outcome contradicts the scores of this name in the data
    #[arg(long, value_name = "NAME")]
    prm: Option<String>,
    #[command(flatten)]
    decision: DecisionOptions,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write all usable solutions, split into steps, instead of a benchmark
    #[arg(long)]
    candidates: bool,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &BuildArgs) -> Result<Status> {
    let decision = match &args.prm {
        Some(prm) => args.decision.over(decision_of_scores(prm))?,
        None => {
            args.decision.refuse("without --prm nothing is decided by scores")?;
            DecisionRule::default()
        }
    };
    let (records, _) = input::joined(&args.input, Need::Solutions)?;
    let printer = Printer::new(Some(&args.output));
    let write = |records: &[Record]| -> Result<()> {
        let mut sink = Sink::create(Target::new(&args.output))?;
        records.iter().try_for_each(|record| sink.push(record))?;
        Ok(sink.finish().map(drop)?)
    };
    if args.candidates {
        let (candidates, dropped) = build::candidates(&records);
        write(&candidates)?;
        let kept: usize = candidates.iter().map(|record| record.solutions.len()).sum();
        if args.print.json {
            printer.json(&json!({ "candidates": kept, "dropped": dropped }))?;
        } else {
            printer.line(format!("{} {}", counted(kept, "candidate"), printer::written_to(&args.output)))?;
            left_out(printer, &dropped)?;
        }
        return Ok(Status::Done);
    }
    let plan = PreferencePlan {
        count: args.count,
        families: args.families.clone(),
        limit: args.limit,
        prm: args.prm.clone(),
        decision,
        seed: args.seed,
    };
    let built = build::build(&records, &plan)?;
    write(&built.records)?;
    if args.print.json {
        printer.json(&built)?;
        return Ok(Status::Done);
    }
    printer.line(format!(
        "{} correct and {} wrong answers by each of {}, for {}: {} {}",
        built.per_class,
        built.per_class,
        built.families.join(", "),
        counted(built.problems, "problem"),
        counted(2 * built.per_class * built.families.len(), "solution"),
        printer::written_to(&args.output)
    ))?;
    printer.line(format!(
        "before balancing: {} with a common correct answer, {} with a common wrong one",
        counted(built.correct_units, "problem"),
        grouped(built.wrong_units)
    ))?;
    let models: Vec<Vec<String>> =
        built.models.iter().map(|(model, number)| vec![model.clone(), grouped(*number)]).collect();
    printer.table(&["model", "solutions"], &models)?;
    left_out(printer, &built.dropped)?;
    Ok(Status::Done)
}

fn left_out(printer: Printer, dropped: &std::collections::BTreeMap<&'static str, usize>) -> Result<()> {
    for (reason, number) in dropped {
        printer.line(format!("omitted: {} × {reason}", grouped(*number)))?;
    }
    Ok(())
}
