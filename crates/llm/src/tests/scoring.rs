//! `Pooling`, `TokenScores` and `RewardServer`: what is sent, and that one bad answer is one solution's error.

use crate::{
    Cache, Columns, Endpoint, Http, Pooling, PoolingFormat, PoolingInput, PoolingPrompt, Reads, RewardServer,
    TokenFormat, TokenScores,
};
use gradus_core::contracts::{CallError, Message, ScoreRequest, ScoreSteps, StepScores, Usage};
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

/// A conversation, with a tag after each step; one prompt that is read at its tags.
struct Chat;

impl PoolingFormat for Chat {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
        if request.steps.iter().any(|step| step.contains("<tag>")) {
            return Err(CallError::Invalid("a step holds the step tag".into()));
        }
        let steps: String = request.steps.iter().map(|step| format!("{step}<tag>")).collect();
        let turns =
            [("system", "Reason."), ("user", request.problem.as_str()), ("assistant", steps.as_str())];
        let messages = turns.map(|(role, content)| Message::new(role, content)).to_vec();
        let input = PoolingInput::Chat { messages, add_generation_prompt: false };
        Ok(vec![PoolingPrompt { input, reads: Reads::Tags }])
    }
}

/// The problem and each step end in a line break.
struct Lines;

impl PoolingFormat for Lines {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
        let text = format!("{}\n{}\n", request.problem, request.steps.join("\n"));
        Ok(vec![PoolingPrompt { input: PoolingInput::Text(text), reads: Reads::Tags }])
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
async fn messages_and_pairs() {
    let server = Server::start(|_, _| pooled(&json!([[0.25, 0.75], [0.9, 0.1]]))).await;
    let model = Pooling::new(server.open(), Chat);
    let answers = model.score_steps(vec![solution("s", "1 + 1?", &["1 + 1 = 2", "So 2."])]).await.unwrap();
    let usage = Usage { prompt_tokens: 12, completion_tokens: 0 };
    assert_eq!(answers, [Ok(StepScores { scores: vec![0.75, 0.1], usage })]);
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/pooling");
    assert_eq!(
        seen.body,
        json!({"model": "tiny", "task": "token_classify", "encoding_format": "float", "messages": [
            {"role": "system", "content": "Reason."},
            {"role": "user", "content": "1 + 1?"},
            {"role": "assistant", "content": "1 + 1 = 2<tag>So 2.<tag>"},
        ]})
    );
}

#[tokio::test]
async fn text_of_one_s_own_and_plain_scores() {
    let server = Server::start(|_, _| pooled(&json!([0.5, 1.0]))).await;
    let answers =
        Pooling::new(server.open(), Lines).score_steps(vec![solution("s", "p", &["a", "b"])]).await.unwrap();
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
    let model = Pooling::new(http.clone(), Chat);
    let problems = ["good", "few", "logits", "range", "garbage", "empty", "long", "good"];
    let mut requests: Vec<ScoreRequest> =
        problems.iter().map(|problem| solution(problem, problem, &["a", "b"])).collect();
    requests.push(solution("none", "none", &[]));
    requests.push(solution("tag", "tag", &["a<tag>"]));
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
    assert_eq!(good.path, "/v1/steps/score");
    assert_eq!(good.body, json!({"model": "tiny", "id": "good", "problem": "good", "steps": ["a", "b"]}));
}

#[tokio::test]
async fn solutions_of_a_problem_travel_together() {
    let server = Server::start(|_, seen| {
        let Some(solutions) = seen.body["solutions"].as_array() else {
            return Act::ok(&json!({"scores": [0.5]}));
        };
        let each = solutions.iter().map(|solution| match solution["id"].as_str() {
            Some("long") => json!({"steps": [{"score": null}], "error": "context too long: 9 tokens"}),
            _ => json!({"steps": [{"score": 0.25}]}),
        });
        Act::ok(&json!({"solutions": each.collect::<Vec<_>>(), "usage": {"prompt_tokens": 30}}))
    })
    .await;
    let model = RewardServer::new(server.open());
    let requests = [("a", "p"), ("long", "p"), ("b", "p"), ("c", "q")];
    let answers =
        model.score_steps(requests.map(|(id, problem)| solution(id, problem, &["x"])).to_vec()).await;
    let answers = answers.unwrap();
    let scores = |index: usize| answers[index].as_ref().map(|scores| scores.scores.clone());
    assert_eq!([scores(0), scores(2), scores(3)], [Ok(vec![0.25]), Ok(vec![0.25]), Ok(vec![0.5])]);
    assert_eq!(answers[1].as_ref().unwrap_err().reason(), "context too long");
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "one request for each problem");
    let group = seen.iter().find(|seen| seen.body["problem"] == "p").unwrap();
    assert_eq!(group.body["solutions"][2], json!({"id": "b", "steps": ["x"]}));
}

/// A prompt of three tokens per step, the last of them a tag; scores are halved.
struct Ids;

