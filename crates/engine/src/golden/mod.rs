//! The engine against transformers: tiny seeded models of every architecture and head, whose values are in
//! `tests/reference/expected/`. The Python that made them is in `tests/reference/make_models.py`.
//!
//! f32 on the CPU agrees to 1e-4. `GRADUS_TEST_DEVICE=cuda-f32` runs the same on a GPU, `GRADUS_TEST_DEVICE=cuda` in bf16
//! there, with looser bounds and without comparing generated tokens, which rounding may change.

mod profiles;

use std::path::{Path, PathBuf};

use candle_core::{DType, Tensor};
use gradus_core::contracts::{
    Constraint, Embed, Generate, GenerateRequest, Generated, LogProbs, LogProbsRequest, Prompt, Sampling,
};
use serde::Deserialize;

use crate::batch::{Batch, Forest};
use crate::generate::{Generator, Listener, Piece, prepare};
use crate::models::ModelPath;
use crate::{Device, Engine, LoadOptions, Model, Precision, ServiceOptions};

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    text: String,
    ids: Vec<u32>,
    positions: Vec<u32>,
    #[serde(default)]
    entries: Vec<usize>,
    #[serde(default)]
    logits: Vec<Vec<f32>>,
    #[serde(default)]
    logsumexp: Vec<f32>,
    #[serde(default)]
    hidden: Vec<Hidden>,
    #[serde(default)]
    greedy: Vec<u32>,
    #[serde(default)]
    continuation: Vec<u32>,
    #[serde(default)]
    continuation_logprobs: Vec<f32>,
    #[serde(default)]
    class_logits: Vec<Vec<f32>>,
    #[serde(default)]
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct Hidden {
    norm: Vec<f32>,
    values: Vec<Vec<f32>>,
}

/// Whether values are rounded to bf16, as on a GPU by default.
fn is_rounded() -> bool {
    device() == "cuda"
}

fn device() -> String {
    std::env::var("GRADUS_TEST_DEVICE").unwrap_or_else(|_| "cpu".to_owned())
}

fn options() -> LoadOptions {
    let (device, precision) = match device().as_str() {
        "cpu" => (Device::Cpu, Some(Precision::F32)),
        "cuda-f32" => (Device::Cuda(0), Some(Precision::F32)),
        "cuda" => (Device::Cuda(0), None),
        other => panic!("GRADUS_TEST_DEVICE is `{other}`: expected cpu, cuda-f32 or cuda"),
    };
    LoadOptions { device, precision, ..LoadOptions::default() }
}

/// The reference files; a test binary that was carried to another machine is run in the repository's root.
pub(crate) fn reference(path: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference");
    let root = if here.exists() { here } else { PathBuf::from("crates/engine/tests/reference") };
    root.join(path)
}

