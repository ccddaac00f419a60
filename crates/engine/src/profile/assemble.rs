//! From a problem and its steps to tokens and the positions where verdicts are read.
//!
//! Separators go in as token ids, never as text that could merge with its neighbors. Every mismatch between steps,
//! separators and positions is an error that names the solution.

use gradus_core::contracts::{Message, ScoreRequest};
use gradus_template::context;

use super::templates::{Head, TaggedTexts};
use super::{Input, Profile, Score, Tagged, Templates};
use crate::text::Tokenizer;
use crate::{Error, Result};

/// A solution as prompts, with one position to read for each step, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// Tokens of each prompt, and the indices in it at which verdicts are read.
    pub prompts: Vec<(Vec<u32>, Vec<usize>)>,
}

impl Assembled {
    /// Tokens that separate prompts would take.
    pub fn tokens(&self) -> usize {
        self.prompts.iter().map(|(tokens, _)| tokens.len()).sum()
    }

    fn reads(&self) -> usize {
        self.prompts.iter().map(|(_, reads)| reads.len()).sum()
    }
}

/// Writes solutions out for one profile and one tokenizer.
pub struct Assembler {
    templates: Templates,
    /// The separator's id, for tagged input.
    tag: Option<u32>,
    /// Ids of the tokens for right and wrong, when two tokens are compared.
    verdict: Option<[u32; 2]>,
}

impl Assembler {
    /// Looks up the profile's tokens and compiles its templates.
    pub fn new(profile: Profile, tokenizer: &Tokenizer) -> Result<Self> {
        let templates = Templates::new(profile)?;
        let profile = templates.profile();
        let token = |text: &str| {
            single(tokenizer, text).ok_or_else(|| {
                Error::request(format!(
                    "profile `{}` needs `{text}` as one token, and this model's tokenizer has no such token: is it the \
                     right profile for the model?",
                    profile.name
                ))
            })
        };
        let tag = match &profile.input {
            Input::Tagged(tagged) => Some(token(&tagged.tag)?),
            _ => None,
        };
        let verdict = match &profile.score {
            Score::Tokens { positive, negative } => Some([token(positive)?, token(negative)?]),
            _ => None,
        };
        Ok(Self { templates, tag, verdict })
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        self.templates.profile()
    }

    /// The separator's id, for tagged input.
    pub fn tag(&self) -> Option<u32> {
        self.tag
    }

    /// Ids of the tokens for right and wrong, when two tokens are compared.
    pub fn verdict(&self) -> Option<[u32; 2]> {
        self.verdict
    }

    /// Writes a solution out; `context` is the longest prompt the model takes.
    pub fn assemble(
        &self,
        request: &ScoreRequest,
        tokenizer: &Tokenizer,
        context: usize,
    ) -> Result<Assembled> {
        let at = |message: String| Error::request(format!("solution `{}`: {message}", request.id));
        check(request).map_err(at)?;
        let assembled = match &self.profile().input {
            Input::Tagged(tagged) => self.tagged(tagged, request, tokenizer),
            Input::Turns { answer, .. } => self.turns(answer, request, tokenizer),
            Input::Prompted { .. } => self.prompted(request, tokenizer, context),
        };
        let assembled = assembled.map_err(|error| at(error.to_string()))?;
        if assembled.reads() != request.steps.len() {
            return Err(at(format!(
                "{} positions to read for {} steps",
                assembled.reads(),
                request.steps.len()
            )));
        }
        let longest = assembled.prompts.iter().map(|(tokens, _)| tokens.len()).max().unwrap_or_default();
        fits(longest, context).map_err(|error| at(error.to_string()))?;
        Ok(assembled)
    }

