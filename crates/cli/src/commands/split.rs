//! `gradus data split`: parts by problem, stable under reordering and growth of the input.

use anyhow::{Context, Result, anyhow, bail};
use gradus_core::data::files::{Sink, Target};
use gradus_core::data::split;
use serde::Serialize;

use super::Status;
use crate::args::Split;
use crate::{input, printer};

#[derive(Debug, Serialize)]
struct Part {
    name: String,
    share: f64,
    records: u64,
    solutions: u64,
    file: String,
}

pub(super) fn run(args: &Split) -> Result<Status> {
    let shares = parse(&args.parts)?;
    split::check(&shares).map_err(|fault| anyhow!("--parts {}: {fault}", args.parts))?;
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("cannot make {}", args.output.display()))?;
    let mut sinks = Vec::new();
    let mut parts = Vec::new();
    for (name, share) in &shares {
        let file = args.output.join(format!("{name}.jsonl"));
        parts.push(Part {
            name: name.clone(),
            share: *share,
            records: 0,
            solutions: 0,
            file: file.display().to_string(),
        });
        sinks.push(Sink::create(Target::File(file))?);
    }
    input::for_each(&args.input, |item| {
        let part = split::part_of(&item.record.problem, &shares, args.seed);
        parts[part].records += 1;
        parts[part].solutions += item.record.solutions.len() as u64;
        sinks[part].push(&item.record)?;
        Ok(())
    })?;
    for sink in sinks {
        sink.finish()?;
    }
    if args.print.json {
        printer::json(&parts)?;
        return Ok(Status::Done);
    }
    let total: u64 = parts.iter().map(|part| part.records).sum();
    let rows: Vec<_> = parts
        .into_iter()
        .map(|part| {
            let share = printer::percent(part.records, total);
            vec![part.name, printer::count(part.records), share, printer::count(part.solutions), part.file]
        })
        .collect();
    printer::table(&["part", "records", "share", "solutions", "file"], &rows)?;
    Ok(Status::Done)
}

fn parse(parts: &str) -> Result<Vec<(String, f64)>> {
    let mut shares: Vec<(String, f64)> = Vec::new();
    for part in parts.split(',') {
        let Some((name, share)) = part.split_once('=') else {
            bail!("--parts {parts}: `{part}` is not NAME=SHARE");
        };
        let name = name.trim();
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            bail!("--parts {parts}: `{name}` cannot be a file name");
        }
        let share =
            share.trim().parse().with_context(|| format!("--parts {parts}: `{share}` is not a number"))?;
        shares.push((name.to_owned(), share));
    }
    Ok(shares)
}
