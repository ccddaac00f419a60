//! Every profile over HTTP: a server gets the tokens that the local engine runs, and the scores are the local ones.
//!
//! The server knows each prompt's tokens from the engine's own assembler and its verdicts from the engine. It refuses any
//! other tokens, so that equal scores mean equal prompts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gradus_backend::{LocalSettings, ScoreApi, Scorer, ScorerSettings};
use gradus_core::contracts::{Message, ScoreRequest, ScoreSteps};
use gradus_core::{Mark, ReferenceProblem, ReferenceStep};
use gradus_engine::models::ModelPath;
use gradus_engine::profile::{Assembler, Profile, Score};
use gradus_engine::text::Tokenizer;
use gradus_engine::{Engine, LoadOptions, Model, Precision, ServiceOptions};
use gradus_llm::scripted::server::{Act, Seen, Server};
use serde_json::{Value, json};

use crate::{endpoints, model, request, wait};

/// Profiles with a tiny model that has their tokens; two need other tokens than those of the real models.
const PROFILES: [(&str, &str); 10] = [
    ("qwen2.5-math-prm", "qwen2-prm"),
    ("skywork-prm", "skywork"),
    ("rlhflow", "llama"),
    ("math-shepherd", "mistral"),
    ("spare-prm", "llama3-rope"),
    ("plain", "qwen2"),
    ("retrieval-prm", "qwen2"),
    ("trl", "qwen2-token-classification"),
    ("brief", "qwen2"),
    ("gradus", "qwen2-token-classification"),
];

/// The shipped profile as a file, with tokens that the tiny vocabulary has.
fn profile_file(folder: &Path, name: &str) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/profiles");
    let text = std::fs::read_to_string(shipped.join(format!("{name}.toml"))).unwrap();
    let text = text.replace("<file_sep>", "<extra_0>").replace("\" +\"", "\"+\"").replace("\" -\"", "\"-\"");
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Two problems; with references for a profile that sees them.
fn requests(profile: &str) -> Vec<ScoreRequest> {
    let mut requests = vec![
        request("a", "Mia has 3 pens. She buys 6. How many?", &["3 + 6 = 9", "She has 9 pens."]),
        request("b", "Solve 2x + 1 = 7.", &["Take 1 from both sides.", "Then\n2x = 8", "x = 4"]),
        request("c", "What is 5 - 8?", &["5 - 8 = -3"]),
    ];
    if profile == "retrieval-prm" {
        let step = ReferenceStep { text: "2 + 5 = 7".into(), mark: Mark::Correct };
        requests[0].references = vec![ReferenceProblem {
            question: "2 + 5?".into(),
            steps: vec![("2 + 5 = 7".into(), Mark::Correct)],
        }];
        requests[0].step_references = vec![vec![step], Vec::new()];
    }
    requests
}

/// What a server knows: the verdicts at the tokens of each prompt, where the step tags are, and how rows are written.
struct Known {
    prompts: HashMap<Vec<u32>, Vec<(usize, f64)>>,
    tag: Option<u32>,
    verdict: Option<[u32; 2]>,
    score: Score,
    tokenizer: Arc<Tokenizer>,
    local: Vec<Vec<f64>>,
}

impl Known {
    /// Loads the model once for its verdicts, and once more as the settings do.
    fn new(profile: &Path, model: &str, requests: &[ScoreRequest]) -> Self {
        let local = LocalSettings { precision: Some(Precision::F32), ..LocalSettings::default() };
        let profile = profile.display().to_string();
        let settings = ScorerSettings {
            model: Some(model.to_owned()),
            profile: Some(profile.clone()),
            local,
            ..ScorerSettings::default()
        };
        let scorer = Scorer::open(&settings).unwrap();
        let scores = wait(scorer.score_steps(requests.to_vec())).unwrap();
        let scores = scores.into_iter().map(|answer| answer.unwrap().scores).collect();

        let raw = Profile { calibration: None, ..Profile::find(&profile).unwrap() };
        let load = LoadOptions { precision: Some(Precision::F32), ..LoadOptions::default() };
        let model = Model::load(&ModelPath::Folder(model.into()), &load).unwrap();
        let tokenizer = Arc::clone(model.tokenizer());
        let assembler = Assembler::new(raw.clone(), &tokenizer).unwrap();
        let engine = Engine::start(model, Some(raw.clone()), ServiceOptions::default()).unwrap();
        let verdicts = wait(engine.score_steps(requests.to_vec())).unwrap();
        let mut prompts = HashMap::new();
        for (request, verdicts) in requests.iter().zip(verdicts) {
            let mut verdicts = verdicts.unwrap().scores.into_iter();
            for (tokens, reads) in assembler.assemble(request, &tokenizer, 4096).unwrap().prompts {
                let read = reads.into_iter().map(|read| (read, verdicts.next().unwrap())).collect();
                prompts.insert(tokens, read);
            }
        }
        let (tag, verdict) = (assembler.tag(), assembler.verdict());
        Self { prompts, tag, verdict, score: raw.score, tokenizer, local: scores }
    }

