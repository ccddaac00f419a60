//! `gradus pool map`: distribution shift between datasets, as a table and a plot.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use gradus_backend::{Embedder, block_on};
use gradus_core::contracts::Embed as _;
use gradus_plot::cloud::{Cloud, CloudSeries, Dot};
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::{Block, Page, Section, Unit};
use gradus_retrieve::map::{self, Set, Shift};
use serde::Serialize;

use crate::arguments::JsonOption;
use crate::arguments::dataset::OnError;
use crate::arguments::retrieval::EncoderOptions;
use crate::arguments::values::at_least_one;
use crate::cost;
use crate::exit::{Status, Usage};
use crate::input;
use crate::output;
use crate::terminal::interrupt;
use crate::terminal::printer::{self, Printer};
use crate::terminal::progress::Progress;

/// Projections of embeddings to the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// PCA: the first two principal components
    Pca,
    /// t-SNE: preserves neighborhoods, not distances between groups
    Tsne,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gradus pool map gsm8k.jsonl math.jsonl olympiadbench.jsonl -o map.html")]
pub(crate) struct MapArgs {
    /// Datasets to compare, each a file or a folder
    #[arg(required = true, num_args = 2.., value_name = "DATASET")]
    datasets: Vec<PathBuf>,
    /// Output HTML page
    #[arg(short, long, value_name = "FILE", default_value = "map.html")]
    output: PathBuf,
    /// Embedding model name or folder (see gradus models list)
    #[arg(short, long, default_value = "all-minilm-l6-v2", value_name = "MODEL")]
    encoder: String,
    /// Maximum questions per dataset, evenly spaced
    #[arg(long, alias = "questions", default_value_t = 500, value_parser = at_least_one)]
    max_questions: usize,
    /// Maximum steps per dataset, evenly spaced; 0 omits steps
    #[arg(long, alias = "steps", default_value_t = 1000)]
    max_steps: usize,
    /// Projection of the plot
    #[arg(long, value_enum, default_value = "tsne")]
    layout: Layout,
    /// With --layout tsne, random seed (default: 0)
    #[arg(long)]
    seed: Option<u64>,
    /// With --layout tsne, perplexity: the effective number of neighbors (default: 30)
    #[arg(long)]
    perplexity: Option<f32>,
    /// How to handle invalid records
    #[arg(long, value_enum, default_value = "fail")]
    on_error: OnError,
    #[command(flatten)]
    options: EncoderOptions,
    #[command(flatten)]
    print: JsonOption,
}

/// Texts that the encoder gets at once.
const BATCH: usize = 256;
/// Bins of a histogram of similarities.
const BINS: usize = 40;

/// A dataset's texts, each once.
struct Dataset {
    name: String,
    questions: Vec<String>,
    steps: Vec<String>,
}

/// Summary of the comparison, without raw similarities.
#[derive(Serialize)]
struct MapSummary<'a> {
    encoder: &'a str,
    page: &'a Path,
    datasets: Vec<DatasetCounts<'a>>,
    questions: &'a [Shift],
    steps: &'a [Shift],
}

#[derive(Serialize)]
struct DatasetCounts<'a> {
    name: &'a str,
    questions: usize,
    steps: usize,
}

impl MapArgs {
    fn layout(&self) -> Result<map::Layout> {
        match (self.layout, self.seed, self.perplexity) {
            (Layout::Pca, None, None) => Ok(map::Layout::Pca),
            (Layout::Pca, _, _) => {
                Err(Usage("--seed and --perplexity have no effect with --layout pca".into()).into())
            }
            (Layout::Tsne, seed, perplexity) => {
                Ok(map::Layout::Tsne { seed: seed.unwrap_or(0), perplexity: perplexity.unwrap_or(30.0) })
            }
        }
    }
}

