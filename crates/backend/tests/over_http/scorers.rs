//! Scorers: what is refused before anything is sent, what identifies them, and several endpoints.

use gradus_backend::{
    EndpointSettings, GeneratorSettings, ScoreApi, Scorer, ScorerKind, ScorerSettings, open_pair,
};
use gradus_core::contracts::ScoreSteps;
use gradus_llm::scripted::server::{Act, Server};
use serde_json::json;

use crate::{endpoints, model, request, wait};

fn settings(endpoint: &str) -> ScorerSettings {
    let endpoints =
        EndpointSettings { endpoint: vec![endpoint.into()], no_cache: true, ..EndpointSettings::default() };
    ScorerSettings { model: Some("prm".into()), endpoints, ..ScorerSettings::default() }
}

fn error(settings: &ScorerSettings) -> String {
    Scorer::open(settings).err().expect("refused").to_string()
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_sent() {
    let base = settings("http://127.0.0.1:1");
    let profile = |name: &str| ScorerSettings { profile: Some(name.into()), ..base.clone() };
    let found = error(&profile("math-shepherd"));
    assert!(
        found.starts_with("profile `math-shepherd` needs the served model's tokenizer, because"),
        "{found}"
    );
    assert!(
        found.ends_with("these profiles work: gradus, plain, retrieval-prm, qwen2.5-math-prm"),
        "{found}"
    );
    let found = error(&ScorerSettings { api: ScoreApi::Completions, ..profile("trl") });
    assert!(found.contains("profile `trl` reads a head of the model"), "{found}");
    let found = error(&ScorerSettings { api: ScoreApi::Completions, ..base.clone() });
    assert!(found.contains("--api completions sends token ids"), "{found}");
    let found = error(&ScorerSettings { api: ScoreApi::Score, ..profile("plain") });
    assert!(found.contains("omit --profile"), "{found}");
    let found = error(&ScorerSettings { api: ScoreApi::Chat, ..base.clone() });
    assert!(found.contains("gives no scores"), "{found}");
    let mut keyed = base.clone();
    keyed.endpoints.key_env = Some("NO_SUCH_KEY".into());
    assert!(error(&keyed).starts_with("--endpoint: "), "{}", error(&keyed));
    let mut wrong = profile("qwen2.5-math-prm");
    wrong.tokenizer = Some(model("bert-mean"));
    assert!(error(&wrong).contains("needs `<extra_0>` as one token"), "{}", error(&wrong));
}

#[test]
fn the_identity_is_the_model_and_how_it_is_asked() {
    let base = settings("http://127.0.0.1:1");
    let identity = |settings: &ScorerSettings| Scorer::open(settings).unwrap().identity().to_owned();
    let first = identity(&base);
    // The same model elsewhere, or asked harder, gives the same scores.
    let mut elsewhere = settings("http://127.0.0.1:2");
    elsewhere.endpoints.concurrency = Some(3);
    elsewhere.endpoints.endpoint.push("http://127.0.0.1:3".into());
    assert_eq!(identity(&elsewhere), first);
    let mut tokenized = base.clone();
    tokenized.tokenizer = Some(model("qwen2-prm"));
    let others = [
        ScorerSettings { model: Some("other".into()), ..base.clone() },
        ScorerSettings { model: None, ..base.clone() },
        ScorerSettings { model: None, ..settings("http://127.0.0.1:2") },
        ScorerSettings { profile: Some("gradus".into()), ..base.clone() },
        ScorerSettings { api: ScoreApi::Score, ..base.clone() },
        tokenized,
    ];
    let mut seen = vec![first];
    for settings in &others {
        let identity = identity(settings);
        assert!(!seen.contains(&identity), "{identity}");
        seen.push(identity);
    }
}

#[test]
fn a_local_identity_is_the_weights_and_the_profile() {
    let open = |name: &str, profile: Option<&str>| {
        let profile = profile.map(str::to_owned);
        Scorer::open(&ScorerSettings { model: Some(model(name)), profile, ..ScorerSettings::default() })
            .unwrap()
    };
    let (one, two) = (open("qwen2-prm", None), open("qwen2-prm", None));
    assert_eq!((one.identity(), one.profile.as_deref()), (two.identity(), Some("qwen2.5-math-prm")));
    assert_eq!((one.kind, one.kind.description()), (ScorerKind::Local, "local reward model"));
    let plain = open("qwen2", Some("plain"));
    let brief = open("qwen2", Some("brief"));
    assert_ne!(plain.identity(), brief.identity());
    assert_ne!(plain.identity(), one.identity());
    assert!(plain.name().ends_with("/qwen2/plain"));
}

#[test]
fn a_generator_and_its_scorer_may_be_one_engine() {
    let generator = GeneratorSettings { model: Some(model("qwen2")), ..Default::default() };
    let scorer =
        ScorerSettings { model: Some(model("qwen2")), profile: Some("plain".into()), ..Default::default() };
    let (generator, scorer) = open_pair(&generator, Some(&scorer)).unwrap();
    let scorer = scorer.unwrap();
    assert_eq!(generator.identity(), scorer.identity());
    let requests = vec![request("s", "1 + 1?", &["It is 2."])];
    let scored = wait(scorer.score_steps(requests)).unwrap();
    assert_eq!(scored[0].as_ref().unwrap().scores.len(), 1);
    assert_eq!(generator.engine().unwrap().metrics().prompt_tokens, scorer.summary().tokens);
}

#[test]
fn several_endpoints_share_the_work_and_calls_overlap() {
    let answer = |_: usize, _: &gradus_llm::scripted::server::Seen| {
        let body = json!({"data": [{"data": [[0.25, 0.75]]}], "usage": {"prompt_tokens": 5}});
        Act::Late(std::time::Duration::from_millis(50), body.to_string())
    };
    let servers = [Server::in_thread(answer), Server::in_thread(answer)];
    let settings = ScorerSettings {
        model: Some("prm".into()),
        endpoints: endpoints(&[&servers[0], &servers[1]]),
        ..ScorerSettings::default()
    };
    let scorer = Scorer::open(&settings).unwrap();
    assert_eq!(scorer.kind, ScorerKind::Endpoints(ScoreApi::Pooling));
    assert_eq!(scorer.name(), "prm/qwen2.5-math-prm");
    // Calls are on their way before anyone waits, as with the local engine.
    let calls: Vec<_> =
        (0..8).map(|number| scorer.score_steps(vec![request(&number.to_string(), "p", &["a"])])).collect();
    for call in calls {
        assert_eq!(wait(call).unwrap()[0].as_ref().unwrap().scores, [0.75]);
    }
    assert_eq!(servers[0].seen().len() + servers[1].seen().len(), 8);
    assert!(servers.iter().all(|server| !server.seen().is_empty() && server.peak() > 1));
    let traffic = scorer.spending.traffic().unwrap();
    assert_eq!((traffic.requests, traffic.failures, traffic.prompt_tokens), (8, 0, 40));
}

#[test]
fn a_server_of_scores_and_prices() {
    let server = Server::in_thread(|_, seen| {
        assert_eq!((seen.path.as_str(), &seen.body["model"]), ("/v1/steps/score", &json!("prm")));
        Act::ok(&json!({"scores": [0.5], "usage": {"prompt_tokens": 1_000_000}}))
    });
    let folder = tempfile::tempdir().unwrap();
    let prices = folder.path().join("prices.toml");
    std::fs::write(&prices, "currency = 'USD'\n[models.prm]\nprompt = 2.0\ncompletion = 0.0").unwrap();
    let endpoints = EndpointSettings { prices: Some(prices.clone()), ..endpoints(&[&server]) };
    let settings = ScorerSettings {
        model: Some("prm".into()),
        api: ScoreApi::Score,
        endpoints: endpoints.clone(),
        ..ScorerSettings::default()
    };
    let scorer = Scorer::open(&settings).unwrap();
    assert_eq!((scorer.name(), scorer.spending.note()), ("prm".to_owned(), None));
    let scored = wait(scorer.score_steps(vec![request("s", "p", &["a"])])).unwrap();
    let usage = scored[0].as_ref().unwrap().usage;
    let cost = gradus_core::Cost { prompt_tokens: usage.prompt_tokens, ..Default::default() };
    assert_eq!(scorer.spending.money(&cost).unwrap(), "2.0000 USD");
    let unknown = ScorerSettings { model: Some("else".into()), endpoints, ..settings };
    let note = Scorer::open(&unknown).unwrap().spending.note().unwrap();
    assert_eq!(note, "--prices has no entry for else: cost is unknown");
}