    fn row(&self, score: f64) -> Value {
        match self.score {
            Score::Tokens { .. } => json!([score, 1.0 - score]),
            Score::Classes { .. } => json!([1.0 - score, score]),
            Score::Value => json!([score]),
        }
    }

    /// The rows of one prompt: at its tokens, or at its tags only.
    fn rows(&self, tokens: &[u32], at_tags: bool) -> Result<Value, String> {
        let reads = self.prompts.get(tokens).ok_or_else(|| {
            format!("these tokens are not the engine's: {:?}", self.tokenizer.decode(tokens, false))
        })?;
        let row = |position: usize| {
            let read = reads.iter().find(|(read, _)| *read == position);
            self.row(read.map_or(0.125, |(_, score)| *score))
        };
        let is_row = |position: &usize| !at_tags || Some(tokens[*position]) == self.tag;
        Ok((0..tokens.len()).filter(is_row).map(row).collect())
    }

    fn pooling(&self, seen: &Seen, at_tags: bool) -> Act {
        assert_eq!(seen.path, "/pooling");
        let prompts = match self.tokens(&seen.body) {
            Ok(prompts) => prompts,
            Err(error) => return refuse(&error),
        };
        let rows: Result<Vec<Value>, String> =
            prompts.iter().map(|tokens| self.rows(tokens, at_tags)).collect();
        match rows {
            Ok(rows) => {
                let data = rows.into_iter().enumerate();
                let data: Vec<Value> = data
                    .map(|(index, rows)| json!({"index": index, "object": "pooling", "data": rows}))
                    .collect();
                Act::ok(&json!({"object": "list", "data": data, "usage": {"prompt_tokens": 60}}))
            }
            Err(error) => refuse(&error),
        }
    }

    /// The tokens of a request, cut out of its text as a server does it.
    fn tokens(&self, body: &Value) -> Result<Vec<Vec<u32>>, String> {
        if let Ok(messages) = serde_json::from_value::<Vec<Message>>(body["messages"].clone()) {
            let opened = body["add_generation_prompt"].as_bool().unwrap_or(false);
            return Ok(vec![
                self.tokenizer.encode_chat(&messages, opened).map_err(|error| error.to_string())?,
            ]);
        }
        let input = body["input"].clone();
        if let Some(text) = input.as_str() {
            return Ok(vec![self.tokenizer.encode(text, true).map_err(|error| error.to_string())?]);
        }
        if let Ok(texts) = serde_json::from_value::<Vec<String>>(input.clone()) {
            let encoded = texts.iter().map(|text| self.tokenizer.encode(text, true));
            return encoded.collect::<Result<_, _>>().map_err(|error| error.to_string());
        }
        if let Ok(tokens) = serde_json::from_value::<Vec<u32>>(input.clone()) {
            return Ok(vec![tokens]);
        }
        serde_json::from_value(input).map_err(|error| error.to_string())
    }

