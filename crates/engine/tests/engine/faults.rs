//! Bad input: one clear sentence, no panic, and the service lives on.

use std::path::{Path, PathBuf};

use gradus_core::contracts::{
    CallError, Constraint, Generate, GenerateRequest, LogProbs, LogProbsRequest, Message, Prompt,
    ScoreRequest, ScoreSteps, StepScores,
};
use gradus_engine::models::ModelPath;
use gradus_engine::profile::Profile;
use gradus_engine::{Engine, LoadOptions, Model, ReadAt, ReadRequest, Readout, ServiceOptions};
use tempfile::TempDir;

fn reference(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(path)
}

/// A copy of a tiny model that can be damaged.
fn copy(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for entry in std::fs::read_dir(reference(&format!("models/{name}"))).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    folder
}

/// The sentence with which a folder is refused, without the folder's name.
fn refusal(folder: &Path, options: &LoadOptions) -> String {
    let error =
        Model::load(&ModelPath::Folder(folder.to_owned()), options).err().expect("refused").to_string();
    assert!(!error.contains('\n'), "one sentence: {error}");
    error.replace(&folder.display().to_string(), "MODEL")
}

fn edit(path: PathBuf, from: &str, to: &str) {
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{from} is in {}", path.display());
    std::fs::write(path, text.replace(from, to)).unwrap();
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_damaged_safetensors_file_is_named() {
    let folder = copy("llama");
    let weights = folder.path().join("model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    let cut = refusal(folder.path(), &LoadOptions::default());
    assert!(cut.starts_with("MODEL/model.safetensors: not a whole safetensors file"), "{cut}");
    std::fs::write(&weights, b"not weights at all, just text").unwrap();
    let text = refusal(folder.path(), &LoadOptions::default());
    assert!(text.starts_with("MODEL/model.safetensors: not a whole safetensors file"), "{text}");
    std::fs::write(&weights, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n").unwrap();
    let pointer = refusal(folder.path(), &LoadOptions::default());
    assert!(
        pointer.ends_with("a Git LFS pointer, not the file itself: fetch it with git lfs pull"),
        "{pointer}"
    );
    std::fs::remove_file(&weights).unwrap();
    let absent = refusal(folder.path(), &LoadOptions::default());
    assert!(absent.starts_with("MODEL: no weights here"), "{absent}");
}

#[test]
fn a_damaged_gguf_file_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.gguf");
    let whole = std::fs::read(reference("gguf/llama-q4_0.gguf")).unwrap();
    for (bytes, words) in [
        (&whole[..whole.len() - 100], "model.gguf"),
        (&whole[..100], "model.gguf"),
        (&b"GGML old"[..], "not a GGUF file"),
        (&b""[..], "model.gguf"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error =
            Model::load(&ModelPath::Gguf(path.clone()), &LoadOptions::default()).err().expect("refused");
        let error = error.to_string();
        assert!(error.contains(words) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn an_unknown_architecture_is_named_with_those_we_run() {
    let folder = copy("llama");
    edit(folder.path().join("config.json"), "\"llama\"", "\"mamba\"");
    let error = refusal(folder.path(), &LoadOptions::default());
    assert!(error.contains("(model_type `mamba`) is not one of llama, mistral, qwen2, qwen3"), "{error}");
}

#[test]
fn quantized_checkpoints_are_refused_by_their_method() {
    let folder = copy("llama");
    let quantized = "\"num_hidden_layers\": 2, \"quantization_config\": {\"quant_method\": \"gptq\"}";
    edit(folder.path().join("config.json"), "\"num_hidden_layers\": 2", quantized);
    let error = refusal(folder.path(), &LoadOptions::default());
    assert!(error.contains("its weights are quantized with gptq, which is not supported"), "{error}");
}

/// Before anything is scored: the model is at fault, not a solution.
#[test]
fn a_profile_that_the_model_cannot_serve_is_refused_at_once() {
    let start = |model: PathBuf, profile: Profile| {
        let model = Model::load(&ModelPath::Folder(model), &LoadOptions::default()).unwrap();
        Engine::start(model, Some(profile), ServiceOptions::default()).err().expect("refused").to_string()
    };
    let mut third = Profile::find("trl").unwrap();
    third.score = gradus_engine::profile::Score::Classes { positive: 2 };
    third.input = Profile::find("plain").unwrap().input;
    let error = start(reference("models/qwen2-token-classification"), third);
    assert!(error.contains("reads class 2, counted from 0, and the model's head has 2 in all"), "{error}");
    let folder = copy("llama");
    edit(folder.path().join("tokenizer_config.json"), "\"chat_template\"", "\"another\"");
    let error = start(folder.path().to_owned(), Profile::find("plain").unwrap());
    assert!(error.contains("has no chat template that can be read"), "{error}");
}

#[test]
fn a_missing_tensor_and_a_wrong_shape_are_named() {
    let folder = copy("llama");
    edit(folder.path().join("config.json"), "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    let error = refusal(folder.path(), &LoadOptions::default());
    assert!(error.contains("tensor `layers.2.input_layernorm.weight` is missing"), "{error}");
    let folder = copy("llama");
    edit(folder.path().join("config.json"), "\"intermediate_size\": 64", "\"intermediate_size\": 80");
    let error = refusal(folder.path(), &LoadOptions::default());
    assert!(
        error.contains("mlp.gate_proj.weight` has shape [64, 32]: the configuration says [80, 32]"),
        "{error}"
    );
}

#[test]
fn absurd_sizes_are_refused_in_a_sentence() {
    for (from, to, words) in [
        (
            "\"num_hidden_layers\": 2",
            "\"num_hidden_layers\": 4000000000000",
            "layers in the configuration is 4000000000000",
        ),
        ("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 18446744073709551615", "number of layers"),
        ("\"hidden_size\": 32", "\"hidden_size\": 9223372036854775808", "hidden size"),
        ("\"intermediate_size\": 64", "\"intermediate_size\": 4000000000000", "intermediate size"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 4000000000000", "query heads"),
        ("\"vocab_size\": ", "\"vocab_size\": 99999999999", "vocabulary size"),
        ("\"max_position_embeddings\": ", "\"max_position_embeddings\": 99999999999", "context length"),
    ] {
        let folder = copy("llama");
        edit(folder.path().join("config.json"), from, to);
        let error = refusal(folder.path(), &LoadOptions::default());
        assert!(error.starts_with("MODEL/config.json: ") && error.contains(words), "{to}: {error}");
    }
    let folder = copy("llama-lora");
    let options = LoadOptions { adapter: Some(folder.path().to_owned()), ..LoadOptions::default() };
    let load = || {
        let model = ModelPath::Folder(reference("models/llama"));
        Model::load(&model, &options).err().expect("refused").to_string()
    };
    edit(folder.path().join("adapter_config.json"), "\"r\": 4", "\"r\": 4000000000000");
    assert!(load().contains("rank 4000000000000 need"), "{}", load());
    edit(folder.path().join("adapter_config.json"), "\"r\": 4000000000000", "\"r\": 4");
    edit(folder.path().join("adapter_config.json"), "\"lora_alpha\": 8", "\"lora_alpha\": 1e300");
    assert!(load().contains("expected a number of at most 1000000"), "{}", load());
}

#[test]
fn a_tokenizer_that_blows_texts_up_is_refused() {
    let double = r#"{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}"#;
    let sequence = |kind: &str| format!(r#"{{"type": "Sequence", "{kind}": [{}]}}"#, [double; 40].join(","));
    for (field, value, words) in [
        ("normalizer", sequence("normalizers"), "normalizer can make a text more than 64 times as long"),
        ("decoder", sequence("decoders"), "decoder can make a text more than 64 times as long"),
        ("normalizer", format!(r#"{{"type": "Prepend", "prepend": "{}"}}"#, "x".repeat(9999)), "before it"),
        (
            "normalizer",
            format!(r#"{{"type": "Replace", "pattern": {{"Regex": ""}}, "content": "{}"}}"#, "x".repeat(99)),
            "64 times",
        ),
    ] {
        let folder = copy("llama");
        let path = folder.path().join("tokenizer.json");
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        json[field] = serde_json::from_str(&value).unwrap();
        std::fs::write(&path, json.to_string()).unwrap();
        let error = refusal(folder.path(), &LoadOptions::default());
        assert!(error.contains(words), "{field}: {error}");
    }
}

#[test]
fn an_adapter_of_another_base_is_refused() {
    let folder = copy("llama-lora");
    let options = LoadOptions { adapter: Some(folder.path().to_owned()), ..LoadOptions::default() };
    let other = Model::load(&ModelPath::Folder(reference("models/qwen3")), &options)
        .err()
        .expect("refused")
        .to_string();
    assert!(other.contains("is it the base the adapter was trained on?"), "{other}");
    edit(folder.path().join("adapter_config.json"), "\"r\": 4", "\"r\": 8");
    let rank = Model::load(&ModelPath::Folder(reference("models/llama")), &options)
        .err()
        .expect("refused")
        .to_string();
    assert!(rank.contains("rank 8 need"), "{rank}");
}

fn scorer() -> Engine {
    let model = Model::load(&ModelPath::Folder(reference("models/qwen2")), &LoadOptions::default()).unwrap();
    Engine::start(model, Some(Profile::find("plain").unwrap()), ServiceOptions::default()).unwrap()
}

fn solution(id: &str, steps: &[&str]) -> ScoreRequest {
    ScoreRequest {
        id: id.to_owned(),
        problem: "What is 2 + 3?".to_owned(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        ..ScoreRequest::default()
    }
}

#[test]
fn bad_solutions_are_refused_by_name_and_the_others_scored() {
    let engine = scorer();
    let long = "7 ".repeat(100_000);
    let mut references = solution("mismatch", &["2 + 3 = 5"]);
    references.step_references = vec![Vec::new(), Vec::new()];
    let requests = vec![
        solution("empty", &[]),
        solution("good", &["2 + 3 = 5"]),
        solution("blank", &["2 + 3 = 5", "  "]),
        solution("long", &[&long]),
        references,
    ];
    let answers = wait(engine.score_steps(requests)).unwrap();
    let said = |number: usize| match &answers[number] {
        Err(CallError::Invalid(message)) => message.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        said(0),
        "solution `empty`: it has no steps: its text is empty, or was not split (gradus steps)"
    );
    assert_eq!(said(2), "solution `blank`: step 1 is empty");
    assert!(
        said(3).starts_with("solution `long`: it takes ") && said(3).contains("context holds"),
        "{}",
        said(3)
    );
    assert_eq!(said(4), "solution `mismatch`: its reference steps are for 2 steps, and it has 1");
    let good = answers[1].as_ref().unwrap().scores.clone();
    let again = wait(engine.score_steps(vec![solution("good", &["2 + 3 = 5"])])).unwrap();
    assert_eq!(again[0].as_ref().unwrap().scores, good);
}

/// Many solutions of one problem share its tokens, and still no pass exceeds the budget.
#[test]
fn solutions_of_one_problem_are_divided_among_passes() {
    let requests: Vec<ScoreRequest> =
        (0..12).map(|number| solution("s", &[&format!("2 + 3 = {number}"), "So it is."])).collect();
    let whole = wait(scorer().score_steps(requests.clone())).unwrap();
    let one = whole[0].as_ref().unwrap().usage.prompt_tokens;
    let model = Model::load(&ModelPath::Folder(reference("models/qwen2")), &LoadOptions::default()).unwrap();
    let options = ServiceOptions { token_budget: 3 * one as usize, ..ServiceOptions::default() };
    let engine = Engine::start(model, Some(Profile::find("plain").unwrap()), options).unwrap();
    let divided = wait(engine.score_steps(requests)).unwrap();
    let scores = |answers: &[Result<StepScores, CallError>]| -> Vec<Vec<f64>> {
        answers.iter().map(|answer| answer.as_ref().unwrap().scores.clone()).collect()
    };
    assert_eq!(scores(&divided), scores(&whole));
    let metrics = engine.metrics();
    assert!(metrics.passes > 1 && metrics.batch_fill <= 1.0, "{metrics:?}");
}

/// Calls about one problem that wait at the same time share its tokens. Scores and charges are those of a call alone.
#[test]
fn calls_about_one_problem_share_its_tokens() {
    let solutions: Vec<ScoreRequest> =
        (0..12).map(|number| solution("s", &[&format!("2 + 3 = {number}"), "So it is."])).collect();
    let mut other = solution("other", &["7"]);
    other.problem = "Something else altogether, which shares nothing".to_owned();
    // A prefix of another solution, and one that differs in its last token only.
    let mut requests = solutions.clone();
    requests.extend([
        other,
        solution("prefix", &["2 + 3 = 1"]),
        solution("last", &["2 + 3 = 1", "So it is!"]),
    ]);
    let alone: Vec<StepScores> = requests
        .iter()
        .map(|request| wait(scorer().score_steps(vec![request.clone()])).unwrap().remove(0).unwrap())
        .collect();
    let engine = scorer();
    // While the engine is busy, the others wait.
    let busy = |number: usize| ScoreRequest {
        problem: "A problem of its own".to_owned(),
        ..solution("busy", &[&format!("{number} {}", "and three ".repeat(100))])
    };
    let first = engine.score_steps((0..40).map(busy).collect());
    let calls: Vec<_> = requests.iter().map(|request| engine.score_steps(vec![request.clone()])).collect();
    let first: u64 =
        wait(first).unwrap().iter().map(|scores| scores.as_ref().unwrap().usage.prompt_tokens).sum();
    let together: Vec<StepScores> =
        calls.into_iter().map(|call| wait(call).unwrap().remove(0).unwrap()).collect();
    assert_eq!(together, alone);
    let charged: u64 = alone.iter().map(|scores| scores.usage.prompt_tokens).sum();
    let taken = engine.metrics().prompt_tokens - first;
    assert!(taken < charged / 2, "{taken} of {charged}");

    // The same for texts that are written out, and for continuations of one prompt.
    let texts: Vec<ReadRequest> = (0..6)
        .map(|number| {
            let text = format!("{} and so it goes on with {number}", "what is two and three? ".repeat(4));
            let tokens = engine.tokenizer().encode(&text, false).unwrap();
            ReadRequest { tokens, at: ReadAt::All, what: Readout::LogProbs(vec![1, 2]) }
        })
        .collect();
    let alone: Vec<_> =
        texts.iter().map(|text| wait(scorer().read(vec![text.clone()])).unwrap().remove(0)).collect();
    let before = engine.metrics().prompt_tokens;
    assert_eq!(wait(engine.read(texts.clone())).unwrap(), alone);
    let sum: usize = texts.iter().map(|text| text.tokens.len()).sum();
    assert!(engine.metrics().prompt_tokens - before < sum as u64 / 2);
    let continued = |end: usize| LogProbsRequest {
        prompt: Prompt::Text("what is two and three?".to_owned()),
        continuation: format!(" It is {end}, I think."),
    };
    let alone: Vec<_> = (0..6).map(|end| wait(scorer().logprobs(continued(end))).unwrap()).collect();
    let calls: Vec<_> = (0..6).map(|end| engine.logprobs(continued(end))).collect();
    let together: Vec<_> = calls.into_iter().map(|call| wait(call).unwrap()).collect();
    assert_eq!(together, alone);
}

#[test]
fn bad_requests_are_refused_and_the_service_lives_on() {
    let engine = scorer();
    let chat = Prompt::Chat(vec![Message::new("user", "Hi")]);
    let schema = |schema| GenerateRequest {
        constraint: Some(Constraint::JsonSchema(schema)),
        ..GenerateRequest::new(chat.clone(), 8)
    };
    let invalid = |outcome: Result<_, CallError>| match outcome {
        Err(CallError::Invalid(message)) => message,
        Err(CallError::Failed(message)) => panic!("failed: {message}"),
        Ok(_) => panic!("accepted"),
        _ => panic!("another error"),
    };
    let message = invalid(wait(engine.generate(schema(serde_json::json!({ "type": "colour" })))));
    assert!(!message.contains('\n'), "one sentence: {message}");
    let regex = GenerateRequest {
        constraint: Some(Constraint::Regex("(".to_owned())),
        ..GenerateRequest::new(chat.clone(), 8)
    };
    assert!(!invalid(wait(engine.generate(regex))).contains('\n'));
    let long = GenerateRequest::new(Prompt::Text("7 ".repeat(100_000)), 8);
    assert!(invalid(wait(engine.generate(long))).contains("context holds"));
    let cold = GenerateRequest::new(chat.clone(), 0);
    assert_eq!(invalid(wait(engine.generate(cold))), "n and max_tokens must be at least 1");
    let nothing = LogProbsRequest { prompt: chat.clone(), continuation: String::new() };
    assert!(wait(engine.logprobs(nothing)).is_err());
    let fine = wait(engine.generate(GenerateRequest::new(chat, 4))).unwrap();
    assert_eq!(fine.choices.len(), 1);
}

#[test]
fn a_profile_that_the_model_cannot_serve_is_refused_at_the_start() {
    let start = |model: &str, profile: &str| {
        let model =
            Model::load(&ModelPath::Folder(reference(&format!("models/{model}"))), &LoadOptions::default());
        let started =
            Engine::start(model.unwrap(), Some(Profile::find(profile).unwrap()), ServiceOptions::default());
        started.err().expect("refused").to_string()
    };
    assert!(start("llama", "qwen2.5-math-prm").contains("reads a class head and this model has none"));
    assert!(start("qwen2-prm", "plain").contains("compares two tokens and this model has a class head"));
    assert!(start("qwen2-prm", "skywork-prm").contains("reads a value head and this model has a class head"));
    assert!(start("bert-mean", "plain").contains("sentence encoder"));
}

/// A caller that goes away costs nothing more: its samples stop, and the others go on.
#[test]
fn a_cancelled_request_is_dropped() {
    let engine = scorer();
    // The model's end token is not allowed before four thousand letters are there.
    let constraint = Some(Constraint::Regex("[ab]{4000}".to_owned()));
    let endless = GenerateRequest {
        n: 4,
        constraint,
        ..GenerateRequest::new(Prompt::Text("the sum".to_owned()), 4000)
    };
    let (mut pieces, answer) = engine.generate_streaming(endless);
    wait(async { pieces.recv().await });
    eventually(&engine, |running| running == 4);
    drop(answer);
    let other = wait(engine.generate(GenerateRequest::new(Prompt::Text("the sum".to_owned()), 4))).unwrap();
    assert_eq!(other.choices.len(), 1);
    eventually(&engine, |running| running == 0);
}

/// Waits until the number of running sequences is as it should be.
fn eventually(engine: &Engine, is_right: impl Fn(u64) -> bool) {
    for _ in 0..500 {
        if is_right(engine.metrics().running_sequences) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} sequences run", engine.metrics().running_sequences);
}
