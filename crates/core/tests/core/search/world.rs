//! A scripted model over the synthetic world, and scorers that know everything or nothing.
//!
//! The policy goes on rightly with probability [`RIGHT`] at each step, and otherwise makes a slip: the last number of the
//! step is one too high. After a slip it never finds back. At temperature 0 it takes the more probable way, the slip.
//! It counts a token per word, one per separator and one for the end, and stops where `max_tokens` says.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use gradus_core::contracts::{
    Answer, CallError, Choice, FinishReason, Generate, GenerateRequest, Generated, Prompt, ScoreRequest,
    ScoreSteps, StepScores, Usage,
};
use gradus_synth::{Family, Style, SynthConfig, generate};

/// How probable the right next step is.
pub(crate) const RIGHT: f64 = 0.45;
const SEPARATOR: &str = "\n\n";

/// A problem with its right steps and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) question: String,
    pub(crate) steps: Vec<String>,
    pub(crate) answer: String,
}

/// Problems whose every right step ends in a number that a slip can change.
pub(crate) fn tasks(count: usize, seed: u64) -> Vec<Task> {
    let families = vec![Family::Shopping, Family::Travel, Family::Percent, Family::Sharing, Family::Average];
    let config = SynthConfig {
        seed,
        problems: count,
        solutions_per_problem: 1,
        wrong_share: 0.0,
        families,
        styles: vec![Style::Equations],
        difficulty: (1, 3),
        ..SynthConfig::default()
    };
    let tasks = generate(&config).map(|record| Task {
        question: record.problem.text,
        steps: record.problem.reference,
        answer: record.problem.answer.unwrap(),
    });
    let tasks: Vec<Task> = tasks.collect();
    for step in tasks.iter().flat_map(|task| &task.steps) {
        assert_ne!(slipped(step), *step, "a step without a number");
    }
    tasks
}

/// The step with its last digit one too high.
fn slipped(step: &str) -> String {
    let Some(at) = step.rfind(|c: char| c.is_ascii_digit()) else { return step.to_owned() };
    let digit = (step.as_bytes()[at] - b'0' + 1) % 10;
    format!("{}{digit}{}", &step[..at], &step[at + 1..])
}

/// A uniform number in 0..1 from anything.
fn uniform(parts: &[&str]) -> f64 {
    let hash = gradus_core::id::hashed("uniform", parts.iter().copied());
    let digits: String = hash.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits[digits.len() - 12..], 16).unwrap() as f64 / (1u64 << 48) as f64
}

/// The text of a step without the remark that makes it unlike all others.
fn bare(step: &str) -> &str {
    step.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(step, |(_, step)| step)
}

/// What a request asked for and what it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) n: usize,
    pub(crate) max_tokens: usize,
    pub(crate) seed: u64,
    pub(crate) used: u64,
}

/// The scripted model.
pub(crate) struct Policy {
    pub(crate) tasks: HashMap<String, Task>,
    /// Every sample starts with a remark of its own, so no two are the same text.
    pub(crate) remarks: bool,
    pub(crate) asked: Mutex<Vec<Asked>>,
    /// Fails from this request on.
    pub(crate) fails_at: Option<usize>,
}

impl Policy {
    pub(crate) fn new(tasks: &[Task]) -> Self {
        let tasks = tasks.iter().map(|task| (task.question.clone(), task.clone())).collect();
        Self { tasks, remarks: false, asked: Mutex::default(), fails_at: None }
    }

    /// The next step after `steps`, or none at the end.
    fn next(&self, task: &Task, steps: &[String], request: &GenerateRequest, seed: u64) -> Option<String> {
        let right = task.steps.get(steps.len())?;
        let key = [task.question.as_str(), &steps.join(SEPARATOR), &seed.to_string()].join("|");
        let on_track = steps.iter().zip(&task.steps).all(|(step, right)| bare(step) == right);
        let step = if on_track && request.sampling.temperature > 0.0 && uniform(&[&key]) < RIGHT {
            right.clone()
        } else {
            slipped(right)
        };
        Some(if self.remarks { format!("[{seed}] {step}") } else { step })
    }

