//! Our own protocol: equal to what the models say offline, whole in every field.

use gradus_backend::{Scorer, ScorerSettings, block_on};
use gradus_core::contracts::{ScoreRequest, ScoreSteps};
use gradus_core::select::DecisionRule;
use serde_json::{Value, json};

use super::{Running, config, model};

const PROBLEM: &str = "What is 2 + 3?";

fn offline(solutions: &[&[&str]]) -> Vec<Vec<f64>> {
    let settings = ScorerSettings { model: Some(model("qwen2-prm")), ..ScorerSettings::default() };
    let scorer = Scorer::open(&settings).unwrap();
    let requests = solutions.iter().map(|steps| ScoreRequest {
        problem: PROBLEM.to_owned(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        ..ScoreRequest::default()
    });
    let scored = block_on(scorer.score_steps(requests.collect())).unwrap().unwrap();
    scored.into_iter().map(|scores| scores.unwrap().scores).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn scores_are_those_of_the_command_line() {
    let server = Running::start(config()).await;
    let body = json!({
        "model": "prm", "problem": PROBLEM, "answer": "5",
        "solutions": [
            {"id": "a", "steps": ["2 + 3 = 5.", "So \\boxed{5}."]},
            "2 + 3 = 6.\n\nSo \\boxed{6}.",
            {"steps": ["2 + 3 = 5.", "So \\boxed{5}."]},
        ],
    });
    let answer = server.post("/v1/steps/score", &body).await;
    let expected = tokio::task::spawn_blocking(|| {
        offline(&[&["2 + 3 = 5.", "So \\boxed{5}."], &["2 + 3 = 6.", "So \\boxed{6}."]])
    });
    let expected = expected.await.unwrap();
    let scores = |index: usize| -> Vec<f64> {
        let steps = answer["solutions"][index]["steps"].as_array().unwrap();
        steps.iter().map(|step| step["score"].as_f64().unwrap()).collect()
    };
    assert_eq!(
        [scores(0), scores(1), scores(2)],
        [expected[0].clone(), expected[1].clone(), expected[0].clone()]
    );
    let first = &answer["solutions"][0];
    let lowest = expected[0].iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(
        (&first["id"], &first["verdict"], &first["answer"]),
        (&json!("a"), &json!("equal"), &json!("5"))
    );
    assert_eq!((first["score"].as_f64(), first["aggregates"]["min"].as_f64()), (Some(lowest), Some(lowest)));
    assert_eq!(answer["solutions"][1]["verdict"], "different");
    let suspected = expected[0].iter().position(|score| *score < 0.5);
    assert_eq!(first["first_error"], json!(suspected));
    assert_eq!(answer["decision"], json!({"rule": "threshold", "threshold": 0.5}));
    // The posterior stands beside it, and decides where it is asked to.
    let posterior = DecisionRule::Posterior { prior: 3.0 }.decide(&expected[0], None);
    let mut other = body.clone();
    (other["rule"], other["prior"]) = (json!("posterior"), json!(3.0));
    let decided = server.post("/v1/steps/score", &other).await;
    assert_eq!(decided["decision"], json!({"rule": "posterior", "prior": 3.0}));
    assert_eq!(decided["solutions"][0]["first_error"], json!(posterior.first_error));
    assert_eq!(decided["solutions"][0]["posterior"], json!(posterior.posterior));
    assert!(first["posterior"]["none"].is_number());
    other["threshold"] = json!(0.5);
    let refused = server.refused("/v1/steps/score", &other, 400).await;
    assert!(refused.contains("give one of the two"), "{refused}");
    // Arithmetic that is proved wrong is said beside the score.
    let false_step = json!({"problem": PROBLEM, "steps": ["2 + 3 = 5", "7 * 8 = 54"]});
    let proved = server.post("/v1/steps/score", &false_step).await;
    let proved = proved["solutions"][0]["steps"].as_array().unwrap().clone();
    assert_eq!((proved[0].get("proofs"), &proved[1]["proofs"]), (None, &json!(["7 * 8 = 56, not 54"])));
    assert_eq!((&answer["model"], &answer["object"]), (&json!("prm"), &json!("steps.score")));
    // What is there twice is scored once.
    let twice = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let once = json!({"problem": PROBLEM, "solutions": body["solutions"].as_array().unwrap()[..2]});
    assert_eq!(server.post("/v1/steps/score", &once).await["usage"]["prompt_tokens"].as_u64(), Some(twice));
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_solution_that_cannot_be_scored_is_its_own_error() {
    let server = Running::start(config()).await;
    let long = "word ".repeat(4000);
    let body = json!({"problem": PROBLEM, "solutions": [{"steps": ["2 + 3 = 5."]}, {"steps": [long.clone()]}, {"steps": []}]});
    let answer = server.post("/v1/steps/score", &body).await;
    assert!(answer["solutions"][0]["error"].is_null() && answer["solutions"][0]["score"].is_number());
    for index in [1, 2] {
        assert!(answer["solutions"][index]["error"].is_string(), "{answer}");
        assert!(answer["solutions"][index]["score"].is_null());
    }
    server.refused("/v1/steps/score", &json!({"problem": PROBLEM, "steps": [long]}), 400).await;
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said_in_a_sentence() {
    let server = Running::start(config()).await;
    let cases = [
        (json!({"problem": "p"}), 400, "there is no solution"),
        (json!({"problem": "p", "steps": ["a"], "treshold": 1}), 400, "unknown field `treshold`"),
        (json!({"problem": "p", "steps": [3]}), 400, "steps[0]"),
        (json!({"problem": "p", "steps": ["a"], "model": "other"}), 404, "there is prm, lm, encoder"),
        (json!({"problem": "p", "steps": ["a"], "model": "encoder"}), 400, "cannot score steps"),
        (json!({"problem": "p", "steps": ["a"], "aggregation": "median"}), 400, "aggregation"),
        (json!({"problem": "p", "steps": ["a"], "retrieve": true}), 400, "without a pool"),
        (
            json!({"problem": "p", "solutions": [{"text": "a", "steps": ["a"]}]}),
            400,
            "either `text` or `steps`",
        ),
    ];
    for (body, status, words) in cases {
        let message = server.refused("/v1/steps/score", &body, status).await;
        assert!(message.contains(words), "{message}");
    }
    server.refused("/v1/steps/retrieve", &json!({"problem": "p"}), 400).await;
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selecting_grading_and_splitting() {
    let server = Running::start(config()).await;
    let solutions = ["So \\boxed{6}.", "So \\boxed{5}.", "Thus \\boxed{5}."];
    let body = json!({"problem": PROBLEM, "solutions": solutions, "by": "majority"});
    let chosen = server.post("/v1/steps/select", &body).await;
    assert_eq!((&chosen["answer"], &chosen["votes"]), (&json!("5"), &json!(2)));
    let best = server.post("/v1/steps/select", &json!({"problem": PROBLEM, "solutions": solutions})).await;
    let index = best["chosen"].as_u64().unwrap() as usize;
    let scores: Vec<f64> = (0..3).map(|at| best["solutions"][at]["score"].as_f64().unwrap()).collect();
    assert!(scores.iter().all(|score| *score <= scores[index]), "{scores:?} {index}");
    server.refused("/v1/steps/select", &json!({"problem": "p", "solutions": ["a"], "by": "luck"}), 400).await;

    let body =
        json!({"gold": "1/2", "answers": ["0.5", "2", ""], "solutions": ["So \\boxed{\\frac{1}{2}}."]});
    let graded = server.post("/v1/steps/grade", &body).await;
    let verdicts: Vec<&Value> =
        graded["grades"].as_array().unwrap().iter().map(|grade| &grade["verdict"]).collect();
    assert_eq!(verdicts, ["equal", "different", "undecided", "equal"]);
    let split = server.post("/v1/steps/split", &json!({"text": "One.\n\nTwo."})).await;
    assert_eq!(split["steps"], json!(["One.", "Two."]));
    server.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_come_as_a_job_with_events() {
    let server = Running::start(config()).await;
    let body = json!({
        "model": "lm", "problem": PROBLEM, "answer": "5", "method": "monte_carlo",
        "config": {"samples": 2, "max_tokens": 4},
        "solutions": ["2 + 3 = 5.\n\nSo \\boxed{5}.", "It is 6.\n\nSo \\boxed{6}."],
    });
    let (status, job) = server.ask("/v1/steps/annotate", &body).await;
    assert_eq!((status.as_u16(), &job["total"]), (202, &json!(2)), "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let events = server.get(&format!("{path}/events")).send().await.unwrap().text().await.unwrap();
    let states: Vec<Value> =
        events.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let last = states.last().unwrap();
    assert_eq!((&last["status"], &last["done"]), (&json!("done"), &json!(2)), "{last}");
    let labels = &last["result"]["records"][0]["solutions"][0]["annotations"][0]["labels"];
    assert_eq!(
        labels[0]["source"]["monte_carlo"]["model"].as_str().map(|model| model.ends_with("qwen2")),
        Some(true),
        "{last}"
    );
    let shown: Value =
        serde_json::from_str(&server.get(&path).send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(shown["status"], "done");
    server
        .refused(
            "/v1/steps/annotate",
            &json!({"problem": "p", "solutions": ["a"], "method": "monte_carlo"}),
            400,
        )
        .await;
    let bad = json!({"problem": "p", "answer": "1", "solutions": ["a"], "method": "monte_carlo", "config": {"samples": 0}});
    assert!(server.refused("/v1/steps/annotate", &bad, 400).await.contains("samples"));
    server.ended().await;
}
