//! Servers as the settings name them, and what they cost.

use std::path::{Path, PathBuf};

use gradus_core::Cost;
use gradus_engine::models::Store;
use gradus_llm::{Cache, Endpoint, Http, Key, Price, Prices, Roster};
use serde::Serialize;

use crate::{EndpointSettings, Error, Result};

/// Requests in flight at an endpoint where nobody says otherwise.
const CONCURRENCY: usize = 16;

/// Times as many tasks are in flight where servers may come.
const MORE: usize = 4;

/// Whether what was named is a file with addresses, and no address.
fn is_file(named: &str) -> bool {
    !named.contains("://") && Path::new(named).is_file()
}

/// Open connections to the servers of one model.
pub(crate) struct Endpoints {
    pub(crate) http: Http,
    /// The servers one by one.
    pub(crate) all: Vec<Endpoint>,
    /// The model's name, or the first address where it has none.
    pub(crate) name: String,
    /// Requests in flight at all endpoints together.
    pub(crate) concurrency: usize,
    /// What of the endpoints determines answers: the model's name, or where it has none the addresses.
    pub(crate) identity: String,
}

impl Endpoints {
    /// Reads the key and prepares connections; nothing is sent yet.
    pub(crate) fn open(settings: &EndpointSettings, model: Option<&str>) -> Result<Self> {
        let model = model.unwrap_or_default();
        let key = match (&settings.key_env, &settings.key_file) {
            (Some(variable), _) => Some(Key::Env(variable.clone())),
            (_, Some(file)) => Some(Key::File(file.clone())),
            _ => None,
        };
        let concurrency = settings.concurrency.unwrap_or(CONCURRENCY);
        let usual = Endpoint::new("", model);
        let template = Endpoint {
            key: key.clone(),
            concurrency,
            request_seed: !settings.no_request_seed,
            dialect: settings.dialect.unwrap_or(usual.dialect),
            requests_per_minute: settings.requests_per_minute,
            tokens_per_minute: settings.tokens_per_minute,
            timeout_seconds: settings.timeout.unwrap_or(usual.timeout_seconds),
            retries: settings.retries.unwrap_or(usual.retries),
            ..usual
        };
        let (files, addresses): (Vec<&String>, Vec<&String>) =
            settings.endpoint.iter().partition(|named| is_file(named));
        let at = move |url: &str| Endpoint { base_url: url.to_owned(), ..template.clone() };
        let endpoints: Vec<Endpoint> = addresses.iter().map(|url| at(url)).collect();
        let failed = Error::endpoint("--endpoint");
        // Servers that come share what more tasks are in flight than the first ones can take.
        let (mut http, endpoints, more) = match files.as_slice() {
            [] => (Http::open_all(&endpoints).map_err(failed)?, endpoints, 1),
            [file, ..] if model.is_empty() => {
                let message = format!("the servers in {file} may change: name their model with --model");
                return Err(Error::settings(message));
            }
            files => {
                let files = files.iter().map(PathBuf::from).collect();
                let roster = Roster::new(addresses.into_iter().cloned().collect(), files, at);
                let http = Http::open_roster(roster).map_err(failed)?;
                let endpoints = http.endpoints();
                (http, endpoints, MORE)
            }
        };
        if !settings.no_cache {
            let folder = match &settings.cache {
                Some(folder) => folder.clone(),
                None => Store::from_env()?.home.join("answers"),
            };
            let cache = Cache::open(&folder, settings.cache_size).map_err(Error::endpoint("--cache"))?;
            http = http.with_cache(cache);
        }
        let named = |other: &str| if model.is_empty() { other.to_owned() } else { model.to_owned() };
        Ok(Self {
            http,
            name: named(&settings.endpoint[0]),
            concurrency: concurrency * endpoints.len() * more,
            all: endpoints,
            identity: named(&settings.endpoint.join(" ")),
        })
    }
}

/// What a model spends: requests to servers, and money where prices are known.
#[derive(Debug, Clone, Default)]
pub struct Spending {
    http: Option<Http>,
    price: Option<(Price, String)>,
    /// The model that the price table does not have.
    unpriced: Option<String>,
}

/// What a run sent to servers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Traffic {
    /// Requests, retries included.
    pub requests: u64,
    /// Requests that repeated another.
    pub retries: u64,
    /// Calls without an answer.
    pub failures: u64,
    /// Answers from the cache.
    pub from_cache: u64,
    /// Tokens of prompts that were sent.
    pub prompt_tokens: u64,
    /// Tokens of completions that came.
    pub completion_tokens: u64,
    /// Median latency.
    pub median_seconds: f64,
    /// 99th percentile of the latency.
    pub p99_seconds: f64,
}

impl Spending {
    /// Reads the price table, if the settings name one.
    pub(crate) fn open(settings: &EndpointSettings, name: &str, http: Option<Http>) -> Result<Self> {
        let Some(path) = &settings.prices else { return Ok(Self { http, ..Self::default() }) };
        let prices = Prices::read(path).map_err(Error::endpoint("--prices"))?;
        let price = prices.of(name).map(|price| (price, prices.currency.clone()));
        Ok(Self { http, unpriced: price.is_none().then(|| name.to_owned()), price })
    }

    /// What to tell the user before anything is spent, if there is something.
    pub fn note(&self) -> Option<String> {
        let name = self.unpriced.as_ref()?;
        Some(format!("--prices has no entry for {name}: cost is unknown"))
    }

    /// What requests and tokens cost in money, where the price is known.
    pub fn money(&self, cost: &Cost) -> Option<String> {
        let (price, currency) = self.price.as_ref()?;
        let money = price.cost(cost.prompt_tokens, cost.completion_tokens);
        Some(format!("{money:.4} {currency}"))
    }

    /// What this run sent, and how long answers took; nothing for a model that is not behind a server.
    pub fn traffic(&self) -> Option<Traffic> {
        let http = self.http.as_ref()?;
        let (counters, latency) = (http.counters(), http.latency());
        Some(Traffic {
            requests: counters.requests,
            retries: counters.retries,
            failures: counters.failures,
            from_cache: counters.cached,
            prompt_tokens: counters.prompt_tokens,
            completion_tokens: counters.completion_tokens,
            median_seconds: latency.median,
            p99_seconds: latency.p99,
        })
    }
}
