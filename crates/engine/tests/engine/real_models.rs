//! Real models against independent programs: SmolLM2-135M (GGUF, Q4_1) against transformers on the same weights and
//! against llama.cpp, all-MiniLM-L6-v2 against sentence-transformers. The values and the Python that made them are in
//! `tests/reference/`. `make models` fetches the models; without them these tests say that they were skipped.
#![allow(clippy::print_stderr)]

use std::path::PathBuf;

use gradus_core::contracts::{
    Embed, Generate, GenerateRequest, LogProbs, LogProbsRequest, Prompt, Sampling, ScoreRequest, ScoreSteps,
};
use gradus_data::files;
use gradus_engine::batch::Forest;
use gradus_engine::profile::{Assembler, Profile};
use gradus_engine::{Device, Engine, LoadOptions, Model, Precision, ServiceOptions, models};
use serde::Deserialize;

fn open(name: &str, options: &LoadOptions) -> Option<Model> {
    match models::resolve(name) {
        Ok(path) => Some(Model::load(&path, options).expect("a pulled model loads")),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// f32, on the CPU or, with `GRADUS_TEST_DEVICE=cuda-f32`, on a GPU.
fn exact() -> LoadOptions {
    let on_gpu = std::env::var("GRADUS_TEST_DEVICE").is_ok_and(|device| device == "cuda-f32");
    let device = if on_gpu { Device::Cuda(0) } else { Device::Cpu };
    LoadOptions { device, precision: Some(Precision::F32), ..LoadOptions::default() }
}

fn reference(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(name)
}

fn data(path: &str) -> Option<PathBuf> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = std::env::var_os("GRADUS_DATA").map_or(default, PathBuf::from).join(path);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
    }
    path.exists().then_some(path)
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[derive(Deserialize)]
struct SmolLm2 {
    prompts: Vec<Case>,
    tokenization: Vec<Tokens>,
}

#[derive(Deserialize)]
struct Tokens {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    exact: Values,
    llama_cpp: Values,
}

#[derive(Deserialize)]
struct Values {
    logprobs: Vec<Option<f64>>,
    greedy: Vec<u32>,
}

fn smollm2() -> SmolLm2 {
    serde_json::from_slice(&std::fs::read(reference("smollm2.json")).unwrap()).unwrap()
}

fn prompt_logprobs(engine: &Engine, case: &Case) -> Vec<Option<f64>> {
    let request = LogProbsRequest { prompt: Prompt::Text(String::new()), continuation: case.text.clone() };
    let answer = wait(engine.logprobs(request)).unwrap();
    let ids: Vec<u32> = answer.tokens.iter().map(|token| token.id).collect();
    assert_eq!(ids, case.ids[1..], "tokens of {:?}", case.text);
    let first = std::iter::once(None);
    first.chain(answer.tokens.iter().map(|token| Some(f64::from(token.logprob)))).collect()
}

fn greedy(engine: &Engine, case: &Case) -> Vec<u32> {
    let request = GenerateRequest {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        logprobs: true,
        ..GenerateRequest::new(Prompt::Text(case.text.clone()), case.exact.greedy.len())
    };
    let generated = wait(engine.generate(request)).unwrap();
    generated.choices[0].logprobs.iter().map(|token| token.id).collect()
}

/// Largest and mean absolute difference, where both have a value. The first token has none.
fn differences(found: &[Option<f64>], wanted: &[Option<f64>]) -> (f64, f64) {
    assert_eq!(found.len(), wanted.len());
    let both = found.iter().zip(wanted).filter_map(|(found, wanted)| Some((*found)? - (*wanted)?));
    let differences: Vec<f64> = both.map(f64::abs).collect();
    assert!(!differences.is_empty());
    (
        differences.iter().copied().fold(0.0, f64::max),
        differences.iter().sum::<f64>() / differences.len() as f64,
    )
}

#[test]
fn smollm2_in_f32_is_what_transformers_computes() {
    let Some(model) = open("smollm2-135m", &exact()) else { return };
    let expected = smollm2();
    for case in &expected.tokenization {
        assert_eq!(model.tokenizer().encode(&case.text, false).unwrap(), case.ids, "{:?}", case.text);
    }
    let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
    for case in &expected.prompts {
        let (largest, _) = differences(&prompt_logprobs(&engine, case), &case.exact.logprobs);
        assert!(largest < 2e-3, "{:?}: log-probabilities differ by {largest}", case.text);
        let found = greedy(&engine, case);
        let ends = &engine.tokenizer().eos;
        let wanted: Vec<u32> =
            case.exact.greedy.iter().copied().take_while(|id| !ends.contains(id)).collect();
        assert_eq!(found, wanted, "greedy tokens after {:?}", case.text);
    }
}

/// llama.cpp rounds activations to 8 bits and keys to f16, we round to bf16: both are near the exact values, and to each
/// other as near as to those.
#[test]
fn smollm2_in_bf16_agrees_with_llama_cpp() {
    let Some(model) = open("smollm2-135m", &LoadOptions::default()) else { return };
    let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
    let (mut same, mut all) = (0, 0);
    for case in &smollm2().prompts {
        let found = prompt_logprobs(&engine, case);
        let (largest, mean) = differences(&found, &case.llama_cpp.logprobs);
        let (_, their_mean) = differences(&case.llama_cpp.logprobs, &case.exact.logprobs);
        let (_, our_mean) = differences(&found, &case.exact.logprobs);
        eprintln!(
            "{:?}: to llama.cpp {mean:.4} (at most {largest:.3}); to exact values ours {our_mean:.4}, theirs {their_mean:.4}",
            case.text
        );
        assert!(our_mean < their_mean, "{:?}: llama.cpp is nearer to the exact values", case.text);
        assert!(mean < 2.0 * their_mean, "{:?}: mean difference {mean}", case.text);
        let ids = greedy(&engine, case);
        all += case.llama_cpp.greedy.len();
        same += ids.iter().zip(&case.llama_cpp.greedy).take_while(|(a, b)| a == b).count();
    }
    eprintln!("greedy tokens equal to llama.cpp's until the first that is not: {same} of {all}");
    assert!(same * 2 > all, "{same} of {all} greedy tokens agree");
}

#[test]
fn minilm_embeds_as_sentence_transformers_does() {
    let Some(model) = open("all-minilm-l6-v2", &LoadOptions::default()) else { return };
    let Some(path) = data("math/train.jsonl") else { return };
    let bytes = std::fs::read(reference("minilm_embeddings.f32")).unwrap();
    let wanted: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let texts: Vec<String> =
        files::open(&[path], None).unwrap().take(200).map(|item| item.unwrap().record.problem.text).collect();
    let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
    let found = wait(engine.embed(texts)).unwrap();
    assert_eq!(found.values.len(), wanted.len());
    let mut worst = 0f64;
    for (found, wanted) in found.rows().zip(wanted.chunks_exact(found.dimension)) {
        let dot =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let cosine = dot(found, wanted) / (dot(found, found) * dot(wanted, wanted)).sqrt();
        worst = worst.max(1.0 - cosine);
    }
    eprintln!("largest cosine distance {worst:.2e}");
    assert!(worst < 1e-5, "cosine distance {worst}");
}

/// 100 real solutions with two solved problems before each cost a quarter of the tokens, and the scores of one pass are
/// those of a prompt per step. `GRADUS_FULL=1` scores all of them; otherwise the shortest, which takes seconds.
#[test]
fn tree_packing_changes_the_cost_and_not_the_scores() {
    let Some(path) = data("processbench/math.json") else { return };
    let Some(model) = open("smollm2-135m", &exact()) else { return };
    let profile = Profile::find("retrieval-prm").unwrap();
    let assembler = Assembler::new(profile.clone(), model.tokenizer()).unwrap();
    let mut requests = with_references(&path, 100);
    let (mut packed, mut apart) = (0, 0);
    for request in &requests {
        let assembled = assembler.assemble(request, model.tokenizer(), usize::MAX).unwrap();
        let mut forest = Forest::default();
        assembled.prompts.iter().rev().for_each(|(tokens, _)| drop(forest.insert(tokens)));
        packed += forest.tokens();
        apart += assembled.tokens();
    }
    let ratio = apart as f64 / packed as f64;
    eprintln!("100 solutions: {packed} tokens packed, {apart} apart, {ratio:.2} times as many");
    assert!(ratio >= 4.0, "only {ratio:.2} times fewer tokens");

    if std::env::var_os("GRADUS_FULL").is_none() {
        let length = |request: &ScoreRequest| request.steps.concat().len() * request.steps.len();
        requests.sort_by_key(length);
        requests.truncate(2);
    }
    let mut answers = Vec::new();
    for (model, tree_packing) in [(Some(model), true), (open("smollm2-135m", &exact()), false)] {
        let options = ServiceOptions { tree_packing, ..ServiceOptions::default() };
        let engine = Engine::start(model.unwrap(), Some(profile.clone()), options).unwrap();
        let started = std::time::Instant::now();
        let scores = wait(engine.score_steps(requests.clone())).unwrap();
        let (tokens, seconds) = (engine.metrics().prompt_tokens, started.elapsed().as_secs_f64());
        eprintln!("{} solutions, packed: {tree_packing}: {tokens} tokens, {seconds:.1} s", requests.len());
        answers.push(scores.into_iter().map(|scores| scores.unwrap().scores).collect::<Vec<_>>());
    }
    let differences =
        answers[0].iter().flatten().zip(answers[1].iter().flatten()).map(|(a, b)| (a - b).abs());
    let largest = differences.fold(0.0, f64::max);
    eprintln!("largest difference of a score {largest:.1e}");
    assert!(largest < 1e-4, "scores differ by {largest}");
}

/// Solutions with the two problems before them in the file as references, labelled as the file labels them.
fn with_references(path: &std::path::Path, count: usize) -> Vec<ScoreRequest> {
    use gradus_core::{FirstError, Mark, Record};
    use gradus_core::{ReferenceProblem, ReferenceStep};
    let records: Vec<Record> = files::open(&[path.to_owned()], None)
        .unwrap()
        .take(count + 2)
        .map(|item| item.unwrap().record)
        .collect();
    let solved = |record: &Record| {
        let solution = &record.solutions[0];
        let error = match solution.annotations[0].first_error {
            FirstError::At(index) => index,
            _ => usize::MAX,
        };
        let steps = solution.steps.iter().enumerate();
        let steps = steps.map(|(index, step)| (step.clone(), Mark::from_correct(index < error)));
        ReferenceProblem { question: record.problem.text.clone(), steps: steps.collect() }
    };
    records
        .windows(3)
        .map(|window| {
            let solution = &window[2].solutions[0];
            let near = |step: usize| {
                let steps = &window[1].solutions[0].steps;
                ReferenceStep { text: steps[step % steps.len()].clone(), mark: Mark::Correct }
            };
            ScoreRequest {
                id: solution.id.clone(),
                problem: window[2].problem.text.clone(),
                steps: solution.steps.clone(),
                references: vec![solved(&window[0]), solved(&window[1])],
                step_references: (0..solution.steps.len()).map(|step| vec![near(step)]).collect(),
            }
        })
        .collect()
}

/// The same seed gives the same text alone, beside others, and as one of several samples.
#[test]
fn a_seed_gives_the_same_text_in_any_company() {
    let Some(model) = open("smollm2-135m", &LoadOptions::default()) else { return };
    let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
    let request = |seed: u64, n: usize, prompt: &str| GenerateRequest {
        seed,
        n,
        ..GenerateRequest::new(Prompt::Text(prompt.to_owned()), 24)
    };
    let alone: Vec<String> = (5..8)
        .map(|seed| wait(engine.generate(request(seed, 1, "The old house"))).unwrap().choices[0].text.clone())
        .collect();
    let together = wait(async {
        // Some whose tokens no device may draw.
        let other = |seed: u64| GenerateRequest {
            sampling: Sampling {
                top_p: if seed.is_multiple_of(2) { 1.0 } else { 0.9 },
                ..Sampling::default()
            },
            ..request(seed, 2, "Counting from one to ten, we get")
        };
        let others: Vec<_> = (0..5).map(|seed| engine.generate(other(seed))).collect();
        let samples = engine.generate(request(5, 3, "The old house")).await.unwrap();
        for other in others {
            other.await.unwrap();
        }
        samples.choices.into_iter().map(|choice| choice.text).collect::<Vec<_>>()
    });
    assert_eq!(alone, together);
}
