//! OpenAI's protocol: models, chat and text completions, embeddings.
//!
//! What these requests may hold beyond OpenAI's own are the fields of vLLM that change what is generated. A field that
//! would change the result and has no effect here is refused, not ignored; tools are refused.

pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod embeddings;
pub(crate) mod models;
pub(crate) mod options;
