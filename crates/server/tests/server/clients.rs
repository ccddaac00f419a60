//! Our own clients against our own server: what `gradus score --endpoint` gives is what the model says here.

use gradus_backend::{
    EndpointSettings, Generator, GeneratorSettings, ScoreApi, Scorer, ScorerSettings, block_on,
};
use gradus_core::contracts::{Generate, GenerateRequest, Prompt, Sampling, ScoreRequest, ScoreSteps};

use super::{Running, config, model};

fn requests() -> Vec<ScoreRequest> {
    let solution = |id: &str, steps: &[&str]| ScoreRequest {
        id: id.to_owned(),
        problem: "What is 2 + 3?".to_owned(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        ..ScoreRequest::default()
    };
    vec![
        solution("a", &["2 + 3 = 5.", "So \\boxed{5}."]),
        solution("b", &["It is 6."]),
        ScoreRequest { problem: "What is 1 + 1?".to_owned(), ..solution("c", &["It is 2."]) },
    ]
}

fn scores(scorer: &Scorer) -> Vec<Vec<f64>> {
    let scored = block_on(scorer.score_steps(requests())).unwrap().unwrap();
    scored.into_iter().map(|scores| scores.unwrap().scores).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_over_http_are_the_local_ones() {
    let server = Running::start(config()).await;
    let url = server.url("");
    let found = tokio::task::spawn_blocking(move || {
        let endpoints =
            EndpointSettings { endpoint: vec![url], no_cache: true, ..EndpointSettings::default() };
        let here = |folder: &str, profile: Option<&str>| {
            let settings = ScorerSettings {
                model: Some(model(folder)),
                profile: profile.map(str::to_owned),
                ..ScorerSettings::default()
            };
            scores(&Scorer::open(&settings).unwrap())
        };
        let there = |name: &str, api: ScoreApi, profile: Option<&str>, tokenizer: Option<&str>| {
            let settings = ScorerSettings {
                model: Some(name.to_owned()),
                profile: profile.map(str::to_owned),
                api,
                tokenizer: tokenizer.map(model),
                endpoints: endpoints.clone(),
                ..ScorerSettings::default()
            };
            scores(&Scorer::open(&settings).unwrap())
        };
        let close = |a: &[Vec<f64>], b: &[Vec<f64>]| {
            a.iter().flatten().zip(b.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-5)
        };
        let local = here("qwen2-prm", None);
        assert_eq!(there("prm", ScoreApi::Score, None, None), local);
        let pooled = there("prm", ScoreApi::Pooling, Some("qwen2.5-math-prm"), Some("qwen2-prm"));
        assert!(close(&pooled, &local), "{pooled:?} {local:?}");

        let settings = GeneratorSettings {
            model: Some("lm".to_owned()),
            endpoints: endpoints.clone(),
            ..GeneratorSettings::default()
        };
        let generator = Generator::open(&settings).unwrap();
        let greedy = Sampling { temperature: 0.0, ..Sampling::default() };
        let request = || GenerateRequest {
            sampling: greedy.clone(),
            ..GenerateRequest::new(Prompt::Text("one two".into()), 6)
        };
        let remote = block_on(generator.generate(request())).unwrap().unwrap();
        let own = GeneratorSettings { model: Some(model("qwen2")), ..GeneratorSettings::default() };
        let own = block_on(Generator::open(&own).unwrap().generate(request())).unwrap().unwrap();
        assert_eq!(remote.choices[0].text, own.choices[0].text);
        generator.continuation().unwrap()
    });
    assert_eq!(found.await.unwrap(), gradus_backend::Continuation::Turn);
    server.ended().await;
}
