//! `LogProbs` over the older `/v1/completions`, which can be asked to repeat the prompt and judge its tokens:
//!
//! ```json
//! {"model": "m", "prompt": "1 + 1 = 2", "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1}
//! {"choices": [{"text": "1 + 1 = 2.", "logprobs": {"tokens": ["1", " +", " 1", " =", " 2", "."],
//!   "token_logprobs": [null, -2.5, -1.1, -0.4, -0.1, -0.9], "text_offset": [0, 1, 3, 5, 7, 9]}}]}
//! ```
//!
//! The prompt here is prompt and continuation together, and the last token, which was generated, is dropped. Nothing
//! comes before the first token of all, so it has no log-probability: where the prompt is empty and the server puts no
//! token before it, the continuation's first token is missing from the answer.
//!
//! Servers differ. vLLM puts a beginning-of-text token first and counts its name in `text_offset`; llama-cpp-python
//! leaves it out, and also the generated token where that ends the text; both write pieces of characters as U+FFFD or
//! nothing. So tokens are first laid along the text, and `text_offset` is used where their texts are not the text's own.
//! llama.cpp's server refuses `echo`, or (some versions) answers with the generated token alone: that is an error. What
//! cannot be seen from here: for models without a beginning-of-text token, llama-cpp-python's `_create_completion` reads
//! each number one position too late.

use gradus_core::contracts::{
    Answer, CallError, LogProbs, LogProbsRequest, Prompt, TokenLogProb, TokenLogProbs, Usage,
};
use serde::{Deserialize, Serialize};

use crate::chat::{Chat, UNKNOWN_TOKEN};

const PATH: &str = "/v1/completions";

impl LogProbs for Chat {
    fn logprobs(&self, request: LogProbsRequest) -> Answer<'_, TokenLogProbs> {
        Box::pin(async move { self.judge(&request).await })
    }
}

#[derive(Serialize)]
struct LogProbsBody<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    model: &'a str,
    prompt: &'a str,
    max_tokens: usize,
    temperature: f32,
    echo: bool,
    logprobs: usize,
}

#[derive(Deserialize)]
struct LogProbsReply {
    choices: Vec<Sample>,
}

#[derive(Deserialize)]
struct Sample {
    logprobs: Option<Lists>,
}

/// Three lists, or one as in chat answers.
#[derive(Deserialize)]
struct Lists {
    #[serde(default)]
    tokens: Vec<String>,
    #[serde(default)]
    token_logprobs: Vec<Option<f32>>,
    text_offset: Option<Vec<usize>>,
    content: Option<Vec<Token>>,
}

#[derive(Deserialize)]
struct Token {
    id: Option<u32>,
    token: String,
    logprob: Option<f32>,
}

impl Chat {
    async fn judge(&self, request: &LogProbsRequest) -> Result<TokenLogProbs, CallError> {
        let Prompt::Text(prompt) = &request.prompt else {
            return Err(CallError::Invalid(
                "a chat server cannot score a given text: use a text prompt or a local model".to_owned(),
            ));
        };
        if request.continuation.is_empty() {
            return Ok(TokenLogProbs { tokens: Vec::new(), usage: Usage::default() });
        }
        let text = format!("{prompt}{}", request.continuation);
        let model = &self.http.endpoint().model;
        let body =
            LogProbsBody { model, prompt: &text, max_tokens: 1, temperature: 0.0, echo: true, logprobs: 1 };
        let accept = |reply: LogProbsReply, usage| {
            let lists = reply.choices.into_iter().next().and_then(|sample| sample.logprobs);
            let missing =
                || CallError::Failed(format!("{PATH}: `choices[0].logprobs` of the answer is missing"));
            let tokens = continuation(lists.ok_or_else(missing)?, &text, prompt.chars().count())?;
            Ok(TokenLogProbs { tokens, usage })
        };
        self.http.post_and(PATH, &body, accept).await
    }
}

