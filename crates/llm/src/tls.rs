//! Certificates: the platform's where it has some, Mozilla's otherwise. Cryptography is ring's.
//!
//! The configuration is handed to reqwest ready-made: without it reqwest takes the process's default provider, which a
//! library should not set, and a machine without certificates could not even open plain HTTP on loopback.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::{Error, Result};

pub(crate) fn config(https: bool) -> Result<ClientConfig> {
    let builder = || {
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Client(error.to_string()))
    };
    if https && let Ok(platform) = builder()?.with_platform_verifier() {
        return Ok(platform.with_no_client_auth());
    }
    let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
}
