//! Asks a judge about many samples and appends each answer to a journal, so that a killed run loses only the requests in
//! flight.
//!
//! A run is a folder: `judged.jsonl` has one line per answer, found again by a hash of the judge's identity and all that
//! it saw; `report.json` and `report.html` come when everything is judged. What failed for a reason that may pass (a
//! server that is down) is not remembered and asked again next time. What a judge refuses (a solution beyond its context)
//! is remembered once it has answered something: a judge that refuses everything, or says that it does, is an error, and
//! leaves nothing behind.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use futures_util::stream;
use gradus_core::contracts::{CallError, ScoreRequest, Usage};
use gradus_durable::{Journal, check_plain, journal_key};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::judge::{Judge, Judged, Opinion};
use crate::sample::Sample;

/// Failed requests, with nothing judged yet, after which the run stops.
const MAX_FAILURES: usize = 16;
/// What a run's folder holds. It may come from elsewhere: a symbolic link among these is refused, not written through.
const FILES: [&str; 5] = ["judged.jsonl", "report.json", "report.html", "facts.jsonl", "groups.jsonl"];
/// Solutions of one problem that are asked about together.
const TOGETHER: usize = 16;

/// Where opinions come from.
pub enum JudgeSource<'a> {
    /// Scores that the data has under this name.
    Recorded(String),
    /// A judge that is asked, and all that determines its opinions: model, adapter, profile, prompt.
    Asked(&'a dyn Judge, String),
}

/// How far a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Samples with an opinion, or without hope of one.
    pub done: usize,
    /// Samples in all.
    pub total: usize,
    /// Of these, from an earlier run.
    pub resumed: usize,
    /// Samples without a usable opinion.
    pub undecided: usize,
    /// Tokens that went through the judge.
    pub tokens: u64,
}

/// The folder of a run.
pub struct Run {
    folder: PathBuf,
    journal: Journal<Judged>,
}

impl Run {
    /// Opens or makes a run's folder and reads what it has.
    pub fn open(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        check_plain(folder, &FILES, &[])?;
        Ok(Self { folder: folder.to_owned(), journal: Journal::open(&folder.join("judged.jsonl"))? })
    }

