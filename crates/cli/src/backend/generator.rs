//! The generator of a job: the local engine, or servers with cache, rate limits and prices.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use gradus_annotate::prompt::{Conversation, Template};
use gradus_core::contracts::{Generate, Message};
use gradus_core::select::search::Ask;
use gradus_core::{Cost, Problem};
use gradus_engine::Gguf;
use gradus_engine::models::{self, ModelPath, Store};
use gradus_engine::text::Tokenizer;
use gradus_llm::{Cache, Chat, Endpoint, Http, Key, Price, Prices};
use serde::Serialize;

use crate::arguments::generator::GeneratorOptions;
use crate::backend::ask::{Raw, Written};
use crate::backend::local::{self, DEFAULT_MODEL, Purpose};
use crate::exit::Usage;
use crate::terminal::printer;

/// Requests in flight at a server, and problems or solutions at once here.
const AT_A_SERVER: usize = 16;
const HERE: usize = 8;

/// A model that is ready to be asked.
pub(crate) struct Generator {
    pub(crate) model: Box<dyn Generate>,
    pub(crate) name: String,
    /// Problems or solutions that are worked on at once.
    pub(crate) concurrency: usize,
    /// Of a model whose template is written out here.
    tokenizer: Option<Arc<Tokenizer>>,
    /// Of a model that runs here: what determines what it says.
    here: Option<String>,
    http: Option<Http>,
    price: Option<(Price, String)>,
    system: Option<String>,
    raw: bool,
    solve: Template,
    go_on: Template,
}

/// What determines a model's answers, for a job's fingerprint.
#[derive(Debug, Serialize)]
pub(crate) struct Identity<'a> {
    name: &'a str,
    /// A model here: the same name may mean another one at a server, and its files may change.
    here: Option<&'a str>,
    raw: bool,
    system: Option<&'a str>,
    template: Option<&'a str>,
    prompts: [&'a str; 2],
}

impl Generator {
    /// Loads the model, or prepares connections; nothing is asked yet.
    pub(crate) fn open(options: &GeneratorOptions, solve: Template, go_on: Template) -> Result<Self> {
        let named = options.model.as_deref();
        let prices = options.prices.as_deref().map(Prices::read).transpose().context("--prices")?;
        let mut generator = if options.endpoint.is_empty() {
            let name = named.unwrap_or(DEFAULT_MODEL);
            let local = local::start(name, &options.options, &Purpose::default())?;
            Self {
                tokenizer: Some(Arc::clone(local.engine.tokenizer())),
                model: Box::new(local.engine),
                here: Some(local.identity),
                name: name.to_owned(),
                concurrency: options.concurrency.unwrap_or(HERE),
                http: None,
                price: None,
                system: options.system.clone(),
                raw: options.raw,
                solve,
                go_on,
            }
        } else {
            Self::served(options, solve, go_on)?
        };
        // Templates that do not work are found before anything is paid for.
        Conversation::new(None, generator.solve.clone(), generator.go_on.clone())?;
        if let Some(prices) = prices {
            generator.price = prices.of(&generator.name).map(|price| (price, prices.currency.clone()));
            if generator.price.is_none() {
                printer::note(format!("--prices has no entry for {}: cost is unknown", generator.name));
            }
        }
        Ok(generator)
    }

    fn served(options: &GeneratorOptions, solve: Template, go_on: Template) -> Result<Self> {
        let name = options.model.as_deref().unwrap_or_default();
        let key = match (&options.key_env, &options.key_file) {
            (Some(variable), _) => Some(Key::Env(variable.clone())),
            (_, Some(file)) => Some(Key::File(file.clone())),
            _ => None,
        };
        let concurrency = options.concurrency.unwrap_or(AT_A_SERVER);
        let endpoint = |url: &String| {
            let usual = Endpoint::new(url, name);
            Endpoint {
                key: key.clone(),
                concurrency,
                requests_per_minute: options.requests_per_minute,
                tokens_per_minute: options.tokens_per_minute,
                timeout_seconds: options.timeout.unwrap_or(usual.timeout_seconds),
                retries: options.retries.unwrap_or(usual.retries),
                ..usual
            }
        };
        let endpoints: Vec<Endpoint> = options.endpoint.iter().map(endpoint).collect();
        let mut http = Http::open_all(&endpoints).context("--endpoint")?;
        if !options.no_cache {
            let folder = match &options.cache {
                Some(folder) => folder.clone(),
                None => Store::from_env()?.home.join("answers"),
            };
            http = http.with_cache(Cache::open(&folder).context("--cache")?);
        }
        Ok(Self {
            model: Box::new(Chat::new(http.clone())),
            name: if name.is_empty() { options.endpoint[0].clone() } else { name.to_owned() },
            concurrency: concurrency * endpoints.len(),
            tokenizer: options.template.as_deref().map(tokenizer).transpose()?,
            here: None,
            http: Some(http),
            price: None,
            system: options.system.clone(),
            raw: options.raw,
            solve,
            go_on,
        })
    }

    /// How the model is asked about a problem, from its beginning or from a step on.
    pub(crate) fn ask(&self, problem: &Problem) -> Result<Box<dyn Ask>> {
        let question = problem.question();
        Ok(match &self.tokenizer {
            tokenizer if self.raw => Box::new(Raw { tokenizer: tokenizer.clone() }),
            Some(tokenizer) => {
                let user = self.solve.render(minijinja::context! { problem => question })?;
                let system = self.system.iter().map(|system| Message::new("system", system));
                let messages: Vec<Message> = system.chain([Message::new("user", user)]).collect();
                let written = Written::new(tokenizer, &messages);
                Box::new(written.context("cannot apply the chat template (see --raw)")?)
            }
            None => Box::new(Conversation::new(self.system.clone(), self.solve.clone(), self.go_on.clone())?),
        })
    }

    /// What determines the answers.
    pub(crate) fn identity<'a>(&'a self, options: &'a GeneratorOptions) -> Identity<'a> {
        Identity {
            name: &self.name,
            here: self.here.as_deref(),
            raw: self.raw,
            system: self.system.as_deref(),
            template: options.template.as_deref(),
            prompts: [self.solve.text(), self.go_on.text()],
        }
    }

    /// What requests and tokens cost in money, where the price is known.
    pub(crate) fn money(&self, cost: &Cost) -> Option<String> {
        let (price, currency) = self.price.as_ref()?;
        let money = price.cost(cost.prompt_tokens, cost.completion_tokens);
        Some(format!("{money:.4} {currency}"))
    }

    /// What this run really sent, and how long answers took; none for a model here.
    pub(crate) fn traffic(&self) -> Option<Traffic> {
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

/// What a run really sent.
#[derive(Debug, Serialize)]
pub(crate) struct Traffic {
    pub(crate) requests: u64,
    pub(crate) retries: u64,
    pub(crate) failures: u64,
    pub(crate) from_cache: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) median_seconds: f64,
    pub(crate) p99_seconds: f64,
}

/// A model's tokenizer without its weights.
pub(crate) fn tokenizer(name: &str) -> Result<Arc<Tokenizer>> {
    let tokenizer = match models::resolve(name)? {
        ModelPath::Folder(folder) => Tokenizer::from_folder(&folder)?,
        ModelPath::Gguf(file) => Tokenizer::from_gguf(&Gguf::open(&file)?)?,
    };
    if !tokenizer.has_template() {
        bail!(Usage(format!("--template: {name} has no chat template")));
    }
    Ok(Arc::new(tokenizer))
}
