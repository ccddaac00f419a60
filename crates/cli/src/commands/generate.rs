//! `gradus generate`: text from a model, as it appears.

use std::io::{IsTerminal, Read, Write};

use anyhow::{Context, Result, bail};
use gradus_core::contracts::{Constraint, GenerateRequest, Message, Prompt, Sampling};

use super::{Status, Usage};
use crate::args::engine::Generate;
use crate::local::{self, Purpose};
use crate::printer::Printer;

pub(super) fn run(args: &Generate) -> Result<Status> {
    let request = request(args)?;
    let local = local::start(&args.model, &args.options, &Purpose::default())?;
    let printer = Printer::new(None);
    let several = args.samples > 1;
    let (mut pieces, answer) = local.engine.generate_streaming(request);
    let generated = local::wait(async {
        // One sample is shown while it grows; several would be interleaved and are shown when they are whole.
        if !several && !args.print.json {
            while let Some(piece) = pieces.recv().await {
                let mut out = std::io::stdout();
                write!(out, "{}", piece.text)?;
                out.flush()?;
            }
        }
        Ok::<_, anyhow::Error>(answer.await?)
    })??;
    if args.print.json {
        printer.json(&generated)?;
    } else if several {
        for (number, choice) in generated.choices.iter().enumerate() {
            printer.line(format!("── sample {number} ──\n{}", choice.text))?;
        }
    } else {
        printer.line("")?;
    }
    Ok(Status::Done)
}

fn request(args: &Generate) -> Result<GenerateRequest> {
    let text = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => standard_input("a prompt")?,
    };
    let prompt = if args.raw {
        Prompt::Text(text)
    } else {
        let system = args.system.iter().map(|system| Message::new("system", system));
        Prompt::Chat(system.chain([Message::new("user", text)]).collect())
    };
    let constraint = match (&args.schema, &args.regex) {
        (Some(schema), _) => Some(Constraint::JsonSchema(read_schema(schema)?)),
        (None, Some(regex)) => Some(Constraint::Regex(regex.clone())),
        (None, None) => None,
    };
    Ok(GenerateRequest {
        prompt,
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
        logprobs: args.logprobs,
    })
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

/// Everything on standard input; waiting at a terminal without a word would look like a hang.
pub(super) fn standard_input(what: &str) -> Result<String> {
    if std::io::stdin().is_terminal() {
        bail!(Usage(format!("give {what} as an argument or on standard input")));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
    Ok(text.trim_end_matches('\n').to_owned())
}
