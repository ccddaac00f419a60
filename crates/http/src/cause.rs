//! Why a request failed, as a few words.

/// The innermost error: reqwest's own sentences only say at what stage it happened.
///
/// ```
/// let error = std::io::Error::other("Connection refused (os error 111)");
/// assert_eq!(gradus_http::cause(&error), "Connection refused (os error 111)");
/// ```
pub fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
