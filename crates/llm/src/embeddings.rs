//! `Embed` over OpenAI's `/v1/embeddings`:
//!
//! ```json
//! {"model": "all-minilm", "input": ["a cat", "a dog"], "encoding_format": "float"}
//! {"data": [{"index": 0, "embedding": [0.1, …]}, {"index": 1, "embedding": […]}], "usage": {"prompt_tokens": 4}}
//! ```
//!
//! A text that is longer than the model's limit is the server's affair: most refuse it, some cut it without saying so.

use futures_util::future::try_join_all;
use gradus_core::contracts::{Answer, CallError, Embed, Embeddings, Usage};
use serde::{Deserialize, Serialize};

use crate::Http;

const PATH: &str = "/v1/embeddings";
/// Most texts of one request.
const TEXTS: usize = 64;

/// A sentence encoder behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct EmbeddingServer {
    http: Http,
}

#[derive(Serialize)]
struct EmbeddingBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct EmbeddingReply {
    data: Vec<EmbeddingEntry>,
}

#[derive(Deserialize)]
struct EmbeddingEntry {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl EmbeddingServer {
    /// The model of `http`'s endpoint.
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    async fn part(&self, texts: &[String]) -> Result<(Vec<Vec<f32>>, Usage), CallError> {
        let model = &self.http.endpoint().model;
        let body = EmbeddingBody { model, input: texts, encoding_format: "float" };
        let failed = |what: String| Err(CallError::Failed(format!("{PATH}: {what}")));
        let accept = |mut reply: EmbeddingReply, usage| {
            reply.data.sort_by_key(|entry| entry.index);
            let (found, wanted) = (reply.data.len(), texts.len());
            if found != wanted {
                return failed(format!("`data` of the answer has {found} entries instead of {wanted}"));
            }
            let vectors: Vec<Vec<f32>> = reply.data.into_iter().map(|entry| entry.embedding).collect();
            let length = vectors.first().map_or(0, Vec::len);
            if let Some(place) = vectors.iter().position(|vector| vector.len() != length || length == 0) {
                let found = vectors[place].len();
                return failed(format!("`data[{place}].embedding` of the answer has {found} numbers"));
            }
            if let Some(place) = vectors.iter().position(|vector| vector.iter().any(|x| !x.is_finite())) {
                return failed(format!("`data[{place}].embedding` of the answer holds what is not a number"));
            }
            Ok((vectors, usage))
        };
        self.http.post_and(PATH, &body, accept).await
    }

    async fn all(&self, texts: &[String]) -> Result<Embeddings, CallError> {
        let mut all = Embeddings { dimension: 0, values: Vec::new(), truncated: 0, usage: Usage::default() };
        for (vectors, usage) in try_join_all(texts.chunks(TEXTS).map(|part| self.part(part))).await? {
            for vector in vectors {
                if all.dimension != 0 && all.dimension != vector.len() {
                    let (first, then) = (all.dimension, vector.len());
                    let what = format!("{PATH}: vectors of {first} and of {then} numbers came back");
                    return Err(CallError::Failed(what));
                }
                all.dimension = vector.len();
                all.values.extend(vector);
            }
            all.usage.prompt_tokens += usage.prompt_tokens;
        }
        Ok(all)
    }
}

impl Embed for EmbeddingServer {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        Box::pin(async move { self.all(&texts).await })
    }
}
