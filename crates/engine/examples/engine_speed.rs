//! Speed of the engine on this machine, as JSON lines; `make bench-engine` puts its peers' beside it.
//!
//! Run with `cargo run --release -p gradus-engine --example engine_speed -- TASK…`, where a task is one of `score`, `long`,
//! `generate`, `batch`, `embed`, `memory`; `GRADUS_DATA` names the folder with the datasets, `GRADUS_BENCH_DEVICE=cuda` runs on
//! a GPU, `GRADUS_BENCH_MODEL` takes another model, `GRADUS_BENCH_BUDGET` another token budget,
//! `GRADUS_BENCH_PRECISION` another arithmetic. Each figure is the best of three repetitions after one that warms up.
//!
//! `forward:64x512` is 64 texts of 512 random tokens, and `decode:192x160` 160 tokens each of 192 samples: for any model, without
//! data. Several such tasks share one loaded model. `GRADUS_BENCH_ROUNDS` is for how often each is measured, 3 unless set.

use std::path::PathBuf;
use std::time::Instant;

use gradus_core::contracts::{Embed, Generate, GenerateRequest, LogProbs, LogProbsRequest, Prompt, Sampling};
use gradus_data::files;
use gradus_engine::{Device, Engine, LoadOptions, Model, ServiceOptions, models};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let tasks: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |task: &str| tasks.is_empty() || tasks.iter().any(|name| name == task);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    if ["score", "long", "generate", "batch", "memory"].iter().any(|task| wanted(task)) {
        let engine = start("smollm2-135m")?;
        let texts = solutions("processbench/gsm8k.json", 64)?;
        if wanted("score") {
            runtime.block_on(score(&engine, &texts))?;
        }
        if wanted("long") {
            let long: String = solutions("processbench/math.json", 40)?.concat();
            let long = cut(&engine, &long, 2000)?;
            runtime.block_on(score_long(&engine, "long", &long))?;
        }
        if wanted("generate") {
            runtime.block_on(generate(&engine, 1))?;
        }
        if wanted("batch") {
            runtime.block_on(generate(&engine, 16))?;
        }
        if wanted("memory") {
            let long: String = solutions("processbench/math.json", 60)?.concat();
            let before = memory("VmRSS");
            runtime.block_on(score_long(&engine, "long, 4,000 tokens", &cut(&engine, &long, 4000)?))?;
            print(
                "memory of a 4,000-token pass over the loaded model",
                (memory("VmHWM") - before) / 1e6,
                "MB",
            );
            print("peak memory", memory("VmHWM") / 1e6, "MB");
        }
    }
    let shaped: Vec<Shaped> = tasks.iter().filter_map(|task| Shaped::parse(task)).collect();
    if !shaped.is_empty() {
        let engine = start("smollm2-135m")?;
        for task in shaped {
            runtime.block_on(task.run(&engine))?;
        }
        print("peak memory", memory("VmHWM") / 1e6, "MB");
    }
    if wanted("embed") {
        let engine = start("all-minilm-l6-v2")?;
        let texts = problems("math/train.jsonl", 1000)?;
        let seconds = best(|| {
            let answer = runtime.block_on(engine.embed(texts.clone()))?;
            Ok(answer.values.len())
        })?;
        print("embed", texts.len() as f64 / seconds, "texts/s");
    }
    Ok(())
}

fn start(name: &str) -> Outcome<Engine> {
    let device: Device = std::env::var("GRADUS_BENCH_DEVICE").map_or(Ok(Device::Cpu), |name| name.parse())?;
    let name = std::env::var("GRADUS_BENCH_MODEL").unwrap_or_else(|_| name.to_owned());
    let precision = std::env::var("GRADUS_BENCH_PRECISION").ok().map(|name| name.parse()).transpose()?;
    let options = LoadOptions { device, precision, ..LoadOptions::default() };
    let model = Model::load(&models::resolve(&name)?, &options)?;
    let budget = std::env::var("GRADUS_BENCH_BUDGET").ok().and_then(|budget| budget.parse().ok());
    let default = if device == Device::Cpu { ServiceOptions::default().token_budget } else { 32_768 };
    let token_budget = budget.unwrap_or(default);
    // All samples of `decode` at once.
    let options = ServiceOptions { token_budget, max_sequences: 256, ..ServiceOptions::default() };
    Ok(Engine::start(model, None, options)?)
}

