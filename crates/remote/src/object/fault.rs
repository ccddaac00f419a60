//! What a store's refusal means, in a sentence. The store's own text is not shown: some repeat the request there, with
//! what signed it.

use object_store::Error as StoreError;

use crate::Error;
use crate::address::{ObjectAddress, Scheme};

/// Why a request failed, in a few words.
pub(super) fn reason(place: &ObjectAddress, error: &StoreError) -> String {
    match error {
        StoreError::NotFound { .. } => "there is no such object, or no such bucket".to_owned(),
        StoreError::AlreadyExists { .. } | StoreError::Precondition { .. } => "it has changed".to_owned(),
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => match code(error) {
            Some(code) => format!("the store refuses the credentials ({code}); {}", keys(place.scheme)),
            None => format!("the store refuses the credentials; {}", keys(place.scheme)),
        },
        StoreError::InvalidPath { .. } => "is no key of an object".to_owned(),
        _ => match (status(error), code(error)) {
            (_, Some(code)) if is_expired(error) => {
                format!("the store refuses the credentials ({code}); {}", keys(place.scheme))
            }
            (_, Some(code)) if code == "NoSuchBucket" => "there is no such bucket".to_owned(),
            (Some(status), Some(code)) => format!("the store answers {status} ({code})"),
            (Some(status), None) => format!("the store answers {status}"),
            (None, _) => deepest(error),
        },
    }
}

/// The same as an error.
pub(super) fn explain(place: &ObjectAddress, error: &StoreError) -> Error {
    Error::new(place, reason(place, error))
}

/// Whether the same request may succeed later.
pub(super) fn will_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Generic { .. } => {
            status(error).is_none_or(|status| status.starts_with('5')) || is_expired(error)
        }
        _ => is_expired(error),
    }
}

/// Whether credentials were good once. Those of a file may be renewed meanwhile.
pub(super) fn is_expired(error: &StoreError) -> bool {
    code(error).is_some_and(|code| code.contains("Expired"))
}

/// Whether credentials are refused without a reason.
pub(super) fn is_wordless_refusal(error: &StoreError) -> bool {
    let is_refusal = match error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => true,
        _ => status(error).is_some_and(|status| status.starts_with("400")),
    };
    is_refusal && code(error).is_none()
}

fn keys(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN with temporary ones, or AWS_PROFILE, or \
             AWS_SKIP_SIGNATURE=true for a public bucket"
        }
        Scheme::Gcs => "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
        Scheme::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY"
        }
    }
}

/// The status of an answer, such as `503 Service Unavailable`.
fn status(error: &StoreError) -> Option<String> {
    let text = error.to_string();
    let rest = text.split("non-2xx status code: ").nth(1)?;
    let status: String =
        rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == ' ').collect();
    Some(status.trim().to_owned()).filter(|status| status.as_bytes().first().is_some_and(u8::is_ascii_digit))
}

/// The code in an answer's body, such as `NoSuchBucket`.
fn code(error: &StoreError) -> Option<String> {
    let text = error.to_string();
    let rest = text.split("<Code>").nth(1)?;
    let code: String = rest.chars().take_while(char::is_ascii_alphanumeric).take(60).collect();
    Some(code).filter(|code| !code.is_empty())
}

/// The first cause of a failure: what the system or the HTTP client says.
fn deepest(error: &StoreError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    match text.starts_with("failed to lookup address") {
        true => "no such host".to_owned(),
        false => text.lines().next().unwrap_or_default().chars().take(200).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn place() -> ObjectAddress {
        match Address::parse("s3://b/k").unwrap() {
            Address::Object(place) => place,
            _ => unreachable!(),
        }
    }

    fn generic(text: &str) -> StoreError {
        StoreError::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn nothing_that_signed_a_request_is_shown() {
        let denied = StoreError::PermissionDenied {
            path: "k".to_owned(),
            source: "Server returned non-2xx status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>\
                     <AWSAccessKeyId>AKIAX</AWSAccessKeyId><SignatureProvided>abc</SignatureProvided></Error>"
                .into(),
        };
        let text = explain(&place(), &denied).to_string();
        assert!(
            text.starts_with("s3://b/k: the store refuses the credentials (SignatureDoesNotMatch); set AWS_")
        );
        assert!(!text.contains("AKIAX") && !text.contains("abc"), "{text}");
    }

    #[test]
    fn answers_are_told_apart() {
        let slow = generic(
            "Error performing GET http://h/?sig=1 - Server returned non-2xx status code: 503 Service \
                            Unavailable: <Code>SlowDown</Code>",
        );
        assert_eq!(reason(&place(), &slow), "the store answers 503 Service Unavailable (SlowDown)");
        assert!(will_pass(&slow));
        let bad = generic("Server returned non-2xx status code: 400 Bad Request: <Code>ExpiredToken</Code>");
        assert!(is_expired(&bad) && will_pass(&bad));
        assert!(!will_pass(&generic("Server returned non-2xx status code: 400 Bad Request: ")));
        assert_eq!(reason(&place(), &generic("Connection refused (os error 111)")), "Connection refused");
    }
}