    /// `/v1/completions` with `echo`: log-probabilities of each prompt's tokens.
    fn completions(&self, seen: &Seen) -> Act {
        assert_eq!(seen.path, "/v1/completions");
        assert_eq!((&seen.body["echo"], &seen.body["max_tokens"]), (&json!(true), &json!(1)));
        let prompts: Vec<Vec<u32>> = serde_json::from_value(seen.body["prompt"].clone()).unwrap();
        let mut choices = Vec::new();
        for (index, prompt) in prompts.iter().enumerate() {
            let (last, before) = prompt.split_last().unwrap();
            let found = self.prompts.iter().find_map(|(tokens, reads)| {
                let at = |(read, _): &&(usize, f64)| tokens[..=*read] == *before;
                reads.iter().find(at).map(|(_, score)| *score)
            });
            let Some(score) = found else { return refuse("these tokens are not the engine's") };
            let right = self.verdict.unwrap()[0];
            let probability = if *last == right { score } else { 1.0 - score };
            let mut logprobs = vec![json!(null)];
            logprobs.resize(prompt.len() - 1, json!(-1.5));
            logprobs.extend([json!((0.5 * probability).ln()), json!(-0.25)]);
            choices.push(json!({"index": index, "text": "", "finish_reason": "length", "logprobs": {"token_logprobs": logprobs}}));
        }
        Act::ok(&json!({"choices": choices, "usage": {"prompt_tokens": 60}}))
    }
}

fn refuse(message: &str) -> Act {
    Act::Say(400, "", json!({"error": {"message": message}}).to_string())
}

fn open(profile: &Path, api: ScoreApi, tokenizer: Option<String>, server: &Server) -> Scorer {
    let settings = ScorerSettings {
        model: Some("served".into()),
        profile: Some(profile.display().to_string()),
        api,
        tokenizer,
        endpoints: endpoints(&[server]),
        ..ScorerSettings::default()
    };
    Scorer::open(&settings).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn agree(name: &str, scorer: &Scorer, requests: &[ScoreRequest], local: &[Vec<f64>]) {
    let answers = wait(scorer.score_steps(requests.to_vec())).unwrap();
    for (answer, wanted) in answers.into_iter().zip(local) {
        let found = answer.unwrap_or_else(|error| panic!("{name}: {error}")).scores;
        assert_eq!(found.len(), wanted.len(), "{name}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!((found - wanted).abs() < 1e-6, "{name}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn every_profile_scores_over_pooling_as_it_does_here() {
    assert_eq!(PROFILES.len(), Profile::built_in().len());
    let folder = tempfile::tempdir().unwrap();
    for (name, tiny) in PROFILES {
        let (profile, tiny, requests) = (profile_file(folder.path(), name), model(tiny), requests(name));
        let known = Arc::new(Known::new(&profile, &tiny, &requests));
        // A tag at every step is what vLLM's STEP pooling reads; other servers answer with every token.
        for at_tags in [false, true] {
            if at_tags && known.tag.is_none() {
                continue;
            }
            let rule = Arc::clone(&known);
            let server = Server::in_thread(move |_, seen| rule.pooling(seen, at_tags));
            let scorer = open(&profile, ScoreApi::Pooling, Some(tiny.clone()), &server);
            agree(name, &scorer, &requests, &known.local);
            assert_eq!(server.seen().len(), 1, "{name}: all solutions travel together");
            assert_eq!(scorer.summary().tokens, 60);
        }
    }
}

#[test]
fn text_is_cut_into_the_same_tokens_where_a_profile_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, at_tags, sent) in
        [("qwen2.5-math-prm", true, 3), ("gradus", true, 1), ("plain", false, 6), ("retrieval-prm", false, 6)]
    {
        let tiny = PROFILES.iter().find(|(profile, _)| *profile == name).unwrap().1;
        let (profile, tiny, requests) = (profile_file(folder.path(), name), model(tiny), requests(name));
        let known = Arc::new(Known::new(&profile, &tiny, &requests));
        let rule = Arc::clone(&known);
        let server = Server::in_thread(move |_, seen| rule.pooling(seen, at_tags));
        agree(name, &open(&profile, ScoreApi::Pooling, None, &server), &requests, &known.local);
        assert_eq!(server.seen().len(), sent, "{name}");
    }
}

#[test]
fn profiles_of_two_tokens_score_over_completions_as_they_do_here() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tiny) in PROFILES {
        let (profile, tiny, requests) = (profile_file(folder.path(), name), model(tiny), requests(name));
        if !matches!(Profile::find(name).unwrap().score, Score::Tokens { .. }) {
            continue;
        }
        let known = Arc::new(Known::new(&profile, &tiny, &requests));
        let rule = Arc::clone(&known);
        let server = Server::in_thread(move |_, seen| rule.completions(seen));
        let scorer = open(&profile, ScoreApi::Completions, Some(tiny), &server);
        agree(name, &scorer, &requests, &known.local);
        assert_eq!(server.seen().len(), requests.len(), "{name}: one request per solution");
    }
}
