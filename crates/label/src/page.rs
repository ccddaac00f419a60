//! The page, as a server sends it: three files under `/label`, without inline scripts, handlers or styles, so that the policy
//! below suffices. What comes from files and people is set as text; only `html` fields, which the server made, are set as
//! HTML.

/// The page, for `/label`.
pub const HTML: &str = include_str!("../page/label.html");
/// Its script, for `/label.js`.
pub const SCRIPT: &str = include_str!("../page/label.js");
/// Its style sheet, for `/label.css`.
pub const STYLE: &str = include_str!("../page/label.css");
/// The content security policy that it works under.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_inline_and_nothing_comes_from_elsewhere() {
        for inline in
            ["<script>", "<style", " style=", " onclick=", " onload=", "javascript:", "http://", "https://"]
        {
            assert!(!HTML.contains(inline), "label.html has {inline}");
        }
        for unsafe_call in ["eval(", "new Function", "document.write", "insertAdjacentHTML", "outerHTML"] {
            assert!(!SCRIPT.contains(unsafe_call), "label.js has {unsafe_call}");
        }
        // One place sets HTML: the one for what the server made.
        assert_eq!(SCRIPT.matches("innerHTML").count(), 1);
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