impl PoolingFormat for Ids {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
        let steps = u32::try_from(request.steps.len()).unwrap();
        let tokens: Vec<u32> =
            (0..steps).flat_map(|step| [10 + step, request.problem.len() as u32, 7]).collect();
        let tags: Vec<usize> = (0..request.steps.len()).map(|step| 3 * step + 2).collect();
        let reads = Reads::Tokens { count: tokens.len(), positions: tags.clone(), tags };
        Ok(vec![PoolingPrompt { input: PoolingInput::Tokens(tokens), reads }])
    }

    fn columns(&self) -> Columns {
        Columns { right: 0, least: 2, most: 2 }
    }

    fn scores(&self, _: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        read.into_iter().map(|score| score / 2.0).collect()
    }
}

/// A row per tag for each prompt of the list; the problem's length in the second token says what is wrong with it.
fn tag_rows(body: &Value) -> Vec<Value> {
    let prompts: Vec<Vec<u32>> = match serde_json::from_value(body["input"].clone()) {
        Ok(prompts) => prompts,
        Err(_) => vec![serde_json::from_value(body["input"].clone()).unwrap()],
    };
    let rows = |prompt: &Vec<u32>| match prompt[1] {
        3 => json!([[0.5, 0.5]]),
        4 => json!([[null, 0.5], [0.5, 0.5]]),
        5 => json!([[3.0, -2.0], [0.5, 0.5]]),
        _ => json!([[1.0, 0.0], [0.5, 0.5]]),
    };
    prompts.iter().map(rows).collect()
}

fn entries(rows: Vec<Value>) -> Act {
    let rows = rows.into_iter().enumerate();
    let data: Vec<Value> = rows.map(|(index, rows)| json!({"index": index, "data": rows})).rev().collect();
    Act::ok(&json!({"data": data, "usage": {"prompt_tokens": 10}}))
}

#[tokio::test]
async fn solutions_travel_together_and_fail_apart() {
    let server = Server::start(|_, seen| entries(tag_rows(&seen.body))).await;
    let folder = tempfile::tempdir().unwrap();
    let model = Pooling::new(server.open().with_cache(Cache::open(folder.path(), None).unwrap()), Ids);
    let problems = ["p", "few", "null", "logit", "pp"];
    let mut requests: Vec<ScoreRequest> =
        problems.iter().map(|problem| solution(problem, problem, &["a", "b"])).collect();
    requests.insert(1, solution("none", "none", &[]));
    let answers = model.score_steps(requests.clone()).await.unwrap();
    // What the request cost is divided, the rest goes to the first.
    let usage = Usage { prompt_tokens: 2, completion_tokens: 0 };
    for place in [0, 5] {
        assert_eq!(answers[place], Ok(StepScores { scores: vec![0.5, 0.25], usage }));
    }
    assert!(matches!(&answers[1], Err(CallError::Invalid(error)) if error.contains("has no steps")));
    for (place, words) in [
        (2, "solution `few`: /pooling: 1 rows came back for a prompt of 6 tokens with 2 step tags"),
        (3, "solution `null`: /pooling: `data[2].data` of the answer: expected a number"),
        (
            4,
            "solution `logit`: /pooling: `data[3].data[0]` of the answer is [3, -2], which are no probabilities",
        ),
    ] {
        assert!(failure(&answers[place]).contains(words), "{}", failure(&answers[place]));
    }
    assert_eq!(server.seen().len(), 1);
    let good = [solution("a", "p", &["a", "b"]), solution("b", "pp", &["a", "b"])];
    for _ in 0..2 {
        assert!(model.score_steps(good.to_vec()).await.unwrap().iter().all(Result::is_ok));
    }
    assert_eq!(server.seen().len(), 2, "an answer that is good as a whole is cached");
    model.score_steps(requests).await.unwrap();
    assert_eq!(server.seen().len(), 3, "one with a bad part is not");
}

