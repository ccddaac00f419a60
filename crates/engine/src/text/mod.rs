//! Between text and token ids: tokenizers, chat templates, streamed decoding.

mod from_folder;
mod from_gguf;
mod limits;
mod stream;
mod template;
mod tokenizer;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use stream::TextStream;
pub use tokenizer::Tokenizer;
#[cfg(test)]
pub(crate) use tokenizer::Variables;