fn expected<T: for<'a> Deserialize<'a>>(name: &str) -> T {
    let path = reference(&format!("expected/{name}.json"));
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

fn load(name: &str) -> Model {
    Model::load(&ModelPath::Folder(reference(&format!("models/{name}"))), &options()).unwrap()
}

/// Fails with the position and both values when they differ by more than 1e-4 of their size, or by what bf16 loses in models
/// whose weights are made to matter.
#[track_caller]
fn close(what: &str, found: f32, wanted: f32) {
    close_among(what, found, wanted, &[]);
}

/// Like [`close`] for one of several numbers, the largest of which sets the scale of rounding.
#[track_caller]
fn close_among(what: &str, found: f32, wanted: f32, others: &[f32]) {
    let scale = others.iter().fold(wanted.abs().max(1.0), |scale, other| scale.max(other.abs()));
    let bound = if is_rounded() { 0.3 + 0.15 * scale } else { 1e-4 * scale };
    assert!((found - wanted).abs() <= bound, "{what}: found {found}, expected {wanted}");
}

/// Checks logits, hidden states, greedy tokens and log-probabilities of a language model.
fn check_language_model(model: Model, expected: &Expected) {
    let decoder = model.decoder().unwrap();
    for (number, case) in expected.prompts.iter().enumerate() {
        assert_eq!(model.tokenizer.encode(&case.text, false).unwrap(), case.ids, "tokens of prompt {number}");
        let mut batch = Batch::default();
        // A neighbor in the batch must change nothing.
        batch.add(&Forest::sequence(vec![7, 8, 9]));
        batch.add(&Forest::sequence(case.ids.clone()));
        let rows: Vec<u32> = case.positions.iter().map(|position| position + 3).collect();
        let rows = Tensor::new(rows, decoder.device()).unwrap();
        let mut layers: Vec<Vec<Vec<f32>>> = Vec::new();
        let last = decoder
            .forward_observed(&batch, None, &mut |x| {
                layers.push(x.index_select(&rows, 0)?.to_dtype(DType::F32)?.to_vec2()?);
                Ok(())
            })
            .unwrap();
        let last = last.index_select(&rows, 0).unwrap();
        // Transformers' last hidden state has the final norm applied.
        *layers.last_mut().unwrap() = last.to_dtype(DType::F32).unwrap().to_vec2().unwrap();
        for (layer, (found, wanted)) in layers.iter().zip(&case.hidden).enumerate() {
            for (at, row) in found.iter().enumerate() {
                let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
                close(&format!("prompt {number}, layer {layer}, norm"), norm, wanted.norm[at]);
                for (entry, value) in wanted.values[at].iter().enumerate() {
                    close(
                        &format!("prompt {number}, layer {layer}, row {at}, entry {entry}"),
                        row[entry],
                        *value,
                    );
                }
            }
        }
        let logits: Vec<Vec<f32>> = decoder.logits(&last, None).unwrap().to_vec2().unwrap();
        for (at, (found, wanted)) in logits.iter().zip(&case.logits).enumerate() {
            for (entry, value) in case.entries.iter().zip(wanted) {
                close_among(
                    &format!("prompt {number}, row {at}, logit {entry}"),
                    found[*entry],
                    *value,
                    wanted,
                );
            }
            close("log-sum-exp", gradus_kernels::rows::log_sum_exp(found), case.logsumexp[at]);
        }
        let wanted: Vec<u32> = case.entries.iter().map(|entry| *entry as u32).collect();
        let few: Vec<Vec<f32>> = decoder.logits(&last, Some(&wanted)).unwrap().to_vec2().unwrap();
        for (found, wanted) in few.iter().zip(&case.logits) {
            let pairs = found.iter().zip(wanted);
            pairs.for_each(|(found, value)| close_among("chosen logit", *found, *value, wanted));
        }
    }
    check_service(model, expected);
}

fn check_service(model: Model, expected: &Expected) {
    let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for case in &expected.prompts {
        let prompt = Prompt::Text(case.text.clone());
        let request = GenerateRequest {
            sampling: Sampling { temperature: 0.0, ..Sampling::default() },
            logprobs: true,
            ..GenerateRequest::new(prompt.clone(), case.greedy.len())
        };
        let generated = runtime.block_on(engine.generate(request)).unwrap();
        let found: Vec<u32> = generated.choices[0].logprobs.iter().map(|token| token.id).collect();
        // The reference goes on after the end-of-text token; generation ends there.
        let eos = &engine.tokenizer().eos;
        let wanted: Vec<u32> = case.greedy.iter().copied().take_while(|id| !eos.contains(id)).collect();
        if !is_rounded() {
            assert_eq!(found, wanted, "greedy tokens after {:?}", case.text);
        }
        let continuation = engine.tokenizer().decode(&case.continuation, false).unwrap();
        let answer = runtime.block_on(engine.logprobs(LogProbsRequest { prompt, continuation })).unwrap();
        let ids: Vec<u32> = answer.tokens.iter().map(|token| token.id).collect();
        assert_eq!(ids, case.continuation);
        for (token, wanted) in answer.tokens.iter().zip(&case.continuation_logprobs) {
            close_among("continuation", token.logprob, *wanted, &case.continuation_logprobs);
        }
    }
}

/// Samples that wait for room are those that would have started at once.
#[test]
fn samples_do_not_depend_on_how_many_start_together() {
    // A GPU's libraries choose kernels by batch size.
    if device() != "cpu" {
        return;
    }
    let model = load("llama");
    let text = &expected::<Expected>("llama").prompts[0].text;
    let request = |n: usize, max_tokens: usize, seed: u64| GenerateRequest {
        n,
        seed,
        logprobs: true,
        ..GenerateRequest::new(Prompt::Text(text.clone()), max_tokens)
    };
    let requests = || {
        let constraint = Some(Constraint::Regex("[a-z]{1,9}".into()));
        vec![
            request(9, 12, 1),
            request(1, 3, 5),
            request(7, 1, 2),
            GenerateRequest { constraint, ..request(5, 8, 3) },
        ]
    };
    let together = model.generate_all(requests(), 100).unwrap();
    for width in [1, 2, 8] {
        assert_eq!(model.generate_all(requests(), width).unwrap(), together, "{width} at a time");
    }
    let texts: Vec<_> = together[0].choices.iter().map(|choice| &choice.text).collect();
    assert!(texts.iter().any(|text| *text != texts[0]), "each sample has a seed of its own: {texts:?}");

    let options = ServiceOptions { max_sequences: 2, ..ServiceOptions::default() };
    let engine = Engine::start(model, None, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let asked: Vec<_> = requests().into_iter().map(|request| engine.generate(request)).collect();
    for (answer, wanted) in asked.into_iter().zip(&together) {
        assert_eq!(&runtime.block_on(answer).unwrap(), wanted);
    }
}

#[test]
fn no_more_samples_run_than_there_is_room_for() {
    struct Nobody;
    impl Listener for Nobody {
        fn piece(&mut self, _: Piece) {}
        fn finish(self: Box<Self>, _: crate::Result<Generated>) {}
        fn is_gone(&self) -> bool {
            false
        }
    }
    let model = load("llama");
    let mut generator = Generator::new(&model, 3).unwrap();
    let prompt = Prompt::Text(expected::<Expected>("llama").prompts[0].text.clone());
    let request = GenerateRequest { n: 10, ..GenerateRequest::new(prompt, 6) };
    generator.admit(&model, prepare(&model, request, Box::new(Nobody)).into_iter().collect()).unwrap();
    let mut steps = 0;
    while !generator.is_empty() {
        assert!((1..=3).contains(&generator.len()), "{} sequences", generator.len());
        generator.step(&model).unwrap();
        steps += 1;
    }
    assert!(steps > 6, "all in {steps} steps");
}

macro_rules! language_models {
    ($($test:ident: $name:literal,)*) => {$(
        #[test]
        fn $test() {
            check_language_model(load($name), &expected($name));
        }
    )*};
}

language_models! {
    llama_matches_transformers: "llama",
    llama_with_llama3_rope_matches_transformers: "llama3-rope",
    llama_with_linear_rope_matches_transformers: "llama-linear-rope",
    llama_in_bf16_shards_matches_transformers: "llama-sharded",
    llama_in_f16_matches_transformers: "llama-f16",
    mistral_with_sliding_window_matches_transformers: "mistral",
    qwen2_matches_transformers: "qwen2",
    qwen2_with_yarn_matches_transformers: "qwen2-yarn",
    qwen3_matches_transformers: "qwen3",
}

#[derive(Deserialize)]
struct LongContext {
    positions: Vec<u32>,
    entries: Vec<usize>,
    hidden: Vec<Vec<f32>>,
    logits: Vec<Vec<f32>>,
}

/// The same tokens as in `make_models.py`.
fn long_ids() -> Vec<u32> {
    let mut state: u64 = 1;
    let next = |_| {
        state = (state * 1_103_515_245 + 12_345) % (1 << 31);
        (state >> 16) as u32 % 288
    };
    (0..32_768).map(next).collect()
}

#[test]
fn a_text_of_32768_tokens_matches_transformers() {
    let (model, expected) = (load("llama-long"), expected::<LongContext>("llama-long"));
    let decoder = model.decoder().unwrap();
    let mut batch = Batch::default();
    batch.add(&Forest::sequence(long_ids()));
    let rows = Tensor::new(expected.positions.clone(), decoder.device()).unwrap();
    let hidden = decoder.forward(&batch, None).unwrap().index_select(&rows, 0).unwrap();
    let logits: Vec<Vec<f32>> = decoder.logits(&hidden, None).unwrap().to_vec2().unwrap();
    let hidden: Vec<Vec<f32>> = hidden.to_dtype(DType::F32).unwrap().to_vec2().unwrap();
    for (at, position) in expected.positions.iter().enumerate() {
        for (found, wanted) in hidden[at].iter().zip(&expected.hidden[at]) {
            close(&format!("position {position}"), *found, *wanted);
        }
        for (entry, wanted) in expected.entries.iter().zip(&expected.logits[at]) {
            close_among(&format!("logit at {position}"), logits[at][*entry], *wanted, &expected.logits[at]);
        }
    }
}

#[test]
fn lora_adapters_match_peft() {
    for name in ["llama-lora", "llama-rslora"] {
        let adapter = Some(reference(&format!("models/{name}")));
        let path = ModelPath::Folder(reference("models/llama"));
        let model = Model::load(&path, &LoadOptions { adapter, ..options() }).unwrap();
        check_language_model(model, &expected(name));
    }
}

#[test]
fn quantised_models_match_transformers_on_the_same_weights() {
    // A GPU's products with quantized weights round the activations to 8 bits: only expanded weights are compared there.
    let kept: &[Option<bool>] = if device() == "cpu" { &[Some(false), Some(true)] } else { &[Some(true)] };
    for name in ["f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "k"] {
        for dequantize in kept.iter().copied() {
            let path = ModelPath::Gguf(reference(&format!("gguf/llama-{name}.gguf")));
            let model = Model::load(&path, &LoadOptions { dequantize, ..options() }).unwrap();
            check_language_model(model, &expected(&format!("gguf-llama-{name}")));
        }
    }
    let path = ModelPath::Gguf(reference("gguf/qwen2-q8_0.gguf"));
    check_language_model(Model::load(&path, &options()).unwrap(), &expected("gguf-qwen2-q8_0"));
}

#[test]
fn reward_heads_match_transformers() {
    for name in ["qwen2-prm", "qwen2-token-classification", "skywork"] {
        let model = load(name);
        let expected: Expected = expected(name);
        for case in &expected.prompts {
            let reads: Vec<(usize, usize, usize)> =
                case.positions.iter().map(|position| (0, 0, *position as usize)).collect();
            let hidden = model.hidden(&[Forest::sequence(case.ids.clone())], &reads).unwrap();
            let kind = if case.values.is_empty() { "class head" } else { "value head" };
            let found: Vec<Vec<f32>> = model.head(kind).unwrap().forward(&hidden).unwrap().to_vec2().unwrap();
            for (at, row) in found.iter().enumerate() {
                match case.values.get(at) {
                    Some(value) => close(name, row[0], *value),
                    None => row.iter().zip(&case.class_logits[at]).for_each(|(a, b)| close(name, *a, *b)),
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Sentences {
    sentences: Vec<Sentence>,
}

#[derive(Deserialize)]
struct Sentence {
    text: String,
    ids: Vec<u32>,
    embedding: Vec<f32>,
}

#[test]
fn encoders_match_sentence_transformers() {
    for name in ["bert-mean", "bert-cls"] {
        let expected: Sentences = expected(name);
        let model = load(name);
        for sentence in expected.sentences.iter().filter(|sentence| sentence.ids.len() < model.context()) {
            assert_eq!(model.tokenizer.encode(&sentence.text, true).unwrap(), sentence.ids);
        }
        let engine = Engine::start(model, None, ServiceOptions::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let texts = expected.sentences.iter().map(|sentence| sentence.text.clone()).collect();
        let found = runtime.block_on(engine.embed(texts)).unwrap();
        for (vector, sentence) in found.rows().zip(&expected.sentences) {
            vector.iter().zip(&sentence.embedding).for_each(|(a, b)| close(&sentence.text, *a, *b));
        }
    }
}
