//! A model that continues text: local, behind endpoints, or recorded completions.

use std::sync::Arc;

use gradus_core::contracts::{
    Answer, CallError, Generate, GenerateRequest, Generated, LogProbs, LogProbsRequest, Message, Prompt,
    TokenLogProbs,
};
use gradus_core::select::search::Ask;
use gradus_engine::Engine;
use gradus_engine::text::Tokenizer;
use gradus_llm::{Chat, Endpoint, Http, Scripted, continues_turns};
use serde::Serialize;

use crate::background::Background;
use crate::endpoints::Endpoints;
use crate::local::{self, Local, Purpose};
use crate::prompts::{ContinuedPrompt, RawPrompt};
use crate::{Error, GeneratorSettings, Result, Spending, recorded};

/// The model that runs when none is named.
pub const DEFAULT_GENERATOR: &str = "smollm2-135m";
/// Problems or solutions that a local model works on at once.
const LOCAL_CONCURRENCY: usize = 8;

/// A generator that is ready to be asked.
pub struct Generator {
    /// What it is called in data.
    pub name: String,
    /// Problems or solutions to work on at once.
    pub concurrency: usize,
    /// What it spends.
    pub spending: Spending,
    backend: Backend,
    /// Of a model whose template is written out here.
    tokenizer: Option<Arc<Tokenizer>>,
    /// A hash of that model's files, where it is not the generator itself.
    template_files: Option<String>,
    identity: String,
    settings: GeneratorSettings,
}

enum Backend {
    Local(Local),
    Endpoints(Background<Chat>, Vec<Endpoint>),
    Recorded(Scripted),
}

/// How a generator goes on with a solution that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// As text, in its own template or without one.
    Text,
    /// As a turn of the assistant's that its server continues.
    Turn,
    /// The server can only be asked in words.
    Asked(
        /// Why: what the server does instead.
        &'static str,
    ),
}

/// What determines a generator's answers with its prompts, for a job's fingerprint.
#[derive(Debug, Serialize)]
pub struct GeneratorIdentity<'a> {
    name: &'a str,
    /// A model here: the same name may mean another one at a server, and its files may change.
    here: Option<&'a str>,
    raw: bool,
    system: Option<&'a str>,
    template: Option<&'a str>,
    /// A hash of the files of the model whose template it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    template_files: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unseeded: bool,
    prompts: Vec<&'a str>,
}

impl Generator {
    /// Loads the model, prepares connections or reads the file; nothing is asked yet.
    pub fn open(settings: &GeneratorSettings) -> Result<Self> {
        if let Some(path) = &settings.recorded {
            let (scripted, hash) = recorded::completions(path)?;
            let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
            return Self::new(settings, name, hash, Backend::Recorded(scripted), None);
        }
        if settings.endpoints.endpoint.is_empty() {
            let name = local::model_name(settings.model.as_deref(), &settings.local, DEFAULT_GENERATOR)?;
            return Self::on(Local::start(&name, &settings.local, Purpose::Text)?, name, settings);
        }
        settings.local.refuse_with_endpoint()?;
        let endpoints = Endpoints::open(&settings.endpoints, settings.model.as_deref())?;
        let http = endpoints.http;
        let chat = Background::start(Arc::new(Chat::new(http.clone())))?;
        let identity = format!("endpoint {}", endpoints.identity);
        let template = settings.template.as_deref().map(|name| {
            let tokenizer = local::tokenizer(name)?;
            match tokenizer.has_template() {
                true => Ok((tokenizer, local::files(name)?)),
                false => Err(Error::settings(format!("--template: {name} has no chat template"))),
            }
        });
        let (tokenizer, template_files) = template.transpose()?.unzip();
        let backend = Backend::Endpoints(chat, endpoints.all);
        let generator = Self::new(settings, endpoints.name, identity, backend, Some(http))?;
        Ok(Self { concurrency: endpoints.concurrency, tokenizer, template_files, ..generator })
    }

    /// A generator on an engine that is running already.
    pub(crate) fn on(local: Local, name: String, settings: &GeneratorSettings) -> Result<Self> {
        let tokenizer = Some(Arc::clone(local.engine.tokenizer()));
        let identity = local.identity.clone();
        Ok(Self { tokenizer, ..Self::new(settings, name, identity, Backend::Local(local), None)? })
    }

    fn new(
        settings: &GeneratorSettings,
        name: String,
        identity: String,
        backend: Backend,
        http: Option<Http>,
    ) -> Result<Self> {
        Ok(Self {
            concurrency: settings.endpoints.concurrency.unwrap_or(LOCAL_CONCURRENCY),
            spending: Spending::open(&settings.endpoints, &name, http)?,
            name,
            backend,
            tokenizer: None,
            template_files: None,
            identity,
            settings: settings.clone(),
        })
    }

    /// The running engine, for what only a local model does, such as streaming.
    pub fn engine(&self) -> Option<&Engine> {
        self.local().map(|local| &local.engine)
    }