pub(super) fn run(args: &MapArgs) -> Result<Status> {
    let layout = args.layout()?;
    let datasets = read(args)?;
    let encoder = Embedder::open(&args.options.named(&args.encoder))?;
    cost::announce(&encoder.spending);
    interrupt::be_patient();
    let texts = |of: fn(&Dataset) -> &[String]| datasets.iter().map(of).collect::<Vec<_>>();
    let (questions, steps) = (texts(|set| &set.questions), texts(|set| &set.steps));
    let total = questions.iter().chain(&steps).map(|texts| texts.len() as u64).sum();
    let mut bar = EmbeddingBar { bar: Progress::new(total, false), done: 0 };
    let (dimension, question_rows) = embed(&encoder, &questions, &mut bar)?;
    let (_, step_rows) = embed(&encoder, &steps, &mut bar)?;
    drop(bar);
    cost::conclude(&encoder.spending);
    let shifts = |rows: &[Vec<f32>]| {
        let sets: Vec<Set<'_>> =
            datasets.iter().zip(rows).map(|(set, rows)| Set { name: &set.name, rows }).collect();
        map::shifts(&sets, dimension)
    };
    let mut of_questions = shifts(&question_rows)?;
    let mut of_steps = if args.max_steps == 0 { Vec::new() } else { shifts(&step_rows)? };
    let places = map::layout(&question_rows.concat(), dimension, layout)?;
    let mut sections = vec![picture(&datasets, &places, args.layout)];
    sections.push(figures("Question shift", "question", &of_questions));
    if !of_steps.is_empty() {
        sections.push(figures("Step shift", "step", &of_steps));
    }
    for shift in of_questions.iter_mut().chain(&mut of_steps) {
        shift.similarities.clear();
    }
    let counts = datasets.iter().map(|set| DatasetCounts {
        name: &set.name,
        questions: set.questions.len(),
        steps: set.steps.len(),
    });
    let report = MapSummary {
        encoder: &args.encoder,
        page: &args.output,
        datasets: counts.collect(),
        questions: &of_questions,
        steps: &of_steps,
    };
    let page = Page {
        title: "Distribution shift between datasets".to_owned(),
        subtitle: format!(
            "embeddings of {}, at most {} questions and {} steps per dataset",
            args.encoder, args.max_questions, args.max_steps
        ),
        sections,
        data_json: Some(serde_json::to_string_pretty(&report)?),
    };
    output::write(&args.output, page.html().as_bytes())?;
    let printer = Printer::new(None);
    if args.print.json {
        printer.json(&report)?;
        return Ok(Status::Done);
    }
    table(printer, "nearest question", &of_questions)?;
    if !of_steps.is_empty() {
        printer.line("")?;
        table(printer, "nearest step", &of_steps)?;
    }
    printer.line(format!(
        "\nshift: nearest-neighbor similarity within the second dataset minus that to the first; plot {}",
        printer::written_to(&args.output)
    ))?;
    Ok(Status::Done)
}

/// Reads the datasets: the questions, and the steps of solutions or else of reference solutions.
fn read(args: &MapArgs) -> Result<Vec<Dataset>> {
    let mut datasets: Vec<Dataset> = Vec::new();
    for path in &args.datasets {
        let (mut questions, mut steps) = (Unique::default(), Unique::default());
        input::read(std::slice::from_ref(path), Default::default(), args.on_error, &mut |item| {
            let problem = &item.record.problem;
            questions.add(&problem.question());
            if args.max_steps > 0 {
                item.record
                    .solutions
                    .iter()
                    .flat_map(|solution| &solution.steps)
                    .for_each(|step| steps.add(step));
                if item.record.solutions.is_empty() {
                    problem.reference.iter().for_each(|step| steps.add(step));
                }
            }
            Ok(())
        })?;
        let name = name(path, &datasets);
        if questions.texts.is_empty() {
            return Err(Usage(format!("{} contains no questions", path.display())).into());
        }
        datasets.push(Dataset {
            name,
            questions: questions.spread(args.max_questions),
            steps: steps.spread(args.max_steps),
        });
    }
    // A larger set is nearer to everything by its size alone.
    let even = |of: fn(&mut Dataset) -> &mut Vec<String>, datasets: &mut [Dataset]| {
        let least =
            datasets.iter_mut().map(|set| of(set).len()).filter(|count| *count > 0).min().unwrap_or(0);
        for set in datasets.iter_mut() {
            let all = std::mem::take(of(set));
            *of(set) = spread(all, least);
        }
    };
    even(|set| &mut set.questions, &mut datasets);
    even(|set| &mut set.steps, &mut datasets);
    Ok(datasets)
}

/// A file's name up to its first dot, with its folder where that is taken.
fn name(path: &Path, others: &[Dataset]) -> String {
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default().to_owned();
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    // `train` and `test` say little without their folder.
    let plain = ["train", "test", "dev", "data"].contains(&stem.as_str());
    match folder {
        Some(folder) if plain || others.iter().any(|other| other.name == stem) => format!("{folder}/{stem}"),
        _ => stem,
    }
}

/// Texts without repetitions, in the order in which they came.
#[derive(Default)]
struct Unique {
    texts: Vec<String>,
    seen: HashSet<String>,
}

impl Unique {
    fn add(&mut self, text: &str) {
        if !text.trim().is_empty() && self.seen.insert(text.to_owned()) {
            self.texts.push(text.to_owned());
        }
    }

    fn spread(self, most: usize) -> Vec<String> {
        spread(self.texts, most)
    }
}

