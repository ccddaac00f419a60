//! A model that plays prepared answers: an ordinary backend for tests and demonstrations.
//!
//! A request is answered by the first rule whose text equals its key, every time; otherwise by the next entry of the
//! queue, once; otherwise it fails with a sentence that shows the key. The key of a [`GenerateRequest`] is its text or the
//! last message of its conversation, that of a [`ScoreRequest`] its problem. Words, cut at white space, count as tokens;
//! stop texts and `max_tokens` are obeyed, seeds, temperatures and constraints have no meaning here.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gradus_core::contracts::{
    Answer, CallError, Choice, FinishReason, Generate, GenerateRequest, Generated, Prompt, ScoreRequest,
    ScoreSteps, StepScores, Usage,
};

use crate::scores;

mod replies;
pub mod server;

/// The fake model.
///
/// ```
/// use gradus_core::contracts::{Generate, GenerateRequest, Prompt, ScoreRequest, ScoreSteps};
/// use gradus_llm::Scripted;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let model = Scripted::new()
///     .on("2 + 2 =", ["4", "four"])
///     .then("whatever comes next")
///     .score("1 + 1?", [0.9, 0.2]);
/// let ask = |text: &str| GenerateRequest::new(Prompt::Text(text.into()), 16);
///
/// let both = model.generate(GenerateRequest { n: 2, ..ask("2 + 2 =") }).await.unwrap();
/// assert_eq!([&*both.choices[0].text, &*both.choices[1].text], ["4", "four"]);
/// assert_eq!(model.generate(ask("?")).await.unwrap().choices[0].text, "whatever comes next");
///
/// let request = ScoreRequest { problem: "1 + 1?".into(), steps: vec!["a".into(), "b".into()], ..Default::default() };
/// let scores = model.score_steps(vec![request]).await.unwrap();
/// assert_eq!(scores[0].as_ref().unwrap().scores, [0.9, 0.2]);
/// assert_eq!(model.generated().len(), 2);
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Scripted {
    texts: Vec<(String, Vec<String>)>,
    scores: Vec<(String, Vec<f64>)>,
    delay: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    texts: VecDeque<String>,
    generated: Vec<GenerateRequest>,
}

impl Scripted {
    /// A model without any answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the prompt `key` with these texts: sample `i` is text `i`, and after the last comes the first again.
    #[must_use]
    pub fn on<T: Into<String>>(mut self, key: impl Into<String>, texts: impl IntoIterator<Item = T>) -> Self {
        self.texts.push((key.into(), texts.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a text to the queue; each sample takes one.
    #[must_use]
    pub fn then(self, text: impl Into<String>) -> Self {
        self.lock().texts.push_back(text.into());
        self
    }

    /// Answers solutions of `problem` with these scores.
    #[must_use]
    pub fn score(mut self, problem: impl Into<String>, scores: impl IntoIterator<Item = f64>) -> Self {
        self.scores.push((problem.into(), scores.into_iter().collect()));
        self
    }

    /// Every call takes this long.
    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The requests for text so far, those that failed included.
    pub fn generated(&self) -> Vec<GenerateRequest> {
        self.lock().generated.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn texts(&self, request: &GenerateRequest) -> Result<Vec<String>, CallError> {
        if request.n == 0 || request.max_tokens == 0 {
            return Err(CallError::Invalid("n and max_tokens must be at least 1".to_owned()));
        }
        if request.logprobs {
            return Err(CallError::Invalid("a script has no log-probabilities".to_owned()));
        }
        let mut state = self.lock();
        let key = key(&request.prompt);
        if let Some((_, texts)) = self.texts.iter().find(|(rule, texts)| rule == key && !texts.is_empty()) {
            return Ok(texts.iter().cycle().take(request.n).cloned().collect());
        }
        if state.texts.len() < request.n {
            return Err(no_answer(key));
        }
        Ok(state.texts.drain(..request.n).collect())
    }

    fn scores(&self, request: &ScoreRequest) -> Result<StepScores, CallError> {
        scores::check_request(request)?;
        let rule = self.scores.iter().find(|(problem, _)| *problem == request.problem);
        let scores = match rule {
            Some((_, scores)) => scores.clone(),
            None => return Err(no_answer(&request.problem)),
        };
        scores::check_scores(request, &scores)?;
        let prompt_tokens =
            words(&request.problem) + request.steps.iter().map(|step| words(step)).sum::<u64>();
        Ok(StepScores { scores, usage: Usage { prompt_tokens, completion_tokens: 0 } })
    }
}

impl Generate for Scripted {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        Box::pin(async move {
            self.lock().generated.push(request.clone());
            tokio::time::sleep(self.delay).await;
            let choices: Vec<Choice> =
                self.texts(&request)?.into_iter().map(|text| cut(text, &request)).collect();
            let usage = Usage {
                prompt_tokens: match &request.prompt {
                    Prompt::Text(text) => words(text),
                    Prompt::Tokens(tokens) => tokens.len() as u64,
                    Prompt::Chat(messages) => messages.iter().map(|message| words(&message.content)).sum(),
                },
                completion_tokens: choices.iter().map(|choice| words(&choice.text)).sum(),
            };
            Ok(Generated { choices, usage })
        })
    }
}

impl ScoreSteps for Scripted {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            Ok(requests.iter().map(|request| self.scores(request)).collect())
        })
    }
}

