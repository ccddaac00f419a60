//! The accept loop: connections within limits, TLS, and an end that lets running requests finish.
//!
//! `axum::serve` has no time limit on headers, so that a client that sends one byte a minute keeps its connection for
//! ever; hyper's own builder has one. Neither has one on a client that does not read, which `patience` adds.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::app::App;
use crate::patience::Patient;
use crate::{Error, Result};

/// Headers of a request at most; more are answered with 431.
const MAX_HEADERS: usize = 100;
/// Bytes of a request's header at most.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// A certificate and its key, in PEM files.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate with its chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl TlsFiles {
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor> {
        let refused = |path: &PathBuf, message: String| Error::Tls(format!("{}: {message}", path.display()));
        let certificates = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>)
            .map_err(|error| refused(&self.certificate, format!("no certificate in PEM: {error}")))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| refused(&self.key, format!("no private key in PEM: {error}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(|error| refused(&self.certificate, error.to_string()))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Serves until `stop`, then takes no new connections, lets running requests finish for at most `drain`, and returns.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    app: &Arc<App>,
    drain: Duration,
    stop: impl Future<Output = ()>,
) {
    let connections = Arc::new(Semaphore::new(app.limits.connections));
    let graceful = GracefulShutdown::new();
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(app.limits.read_timeout)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let permit = Arc::clone(&connections).acquire_owned().await.expect("it is never closed");
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, for example: those that are open will end.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, tls, builder) = (router.clone(), tls.clone(), builder.clone());
        let (watcher, patience) = (graceful.watcher(), app.limits.read_timeout);
        tokio::spawn(async move {
            let _permit = permit;
            drop(stream.set_nodelay(true));
            let stream = Patient::new(stream, patience);
            match tls {
                None => connection(stream, router, &builder, watcher).await,
                Some(tls) => match tokio::time::timeout(patience, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection(stream, router, &builder, watcher).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS session"),
                    Err(_) => tracing::debug!("a TLS session took too long"),
                },
            }
        });
    }
    drop(listener);
    app.stop();
    if tokio::time::timeout(drain, graceful.shutdown()).await.is_err() {
        tracing::warn!(seconds = drain.as_secs(), "requests were still running and are given up");
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    router: Router,
    builder: &http1::Builder,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Listens at an address.
pub(crate) async fn listener(address: std::net::SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// Ends when the process is asked to stop: Ctrl-C or SIGTERM.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
    #[cfg(not(unix))]
    drop(tokio::signal::ctrl_c().await);
}
