//! By which names a server may be addressed, and from which pages.
//!
//! A web page elsewhere can make a browser ask a server on this machine: directly (cross-site requests), or after letting
//! its own name resolve to 127.0.0.1 (DNS rebinding). The first is told by `Origin`, the second by `Host`.

use std::net::{IpAddr, SocketAddr};

use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};

use crate::error::ApiError;

/// Names that a server goes by.
#[derive(Debug, Clone)]
pub(crate) struct Hosts {
    /// None where every name is allowed: a server that is open to others, which needs a key.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// A server on a loopback address goes by its addresses and by `allowed`; any other one by any name.
    pub(crate) fn new(listen: SocketAddr, allowed: &[String]) -> Self {
        if !listen.ip().is_loopback() && allowed.is_empty() {
            return Self { names: None };
        }
        let usual = ["localhost", "127.0.0.1", "::1"].into_iter().map(str::to_owned);
        let own = (!listen.ip().is_unspecified()).then(|| listen.ip().to_string());
        Self { names: Some(usual.chain(own).chain(allowed.iter().map(|name| name.to_lowercase())).collect()) }
    }

    /// Refuses a request that was sent to another name, or by a page of another origin.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let host = uri.authority().map(Authority::as_str);
        let host = host.or_else(|| headers.get(header::HOST)?.to_str().ok());
        let refused = |message: String| Err(ApiError::new(StatusCode::FORBIDDEN, message));
        if let Some(names) = &self.names {
            let known = |host: &str| names.iter().any(|name| *name == host);
            let name = host.and_then(name_of);
            if !name.as_deref().is_some_and(known) {
                return refused(format!(
                    "this server does not go by the name `{}` (--allowed-host)",
                    name.unwrap_or_default()
                ));
            }
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
        let from = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, from)| from);
        if from.is_some() && from == host {
            return Ok(());
        }
        refused("requests from pages of another origin are refused".to_owned())
    }
}

/// The host without its port, in lower case and without brackets.
fn name_of(authority: &str) -> Option<String> {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    let host = host.trim_end_matches('.').to_lowercase();
    // 127.1, 0x7f.1 and the like are written in one way only.
    Some(host.parse::<IpAddr>().map_or(host, |address| address.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(hosts: &Hosts, host: &str, origin: Option<&str>) -> Result<(), ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        hosts.check(&Uri::from_static("/v1/models"), &headers)
    }

    #[test]
    fn a_loopback_server_goes_by_its_own_names_only() {
        let hosts = Hosts::new("127.0.0.1:8080".parse().unwrap(), &["gradus.lan".to_owned()]);
        for good in ["127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080", "gradus.lan:80"] {
            asked(&hosts, good, None).unwrap();
        }
        for bad in ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "192.168.0.1", ""] {
            assert_eq!(asked(&hosts, bad, None).unwrap_err().status, StatusCode::FORBIDDEN, "{bad}");
        }
        assert!(hosts.check(&Uri::from_static("/"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let hosts = Hosts::new("127.0.0.1:8080".parse().unwrap(), &[]);
        asked(&hosts, "127.0.0.1:8080", Some("http://127.0.0.1:8080")).unwrap();
        for origin in ["http://evil.example", "null", "http://127.0.0.1:9000", "http://localhost:8080"] {
            asked(&hosts, "127.0.0.1:8080", Some(origin)).unwrap_err();
        }
        let open = Hosts::new("0.0.0.0:8080".parse().unwrap(), &[]);
        asked(&open, "any.example", None).unwrap();
        asked(&open, "any.example", Some("http://evil.example")).unwrap_err();
    }
}