#[tokio::test]
async fn a_list_that_is_refused_is_sent_one_by_one() {
    let server = Server::start(|_, seen| {
        let tokens = seen.body["input"].as_array().unwrap();
        if tokens[0].is_array() || tokens.len() > 6 {
            return Act::Say(400, "", json!({"error": {"message": "the prompt is too long"}}).to_string());
        }
        entries(tag_rows(&seen.body))
    })
    .await;
    let model = Pooling::new(server.open(), Ids);
    let requests = vec![
        solution("short", "p", &["a", "b"]),
        solution("long", "p", &["a", "b", "c"]),
        solution("other", "p", &["a", "b"]),
    ];
    let answers = model.score_steps(requests).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().scores, [0.5, 0.25]);
    assert_eq!(answers[2].as_ref().unwrap().usage.prompt_tokens, 10);
    let Err(CallError::Invalid(error)) = &answers[1] else { panic!("{:?}", answers[1]) };
    assert!(error.contains("the prompt is too long"), "{error}");
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn answers_of_the_wrong_shape_fail_as_a_whole() {
    for (answer, words) in [
        (json!({"data": [{"index": 0, "data": []}]}), "`data` of the answer has 1 entries instead of 2"),
        (json!({"data": [{"index": 0, "data": []}, {"index": 0, "data": []}]}), "does not count from 0"),
        (json!({"data": [{"index": 1, "data": []}, {"index": 2, "data": []}]}), "does not count from 0"),
        (json!({"rows": []}), "missing field `data`"),
    ] {
        let server = Server::start(move |_, _| Act::ok(&answer)).await;
        let requests = vec![solution("a", "p", &["a"]), solution("b", "p", &["b"])];
        let answers = Pooling::new(server.open(), Ids).score_steps(requests).await.unwrap();
        assert!(answers.iter().all(|answer| failure(answer).contains(words)), "{answers:?}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn requests_are_of_a_bounded_size_and_every_endpoint_gets_some() {
    let rule = |_: usize, seen: &crate::scripted::server::Seen| entries(tag_rows(&seen.body));
    let servers = [Server::start(rule).await, Server::start(rule).await];
    let endpoints: Vec<Endpoint> = servers.iter().map(Server::endpoint).collect();
    let model = Pooling::new(Http::open_all(&endpoints).unwrap(), Ids);
    let requests = |count: usize| vec![solution("s", "p", &["a", "b"]); count];
    assert_eq!(model.score_steps(requests(10)).await.unwrap().len(), 10);
    assert_eq!(servers.each_ref().map(|server| server.seen().len()), [1, 1]);
    assert_eq!(model.score_steps(requests(100)).await.unwrap().len(), 100);
    let sent: Vec<usize> = servers
        .iter()
        .flat_map(Server::seen)
        .map(|seen| seen.body["input"].as_array().unwrap().len())
        .collect();
    assert_eq!((sent.iter().sum::<usize>(), sent.iter().max()), (110, Some(&32)));
}

/// The tokens before each step's verdict; 8 is right and 9 is wrong.
struct Prefixes;

impl TokenFormat for Prefixes {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<Vec<u32>>, CallError> {
        Ok((0..request.steps.len()).map(|step| vec![request.problem.len() as u32; step + 2]).collect())
    }

    fn verdict(&self) -> [u32; 2] {
        [8, 9]
    }
}

#[tokio::test]
async fn two_tokens_are_compared_by_their_logprobs() {
    let server = Server::start(|_, seen| {
        let prompts: Vec<Vec<u32>> = serde_json::from_value(seen.body["prompt"].clone()).unwrap();
        let choice = |(index, prompt): (usize, &Vec<u32>)| {
            let last: f64 = if prompt.ends_with(&[8]) { 0.6 } else { 0.2 };
            let mut logprobs = vec![Value::Null; 1];
            logprobs.resize(prompt.len() - 1, json!(-1.0));
            match prompt[0] {
                1 => logprobs.extend([json!(last.ln()), json!(-0.5)]),
                2 => logprobs.push(json!(last.ln())),
                3 => logprobs = vec![json!(-0.5)],
                4 => logprobs.extend([json!(null), json!(-0.5)]),
                _ => logprobs.extend([json!(-0.01), json!(-0.5)]),
            }
            json!({"index": index, "logprobs": {"token_logprobs": logprobs}})
        };
        let mut choices: Vec<Value> = prompts.iter().enumerate().map(choice).collect();
        choices.reverse();
        if prompts[0][0] == 6 {
            choices.pop();
        }
        Act::ok(&json!({"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 4}}))
    })
    .await;
    let model = TokenScores::new(server.open(), Prefixes);
    let requests = (1..=6).map(|length| solution(&length.to_string(), &"p".repeat(length), &["a", "b"]));
    let answers = model.score_steps(requests.collect()).await.unwrap();
    for answer in &answers[..2] {
        let scores = &answer.as_ref().unwrap().scores;
        assert!(scores.len() == 2 && scores.iter().all(|score| (score - 0.75).abs() < 1e-12), "{scores:?}");
    }
    for (place, words) in [
        (2, "solution `3`: /v1/completions: 1 log-probabilities came back for a prompt of 3 tokens"),
        (3, "`logprobs.token_logprobs[2]` of the answer is null"),
        (4, "cannot be of two tokens at one place"),
        (5, "`choices` of the answer has 3 entries instead of 4"),
    ] {
        assert!(failure(&answers[place]).contains(words), "{}", failure(&answers[place]));
    }
    let seen = server.seen();
    let first = seen.iter().find(|seen| seen.body["prompt"][0][0] == 1).unwrap();
    assert_eq!(
        first.body,
        json!({"model": "tiny", "prompt": [[1, 1, 8], [1, 1, 9], [1, 1, 1, 8], [1, 1, 1, 9]], "max_tokens": 1,
            "temperature": 0.0, "echo": true, "logprobs": 1})
    );
}
