//! How search grows with the number of vectors, exact and approximate: `make bench-growth`.
//!
//! `GRADUS_GROWTH` has the options, none by default: `--sizes` (10000,100000,1000000,10000000), `--threads` (all),
//! `--json FILE`, `--html FILE` (the same as a page of charts), `--from FILE` (draws what an earlier run wrote instead of
//! measuring; may be given several times), `--fast` (fewer queries and repetitions), `--connectivity`, `--expansion-add`,
//! `--expansion-search` (the index's own where not given).
//!
//! Vectors are made up, the same for every run, but not noise: like sentence embeddings after principal components they
//! come in clusters of very different sizes, and their variance falls from dimension to dimension. Queries are drawn from
//! the same mixture and are no rows. Latency is of one query at a time, exact search with all threads and the graph with
//! one; throughput is of a batch with all threads. Memory's speed is that of a plain sum by all threads over the same
//! kind of array, at least 1 GiB, measured in turn with the searches; the best of several.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "shows what it measures, and how far it is")]

use std::collections::HashSet;
use std::f32::consts::TAU;
use std::hint::black_box;
use std::time::Instant;

use gradus_plot::lines::{LineSeries, Lines};
use gradus_plot::{Block, Estimate, Page, Section, Spacing, Unit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::search::approximate::Settings;
use crate::search::{Approximate, Hit, top_k};

const DIMENSION: usize = 128;
const K: usize = 10;

/// What was measured for a number of vectors.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    vectors: usize,
    dimension: usize,
    threads: usize,
    vector_bytes: usize,
    index_bytes: usize,
    resident_bytes: Option<usize>,
    build_seconds: f64,
    open_seconds: f64,
    expansion_search: Option<usize>,
    recall_at_10: f64,
    exact: Speed,
    approximate: Speed,
    /// Bytes per second of the plain sum, and of exact search with one query.
    memory_speed: f64,
    exact_speed: f64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Speed {
    median_ms: f64,
    p99_ms: f64,
    batch: usize,
    queries_per_second: f64,
}

struct Options {
    sizes: Vec<usize>,
    threads: usize,
    json: Option<String>,
    html: Option<String>,
    from: Vec<String>,
    fast: bool,
    settings: Settings,
}

#[test]
#[ignore = "a measurement: make bench-growth"]
fn of_search() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    if !options.from.is_empty() {
        let mut all: Vec<Figures> = Vec::new();
        for path in &options.from {
            all.extend(serde_json::from_slice::<Vec<Figures>>(&std::fs::read(path)?)?);
        }
        all.iter().for_each(|figures| println!("{}", row(figures)));
        return draw(&all, options.html.as_deref().ok_or("--from goes with --html")?);
    }
    rayon::ThreadPoolBuilder::new().num_threads(options.threads).build_global()?;
    println!(
        "| vectors | vectors MB | index MB | resident MB | build s | open s | exact ms (p99) | graph ms (p99) | \
         exact q/s | graph q/s | recall@10 | memory GB/s | exact's share |"
    );
    println!("|{}", "---|".repeat(13));
    let mut all = Vec::new();
    for &size in &options.sizes {
        let figures = measure(size, &options)?;
        println!("{}", row(&figures));
        all.push(figures);
        if let Some(path) = &options.json {
            std::fs::write(path, serde_json::to_string_pretty(&all)?)?;
        }
    }
    options.html.as_deref().map_or(Ok(()), |path| draw(&all, path))
}

/// Charts over the number of vectors.
fn draw(all: &[Figures], path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let line = |name: &str, value: &dyn Fn(&Figures) -> f64| {
        let point = |figures: &Figures| (figures.vectors as f64, Some(Estimate::exactly(value(figures))));
        LineSeries { name: name.to_owned(), points: all.iter().map(point).collect() }
    };
    let chart = |title: &str, y_label: &str, series: Vec<LineSeries>| {
        Block::Lines(Lines {
            title: title.to_owned(),
            x_label: "vectors".to_owned(),
            x_unit: Unit::Count,
            x_spacing: Spacing::Log2,
            y_label: y_label.to_owned(),
            series,
            ..Lines::default()
        })
    };
    let both = |title: &str, y_label: &str, value: fn(&Speed) -> f64| {
        let exact = line("exact", &|figures| value(&figures.exact));
        chart(title, y_label, vec![exact, line("graph", &|figures| value(&figures.approximate))])
    };
    // The vertical axis is linear: powers of ten are what is plotted where values span many.
    let blocks = vec![
        both("Time of one query", "log10 of milliseconds, median", |speed| speed.median_ms.log10()),
        both("Throughput of a batch", "log10 of queries a second", |speed| speed.queries_per_second.log10()),
        chart(
            "Recall of the graph",
            "share of the nearest ten",
            vec![line("graph", &|figures| figures.recall_at_10)],
        ),
        chart(
            "Time to build the graph",
            "log10 of seconds",
            vec![line("graph", &|figures| figures.build_seconds.log10())],
        ),
        chart(
            "Memory",
            "log10 of MB",
            vec![
                line("vectors", &|figures| (figures.vector_bytes as f64 / 1e6).log10()),
                line("graph", &|figures| (figures.index_bytes as f64 / 1e6).log10()),
            ],
        ),
    ];
    let threads = all.first().map_or(0, |figures| figures.threads);
    let page = Page {
        title: "How search grows".to_owned(),
        subtitle: format!("{DIMENSION} dimensions, clustered vectors, {threads} threads"),
        sections: vec![Section {
            heading: "Exact search and the graph".to_owned(),
            intro: String::new(),
            blocks,
        }],
        data_json: Some(serde_json::to_string_pretty(all)?),
    };
    Ok(std::fs::write(path, page.html())?)
}