/// The tokens of `text` from character `begin` on.
fn continuation(lists: Lists, text: &str, begin: usize) -> Result<Vec<TokenLogProb>, CallError> {
    let Lists { tokens, token_logprobs, text_offset, content } = lists;
    let all: Vec<Token> = match content {
        Some(content) => content,
        None if tokens.len() != token_logprobs.len() => {
            let (numbers, tokens) = (token_logprobs.len(), tokens.len());
            let found = format!("is {numbers} numbers for {tokens} tokens");
            return Err(CallError::Failed(format!(
                "{PATH}: `logprobs.token_logprobs` of the answer {found}"
            )));
        }
        None => {
            let token = |(token, logprob)| Token { id: None, token, logprob };
            tokens.into_iter().zip(token_logprobs).map(token).collect()
        }
    };
    let text: Vec<char> = text.chars().collect();
    let starts = laid(&text, &all).or_else(|| text_offset.and_then(|offsets| given(&text, &all, &offsets)));
    let Some(starts) = starts else {
        return Err(CallError::Invalid(format!(
            "{PATH}: the answer's {} tokens are not those of the prompt: this server does not repeat it with \
             log-probabilities (`echo`), as vLLM and llama-cpp-python do; use one of these or a local model",
            all.len()
        )));
    };
    let first = starts.iter().position(|&start| start >= begin).unwrap_or(starts.len());
    if starts.get(first).is_none_or(|&start| start != begin) {
        let token = first.checked_sub(1).map_or("", |before| &all[before].token);
        return Err(CallError::Invalid(format!(
            "the token {token:?} is partly prompt and partly continuation, so the continuation has no probability of its \
             own; end the prompt where a token ends (often before a space)"
        )));
    }
    let mut judged = Vec::new();
    for (index, token) in
        all.into_iter().enumerate().skip(first).take_while(|(index, _)| starts[*index] < text.len())
    {
        match token.logprob {
            Some(logprob) => {
                let id = token.id.unwrap_or(UNKNOWN_TOKEN);
                judged.push(TokenLogProb::new(id, token.token, logprob));
            }
            None if index == 0 => {}
            None => {
                let field = format!("`logprobs.token_logprobs[{index}]` of the answer is null");
                return Err(CallError::Failed(format!("{PATH}: {field}")));
            }
        }
    }
    Ok(judged)
}

/// Where each token starts, if their texts make up the text; generated ones start at its end.
fn laid(text: &[char], tokens: &[Token]) -> Option<Vec<usize>> {
    let mut starts = Vec::with_capacity(tokens.len());
    let mut at = 0;
    // Tokens from `at` on that are only pieces of characters; each piece is of one character at most.
    let mut pieces = 0;
    for (index, token) in tokens.iter().enumerate() {
        if at == text.len() && pieces == 0 {
            starts.push(at);
            continue;
        }
        let letters: Vec<char> = token.token.chars().collect();
        let readable = letters.iter().position(|&letter| letter == '\u{fffd}').unwrap_or(letters.len());
        if readable == 0 {
            starts.push(at);
            pieces += 1;
            continue;
        }
        let mut starts_at = at..=(at + pieces).min(text.len());
        if let Some(found) = starts_at.find(|&start| text[start..].starts_with(&letters[..readable])) {
            starts.push(found);
            at = found + readable;
            pieces = usize::from(readable < letters.len());
        } else if pieces > 0 && text.len() - at <= pieces {
            (at, pieces) = (text.len(), 0);
            starts.push(at);
        } else if index == 0 && token.logprob.is_none() {
            // The beginning-of-text token is no part of the text.
            starts.push(0);
        } else {
            return None;
        }
    }
    (text.len() - at <= pieces).then_some(starts)
}