    /// Uses the answers of another run of the same judge, too.
    pub fn also(&mut self, folder: &Path) -> Result<()> {
        Ok(self.journal.also(&folder.join("judged.jsonl"))?)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One opinion per sample, `ahead` problems in flight at once. `watch` hears of every change and says whether to
    /// go on.
    pub async fn judge(
        &mut self,
        samples: &[Sample],
        source: &JudgeSource<'_>,
        ahead: usize,
        mut watch: impl FnMut(Progress) -> bool,
    ) -> Result<(Vec<Judged>, Progress)> {
        let mut progress = Progress { total: samples.len(), ..Progress::default() };
        let (judge, identity) = match source {
            JudgeSource::Recorded(name) => {
                let judged: Vec<Judged> = samples.iter().map(|sample| recorded(sample, name)).collect();
                judged.iter().for_each(|judged| progress.add(judged));
                return Ok((judged, progress));
            }
            JudgeSource::Asked(judge, identity) => (*judge, identity),
        };
        let keys: Vec<String> = samples.iter().map(|sample| key(identity, &sample.request())).collect();
        let mut found: Vec<Option<Judged>> = keys.iter().map(|key| self.journal.find(key)).collect();
        for judged in found.iter().flatten() {
            progress.add(judged);
            progress.resumed += 1;
        }
        progress.tokens = 0;
        // Solutions that say the same are asked about once.
        let mut earliest: HashMap<&str, usize> = HashMap::new();
        let (mut open, mut repeats) = (Vec::new(), Vec::new());
        for index in (0..samples.len()).filter(|index| found[*index].is_none()) {
            match earliest.get(keys[index].as_str()) {
                Some(first) => repeats.push((index, *first)),
                None => {
                    earliest.insert(&keys[index], index);
                    open.push(index);
                }
            }
        }
        let mut calls = stream::iter(together(samples, open))
            .map(|indices| {
                let requests = indices.iter().map(|index| samples[*index].request()).collect();
                async move { (indices, judge.judge(requests).await) }
            })
            .buffer_unordered(ahead.max(1));
        let mut failures = 0;
        let mut last = String::new();
        let mut has_answered = progress.resumed > 0;
        let mut refused: Vec<usize> = Vec::new();
        let mut go_on = watch(progress);
        while go_on {
            let Some((indices, answers)) = calls.next().await else { break };
            let answers = match answers {
                Ok(answers) if answers.len() == indices.len() => answers,
                Ok(_) => vec![Judged::undecided("not one answer per solution"); indices.len()],
                Err(error) => vec![Judged::failed(&error); indices.len()],
            };
            for (index, judged) in indices.into_iter().zip(answers) {
                progress.add(&judged);
                match &judged.failure {
                    None => {
                        has_answered = true;
                        self.journal.add(&keys[index], &samples[index].solution.id, &judged)?;
                    }
                    Some(CallError::Refused(message)) => return Err(Error::Refused(message.clone())),
                    Some(error) => {
                        failures += 1;
                        last = error.to_string();
                        refused.extend(matches!(error, CallError::Invalid(_)).then_some(index));
                    }
                }
                found[index] = Some(judged);
            }
            if failures >= MAX_FAILURES && !has_answered {
                return Err(Error::Judge { failures, message: last });
            }
            if has_answered {
                for index in refused.drain(..) {
                    let judged = found[index].as_ref().expect("it was kept before");
                    self.journal.add(&keys[index], &samples[index].solution.id, judged)?;
                }
            }
            go_on = watch(progress);
        }
        drop(calls);
        if go_on && failures > 0 && !has_answered {
            return Err(Error::Judge { failures, message: last });
        }
        for (index, first) in repeats {
            let judged = found[first].clone().map(|judged| Judged { usage: Usage::default(), ..judged });
            judged.iter().for_each(|judged| progress.add(judged));
            found[index] = judged;
        }
        match found.into_iter().collect::<Option<Vec<Judged>>>() {
            Some(judged) => Ok((judged, progress)),
            None => Err(Error::Stopped),
        }
    }
}

impl Progress {
    fn add(&mut self, judged: &Judged) {
        self.done += 1;
        self.undecided += usize::from(matches!(judged.opinion, Opinion::Undecided { .. }));
        self.tokens += judged.usage.prompt_tokens + judged.usage.completion_tokens;
    }
}

/// The reasons of those without an opinion, counted.
pub fn reasons(judged: &[Judged]) -> BTreeMap<String, usize> {
    let mut reasons = BTreeMap::new();
    for judged in judged {
        if let Opinion::Undecided { reason } = &judged.opinion {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }
    reasons
}

fn recorded(sample: &Sample, name: &str) -> Judged {
    match sample.solution.scores.get(name) {
        Some(scores) if scores.len() == sample.solution.steps.len() => {
            Judged::free(Opinion::Scores(scores.clone()))
        }
        Some(_) => Judged::undecided("not one score per step"),
        None => Judged::undecided("no scores of that name"),
    }
}

fn key(identity: &str, request: &ScoreRequest) -> String {
    journal_key(&(identity, &request.problem, &request.steps, &request.references, &request.step_references))
}

/// Neighbours of one problem in one call.
fn together(samples: &[Sample], open: Vec<usize>) -> Vec<Vec<usize>> {
    let mut calls: Vec<Vec<usize>> = Vec::new();
    for index in open {
        match calls.last_mut() {
            Some(call)
                if call.len() < TOGETHER && samples[call[0]].problem.id == samples[index].problem.id =>
            {
                call.push(index);
            }
            _ => calls.push(vec![index]),
        }
    }
    calls
}