fn measure(size: usize, options: &Options) -> Result<Figures, Box<dyn std::error::Error>> {
    let asked = if options.fast { 100 } else { 1000 };
    let rows = vectors(size, 1, size);
    let queries = vectors(asked, 2, size);
    let folder = std::env::temp_dir().join(format!("gradus-growth-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("index");

    eprintln!("{size} vectors: building");
    let (index, build_seconds) = timed(|| Approximate::build(&rows, DIMENSION, &options.settings));
    index?.save(&path)?;
    let (index, open_seconds) = timed(|| Approximate::open(&path));
    let index = index?;

    eprintln!("{size} vectors: searching");
    let exact = |queries: &[f32]| top_k(&rows, DIMENSION, queries, K, |_, _, _| true);
    let approximate = |queries: &[f32]| index.search(&rows, queries, K, |_, _, _| true);
    let (truth, exact_batch) = best(if options.fast { 1 } else { 3 }, || exact(&queries));
    let (found, approximate_batch) = best(if options.fast { 1 } else { 5 }, || approximate(&queries));

    // The rows themselves where they are enough, so that a large run needs no second array.
    let filler: Vec<f32> =
        if rows.len() >= 1 << 28 || options.fast { Vec::new() } else { vec![1.0; 1 << 28] };
    let memory = if filler.is_empty() { &rows } else { &filler };
    let (mut sums, mut exact_ms, mut approximate_ms) = (Vec::new(), Vec::new(), Vec::new());
    let one_by_one = if options.fast { 20 } else { 100 };
    for (number, query) in queries.chunks(DIMENSION).take(one_by_one).enumerate() {
        exact_ms.push(timed(|| black_box(exact(query))).1 * 1e3);
        if number % 10 == 0 {
            sums.push(timed(|| black_box(memory.par_chunks(1 << 18).map(sum).sum::<f32>())).1);
        }
    }
    for query in queries.chunks(DIMENSION) {
        approximate_ms.push(timed(|| black_box(approximate(query))).1 * 1e3);
    }
    let fastest = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let figures = Figures {
        vectors: size,
        dimension: DIMENSION,
        threads: rayon::current_num_threads(),
        vector_bytes: size_of_val(&*rows),
        index_bytes: index.bytes(),
        resident_bytes: resident().map(|bytes| bytes.saturating_sub(size_of_val(&*filler))),
        build_seconds,
        open_seconds,
        expansion_search: index.settings().expansion_search,
        recall_at_10: recall(&truth, &found),
        memory_speed: size_of_val(&**memory) as f64 / fastest(&sums),
        exact_speed: size_of_val(&*rows) as f64 / fastest(&exact_ms) * 1e3,
        exact: Speed {
            median_ms: quantile(&mut exact_ms, 0.5),
            p99_ms: quantile(&mut exact_ms, 0.99),
            batch: asked,
            queries_per_second: asked as f64 / exact_batch,
        },
        approximate: Speed {
            median_ms: quantile(&mut approximate_ms, 0.5),
            p99_ms: quantile(&mut approximate_ms, 0.99),
            batch: asked,
            queries_per_second: asked as f64 / approximate_batch,
        },
    };
    std::fs::remove_dir_all(&folder)?;
    Ok(figures)
}

/// Draws vectors of length 1 from the mixture for `size` rows: `stream` 1 for rows, 2 for queries.
fn vectors(count: usize, stream: u64, size: usize) -> Vec<f32> {
    // A cluster has about a hundred rows, some have thousands.
    let clusters = (size / 100).clamp(16, 50_000);
    let spread = |at: usize| (1.0 + at as f32).powf(-0.5);
    let random = |stream: u64, block: usize| {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        random.set_stream(stream << 32 | block as u64);
        random
    };
    let mut centers = vec![0.0; clusters * DIMENSION];
    let fill = |(cluster, center): (usize, &mut [f32])| normal(&mut random(0, cluster), center);
    centers.par_chunks_mut(DIMENSION).enumerate().for_each(fill);
    let mut values = vec![0.0; count * DIMENSION];
    values.par_chunks_mut(1024 * DIMENSION).enumerate().for_each(|(block, rows)| {
        let mut random = random(stream, block);
        for row in rows.chunks_mut(DIMENSION) {
            let cluster = (random.random::<f32>().powi(2) * clusters as f32) as usize;
            let center = &centers[cluster.min(clusters - 1) * DIMENSION..][..DIMENSION];
            normal(&mut random, row);
            for (at, (value, center)) in row.iter_mut().zip(center).enumerate() {
                *value = (center + 0.7 * *value) * spread(at);
            }
            let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
            row.iter_mut().for_each(|value| *value /= length);
        }
    });
    values
}

/// Fills with normally distributed numbers (Box and Muller), two at a time.
fn normal(random: &mut ChaCha8Rng, values: &mut [f32]) {
    for pair in values.chunks_mut(2) {
        let radius = (-2.0 * (1.0 - random.random::<f32>()).ln()).sqrt();
        let (sine, cosine) = (TAU * random.random::<f32>()).sin_cos();
        pair.iter_mut().zip([radius * cosine, radius * sine]).for_each(|(value, drawn)| *value = drawn);
    }
}

fn recall(truth: &[Vec<Hit>], found: &[Vec<Hit>]) -> f64 {
    let common = truth.iter().zip(found).map(|(truth, found)| {
        let known: HashSet<u32> = truth.iter().map(|hit| hit.row).collect();
        found.iter().filter(|hit| known.contains(&hit.row)).count()
    });
    common.sum::<usize>() as f64 / truth.iter().map(Vec::len).sum::<usize>() as f64
}

fn sum(values: &[f32]) -> f32 {
    let mut sums = [0_f32; 64];
    for values in values.chunks_exact(64) {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    sums.iter().sum()
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed().as_secs_f64())
}

/// The result, and the seconds of the fastest run.
fn best<T>(runs: usize, run: impl Fn() -> T) -> (T, f64) {
    let first = timed(&run);
    (1..runs).map(|_| timed(&run)).fold(first, |best, next| if next.1 < best.1 { next } else { best })
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}

/// Memory that the process has now, where the system tells it the way Linux does.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? * 1024)
}

fn row(figures: &Figures) -> String {
    let Figures { exact, approximate, .. } = figures;
    let mega = |bytes: usize| format!("{:.0}", bytes as f64 / 1e6);
    format!(
        "| {} | {} | {} | {} | {:.1} | {:.2} | {:.2} ({:.2}) | {:.3} ({:.3}) | {:.0} | {:.0} | {:.4} | {:.1} | {:.0} % |",
        figures.vectors,
        mega(figures.vector_bytes),
        mega(figures.index_bytes),
        figures.resident_bytes.map_or("unknown".to_owned(), mega),
        figures.build_seconds,
        figures.open_seconds,
        exact.median_ms,
        exact.p99_ms,
        approximate.median_ms,
        approximate.p99_ms,
        exact.queries_per_second,
        approximate.queries_per_second,
        figures.recall_at_10,
        figures.memory_speed / 1e9,
        100.0 * figures.exact_speed / figures.memory_speed,
    )
}

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = Options {
        sizes: vec![10_000, 100_000, 1_000_000, 10_000_000],
        threads: 0,
        json: None,
        html: None,
        from: Vec::new(),
        fast: false,
        settings: Settings::default(),
    };
    let given = std::env::var("GRADUS_GROWTH").unwrap_or_default();
    let mut words = given.split_whitespace().map(str::to_owned);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--sizes" => options.sizes = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--threads" => options.threads = value()?.parse()?,
            "--json" => options.json = Some(value()?),
            "--html" => options.html = Some(value()?),
            "--from" => options.from.push(value()?),
            "--fast" => options.fast = true,
            "--connectivity" => options.settings.connectivity = value()?.parse()?,
            "--expansion-add" => options.settings.expansion_add = value()?.parse()?,
            "--expansion-search" => options.settings.expansion_search = Some(value()?.parse()?),
            _ => return Err(format!("{word} is no option; see the head of growth.rs").into()),
        }
    }
    Ok(options)
}
