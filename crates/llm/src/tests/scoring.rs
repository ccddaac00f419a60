//! `Pooling` and `RewardServer`: what is sent, and that one bad answer is one solution's error.

use crate::{Pooling, Render, RewardServer};
use gradus_core::contracts::{CallError, ScoreRequest, ScoreSteps, StepScores, Usage};
use serde_json::{Value, json};

use crate::scripted::server::{Act, Server};

fn solution(id: &str, problem: &str, steps: &[&str]) -> ScoreRequest {
    ScoreRequest {
        id: id.into(),
        problem: problem.into(),
        steps: steps.iter().map(|&step| step.into()).collect(),
        ..Default::default()
    }
}

fn pooled(rows: &Value) -> Act {
    Act::ok(&json!({"id": "p", "object": "list", "created": 0, "model": "tiny",
        "data": [{"index": 0, "object": "pooling", "data": rows}], "usage": {"prompt_tokens": 12, "total_tokens": 12}}))
}

fn failure(answer: &Result<StepScores, CallError>) -> &str {
    match answer {
        Err(CallError::Failed(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn qwen_s_messages_and_pairs() {
    let server = Server::start(|_, _| pooled(&json!([[0.25, 0.75], [0.9, 0.1]]))).await;
    let model = Pooling::new(server.open(), Render::qwen());
    let answers = model.score_steps(vec![solution("s", "1 + 1?", &["1 + 1 = 2", "So 2."])]).await.unwrap();
    let usage = Usage { prompt_tokens: 12, completion_tokens: 0 };
    assert_eq!(answers, [Ok(StepScores { scores: vec![0.75, 0.1], usage })]);
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/pooling");
    assert_eq!(
        seen.body,
        json!({"model": "tiny", "task": "token_classify", "encoding_format": "float", "messages": [
            {"role": "system", "content": "Please reason step by step, and put your final answer within \\boxed{}."},
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "1 + 1 = 2<extra_0>So 2.<extra_0>"},
        ]})
    );
}

#[tokio::test]
async fn text_of_one_s_own_and_plain_scores() {
    let server = Server::start(|_, _| pooled(&json!([0.5, 1.0]))).await;
    let render = Render::text(|request| Ok(format!("{}\n{}\n", request.problem, request.steps.join("\n"))));
    let answers =
        Pooling::new(server.open(), render).score_steps(vec![solution("s", "p", &["a", "b"])]).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().scores, [0.5, 1.0]);
    let body = &server.seen()[0].body;
    assert_eq!((&body["input"], body.get("messages")), (&json!("p\na\nb\n"), None));
}

#[tokio::test]
async fn each_solution_has_its_own_error() {
    let server = Server::start(|_, seen| match seen.body["messages"][1]["content"].as_str().unwrap() {
        "few" => pooled(&json!([[0.5, 0.5]])),
        "logits" => pooled(&json!([[-2.0, 3.0], [0.0, 1.0]])),
        "range" => pooled(&json!([[1.5], [0.5]])),
        "garbage" => Act::Say(200, "", "}{".into()),
        "empty" => Act::ok(&json!({"data": []})),
        "long" => Act::Say(400, "", json!({"error": {"message": "the prompt is too long"}}).to_string()),
        _ => pooled(&json!([[0.5, 0.5], [0.25, 0.75]])),
    })
    .await;
    let http = server.open();
    let model = Pooling::new(http.clone(), Render::qwen());
    let problems = ["good", "few", "logits", "range", "garbage", "empty", "long", "good"];
    let mut requests: Vec<ScoreRequest> =
        problems.iter().map(|problem| solution(problem, problem, &["a", "b"])).collect();
    requests.push(solution("none", "none", &[]));
    requests.push(solution("tag", "tag", &["a<extra_0>"]));
    let answers = model.score_steps(requests).await.unwrap();
    for place in [0, 7] {
        assert_eq!(answers[place].as_ref().unwrap().scores, [0.5, 0.75]);
    }
    assert_eq!(failure(&answers[1]), "solution `few` has 2 steps but 1 scores came back");
    assert!(
        failure(&answers[2])
            .contains("`data[0].data[0]` of the answer is [-2, 3], which are no probabilities")
    );
    assert_eq!(failure(&answers[3]), "solution `range`: the score of step 0 is 1.5, outside [0, 1]");
    assert!(failure(&answers[4]).contains("did not answer with JSON"));
    assert!(failure(&answers[5]).contains("`data` of the answer has 0 entries"));
    for (place, words) in [(6, "the prompt is too long"), (8, "has no steps"), (9, "holds the step tag")] {
        let Err(CallError::Invalid(error)) = &answers[place] else { panic!("{:?}", answers[place]) };
        assert!(error.contains(words), "{error}");
    }
    assert_eq!(server.seen().len(), 8);
}

#[tokio::test]
async fn a_reward_server_takes_problem_and_steps() {
    let server = Server::start(|_, seen| match seen.body["problem"].as_str().unwrap() {
        "few" => Act::ok(&json!({"scores": []})),
        "other" => Act::ok(&json!({"rewards": [1]})),
        "null" => Act::ok(&json!({"scores": [null, 0.5]})),
        _ => Act::ok(&json!({"scores": [0, 1.0], "usage": {"prompt_tokens": 3}})),
    })
    .await;
    let model = RewardServer::new(server.open());
    let requests = ["good", "few", "other", "null"].map(|problem| solution(problem, problem, &["a", "b"]));
    let answers = model.score_steps(requests.to_vec()).await.unwrap();
    let usage = Usage { prompt_tokens: 3, completion_tokens: 0 };
    assert_eq!(answers[0], Ok(StepScores { scores: vec![0.0, 1.0], usage }));
    assert_eq!(failure(&answers[1]), "solution `few` has 2 steps but 0 scores came back");
    assert!(failure(&answers[2]).contains("missing field `scores`"));
    assert!(failure(&answers[3]).contains("`scores[0]`: invalid type: null"));
    let seen = server.seen();
    let good = seen.iter().find(|seen| seen.body["problem"] == "good").unwrap();
    assert_eq!(good.path, "/v1/score");
    assert_eq!(good.body, json!({"model": "tiny", "id": "good", "problem": "good", "steps": ["a", "b"]}));
}