/// Prompt tokens per second: the log-probability of a last token, for many texts at once.
async fn score(engine: &Engine, texts: &[String]) -> Outcome {
    let mut fastest = f64::MAX;
    let mut tokens = 0;
    for _ in 0..4 {
        let started = Instant::now();
        let asked: Vec<_> = texts.iter().map(|text| engine.logprobs(last_token(text))).collect();
        tokens = 0;
        for answer in asked {
            tokens += answer.await?.usage.prompt_tokens;
        }
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    print("score", tokens as f64 / fastest, "tokens/s");
    Ok(())
}

async fn score_long(engine: &Engine, name: &str, text: &str) -> Outcome {
    let mut fastest = f64::MAX;
    let mut tokens = 0;
    for _ in 0..4 {
        let started = Instant::now();
        tokens = engine.logprobs(last_token(text)).await?.usage.prompt_tokens;
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    print(name, tokens as f64 / fastest, "tokens/s");
    Ok(())
}

fn last_token(text: &str) -> LogProbsRequest {
    LogProbsRequest { prompt: Prompt::Text(text.to_owned()), continuation: " +".to_owned() }
}

/// Generated tokens per second, all samples together.
async fn generate(engine: &Engine, samples: usize) -> Outcome {
    let mut fastest = f64::MAX;
    let mut tokens = 0;
    for _ in 0..4 {
        let request = GenerateRequest {
            n: samples,
            sampling: Sampling { temperature: if samples == 1 { 0.0 } else { 1.0 }, ..Sampling::default() },
            ..GenerateRequest::new(Prompt::Text("Once upon a time in a small village".to_owned()), 128)
        };
        let started = Instant::now();
        tokens = engine.generate(request).await?.usage.completion_tokens;
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    let name = if samples == 1 { "generate".to_owned() } else { format!("generate, batch {samples}") };
    print(&name, tokens as f64 / fastest, "tokens/s");
    Ok(())
}

/// A task that says its own size.
struct Shaped {
    name: String,
    is_forward: bool,
    count: usize,
    length: usize,
}

impl Shaped {
    fn parse(task: &str) -> Option<Self> {
        let (kind, size) = task.split_once(':')?;
        let (count, length) = size.split_once('x')?;
        let is_forward = match kind {
            "forward" => true,
            "decode" => false,
            _ => return None,
        };
        Some(Self {
            name: task.to_owned(),
            is_forward,
            count: count.parse().ok()?,
            length: length.parse().ok()?,
        })
    }

    async fn run(&self, engine: &Engine) -> Outcome {
        let rounds =
            std::env::var("GRADUS_BENCH_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
        let mut fastest = f64::MAX;
        let mut tokens = 0;
        // The first one warms up, and counts only if it is the only one.
        for round in 0..=rounds {
            if round == 1 {
                fastest = f64::MAX;
            }
            let started = Instant::now();
            tokens = if self.is_forward {
                self.forward(engine, round).await?
            } else {
                self.decode(engine).await?
            };
            fastest = fastest.min(started.elapsed().as_secs_f64());
        }
        print(&self.name, tokens as f64 / fastest, "tokens/s");
        Ok(())
    }

    /// The log-probability of a last token for many texts at once. No two texts begin alike.
    async fn forward(&self, engine: &Engine, round: usize) -> Outcome<u64> {
        let text = |text: usize| {
            (0..self.length - 1).map(move |at| ((at * 7919 + text * 104_729 + round * 13) % 289) as u32)
        };
        let asked: Vec<_> = (0..self.count)
            .map(|number| {
                let tokens = std::iter::once(number as u32 % 289).chain(text(number).skip(1)).collect();
                engine.logprobs(LogProbsRequest {
                    prompt: Prompt::Tokens(tokens),
                    continuation: "a".to_owned(),
                })
            })
            .collect();
        let mut tokens = 0;
        for answer in asked {
            tokens += answer.await?.usage.prompt_tokens;
        }
        Ok(tokens)
    }

    async fn decode(&self, engine: &Engine) -> Outcome<u64> {
        let request = GenerateRequest {
            n: self.count,
            sampling: Sampling { temperature: 1.0, ..Sampling::default() },
            ..GenerateRequest::new(Prompt::Tokens(vec![5, 7, 11, 13, 17, 19]), self.length)
        };
        Ok(engine.generate(request).await?.usage.completion_tokens)
    }
}

fn best(mut run: impl FnMut() -> Outcome<usize>) -> Outcome<f64> {
    let mut fastest = f64::MAX;
    for _ in 0..4 {
        let started = Instant::now();
        std::hint::black_box(run()?);
        fastest = fastest.min(started.elapsed().as_secs_f64());
    }
    Ok(fastest)
}

fn data(path: &str) -> PathBuf {
    let root = std::env::var_os("GRADUS_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    root.join(path)
}

/// Problem and solution, as one text each.
fn solutions(path: &str, count: usize) -> Outcome<Vec<String>> {
    let mut texts = Vec::new();
    for item in files::open(&[data(path)], None)? {
        let record = item?.record;
        let solution = record.solutions.first().map(gradus_core::Solution::full_text).unwrap_or_default();
        texts.push(format!("{}\n{solution}", record.problem.text));
        if texts.len() == count {
            break;
        }
    }
    Ok(texts)
}

fn problems(path: &str, count: usize) -> Outcome<Vec<String>> {
    let texts = files::open(&[data(path)], None)?.take(count).map(|item| Ok(item?.record.problem.text));
    texts.collect()
}

/// The first `tokens` tokens of a text.
fn cut(engine: &Engine, text: &str, tokens: usize) -> Outcome<String> {
    let ids = engine.tokenizer().encode(text, false)?;
    Ok(engine.tokenizer().decode(&ids[..tokens.min(ids.len())], false)?)
}

/// A line of this process's memory use, in bytes.
fn memory(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0) * 1024.0
}

#[expect(clippy::print_stdout, reason = "an example's purpose")]
fn print(task: &str, value: f64, unit: &str) {
    println!("{}", serde_json::json!({ "peer": "gradus", "task": task, "value": value, "unit": unit }));
}
