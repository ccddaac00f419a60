//! Rules for [`super::server`]: answers in OpenAI's shapes, and faults around any rule.

use serde_json::{Value, json};

use super::server::{Act, Seen};
use super::{cut_text, words};

/// What a garbled text reads.
const GARBAGE: &str = "\u{fffd}{\"}] \\boxed{";

/// Answers `/v1/chat/completions` and `/v1/completions`, and nothing else.
///
/// `answer` gets the prompt (of a conversation, its last message), the number of the sample in its request, and the seed
/// of that sample, which is the request's plus that number. `n`, `max_tokens` and `stop` are obeyed; words, cut at white
/// space, count as tokens. As many servers do, it ignores `continue_final_message`: two tokens end an assistant's turn and
/// open another.
pub fn replies(
    answer: impl Fn(&str, usize, u64) -> String + Send + Sync + 'static,
) -> impl Fn(usize, &Seen) -> Act + Send + Sync + 'static {
    completions(false, answer)
}

/// As [`replies`], but it knows `continue_final_message`. Then `answer` gets the turn before the last message, too, on a
/// line of its own.
pub fn continuing_replies(
    answer: impl Fn(&str, usize, u64) -> String + Send + Sync + 'static,
) -> impl Fn(usize, &Seen) -> Act + Send + Sync + 'static {
    completions(true, answer)
}

fn completions(
    knows_continuation: bool,
    answer: impl Fn(&str, usize, u64) -> String + Send + Sync + 'static,
) -> impl Fn(usize, &Seen) -> Act + Send + Sync + 'static {
    move |_, Seen { path, body, .. }| {
        let chat = path.ends_with("/chat/completions");
        if !chat && !path.ends_with("/completions") {
            let message = format!("this server has no {path}");
            return Act::Say(404, "", json!({"error": {"message": message}}).to_string());
        }
        let texts: Vec<&str> = if chat {
            let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
            messages.iter().filter_map(|message| message["content"].as_str()).collect()
        } else {
            body["prompt"].as_str().into_iter().collect()
        };
        let begun =
            body["messages"].as_array().and_then(|all| all.last()?["role"].as_str()) == Some("assistant");
        let continued = knows_continuation && begun && body["continue_final_message"] == true;
        let prompt = match &texts[..] {
            [.., asked, begun] if continued => format!("{asked}\n{begun}"),
            [.., last] => (*last).to_owned(),
            [] => {
                let message = json!({"error": {"message": "the request has no prompt"}});
                return Act::Say(400, "", message.to_string());
            }
        };
        let number = |field: &str| body[field].as_u64();
        let seed = number("seed").unwrap_or(0);
        let most = number("max_tokens").or(number("max_completion_tokens")).unwrap_or(u64::MAX);
        let stop: Vec<String> = serde_json::from_value(body["stop"].clone()).unwrap_or_default();
        let mut completion_tokens = 0;
        let samples = usize::try_from(number("n").unwrap_or(1)).unwrap_or(usize::MAX);
        let choices: Vec<Value> = (0..samples)
            .map(|index| {
                let text = answer(&prompt, index, seed.wrapping_add(index as u64));
                let (text, whole) = cut_text(text, &stop, usize::try_from(most).unwrap_or(usize::MAX));
                completion_tokens += words(&text);
                let reason = if whole { "stop" } else { "length" };
                if chat {
                    let message = json!({"role": "assistant", "content": text});
                    json!({"index": index, "message": message, "finish_reason": reason})
                } else {
                    json!({"index": index, "text": text, "finish_reason": reason})
                }
            })
            .collect();
        let between_turns = if begun && !continued { 2 } else { 0 };
        let prompt_tokens = texts.iter().map(|text| words(text)).sum::<u64>() + between_turns;
        Act::ok(&json!({
            "id": "scripted",
            "object": if chat { "chat.completion" } else { "text_completion" },
            "model": body["model"],
            "choices": choices,
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        }))
    }
}

/// Faults in a share of the requests. Which ones is decided by the request's number, not by what it asks, so the same
/// request usually succeeds when it is sent again.
///
/// ```
/// use gradus_llm::scripted::server::{Act, Faults, Seen, replies};
/// let rule = Faults { share_failing: 0.2, ..Faults::default() }.around(replies(|_, _, _| "yes".into()));
/// let seen = Seen {
///     path: "/v1/completions".into(), head: String::new(), body: serde_json::json!({"prompt": "Is it?"}),
/// };
/// let fine = (0..1000).filter(|&number| matches!(rule(number, &seen), Act::Say(200, ..))).count();
/// assert!((750..850).contains(&fine));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// Another seed, other requests.
    pub seed: u64,
    /// Requests that a client should send again, a quarter of each kind: status 500, status 429 with `Retry-After`, a
    /// connection that is cut before the answer, one that is cut within it.
    pub share_failing: f64,
    /// Requests that are answered with status 200 and something that is no JSON.
    pub share_garbled: f64,
    /// Requests that are never answered.
    pub share_hanging: f64,
}

impl Faults {
    /// `rule`, except for the faults.
    pub fn around(
        self,
        rule: impl Fn(usize, &Seen) -> Act + Send + Sync + 'static,
    ) -> impl Fn(usize, &Seen) -> Act + Send + Sync + 'static {
        move |number, seen| {
            let hash = mix(self.seed ^ mix(number as u64));
            let draw = (hash >> 11) as f64 / (1u64 << 53) as f64;
            if draw < self.share_failing {
                match hash % 4 {
                    0 => Act::Say(500, "", json!({"error": {"message": "a scripted failure"}}).to_string()),
                    1 => Act::Say(429, "retry-after: 0.01", json!({"error": "too many"}).to_string()),
                    2 => Act::Cut,
                    _ => Act::CutBody,
                }
            } else if draw < self.share_failing + self.share_garbled {
                Act::Say(200, "", GARBAGE.to_owned())
            } else if draw < self.share_failing + self.share_garbled + self.share_hanging {
                Act::Hang
            } else {
                rule(number, seen)
            }
        }
    }
}

/// splitmix64: every input bit moves every output bit.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_in_their_shares_and_kinds() {
        let faults = Faults { seed: 3, share_failing: 0.4, share_garbled: 0.1, share_hanging: 0.05 };
        let rule = faults.around(|_, _| Act::ok(&json!({})));
        let seen = Seen { path: String::new(), head: String::new(), body: Value::Null };
        let acts: Vec<Act> = (0..10_000).map(|number| rule(number, &seen)).collect();
        let share = |is: fn(&Act) -> bool| acts.iter().filter(|act| is(act)).count() as f64 / 10_000.0;
        for (found, expected) in [
            (share(|act| matches!(act, Act::Say(500, ..))), 0.1),
            (share(|act| matches!(act, Act::Say(429, "retry-after: 0.01", _))), 0.1),
            (share(|act| *act == Act::Cut), 0.1),
            (share(|act| *act == Act::CutBody), 0.1),
            (share(|act| matches!(act, Act::Say(200, _, body) if body == GARBAGE)), 0.1),
            (share(|act| *act == Act::Hang), 0.05),
            (share(|act| *act == Act::ok(&json!({}))), 0.45),
        ] {
            assert!((found - expected).abs() < 0.015, "{found} instead of {expected}");
        }
        let again = faults.around(|_, _| Act::ok(&json!({})));
        assert!(acts.iter().enumerate().all(|(number, act)| again(number, &seen) == *act));
    }
}
