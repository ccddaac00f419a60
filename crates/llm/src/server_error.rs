//! What a server or a connection says about a failure, as one line; and how long it asks to wait.

use std::time::{Duration, SystemTime};

use gradus_core::contracts::CallError;
use reqwest::{Response, StatusCode};
use serde_json::Value;

/// How much is read of the body that comes with an error.
const LONGEST_ERROR: usize = 64 << 10;

/// Why a request failed, as one line.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    one_line(&gradus_http::cause(error))
}

/// `Retry-After`: seconds, or a date.
pub(crate) fn wait(header: &str) -> Option<Duration> {
    let header = header.trim();
    match header.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(header).ok()?;
            Some(date.duration_since(SystemTime::now()).unwrap_or_default())
        }
    }
}

/// The beginning of the body of an answer that is an error.
pub(crate) async fn error_body(response: &mut Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_ERROR {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes
}

/// A server's explanation: OpenAI's `error.message`, FastAPI's `detail`, a `message`, or the text itself where it is
/// neither JSON nor a page.
pub(crate) fn server_message(body: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let text = one_line(&String::from_utf8_lossy(body));
        return if text.starts_with('<') { String::new() } else { text };
    };
    let fields = ["/error/message", "/error", "/message", "/detail/0/msg", "/detail"];
    let words = fields.iter().find_map(|field| value.pointer(field)?.as_str()).unwrap_or_default();
    one_line(words)
}

/// What a status that is no failure of the server's means, with the sentence `why`, in the server's own `words`: the
/// refusal of this request alone, or of every request.
pub(crate) fn refusal(status: StatusCode, words: &str, why: String) -> CallError {
    let words = words.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if says(&["content filter", "content_filter", "content management policy", "moderation", "flagged"]) {
        return CallError::Invalid(format!("{}: {why}", CallError::FILTERED));
    }
    let lengths =
        ["context length", "context size", "context window", "maximum context", "too long", "max_model_len"];
    if status == StatusCode::PAYLOAD_TOO_LARGE || (status == StatusCode::BAD_REQUEST && says(&lengths)) {
        return CallError::Invalid(format!("{}: {why}", CallError::TOO_LONG));
    }
    let everything = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::PAYMENT_REQUIRED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::GONE
    );
    let no_model =
        says(&["model"]) && says(&["not found", "does not exist", "invalid model", "unknown model"]);
    if everything || no_model { CallError::Refused(why) } else { CallError::Invalid(why) }
}

/// At most 300 characters on one line, without a full stop at the end.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if let Some((end, _)) = line.char_indices().nth(300) {
            line.truncate(end);
            line.push('…');
            return line;
        }
    }
    line.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait(" 0.25 "), Some(Duration::from_millis(250)));
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(30));
        assert!((28..=30).contains(&wait(&soon).unwrap().as_secs()));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        for bad in ["-1", "soon", "nan", "1e300"] {
            assert_eq!(wait(bad), None, "{bad}");
        }
    }

    #[test]
    fn refusals_of_one_request_and_of_all_are_told_apart() {
        let kind = |status: u16, words: &str| {
            refusal(StatusCode::from_u16(status).unwrap(), words, "why".to_owned())
        };
        for (status, words) in [
            (401, "invalid API key"),
            (403, "forbidden"),
            (404, ""),
            (404, "The model `x` does not exist"),
            (405, "Method Not Allowed"),
            (400, "invalid model ID"),
        ] {
            assert_eq!(kind(status, words), CallError::Refused("why".to_owned()), "{status} {words}");
        }
        for words in [
            "This model's maximum context length is 4096 tokens",
            "the request exceeds the available context size",
            "The prompt is too long",
        ] {
            assert_eq!(kind(400, words), CallError::Invalid("context too long: why".to_owned()), "{words}");
        }
        assert_eq!(kind(413, ""), CallError::Invalid("context too long: why".to_owned()));
        let filtered = CallError::Invalid("content filter: why".to_owned());
        assert_eq!(kind(400, "triggered Azure's content management policy"), filtered);
        assert_eq!(kind(403, "Your input was flagged"), filtered);
        assert_eq!(kind(422, "n must be 1"), CallError::Invalid("why".to_owned()));
    }

    #[test]
    fn a_server_s_words_become_one_line() {
        assert_eq!(server_message(br#"{"error": {"message": "too\n long."}}"#), "too long");
        assert_eq!(server_message(br#"{"error": "busy"}"#), "busy");
        assert_eq!(
            server_message(br#"{"detail": [{"loc": ["body"], "msg": "field required"}]}"#),
            "field required"
        );
        assert_eq!(server_message(br#"{"object": "error", "message": "no such model"}"#), "no such model");
        assert_eq!(server_message(b"Bad Gateway\n"), "Bad Gateway");
        assert_eq!(server_message(b"<html><body>oops</body></html>"), "");
        assert_eq!(one_line(&"x".repeat(1000)).chars().count(), 301);
    }
}
