//! Opens an object store as the environment describes it, with our own HTTP client.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use gradus_http::{USER_AGENT, is_loopback, tls};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::credentials::Profile;
use super::fault::explain;
use crate::address::{ObjectAddress, Scheme};
use crate::resume::{CONNECT, silence};
use crate::{Error, Result};

/// Where clouds tell their own machines who they are. It answers at once or not at all.
const METADATA: [&str; 3] = ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal"];
const METADATA_SILENCE: Duration = Duration::from_secs(2);

/// The store of a bucket.
pub(super) fn open(place: &ObjectAddress) -> Result<Box<dyn ObjectStore>> {
    let backoff = BackoffConfig {
        init_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_secs(5),
        base: 2.0,
    };
    let retry = RetryConfig { backoff, max_retries: 6, retry_timeout: Duration::from_secs(120) };
    let failed = |error| explain(place, &error);
    Ok(match place.scheme {
        Scheme::S3 => {
            let mut store = AmazonS3Builder::from_env()
                .with_bucket_name(&place.bucket)
                .with_http_connector(Connector)
                .with_retry(retry)
                .with_conditional_put(S3ConditionalPut::ETagMatch);
            if is_loopback_variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]) {
                store = store.with_allow_http(true);
            }
            if let Some(profile) = Profile::from_env().map_err(|message| Error::new(place, message))? {
                if let Some(region) = profile.region() {
                    store = store.with_region(region);
                }
                store = store.with_credentials(Arc::new(profile));
            }
            Box::new(store.build().map_err(failed)?)
        }
        Scheme::Gcs => Box::new(
            GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(&place.bucket)
                .with_http_connector(Connector)
                .with_retry(retry)
                .build()
                .map_err(failed)?,
        ),
        Scheme::Azure => {
            let mut store = MicrosoftAzureBuilder::from_env()
                .with_container_name(&place.bucket)
                .with_http_connector(Connector)
                .with_retry(retry);
            if is_loopback_variable(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]) {
                store = store.with_allow_http(true);
            }
            Box::new(store.build().map_err(failed)?)
        }
    })
}

/// Whether the first variable that is set names this machine, where no one listens in.
fn is_loopback_variable(names: &[&str]) -> bool {
    let address = names.iter().find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    address.and_then(|text| gradus_http::Url::parse(&text).ok()).is_some_and(|url| is_loopback(&url))
}

/// Makes clients with the certificates and proxies that our other clients use.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: Box<dyn StdError + Send + Sync>| object_store::Error::Generic {
            store: "HTTP",
            source: error,
        };
        let client = |loopback: bool| {
            let tls = tls(!loopback).map_err(|error| failed(error.to_string().into()))?;
            let builder = reqwest::Client::builder()
                .tls_backend_preconfigured(tls)
                .user_agent(USER_AGENT)
                .connect_timeout(CONNECT)
                .read_timeout(silence());
            let builder = if loopback { builder.no_proxy() } else { builder };
            builder.build().map_err(|error| failed(error.into()))
        };
        Ok(HttpClient::new(Client { here: client(true)?, elsewhere: client(false)? }))
    }
}

#[derive(Debug)]
struct Client {
    /// For servers on this machine, past any proxy.
    here: reqwest::Client,
    elsewhere: reqwest::Client,
}

#[async_trait::async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        if METADATA.contains(&host.as_str()) {
            let unknown = || HttpError::new(HttpErrorKind::Unknown, NoCredentials);
            if std::env::var("AWS_EC2_METADATA_DISABLED").is_ok_and(|text| text.eq_ignore_ascii_case("true"))
            {
                return Err(unknown());
            }
            return match tokio::time::timeout(METADATA_SILENCE, self.here.call(request)).await {
                Ok(Ok(answer)) => Ok(answer),
                // Trying again would only take longer.
                _ => Err(unknown()),
            };
        }
        let url = gradus_http::Url::parse(&request.uri().to_string());
        match url.is_ok_and(|url| is_loopback(&url)) {
            true => self.here.call(request).await,
            false => self.elsewhere.call(request).await,
        }
    }
}

/// Nobody said who asks.
#[derive(Debug, thiserror::Error)]
#[error(
    "no credentials are set, and this machine has none of its own: set those of the store, such as AWS_ACCESS_KEY_ID and \
     AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
)]
struct NoCredentials;
