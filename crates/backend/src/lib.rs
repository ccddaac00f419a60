//! One way to a model: every command that needs one opens it here.
//!
//! Each of the three kinds runs here (*local*) or behind one or several servers (*endpoints*); completions and vectors
//! may also be read from a file (*recorded*), and scores that the data has need no model:
//!
//! - [`Generator`]: continues text, and says how probable a text is
//! - [`Scorer`]: a process reward model; every profile works here and over `/pooling`
//! - [`Embedder`]: texts to vectors; [`Library`]: a pool with its encoder, for reward models that see references
//!
//! Each is opened from its settings by one function, implements the contracts of `gradus-core`, and says what determines
//! its results (`identity`, for resuming) and what it spent ([`Spending`]).
//!
//! ```no_run
//! use gradus_backend::{EndpointSettings, Scorer, ScorerSettings};
//! use gradus_core::contracts::{ScoreRequest, ScoreSteps};
//!
//! let settings = ScorerSettings {
//!     model: Some("Qwen/Qwen2.5-Math-PRM-7B".into()),
//!     endpoints: EndpointSettings { endpoint: vec!["http://127.0.0.1:8000".into()], ..Default::default() },
//!     ..Default::default()
//! };
//! let scorer = Scorer::open(&settings)?;
//! let request = ScoreRequest { problem: "1 + 1?".into(), steps: vec!["It is 2.".into()], ..Default::default() };
//! let scores = gradus_backend::block_on(scorer.score_steps(vec![request]))??;
//! # Ok::<(), gradus_backend::Error>(())
//! ```

mod background;
mod embedder;
mod endpoints;
mod error;
mod generator;
mod library;
mod local;
mod pair;
mod profile_format;
mod prompts;
mod recorded;
mod retrieval;
mod scorer;
mod served;
mod settings;

pub use background::block_on;
pub use embedder::Embedder;
pub use endpoints::{Spending, Traffic};
pub use error::{Error, Result};
pub use generator::{Continuation, DEFAULT_GENERATOR, Generator, GeneratorIdentity};
pub use library::{Library, REFERENCES_PROFILE, check_profile, encoder_for, with_profile};
pub use local::{
    Local, Purpose, decision_of_scores, has_exact_checks, profile_of_scores, scorer_name, trained_profile,
};
pub use pair::open_pair;
pub use prompts::ChatPrompt;
pub use retrieval::{Augmentation, RetrievalOptions, RetrievalStrategy};
pub use scorer::{ScoreSummary, Scorer, ScorerKind};
pub use served::{Served, ServedKind};
pub use settings::{
    EmbedderSettings, EndpointSettings, GeneratorSettings, LocalSettings, ScoreApi, ScorerSettings,
    at_least_one, cache_size, count, count_or_none,
};