/// The same from the server's own offsets, if they are of this text.
fn given(text: &[char], tokens: &[Token], offsets: &[usize]) -> Option<Vec<usize>> {
    if offsets.len() != tokens.len() || tokens.len() < 2 || !offsets.is_sorted() || offsets[0] != 0 {
        return None;
    }
    let named = tokens[0].token.chars().count();
    [0, named].into_iter().find_map(|shift| {
        let starts: Vec<usize> = offsets.iter().map(|offset| offset.saturating_sub(shift)).collect();
        let ended = |(start, token): (&usize, &Token)| start + token.token.chars().count() == text.len();
        let whole = starts.contains(&text.len()) || starts.last().zip(tokens.last()).is_some_and(ended);
        whole.then_some(starts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(tokens: &[&str], offsets: Option<&[usize]>) -> Lists {
        let values = (0..tokens.len()).map(|index| (index > 0).then_some(-(index as f32)));
        Lists {
            tokens: tokens.iter().map(|&token| token.to_owned()).collect(),
            token_logprobs: values.collect(),
            text_offset: offsets.map(<[usize]>::to_vec),
            content: None,
        }
    }

    fn values(lists: Lists, prompt: &str, rest: &str) -> Vec<f32> {
        let tokens = continuation(lists, &format!("{prompt}{rest}"), prompt.chars().count()).unwrap();
        tokens.iter().map(|token| token.logprob).collect()
    }

    #[test]
    fn plain_tokens_with_and_without_offsets() {
        for offsets in [None, Some(&[0, 1, 3, 5, 7, 9][..])] {
            let answer = lists(&["1", " +", " 1", " =", " 2", "."], offsets);
            assert_eq!(values(answer, "1 + 1 =", " 2"), [-4.0]);
        }
        let ended = lists(&["1", " +", " 1"], Some(&[0, 1, 3]));
        assert_eq!(values(ended, "1", " + 1"), [-1.0, -2.0]);
    }

    #[test]
    fn a_beginning_of_text_token_is_no_text() {
        let answer = || lists(&["<s>", "1", " +", "!"], Some(&[0, 3, 4, 6]));
        assert_eq!(values(answer(), "1", " +"), [-2.0]);
        assert_eq!(values(answer(), "", "1 +"), [-1.0, -2.0]);
        // Without that token the first one has nothing before it.
        assert_eq!(values(lists(&["1", " +", "!"], None), "", "1 +"), [-1.0]);
    }

    #[test]
    fn pieces_of_characters() {
        // vLLM counts each piece as a character, llama-cpp-python writes nothing.
        for (piece, offsets) in [("\u{fffd}", &[0, 1, 2, 3, 4, 5, 6][..]), ("", &[0, 1, 1, 1, 2, 3, 4])] {
            let answer = || lists(&["a", piece, piece, piece, "b", "c", "!"], Some(offsets));
            assert_eq!(values(answer(), "a", "😀bc"), [-1.0, -2.0, -3.0, -4.0, -5.0]);
            assert_eq!(values(answer(), "a😀", "bc"), [-4.0, -5.0]);
            let end = lists(&["a", piece, piece, "!"], None);
            assert_eq!(values(end, "a", "é"), [-1.0, -2.0]);
        }
        assert_eq!(
            values(lists(&["a", " \u{fffd}", "\u{fffd}", "b", "!"], None), "a", " ⟨b"),
            [-1.0, -2.0, -3.0]
        );
    }

    #[test]
    fn texts_that_are_not_the_text_s_own_have_offsets() {
        let answer = lists(&["Hello", "Ġthere", "Ġyou", "!"], Some(&[0, 5, 11, 15]));
        assert_eq!(values(answer, "Hello there", " you"), [-2.0]);
        let named = lists(&["<s>", "Hello", "Ġthere", "!"], Some(&[0, 3, 8, 14]));
        assert_eq!(values(named, "Hello", " there"), [-2.0]);
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let error = |lists: Lists, prompt: &str, rest: &str| {
            continuation(lists, &format!("{prompt}{rest}"), prompt.chars().count()).unwrap_err().to_string()
        };
        let spans = error(lists(&["1", " +1", "!"], None), "1 +", "1");
        assert!(spans.contains("\" +1\" is partly prompt"), "{spans}");
        let alone = error(lists(&["!"], Some(&[0])), "1 +", " 1");
        assert!(alone.contains("the answer's 1 tokens are not those of the prompt"), "{alone}");
        let other = error(lists(&["9", " +", " 1", "!"], None), "1 +", " 1");
        assert!(other.contains("are not those of the prompt"), "{other}");
        let mut short = lists(&["1", " +"], None);
        short.token_logprobs.pop();
        assert!(error(short, "1", " +").contains("1 numbers for 2 tokens"));
        let mut holes = lists(&["1", " +", " 1"], None);
        holes.token_logprobs[2] = None;
        assert!(error(holes, "1", " + 1").contains("`logprobs.token_logprobs[2]` of the answer is null"));
    }
}
