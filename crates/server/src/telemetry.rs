//! Traces over OTLP: a span for each request, below the caller's own where it sends `traceparent`. No text of users is part
//! of it. `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS` and the others of the standard apply.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use futures_util::future::BoxFuture;
use opentelemetry::KeyValue;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _, TracerProvider as _};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use reqwest::Url;
use tokio::runtime::Handle;

use crate::{Error, Result};

/// How long a batch of spans may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where spans go.
pub(crate) struct Telemetry {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The span of a request; it ends with it.
pub(crate) struct RequestSpan(Option<opentelemetry_sdk::trace::Span>);

impl Telemetry {
    /// Sends spans to the collector at `endpoint`, such as `http://127.0.0.1:4318`, from now on.
    pub(crate) fn open(endpoint: &str) -> Result<Self> {
        let refused = |message: String| Error::Telemetry(format!("--otlp-endpoint {endpoint}: {message}"));
        let wanted = || refused("give an address with http:// or https://".to_owned());
        let address = Url::parse(&format!("{}/v1/traces", endpoint.trim_end_matches('/')));
        let address = address.ok().filter(|address| matches!(address.scheme(), "http" | "https"));
        let address = address.ok_or_else(wanted)?;
        let tls =
            gradus_http::tls(address.scheme() == "https").map_err(|error| refused(error.to_string()))?;
        let mut client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(gradus_http::USER_AGENT)
            .timeout(TIMEOUT);
        if gradus_http::is_loopback(&address) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| refused(error.to_string()))?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector { client, runtime: Handle::current() })
            .with_endpoint(address.as_str())
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = Resource::builder();
        let resource = if named { resource } else { resource.with_service_name("gradus") };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("gradus");
        Ok(Self { provider, tracer })
    }

    /// Begins the span of a request.
    fn begin(&self, method: &Method, route: &str, headers: &HeaderMap, id: &str) -> RequestSpan {
        let parent = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        let attributes = vec![
            KeyValue::new("http.request.method", method.to_string()),
            KeyValue::new("http.route", route.to_owned()),
            KeyValue::new("gradus.request_id", id.to_owned()),
        ];
        let span = SpanBuilder::from_name(format!("{method} {route}"))
            .with_kind(SpanKind::Server)
            .with_attributes(attributes);
        RequestSpan(Some(self.tracer.build_with_context(span, &parent)))
    }

    /// Sends what is left.
    pub(crate) async fn close(&self) {
        let provider = self.provider.clone();
        let closed = tokio::task::spawn_blocking(move || provider.shutdown()).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "the last spans could not be sent");
        }
    }
}

impl RequestSpan {
    /// Begins a span where spans are wanted.
    pub(crate) fn begin(
        telemetry: Option<&Telemetry>,
        method: &Method,
        route: &str,
        headers: &HeaderMap,
        id: &str,
    ) -> Self {
        telemetry.map_or(Self(None), |telemetry| telemetry.begin(method, route, headers, id))
    }

    /// Ends it with an answer. One that is dropped instead, because its caller left, has no status.
    pub(crate) fn end(mut self, status: StatusCode) {
        let Some(span) = &mut self.0 else { return };
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_server_error() {
            span.set_status(Status::error(status.to_string()));
        }
        span.end();
    }
}

/// Posts batches of spans, for a thread that has no runtime of its own.
#[derive(Debug)]
struct Collector {
    client: reqwest::Client,
    runtime: Handle,
}

impl HttpClient for Collector {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> BoxFuture<'b, Result<Response<Bytes>, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let (parts, body) = request.into_parts();
            let sent = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
            let answer = sent.send().await?;
            let status = answer.status();
            let mut response = Response::new(answer.bytes().await?);
            *response.status_mut() = status;
            Ok::<_, reqwest::Error>(response)
        });
        Box::pin(async move {
            let answer = match sent.await {
                Ok(Ok(answer)) if answer.status().is_success() => return Ok(answer),
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(error)) => Err(HttpError::from(gradus_http::cause(&error))),
                Err(error) => Err(HttpError::from(error)),
            };
            let reason =
                answer.as_ref().map_or_else(ToString::to_string, |answer| answer.status().to_string());
            tracing::warn!(reason, "spans could not be sent");
            answer
        })
    }
}