    fn sample(&self, request: &GenerateRequest, seed: u64) -> (Choice, u64) {
        let Prompt::Text(prompt) = &request.prompt else { panic!("the prompt is text") };
        let (question, begun) = prompt.split_once(SEPARATOR).expect("a blank line follows the question");
        let task = &self.tasks[question];
        let mut steps: Vec<String> = begun.split_terminator(SEPARATOR).map(str::to_owned).collect();
        // Tokens with the text they add; the end adds none.
        let mut tokens: Vec<String> = Vec::new();
        loop {
            let next = self.next(task, &steps, request, seed);
            let Some(step) = next else {
                tokens.push(String::new());
                break;
            };
            tokens.extend(step.split_inclusive(' ').map(str::to_owned));
            steps.push(step);
            if request.stop.iter().any(|stop| stop == SEPARATOR) {
                tokens.push(String::new());
                break;
            }
            if steps.len() < task.steps.len() {
                tokens.push(SEPARATOR.to_owned());
            }
        }
        let cut = tokens.len() > request.max_tokens;
        tokens.truncate(request.max_tokens);
        let finish = if cut { FinishReason::Length } else { FinishReason::Stop };
        let choice = Choice { text: tokens.concat(), finish, logprobs: Vec::new(), tokens: Vec::new() };
        (choice, tokens.len() as u64)
    }
}

impl Generate for Policy {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        let samples = (0..request.n as u64).map(|index| self.sample(&request, request.seed + index));
        let (choices, used): (Vec<Choice>, Vec<u64>) = samples.unzip();
        let used = used.iter().sum();
        let asked = Asked { n: request.n, max_tokens: request.max_tokens, seed: request.seed, used };
        let mut log = self.asked.lock().unwrap();
        log.push(asked);
        let fails = self.fails_at.is_some_and(|at| log.len() > at);
        let usage = Usage { prompt_tokens: 0, completion_tokens: used };
        Box::pin(async move {
            if fails {
                Err(CallError::Failed("out of memory".into()))
            } else {
                Ok(Generated { choices, usage })
            }
        })
    }
}

/// Scores of each step of a solution, or no score.
pub(crate) struct Scorer<F>(pub(crate) F);

impl<F: Fn(&ScoreRequest) -> Result<Vec<f64>, CallError> + Send + Sync> ScoreSteps for Scorer<F> {
    fn score_steps(&self, requests: Vec<ScoreRequest>) -> Answer<'_, Vec<Result<StepScores, CallError>>> {
        let score = |request: &ScoreRequest| {
            let words = request.steps.iter().map(|step| step.split_whitespace().count() as u64).sum();
            let usage = Usage { prompt_tokens: words, completion_tokens: 0 };
            (self.0)(request).map(|scores| StepScores { scores, usage })
        };
        let scores = requests.iter().map(score).collect();
        Box::pin(async move { Ok(scores) })
    }
}

/// Knows the right steps: 1 until the first slip, 0 from there.
pub(crate) fn perfect(tasks: &[Task]) -> impl ScoreSteps + use<> {
    let truth: HashMap<String, Vec<String>> =
        tasks.iter().map(|task| (task.question.clone(), task.steps.clone())).collect();
    Scorer(move |request: &ScoreRequest| {
        let mut right = true;
        let steps = request.steps.iter().zip(&truth[&request.problem]);
        Ok(steps
            .map(|(step, truth)| {
                right &= bare(step) == truth;
                f64::from(u8::from(right))
            })
            .collect())
    })
}

/// Knows nothing.
pub(crate) fn random(seed: u64) -> impl ScoreSteps {
    Scorer(move |request: &ScoreRequest| {
        let seed = seed.to_string();
        let score = |end: usize| uniform(&[&seed, &request.problem, &request.steps[..end].join("|")]);
        Ok((1..=request.steps.len()).map(score).collect())
    })
}

/// Drives a future that never waits for the world outside.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}