/// At most `most` texts, evenly spaced.
fn spread(texts: Vec<String>, most: usize) -> Vec<String> {
    let (all, taken) = (texts.len(), texts.len().min(most));
    let wanted: HashSet<usize> = (0..taken).map(|index| index * all / taken.max(1)).collect();
    texts.into_iter().enumerate().filter(|(index, _)| wanted.contains(index)).map(|(_, text)| text).collect()
}

struct EmbeddingBar {
    bar: Progress,
    done: u64,
}

/// The vectors of each set, of length 1.
fn embed(encoder: &Embedder, sets: &[&[String]], bar: &mut EmbeddingBar) -> Result<(usize, Vec<Vec<f32>>)> {
    let mut dimension = 1;
    let mut all = Vec::new();
    for texts in sets {
        let mut rows = Vec::new();
        for batch in texts.chunks(BATCH) {
            if interrupt::asked() {
                return Err(gradus_retrieve::Error::Stopped.into());
            }
            let answer = block_on(encoder.embed(batch.to_vec()))??;
            dimension = answer.dimension;
            for row in answer.rows() {
                let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
                rows.extend(row.iter().map(|value| value / norm));
            }
            bar.done += batch.len() as u64;
            bar.bar.now(bar.done, "texts");
        }
        all.push(rows);
    }
    Ok((dimension, all))
}

fn table(printer: Printer, what: &str, shifts: &[Shift]) -> Result<()> {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    let rows: Vec<Vec<String>> = shifts
        .iter()
        .map(|shift| {
            let spread = shift.spread.as_ref();
            let moved = shift.shift.as_ref().map_or(String::new(), |moved| {
                format!("{:+.3} ({:+.3} to {:+.3})", moved.value, moved.low, moved.high)
            });
            vec![
                format!("{} → {}", shift.from, shift.to),
                number(spread.map(|spread| spread.mean)),
                number(spread.map(|spread| spread.median)),
                spread.map_or(String::new(), |spread| format!("{:.1} %", 100.0 * spread.copies)),
                if shift.from == shift.to { String::new() } else { moved },
            ]
        })
        .collect();
    printer.table(&[what, "mean", "median", "copies", "shift (95 %)"], &rows)
}

fn picture(datasets: &[Dataset], places: &[[f32; 2]], layout: Layout) -> Section {
    let mut places = places.iter();
    let series = datasets.iter().map(|set| {
        let dots = set.questions.iter().zip(&mut places).map(|(text, [x, y])| Dot {
            name: printer::excerpt(text, 80),
            x: f64::from(*x),
            y: f64::from(*y),
        });
        CloudSeries { name: set.name.clone(), dots: dots.collect() }
    });
    let series = series.collect();
    let caption = match layout {
        Layout::Pca => "Each dot is a question, projected onto the first two principal components (PCA).",
        Layout::Tsne => {
            "Each dot is a question (t-SNE). Neighborhoods are preserved; distances between groups are not."
        }
    };
    let cloud = Cloud { title: "Questions".to_owned(), caption: caption.to_owned(), series };
    Section { heading: "Plot".to_owned(), intro: String::new(), blocks: vec![Block::Cloud(cloud)] }
}

/// For each dataset, how near its texts' nearest neighbors are in each dataset.
fn figures(heading: &str, what: &str, shifts: &[Shift]) -> Section {
    let mut to: BTreeMap<&str, Vec<&Shift>> = BTreeMap::new();
    for shift in shifts {
        to.entry(&shift.to).or_default().push(shift);
    }
    let edges: Vec<f64> = (0..=BINS).map(|edge| edge as f64 / BINS as f64).collect();
    let histogram = |(name, shifts): (&str, Vec<&Shift>)| {
        let series = shifts.iter().map(|shift| {
            let mut counts = vec![0; BINS];
            for similarity in &shift.similarities {
                let bin = (f64::from(*similarity).clamp(0.0, 1.0) * BINS as f64) as usize;
                counts[bin.min(BINS - 1)] += 1;
            }
            let own = if shift.from == shift.to { " (itself)" } else { "" };
            Distribution { name: format!("{}{own}", shift.from), counts, missing: shift.alone as u64 }
        });
        Block::Histogram(Histogram {
            title: format!("Nearest {what} to each {what} of {name}"),
            caption: format!(
                "Cosine similarity of the nearest {what} in each dataset; within {name} itself, the nearest other one."
            ),
            x_label: "similarity".to_owned(),
            x_unit: Unit::Number,
            edges: edges.clone(),
            series: series.collect(),
            markers: Vec::new(),
        })
    };
    Section {
        heading: heading.to_owned(),
        intro:
            "Datasets are subsampled to equal size, since a larger one has nearer neighbors by its size alone."
                .to_owned(),
        blocks: to.into_iter().map(histogram).collect(),
    }
}