    /// The local model, if it is one.
    pub fn local(&self) -> Option<&Local> {
        match &self.backend {
            Backend::Local(local) => Some(local),
            _ => None,
        }
    }

    /// Whether a solution that has begun can be gone on with as the model itself would.
    fn continues(&self) -> bool {
        self.settings.raw || self.tokenizer.is_some()
    }

    /// How it goes on with a solution that has begun. Every server that answers is asked whether it can, with three
    /// requests of one token; a turn is continued only if all of them can.
    pub fn continuation(&self) -> Result<Continuation> {
        let Backend::Endpoints(_, servers) = &self.backend else { return Ok(Continuation::Text) };
        if self.continues() {
            return Ok(Continuation::Text);
        }
        let mut down = None;
        let mut reached = false;
        for server in servers {
            let http = Http::open(server).map_err(Error::endpoint("--endpoint"))?;
            match crate::block_on(continues_turns(&http))? {
                Ok(Ok(())) => reached = true,
                Ok(Err(why)) => return Ok(Continuation::Asked(why)),
                Err(error @ CallError::Failed(_)) => down = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match down {
            Some(error) if !reached => Err(error.into()),
            _ => Ok(Continuation::Turn),
        }
    }

    /// Whether its requests carry no seeds, so that its samples cannot be drawn again.
    pub fn is_unseeded(&self) -> bool {
        self.settings.endpoints.no_request_seed
    }

    /// What determines its answers, apart from how it is asked.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// What determines its answers, the texts of its prompts included.
    pub fn identity_with<'a>(&'a self, prompts: Vec<&'a str>) -> GeneratorIdentity<'a> {
        GeneratorIdentity {
            name: &self.name,
            here: (!matches!(self.backend, Backend::Endpoints(..))).then_some(self.identity.as_str()),
            raw: self.settings.raw,
            system: self.settings.system.as_deref(),
            template: self.settings.template.as_deref(),
            template_files: self.template_files.as_deref(),
            unseeded: self.is_unseeded(),
            prompts,
        }
    }

    /// A user message after the system message, if there is one.
    pub fn messages(&self, user: impl Into<String>) -> Vec<Message> {
        let system = self.settings.system.iter().map(|system| Message::new("system", system));
        system.chain([Message::new("user", user)]).collect()
    }

    /// A user message as a whole prompt: plain text with `--raw`, else a conversation.
    pub fn opening(&self, user: &str) -> Prompt {
        if self.settings.raw { Prompt::Text(user.to_owned()) } else { Prompt::Chat(self.messages(user)) }
    }

    /// A user message as what comes before a given answer.
    pub fn context(&self, user: &str) -> Prompt {
        match self.opening(user) {
            Prompt::Text(text) => Prompt::Text(text + "\n\n"),
            chat => chat,
        }
    }

    /// How the model is asked with `messages`: in its own template where that is known, as plain text with `--raw`,
    /// otherwise as `chat` says.
    pub fn prompt(&self, messages: &[Message], chat: impl FnOnce() -> Box<dyn Ask>) -> Result<Box<dyn Ask>> {
        Ok(match &self.tokenizer {
            tokenizer if self.settings.raw => Box::new(RawPrompt { tokenizer: tokenizer.clone() }),
            Some(tokenizer) => {
                let prompt = ContinuedPrompt::new(tokenizer, messages).map_err(|error| {
                    let message = format!("cannot apply the chat template (see --raw): {error}");
                    gradus_engine::Error::Request(message)
                })?;
                Box::new(prompt)
            }
            None => chat(),
        })
    }
}

impl Generate for Generator {
    fn generate(&self, request: GenerateRequest) -> Answer<'_, Generated> {
        match &self.backend {
            Backend::Local(local) => local.engine.generate(request),
            Backend::Endpoints(chat, _) => chat.generate(request),
            Backend::Recorded(scripted) => scripted.generate(request),
        }
    }
}

impl LogProbs for Generator {
    fn logprobs(&self, mut request: LogProbsRequest) -> Answer<'_, TokenLogProbs> {
        let chat = match &self.backend {
            Backend::Local(local) => return local.engine.logprobs(request),
            Backend::Endpoints(chat, _) => chat,
            Backend::Recorded(_) => {
                let words = "recorded completions have no log-probabilities: use a model".to_owned();
                return Box::pin(async move { Err(CallError::Invalid(words)) });
            }
        };
        // Servers judge texts only, so a conversation is written out here where its template is known.
        if let (Prompt::Chat(messages), Some(tokenizer)) = (&request.prompt, &self.tokenizer) {
            match ContinuedPrompt::new(tokenizer, messages) {
                Ok(written) => request.prompt = written.prompt("", ""),
                Err(error) => {
                    let words = error.to_string();
                    return Box::pin(async move { Err(CallError::Invalid(words)) });
                }
            }
        }
        chat.logprobs(request)
    }
}