fn key(prompt: &Prompt) -> &str {
    match prompt {
        Prompt::Text(text) => text,
        Prompt::Tokens(_) => "",
        Prompt::Chat(messages) => messages.last().map_or("", |message| &message.content),
    }
}

fn no_answer(key: &str) -> CallError {
    let start: String = key.chars().take(60).collect();
    CallError::Failed(format!("the script has no answer left for {start:?}"))
}

fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// A text up to its first stop text and its last allowed word, and whether that word was its last.
fn cut_text(mut text: String, stop: &[String], max_tokens: usize) -> (String, bool) {
    if let Some(end) = stop.iter().filter_map(|stop| text.find(stop)).min() {
        text.truncate(end);
    }
    // The end of word `max_tokens` is where the white space after it begins.
    let mut inside = false;
    let mut seen = 0;
    for (place, letter) in text.char_indices() {
        if letter.is_whitespace() {
            inside = false;
        } else if !inside {
            inside = true;
            seen += 1;
            if seen > max_tokens {
                text.truncate(text[..place].trim_end().len());
                return (text, false);
            }
        }
    }
    (text, true)
}

fn cut(text: String, request: &GenerateRequest) -> Choice {
    let (text, whole) = cut_text(text, &request.stop, request.max_tokens);
    let finish = if whole { FinishReason::Stop } else { FinishReason::Length };
    Choice { text, finish, logprobs: Vec::new(), tokens: Vec::new() }
}

#[cfg(test)]
mod tests {
    use gradus_core::contracts::Message;

    use super::*;

    fn ask(text: &str) -> GenerateRequest {
        GenerateRequest::new(Prompt::Chat(vec![Message::new("system", "s"), Message::new("user", text)]), 3)
    }

    fn steps(problem: &str, count: usize) -> ScoreRequest {
        ScoreRequest { problem: problem.into(), steps: vec!["x".into(); count], ..Default::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn delay_takes_its_time_without_taking_ours() {
        let model = Scripted::new().then("a").delayed(Duration::from_secs(3600));
        let started = tokio::time::Instant::now();
        model.generate(ask("q")).await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn stop_texts_and_the_limit_end_samples() {
        let model = Scripted::new().then("one two three  four").then("one two STOP three");
        let long = model.generate(ask("q")).await.unwrap();
        assert_eq!(long.choices[0].text, "one two three");
        assert_eq!(long.choices[0].finish, FinishReason::Length);
        assert_eq!(long.usage, Usage { prompt_tokens: 2, completion_tokens: 3 });
        let stopped =
            model.generate(GenerateRequest { stop: vec![" STOP".into()], ..ask("q") }).await.unwrap();
        assert_eq!(stopped.choices[0].text, "one two");
        assert_eq!(stopped.choices[0].finish, FinishReason::Stop);
        let error = model.generate(ask("q")).await.unwrap_err();
        assert_eq!(error, CallError::Failed("the script has no answer left for \"q\"".into()));
    }

    #[tokio::test]
    async fn a_wrong_count_is_one_solution_s_own_error() {
        let model = Scripted::new().score("two", [0.1, 0.2]);
        let answers =
            model.score_steps(vec![steps("two", 3), steps("two", 2), steps("none", 1)]).await.unwrap();
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false]);
    }
}
