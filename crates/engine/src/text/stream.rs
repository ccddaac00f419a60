//! Text from tokens as they are generated, in time linear in their number.
//!
//! A piece is given out once it cannot change any more: a character's last byte has arrived, or, with SentencePiece,
//! the run of byte tokens has ended (a later invalid byte would turn the whole run into `�`). All pieces and
//! [`TextStream::finish`] together are [`Tokenizer::decode`] of all ids, except that a stream continues a prompt: a
//! space before its first word stays, where SentencePiece drops it at the start of a text.

use std::sync::Arc;

use super::tokenizer::{Style, Tokenizer, byte_level, fallback_byte};
use crate::error::Result;

/// Decodes one sequence; see [`Tokenizer::stream`].
#[derive(Debug)]
pub(crate) struct TextStream {
    tokenizer: Arc<Tokenizer>,
    skip_special: bool,
    /// Bytes that are no text yet.
    pending: Vec<u8>,
    /// Tokens that are no text yet, where text cannot be had token by token.
    ids: Vec<u32>,
}

impl TextStream {
    pub(super) fn new(tokenizer: Arc<Tokenizer>, skip_special: bool) -> Self {
        Self { tokenizer, skip_special, pending: Vec::new(), ids: Vec::new() }
    }

    /// Takes the next token; gives the text that has become final, if any.
    pub(crate) fn push(&mut self, id: u32) -> Option<String> {
        if self.skip_special && self.tokenizer.is_special(id) {
            return None;
        }
        let token = self.tokenizer.vocabulary_text(id)?;
        let text = match self.tokenizer.style {
            Style::ByteLevel => {
                self.pending.extend(byte_level(&token));
                let tail = self.pending.split_off(self.pending.len() - incomplete(&self.pending));
                lossy(std::mem::replace(&mut self.pending, tail))
            }
            Style::Pieces => match fallback_byte(&token) {
                Some(byte) => {
                    self.pending.push(byte);
                    return None;
                }
                None => self.take_run() + &token.replace('▁', " "),
            },
            Style::Whole => {
                self.ids.push(id);
                return None;
            }
        };
        (!text.is_empty()).then_some(text)
    }

    /// The rest, with `�` for what is no whole character.
    pub(crate) fn finish(mut self) -> Result<String> {
        Ok(match self.tokenizer.style {
            Style::ByteLevel => lossy(self.pending),
            Style::Pieces => self.take_run(),
            Style::Whole => self.tokenizer.decode(&self.ids, self.skip_special)?,
        })
    }

    /// The text of a finished run of byte tokens, as the `ByteFallback` decoder gives it.
    fn take_run(&mut self) -> String {
        let run = std::mem::take(&mut self.pending);
        String::from_utf8(run).unwrap_or_else(|error| "�".repeat(error.as_bytes().len()))
    }
}

/// How many bytes at the end are the start of a character.
fn incomplete(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
