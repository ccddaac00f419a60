//! Certificates: the platform's where it has some (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others on Linux), Mozilla's
//! otherwise. Cryptography is ring's.
//!
//! The configuration is handed to reqwest ready-made: without it reqwest takes the process's default provider, which a
//! library should not set, and a machine without certificates could not even open plain HTTP on loopback.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

/// TLS for a client; `https` says whether it will be used, since the platform's certificates take time to read.
pub fn tls(https: bool) -> Result<ClientConfig, rustls::Error> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
    };
    if https {
        match builder()?.with_platform_verifier() {
            Ok(platform) => return Ok(platform.with_no_client_auth()),
            // Somebody has said whom to trust: nobody else is trusted instead.
            Err(error)
                if ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some()) =>
            {
                return Err(error);
            }
            Err(_) => {}
        }
    }
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}
