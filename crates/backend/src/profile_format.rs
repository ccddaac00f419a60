//! Any PRM profile over HTTP: what is sent for a solution, and where its scores are read.
//!
//! With the served model's tokenizer the prompts are the token ids that the local engine would run, and every profile
//! works. Without it they are text, which is enough for profiles with a special token as their tag and for those that ask
//! about one step at a time; the others are refused by name.
//!
//! A profile that compares two tokens needs a server which answers with both: vLLM with
//! `--pooler-config '{"pooling_type": "STEP", "step_tag_id": TAG, "returned_token_ids": [RIGHT, WRONG]}'`, in that order.

use std::sync::Arc;

use gradus_core::contracts::{CallError, ScoreRequest};
use gradus_engine::profile::{Assembled, Assembler, Profile, Score, Templates, Written};
use gradus_engine::text::Tokenizer;
use gradus_llm::{Columns, PoolingFormat, PoolingInput, PoolingPrompt, Reads, TokenFormat};

use crate::{Error, Result};

/// A profile, and the tokenizer of the model that it is for.
pub(crate) struct ProfileFormat {
    templates: Templates,
    /// Writes tokens, where the tokenizer is known.
    tokens: Option<(Assembler, Arc<Tokenizer>)>,
}

impl ProfileFormat {
    /// Compiles the profile's templates, and refuses one that cannot do without a tokenizer.
    pub(crate) fn new(profile: &Profile, tokenizer: Option<Arc<Tokenizer>>) -> Result<Self> {
        let templates = Templates::new(profile.clone())?;
        let tokens = match tokenizer {
            Some(tokenizer) => Some((Assembler::new(profile.clone(), &tokenizer)?, tokenizer)),
            None => None,
        };
        if let (None, Some(reason)) = (&tokens, templates.needs_tokenizer()) {
            return Err(Error::settings(format!(
                "profile `{}` needs the served model's tokenizer, because {reason}: name a local model that has it with \
                 --tokenizer; without one these profiles work: {}",
                profile.name,
                without_tokenizer().join(", ")
            )));
        }
        Ok(Self { templates, tokens })
    }

    /// The same for a model behind `/v1/completions`, which compares two tokens.
    pub(crate) fn comparing(profile: &Profile, tokenizer: Option<Arc<Tokenizer>>) -> Result<Self> {
        let name = profile.name.clone();
        if !matches!(profile.score, Score::Tokens { .. }) {
            let known = Profile::built_in();
            let known = known.iter().filter(|profile| matches!(profile.score, Score::Tokens { .. }));
            let known: Vec<&str> = known.map(|profile| profile.name.as_str()).collect();
            return Err(Error::settings(format!(
                "profile `{name}` reads a head of the model, which /v1/completions does not have: use --api pooling; these \
                 profiles work: {}",
                known.join(", ")
            )));
        }
        if tokenizer.is_none() {
            return Err(Error::settings(format!(
                "--api completions sends token ids: name a local model with the served model's tokenizer with --tokenizer \
                 (profile `{name}`)"
            )));
        }
        Self::new(profile, tokenizer)
    }

    /// The profile.
    fn profile(&self) -> &Profile {
        self.templates.profile()
    }

    /// Refuses references that the model would never see.
    fn check(&self, request: &ScoreRequest) -> Result<(), CallError> {
        let (questions, steps) = self.templates.sees();
        let unseen = (!request.references.is_empty() && !questions)
            || (request.step_references.iter().any(|similar| !similar.is_empty()) && !steps);
        if unseen {
            let id = &request.id;
            return Err(CallError::Invalid(format!(
                "solution `{id}`: this model's input has no place for references"
            )));
        }
        Ok(())
    }

    fn assemble(&self, request: &ScoreRequest) -> Option<Result<(Assembled, &Assembler), CallError>> {
        let (assembler, tokenizer) = self.tokens.as_ref()?;
        // How long a prompt may be is known to the server, which refuses longer ones.
        let assembled = assembler.assemble(request, tokenizer, usize::MAX);
        Some(assembled.map(|assembled| (assembled, assembler)).map_err(CallError::from))
    }

    fn calibrate(&self, request: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        let lengths = || request.steps.iter().map(|step| step.chars().count()).collect::<Vec<_>>();
        match &self.profile().calibration {
            Some(calibration) => calibration.apply(&read, &lengths()),
            None => read,
        }
    }
}

impl PoolingFormat for ProfileFormat {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<PoolingPrompt>, CallError> {
        self.check(request)?;
        let Some(assembled) = self.assemble(request) else {
            return Ok(self.templates.written(request)?.into_iter().map(in_words).collect());
        };
        let (assembled, assembler) = assembled?;
        let prompts = assembled.prompts.into_iter().map(|(tokens, positions)| {
            let is_tag = |(_, token): &(usize, &u32)| Some(**token) == assembler.tag();
            let tags = tokens.iter().enumerate().filter(is_tag).map(|(position, _)| position).collect();
            let reads = Reads::Tokens { count: tokens.len(), positions, tags };
            PoolingPrompt { input: PoolingInput::Tokens(tokens), reads }
        });
        Ok(prompts.collect())
    }

    fn columns(&self) -> Columns {
        match self.profile().score {
            Score::Tokens { .. } => Columns { right: 0, least: 2, most: 2 },
            Score::Classes { positive } => Columns { right: positive, least: 1, most: usize::MAX },
            Score::Value => Columns { right: 0, least: 1, most: 1 },
        }
    }

    fn scores(&self, request: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        self.calibrate(request, read)
    }
}

impl TokenFormat for ProfileFormat {
    fn write(&self, request: &ScoreRequest) -> Result<Vec<Vec<u32>>, CallError> {
        self.check(request)?;
        let assembled = self.assemble(request).expect("a tokenizer is asked for when the format is made");
        let prompts = assembled?.0.prompts;
        let before =
            prompts.iter().flat_map(|(tokens, reads)| reads.iter().map(|read| tokens[..=*read].to_vec()));
        Ok(before.collect())
    }

    fn verdict(&self) -> [u32; 2] {
        let verdict = self.tokens.as_ref().and_then(|(assembler, _)| assembler.verdict());
        verdict.expect("a profile of two tokens is asked for when the format is made")
    }

    fn scores(&self, request: &ScoreRequest, read: Vec<f64>) -> Vec<f64> {
        self.calibrate(request, read)
    }
}

fn in_words(written: Written) -> PoolingPrompt {
    let chat = |messages, add_generation_prompt| PoolingInput::Chat { messages, add_generation_prompt };
    match written {
        Written::Text(text) => PoolingPrompt { input: PoolingInput::Text(text), reads: Reads::Tags },
        Written::Chat(messages) => PoolingPrompt { input: chat(messages, false), reads: Reads::Tags },
        Written::Question(messages) => PoolingPrompt { input: chat(messages, true), reads: Reads::Last },
    }
}

/// The built-in profiles that need no tokenizer.
fn without_tokenizer() -> Vec<String> {
    let text_is_enough = |profile: &Profile| {
        Templates::new(profile.clone()).is_ok_and(|templates| templates.needs_tokenizer().is_none())
    };
    Profile::built_in().into_iter().filter(text_is_enough).map(|profile| profile.name).collect()
}
