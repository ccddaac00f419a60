//! Answers that somebody has already: completions and vectors in a file.
//!
//! ```json
//! {"prompt": "What is 1 + 1?", "completions": ["It is 2.", "2"]}
//! {"text": "a cat", "embedding": [0.1, 0.2]}
//! ```
//!
//! The first is a line of recorded completions: the prompt is the text, or the last message of a conversation, and sample
//! `i` of a request is completion `i`. The second is a line of recorded vectors, as `gradus embed` writes it.

use std::collections::HashMap;
use std::path::Path;

use gradus_core::contracts::{Answer, CallError, Embed, Embeddings, Usage};
use gradus_llm::Scripted;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{Error, Result};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompletionsLine {
    prompt: String,
    completions: Vec<String>,
}

#[derive(Deserialize)]
struct VectorLine {
    text: String,
    embedding: Vec<f32>,
}

/// Recorded completions, and a hash of them.
pub(crate) fn completions(path: &Path) -> Result<(Scripted, String)> {
    let (lines, hash) = read::<CompletionsLine>(path)?;
    let mut scripted = Scripted::new();
    for (number, line) in lines {
        if line.completions.is_empty() {
            return Err(refuse(path, number, "`completions` is empty"));
        }
        scripted = scripted.on(line.prompt, line.completions);
    }
    Ok((scripted, hash))
}

/// Vectors that stand in a file.
#[derive(Debug, Clone)]
pub(crate) struct RecordedVectors {
    dimension: usize,
    vectors: HashMap<String, Vec<f32>>,
    /// A hash of the file.
    pub(crate) hash: String,
}

impl RecordedVectors {
    /// Reads what `gradus embed -o FILE.jsonl` wrote.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let (lines, hash) = read::<VectorLine>(path)?;
        let dimension = lines.first().map_or(0, |(_, line)| line.embedding.len());
        let mut vectors = HashMap::new();
        for (number, VectorLine { text, embedding }) in lines {
            if embedding.len() != dimension || dimension == 0 {
                let found = embedding.len();
                return Err(refuse(
                    path,
                    number,
                    format!("a vector of {found} numbers, expected {dimension}"),
                ));
            }
            vectors.insert(text, embedding);
        }
        Ok(Self { dimension, vectors, hash })
    }
}

impl Embed for RecordedVectors {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        Box::pin(async move {
            let mut values = Vec::with_capacity(texts.len() * self.dimension);
            for text in &texts {
                let vector = self.vectors.get(text);
                let missing = || CallError::Invalid(format!("no vector is recorded for {text:?}"));
                values.extend(vector.ok_or_else(missing)?);
            }
            Ok(Embeddings { dimension: self.dimension, values, truncated: 0, usage: Usage::default() })
        })
    }
}

/// The lines of a file with their numbers, and a hash of it.
fn read<T: DeserializeOwned>(path: &Path) -> Result<(Vec<(usize, T)>, String)> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = error.to_string();
        Error::Recorded { path: path.to_owned(), line: None, message }
    })?;
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(place, line)| {
        let parsed = serde_json::from_str(line);
        Ok((
            place + 1,
            parsed.map_err(|error: serde_json::Error| refuse(path, place + 1, error.to_string()))?,
        ))
    };
    let lines = filled.map(parse).collect::<Result<_>>()?;
    Ok((lines, blake3::hash(text.as_bytes()).to_string()))
}

fn refuse(path: &Path, line: usize, message: impl Into<String>) -> Error {
    Error::Recorded { path: path.to_owned(), line: Some(line), message: message.into() }
}
