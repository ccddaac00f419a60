//! TLS as all HTTP clients of Gradus have it, with this crate's error.

use rustls::ClientConfig;

use crate::{Error, Result};

pub(crate) fn config(https: bool) -> Result<ClientConfig> {
    gradus_http::tls(https).map_err(|error| Error::Client(error.to_string()))
}
