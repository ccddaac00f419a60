//! What Gradus's two HTTP clients share: the one that asks models and the one that downloads them.
//!
//! ```
//! let url = gradus_http::Url::parse("http://127.0.0.1:8000/v1").unwrap();
//! assert!(gradus_http::is_loopback(&url));
//! assert!(gradus_http::tls(true).is_ok());
//! ```

mod cause;
mod tls;

pub use cause::cause;
pub use reqwest::Url;
pub use tls::tls;

/// The name that Gradus gives to servers.
pub const USER_AGENT: &str = concat!("gradus/", env!("CARGO_PKG_VERSION"));

/// True for this machine's own addresses, which are asked without a proxy.
pub fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_proxy() {
        for (url, expected) in [
            ("http://127.0.0.1:8000/v1", true),
            ("http://localhost", true),
            ("http://[::1]:80", true),
            ("https://api.example.com", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
