//! An encoder without a model, and records without a dataset.

use std::collections::HashMap;
use std::sync::Mutex;

use gradus_core::contracts::{Answer, CallError, Embed, Embeddings, Usage};
use gradus_core::{Annotation, LabelSource, Problem, Record, Solution};

pub(crate) const DIMENSION: usize = 48;

/// Bags of words: each word adds to two of the dimensions.
#[derive(Default)]
pub(crate) struct Words {
    /// How often each text was embedded.
    pub(crate) seen: Mutex<HashMap<String, usize>>,
    /// Requests that succeed before all fail; none: no limit.
    pub(crate) limit: Option<usize>,
    pub(crate) requests: Mutex<usize>,
    /// What goes wrong with the vectors.
    pub(crate) fault: Option<fn(&mut Embeddings)>,
}

impl Words {
    pub(crate) fn failing_after(requests: usize) -> Self {
        Self { limit: Some(requests), ..Self::default() }
    }

    pub(crate) fn texts(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(crate) fn most(&self) -> usize {
        self.seen.lock().unwrap().values().copied().max().unwrap_or(0)
    }
}

impl Embed for Words {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        let mut requests = self.requests.lock().unwrap();
        if self.limit.is_some_and(|limit| *requests >= limit) {
            return Box::pin(async { Err(CallError::Failed("the server is gone".to_owned())) });
        }
        *requests += 1;
        let mut seen = self.seen.lock().unwrap();
        let mut values = Vec::new();
        for text in &texts {
            *seen.entry(text.clone()).or_default() += 1;
            values.extend(vector(text));
        }
        let usage = Usage { prompt_tokens: texts.len() as u64, completion_tokens: 0 };
        let mut answer = Embeddings { dimension: DIMENSION, values, truncated: 0, usage };
        if let Some(fault) = self.fault {
            fault(&mut answer);
        }
        Box::pin(async { Ok(answer) })
    }
}

pub(crate) fn vector(text: &str) -> [f32; DIMENSION] {
    let mut vector = [0.0; DIMENSION];
    for word in text.split_whitespace() {
        let hash = word.bytes().fold(5381_usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(byte));
        vector[hash % DIMENSION] += 1.0;
        vector[hash / DIMENSION % DIMENSION] -= 0.5;
    }
    vector
}

const THINGS: [&str; 12] = [
    "apples", "trains", "triangles", "coins", "candles", "ladders", "rivers", "clocks", "tickets", "circles",
    "dice", "books",
];

/// A question about a thing with a right and a wrong solution by a person; every third has only a reference solution.
pub(crate) fn record(number: usize) -> Record {
    let (thing, n) = (THINGS[number % THINGS.len()], number + 2);
    let id = format!("p{number}");
    let text = format!(
        "There are {n} {thing} and then {number} more {thing} number {number}, how many {thing} in all?"
    );
    let steps = |sum: usize| {
        vec![
            format!("We add {n} and {number} {thing}."),
            format!("The sum is {sum}."),
            "So we are done.".to_owned(),
        ]
    };
    let solution = |name: &str, sum, error| Solution {
        id: format!("{id}/{name}"),
        problem_id: id.clone(),
        steps: steps(sum),
        annotations: vec![Annotation::from_first_error(3, error, &LabelSource::Human)],
        ..Solution::default()
    };
    let sum = n + number;
    let solutions = vec![solution("right", sum, None), solution("wrong", sum + 1, Some(1))];
    let mut problem = Problem { id: id.clone(), text, ..Problem::default() };
    if number % 3 == 2 {
        problem.reference = steps(sum);
        return Record::new(problem, Vec::new());
    }
    Record::new(problem, solutions)
}

pub(crate) fn records(numbers: std::ops::Range<usize>) -> Vec<Record> {
    numbers.map(record).collect()
}
