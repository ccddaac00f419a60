//! `gradus embed`: text embeddings.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_backend::{Embedder, EmbedderSettings, block_on};
use gradus_core::contracts::{Embed as _, Embeddings};
use serde::Serialize;

use crate::arguments::dataset::DatasetOption;
use crate::cost;
use crate::exit::Status;
use crate::input::{self, Need, standard_input};
use crate::job;
use crate::output;
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;
use gradus_core::count::counted;

/// Output formats on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EmbedTable {
    /// One JSON object per line: text and embedding
    Jsonl,
    /// Cosine similarities of all pairs
    Similarity,
}

#[derive(Debug, Args)]
#[command(mut_arg("data", |arg| arg.help("Embed the problems of these datasets")))]
#[command(after_help = "Examples:\n  gradus embed 'a cat' 'a dog' 'a theorem' --as similarity\n  \
gradus embed --data problems.jsonl -o problems.npy\n  gradus embed < lines.txt")]
pub(super) struct EmbedArgs {
    /// Texts (default: lines of standard input)
    #[arg(conflicts_with = "data")]
    texts: Vec<String>,
    /// Output file, JSONL or NumPy (.npy) (default: standard output)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format on standard output
    #[arg(
        long = "as",
        value_name = "FORMAT",
        value_enum,
        default_value = "jsonl",
        conflicts_with = "output"
    )]
    table: EmbedTable,
    #[command(flatten)]
    dataset: DatasetOption,
    #[command(flatten)]
    embedder: EmbedderSettings,
}

/// Texts that are sent to the engine at once.
const CHUNK: usize = 256;

#[derive(Serialize)]
struct EmbeddingRow<'a> {
    text: &'a str,
    embedding: &'a [f32],
}

pub(super) fn run(args: &EmbedArgs) -> Result<Status> {
    job::registered_with_output("embed", args.output.as_deref(), || embed_texts(args))
}

fn embed_texts(args: &EmbedArgs) -> Result<Status> {
    let texts = texts(args)?;
    let embedder = Embedder::open(&args.embedder)?;
    cost::announce(&embedder.spending);
    let all = embed(&embedder, &texts)?;
    cost::conclude(&embedder.spending);
    if all.truncated > 0 {
        let texts = counted(all.truncated, "text");
        printer::note(format!("{texts} truncated to the model's limit"));
    }
    match (&args.output, args.table) {
        (Some(path), _) => write_file(path, &texts, &all)?,
        (None, EmbedTable::Jsonl) => write_lines(&mut std::io::stdout().lock(), &texts, &all)?,
        (None, EmbedTable::Similarity) => similarity(&texts, &all)?,
    }
    Ok(Status::Done)
}

fn texts(args: &EmbedArgs) -> Result<Vec<String>> {
    if !args.dataset.data.is_empty() {
        let mut texts = Vec::new();
        input::for_each_of(&args.dataset, Need::Records, |item| {
            texts.push(item.record.problem.text);
            Ok(())
        })?;
        return Ok(texts);
    }
    if args.texts.is_empty() {
        return Ok(standard_input("texts")?.lines().map(str::to_owned).collect());
    }
    Ok(args.texts.clone())
}

fn embed(embedder: &Embedder, texts: &[String]) -> Result<Embeddings> {
    let mut all = Embeddings { dimension: 0, values: Vec::new(), truncated: 0, usage: Default::default() };
    let mut progress = Progress::new(texts.len() as u64, false);
    for (done, chunk) in texts.chunks(CHUNK).enumerate() {
        let part = block_on(embedder.embed(chunk.to_vec()))??;
        all.dimension = part.dimension;
        all.values.extend(part.values);
        all.truncated += part.truncated;
        progress.now(
            (done * CHUNK + chunk.len()) as u64,
            &counted(all.values.len() / part.dimension.max(1), "text"),
        );
    }
    Ok(all)
}

fn write_lines(out: &mut dyn Write, texts: &[String], all: &Embeddings) -> Result<()> {
    for (text, embedding) in texts.iter().zip(all.rows()) {
        serde_json::to_writer(&mut *out, &EmbeddingRow { text, embedding })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes the output in one piece.
fn write_file(path: &Path, texts: &[String], all: &Embeddings) -> Result<()> {
    let mut bytes = Vec::new();
    if path.extension().is_some_and(|extension| extension == "npy") {
        npy(&mut bytes, texts.len(), all);
    } else {
        write_lines(&mut bytes, texts, all)?;
    }
    output::write(path, &bytes)
}

/// NumPy's format, version 1: a magic number, a padded header, little-endian f32.
fn npy(out: &mut Vec<u8>, rows: usize, all: &Embeddings) {
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {}), }}", all.dimension);
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    out.extend(b"\x93NUMPY\x01\x00");
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(all.values.iter().flat_map(|value| value.to_le_bytes()));
}

fn similarity(texts: &[String], all: &Embeddings) -> Result<()> {
    let norm = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>().sqrt();
    let cosine = |a: &[f32], b: &[f32]| {
        let dot: f32 = a.iter().zip(b).map(|(x, y)| x * y).sum();
        dot / (norm(a) * norm(b)).max(f32::MIN_POSITIVE)
    };
    let rows: Vec<Vec<String>> = texts
        .iter()
        .zip(all.rows())
        .map(|(text, row)| {
            let cells = all.rows().map(|other| format!("{:.3}", cosine(row, other)));
            std::iter::once(printer::excerpt(text, 40)).chain(cells).collect()
        })
        .collect();
    let heading: Vec<String> = (1..=texts.len()).map(|number| number.to_string()).collect();
    let heading: Vec<&str> = std::iter::once("text").chain(heading.iter().map(String::as_str)).collect();
    Printer::new(None).table(&heading, &rows)
}
