//! `gradus generate`: text from a model, streamed.

use std::io::Write;

use anyhow::{Context, Result, bail};
use clap::Args;
use gradus_backend::{Generator, GeneratorSettings, block_on};
use gradus_core::contracts::{Constraint, Generate as _, GenerateRequest, Sampling};

use crate::arguments::JsonOption;
use crate::arguments::values::{at_least_one, count};
use crate::cost;
use crate::exit::{Status, Usage};
use crate::input::standard_input;
use crate::terminal::printer::Printer;
use crate::terminal::visible::visible;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus generate 'What is 17 + 25?' --model smollm2-135m\n  \
gradus generate --raw 'Once upon a time' -n 4 --temperature 0.8 --seed 7\n  \
gradus generate 'Name a city.' --schema '{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}'")]
pub(super) struct GenerateArgs {
    /// Prompt (default: standard input)
    prompt: Option<String>,
    /// Number of completions
    #[arg(short = 'n', long, default_value_t = 1, value_parser = count)]
    samples: usize,
    /// Maximum tokens per completion
    #[arg(long, default_value_t = 512, value_parser = at_least_one)]
    max_tokens: usize,
    /// Sampling temperature; 0 is greedy decoding
    #[arg(short, long, default_value_t = 0.0)]
    temperature: f32,
    /// Nucleus sampling: smallest set of tokens with this total probability; 1 disables it
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Top-k sampling; 0 disables it
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Minimum token probability relative to the most probable token; 0 disables it
    #[arg(long, default_value_t = 0.0)]
    min_p: f32,
    /// Repetition penalty; 1 disables it
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Stop sequence; repeatable
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Random seed; completion i uses seed + i
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Constrain the output to a JSON schema: a file, or the schema itself
    #[arg(long, value_name = "SCHEMA", conflicts_with = "regex")]
    schema: Option<String>,
    /// Constrain the output to a regular expression
    #[arg(long)]
    regex: Option<String>,
    /// With --json, include token log-probabilities
    #[arg(long, requires = "json")]
    logprobs: bool,
    #[command(flatten)]
    generator: GeneratorSettings,
    #[command(flatten)]
    print: JsonOption,
}

pub(super) fn run(args: &GenerateArgs) -> Result<Status> {
    args.generator.endpoints.refuse_local_concurrency()?;
    let (text, constraint) = (prompt(args)?, constraint(args)?);
    let generator = Generator::open(&args.generator)?;
    cost::announce(&generator.spending);
    let request = request(args, &generator, &text, constraint);
    let printer = Printer::new(None);
    let several = args.samples > 1;
    let generated = match generator.engine() {
        Some(engine) => {
            let (mut pieces, answer) = engine.generate_streaming(request);
            block_on(async {
                // One sample is shown while it grows; several would be interleaved and are shown when they are whole.
                if !several && !args.print.json {
                    while let Some(piece) = pieces.recv().await {
                        let mut out = std::io::stdout();
                        write!(out, "{}", visible(&piece.text, false))?;
                        out.flush()?;
                    }
                }
                Ok::<_, anyhow::Error>(answer.await?)
            })??
        }
        None => block_on(generator.generate(request))??,
    };
    if args.print.json {
        printer.json(&generated)?;
    } else if let (None, [choice]) = (generator.engine(), generated.choices.as_slice()) {
        printer.line(&choice.text)?;
    } else if several {
        for (number, choice) in generated.choices.iter().enumerate() {
            printer.line(format!("── sample {number} ──\n{}", choice.text))?;
        }
    } else {
        printer.line("")?;
    }
    cost::conclude(&generator.spending);
    Ok(Status::Done)
}

fn prompt(args: &GenerateArgs) -> Result<String> {
    match &args.prompt {
        Some(prompt) => Ok(prompt.clone()),
        None => standard_input("a prompt"),
    }
}

fn constraint(args: &GenerateArgs) -> Result<Option<Constraint>> {
    Ok(match (&args.schema, &args.regex) {
        (Some(schema), _) => Some(Constraint::JsonSchema(read_schema(schema)?)),
        (None, Some(regex)) => Some(Constraint::Regex(regex.clone())),
        (None, None) => None,
    })
}

fn request(
    args: &GenerateArgs,
    generator: &Generator,
    prompt: &str,
    constraint: Option<Constraint>,
) -> GenerateRequest {
    GenerateRequest {
        prompt: generator.opening(prompt),
        n: args.samples,
        max_tokens: args.max_tokens,
        sampling: Sampling {
            temperature: args.temperature,
            top_p: args.top_p,
            top_k: args.top_k,
            min_p: args.min_p,
            repetition_penalty: args.repetition_penalty,
        },
        stop: args.stop.clone(),
        seed: args.seed,
        constraint,
        top_logprobs: 0,
        logprobs: args.logprobs,
    }
}

/// A schema given in place, or the file that holds it.
fn read_schema(schema: &str) -> Result<serde_json::Value> {
    let (text, place) = if schema.trim_start().starts_with('{') {
        (schema.to_owned(), "--schema".to_owned())
    } else {
        (std::fs::read_to_string(schema).with_context(|| schema.to_owned())?, schema.to_owned())
    };
    match serde_json::from_str(&text) {
        Ok(value) => Ok(value),
        Err(error) => bail!(Usage(format!("{place}: not valid JSON: {error}"))),
    }
}