    fn tagged(&self, tagged: &Tagged, request: &ScoreRequest, tokenizer: &Tokenizer) -> Result<Assembled> {
        let tag = self.tag.expect("looked up when the profile was loaded");
        let bos = tokenizer.bos.map(|id| tokenizer.token_text(id)).unwrap_or_default();
        let TaggedTexts { head, steps } = self.templates.tagged(tagged, request, &bos)?;
        let (before, end) = match head {
            Head::Text(before) => (before, String::new()),
            Head::Chat(mut messages) => {
                // The template goes around a mark that stands for the steps; what is before and after it is kept.
                let turn = format!("{}{MARK}{}", tagged.opening, tagged.closing);
                messages.push(Message::new(&tagged.role, turn));
                let text = tokenizer.chat(&messages, false)?;
                let around = text.split_once(MARK).map(|(before, end)| (before.to_owned(), end.to_owned()));
                around.ok_or_else(|| {
                    Error::request("the model's chat template drops the turn with the steps")
                })?
            }
        };
        // A template writes the beginning-of-text token itself; plain text gets it from the tokenizer.
        let special = !tagged.chat;
        let mut tokens = Vec::new();
        let mut reads = Vec::new();
        let mut pending = before;
        if tagged.separate {
            tokens = tokenizer.encode(&pending, special)?;
            pending.clear();
        }
        for (index, step) in steps.iter().enumerate() {
            pending.push_str(step);
            let pieces: Vec<&str> =
                if tagged.cut_at_tag { pending.split(&tagged.tag).collect() } else { vec![&pending] };
            for piece in pieces {
                let first = special && tokens.is_empty();
                if !piece.is_empty() {
                    tokens.extend(tokenizer.encode(piece, first)?);
                }
                tokens.push(tag);
            }
            reads.push(tokens.len() - 1);
            pending.clear();
            if index + 1 < steps.len() {
                pending.push_str(&tagged.after);
            }
        }
        if !end.is_empty() {
            tokens.extend(tokenizer.encode(&end, false)?);
        }
        Ok(Assembled { prompts: vec![(tokens, reads)] })
    }

    fn turns(&self, answer: &str, request: &ScoreRequest, tokenizer: &Tokenizer) -> Result<Assembled> {
        let mut messages = Vec::new();
        let mut reads = Vec::new();
        let mut tokens: Vec<u32> = Vec::new();
        let mut written = String::new();
        for (index, step) in request.steps.iter().enumerate() {
            let template = if index == 0 { "first" } else { "next" };
            let values = context! { step, number => index + 1, problem => request.problem.as_str() };
            messages.push(Message::new("user", self.templates.render(template, values)?));
            let asked = tokenizer.chat(&messages, true)?;
            let Some(added) = asked.strip_prefix(&written) else {
                return Err(Error::request(
                    "the model's chat template changes earlier turns when a turn is added",
                ));
            };
            tokens.extend(tokenizer.encode(added, false)?);
            reads.push(tokens.len() - 1);
            messages.push(Message::new("assistant", answer));
            written = asked;
        }
        // The prompt ends where the last answer is predicted. That the parts join as the whole does is checked, since a
        // tokenizer may merge across their borders.
        if tokenizer.encode(&written, false)? != tokens {
            return Err(Error::request(
                "the conversation's turns do not stay apart in this model's tokenizer",
            ));
        }
        Ok(Assembled { prompts: vec![(tokens, reads)] })
    }

    fn prompted(&self, request: &ScoreRequest, tokenizer: &Tokenizer, context: usize) -> Result<Assembled> {
        // The last prompt is the longest: a solution that does not fit is refused before a thousand others are written.
        let prompts = self.templates.messages(request)?.into_iter().rev().map(|messages| {
            let tokens = tokenizer.encode_chat(&messages, true)?;
            fits(tokens.len(), context)?;
            let last = tokens.len().checked_sub(1).ok_or_else(|| Error::request("the prompt is empty"))?;
            Ok((tokens, vec![last]))
        });
        let mut prompts = prompts.collect::<Result<Vec<_>>>()?;
        prompts.reverse();
        Ok(Assembled { prompts })
    }
}

/// Refuses a prompt that the model cannot take as a whole.
fn fits(tokens: usize, context: usize) -> Result<()> {
    if tokens <= context {
        return Ok(());
    }
    Err(Error::request(format!(
        "it takes {tokens} tokens and the model's context holds {context}: nothing is cut off in silence, so score it with \
         a model of longer context"
    )))
}

/// Stands for the steps while the chat template is rendered; no text has it.
const MARK: &str = "\u{F8FF}steps\u{F8FF}";

/// The one token that stands for exactly this text: a special token of that name, or a token with these bytes.
fn single(tokenizer: &Tokenizer, text: &str) -> Option<u32> {
    let named = tokenizer.token_id(text).filter(|id| tokenizer.is_special(*id));
    named.or_else(|| {
        let mut ids = 0..tokenizer.vocab_size() as u32;
        ids.find(|id| !tokenizer.is_special(*id) && tokenizer.token_bytes(*id) == text.as_bytes())
    })
}

/// Refuses a solution that cannot be written out.
pub(super) fn check(request: &ScoreRequest) -> Result<(), String> {
    if request.steps.is_empty() {
        return Err("it has no steps: its text is empty, or was not split (gradus steps)".to_owned());
    }
    if let Some(index) = request.steps.iter().position(|step| step.trim().is_empty()) {
        return Err(format!("step {index} is empty"));
    }
    let references = request.step_references.len();
    if references != 0 && references != request.steps.len() {
        return Err(format!(
            "its reference steps are for {references} steps, and it has {}",
            request.steps.len()
        ));
    }
    Ok(())
}
