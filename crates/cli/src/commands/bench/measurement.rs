//! A benchmark run: reads the samples, queries the judge, writes `report.json` and `report.html`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use gradus_backend::{Library, ScoreApi, block_on, check_profile};
use gradus_bench::fact::{self, Fact};
use gradus_bench::judge::Judged;
use gradus_bench::report::{BenchmarkReport, BenchmarkResults, InputFile, SCHEMA, SampleCounts};
use gradus_bench::run::{Progress as Done, Run, reasons};
use gradus_bench::{Error, Sample};
use gradus_core::metrics::bootstrap::Settings;
use gradus_core::select::DecisionRule;
use gradus_data::files;
use gradus_plot::Section;
use gradus_retrieve::two_stage::Target;
use serde_json::{Value, json};

use super::args::BenchArgs;
use super::judging::Judging;
use super::tables;
use crate::cost;
use crate::exit::{Status, Usage};
use crate::input::{self, JoinedFiles, Need};
use crate::references::{self, RetrievalTally};
use crate::terminal::interrupt;
use crate::terminal::printer::Printer;
use crate::terminal::progress::Progress;

/// A benchmark run.
pub(super) struct Measurement<'a> {
    benchmark: &'static str,
    args: &'a BenchArgs,
    pub(super) samples: Vec<Sample>,
    inputs: Vec<InputFile>,
    pub(super) counts: SampleCounts,
    pub(super) settings: Settings,
    run: Option<Run>,
    began: Instant,
    /// Settings of this benchmark alone.
    pub(super) extra: BTreeMap<String, Value>,
    /// Beside a served judge, a local model runs with the local settings.
    pub(super) with_local_model: bool,
}

impl<'a> Measurement<'a> {
    /// Reads the samples, the first `--limit` problems of each subset.
    pub(super) fn read(benchmark: &'static str, args: &'a BenchArgs) -> Result<Self> {
        args.judge.decision.check()?;
        let began = Instant::now();
        let mut joined = JoinedFiles::default();
        let tally = input::for_each(&args.input, Need::Steps, |item| joined.add(item).map(drop))?;
        let (first_files, united) = (joined.paths.clone(), joined.united());
        let records = joined.into_records().into_iter().zip(first_files);
        let samples = records.flat_map(|(record, path)| Sample::of(record, &path)).collect();
        let digests: BTreeMap<PathBuf, String> =
            files::digests(&args.input.files.inputs)?.into_iter().collect();
        let input =
            |(path, blake3): (PathBuf, String)| InputFile { path: path.display().to_string(), blake3 };
        let inputs = digests.into_iter().map(input).collect();
        let mut job = Self {
            benchmark,
            args,
            samples,
            inputs,
            counts: SampleCounts { skipped: tally.skipped, united, ..SampleCounts::default() },
            settings: Settings { resamples: args.resamples, seed: args.seed, ..Settings::default() },
            run: None,
            began,
            extra: BTreeMap::new(),
            with_local_model: false,
        };
        if let Some(limit) = args.limit {
            let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            job.keep("beyond --limit", |sample| {
                let problems = seen.entry(sample.subset.clone()).or_default();
                problems.contains(&sample.problem.id)
                    || problems.len() < limit && problems.insert(sample.problem.id.clone())
            });
        }
        Ok(job)
    }

    /// Leaves out and counts the samples that do not qualify.
    pub(super) fn keep(&mut self, reason: &str, qualifies: impl FnMut(&Sample) -> bool) {
        let before = self.samples.len();
        self.samples.retain(qualifies);
        let lost = before - self.samples.len();
        if lost > 0 {
            *self.counts.dropped.entry(reason.to_owned()).or_default() += lost;
        }
    }

    /// The rule by which scores of the judge become a first error, noted in the report. A critic names it itself.
    pub(super) fn decision(&mut self, judging: &Judging) -> Result<DecisionRule> {
        let rule = self.args.judge.decision.over(judging.decision)?;
        if !judging.is_critic() {
            self.extra.insert("decision".to_owned(), json!(rule));
            self.extra.extend(rule.threshold().map(|threshold| ("threshold".to_owned(), json!(threshold))));
        }
        Ok(rule)
    }

    /// The threshold of single steps, where a benchmark looks at each on its own, noted in the report.
    pub(super) fn step_threshold(&mut self, own: DecisionRule) -> Result<f64> {
        let threshold = self.args.judge.decision.of_steps(own)?;
        self.extra.insert("threshold".to_owned(), json!(threshold));
        Ok(threshold)
    }

    /// Starts the judge and opens the run's folder, if anything is left to be judged.
    pub(super) fn judge(&mut self) -> Result<Judging> {
        if self.samples.is_empty() {
            let reasons: Vec<String> =
                self.counts.dropped.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
            let why =
                if reasons.is_empty() { "the input contains none".to_owned() } else { reasons.join("; ") };
            return Err(Error::Data(format!("no solution can be used: {why}")).into());
        }
        if let Some(name) = &self.args.judge.scores {
            self.check_scores(name)?;
        }
        let judging = Judging::start(&self.args.judge, self.with_local_model)?;
        self.open(&judging)?;
        Ok(judging)
    }

    /// Scores that no sample has are a misspelt name, not a judge that decides nothing.
    pub(super) fn check_scores(&self, name: &str) -> Result<()> {
        if self.samples.iter().any(|sample| sample.solution.scores.contains_key(name)) {
            return Ok(());
        }
        let names: BTreeSet<&str> = self
            .samples
            .iter()
            .flat_map(|sample| sample.solution.scores.keys())
            .map(String::as_str)
            .collect();
        let known = match names.is_empty() {
            true => "the data has none".to_owned(),
            false => format!("the data has {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Err(Error::Data(format!("no solution has scores named `{name}`: {known}")).into())
    }

    pub(super) fn open(&mut self, judging: &Judging) -> Result<()> {
        let folder = self.args.output.clone().unwrap_or_else(|| {
            let name: String = judging
                .name
                .chars()
                .map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' })
                .collect();
            Path::new("runs").join(format!("{}-{name}", self.benchmark))
        });
        if let Ok(report) = BenchmarkReport::read(&folder)
            && report.benchmark != self.benchmark
        {
            let (folder, other) = (folder.display(), report.benchmark);
            return Err(Usage(format!("{folder} is a run of {other}: set another folder with -o")).into());
        }
        let mut run = Run::open(&folder)?;
        self.args.reuse.iter().try_for_each(|other| run.also(other))?;
        self.run = Some(run);
        Ok(())
    }

    pub(super) fn run(&mut self) -> Result<&mut Run> {
        self.run.as_mut().context("the run's folder is opened with the judge")
    }

    /// Queries the judge for every sample.
    pub(super) fn ask(&mut self, judging: &Judging) -> Result<Vec<Judged>> {
        interrupt::be_patient();
        self.retrieve(judging)?;
        let samples = std::mem::take(&mut self.samples);
        let mut bar = Progress::new(samples.len() as u64, false);
        let began = Instant::now();
        let source = judging.source();
        let asked = self.run()?.judge(&samples, &source, judging.ahead, |done: Done| {
            let speed = done.tokens as f64 / began.elapsed().as_secs_f64().max(1e-9);
            bar.now(done.done as u64, &format!("{} undecided  {speed:.0} tokens/s", done.undecided));
            !interrupt::asked()
        });
        let (judged, done) = block_on(asked)??;
        self.samples = samples;
        self.counts.samples = self.samples.len();
        self.counts.undecided = done.undecided;
        self.counts.reasons = reasons(&judged);
        self.counts.truncated = judged.iter().filter(|judged| judged.truncated).count();
        self.counts.resumed = done.resumed;
        self.counts.tokens = done.tokens;
        Ok(judged)
    }

    /// With a pool: gives every sample its references, all in one pass, and notes what was retrieved in the report.
    pub(super) fn retrieve(&mut self, judging: &Judging) -> Result<()> {
        let augmentation = &self.args.judge.augmentation;
        let Some(pool) = &augmentation.pool else { return Ok(()) };
        let settings = augmentation.retrieval.settings();
        match (&judging.profile, self.args.judge.scorer.api) {
            (Some(profile), _) => check_profile(profile, &settings)?,
            (None, ScoreApi::Score) => {}
            (None, _) => {
                let message = "--pool needs a reward model: other judges do not use references";
                return Err(Usage(message.to_owned()).into());
            }
        }
        let Some(library) = Library::of(augmentation, &self.args.judge.scorer.local)? else { return Ok(()) };
        let targets: Vec<Target> =
            self.samples.iter().map(|sample| Target::from(&sample.request())).collect();
        let found = references::retrieve(&library, &targets, &settings)?;
        let mut tally = RetrievalTally::default();
        tally.add(&found);
        for (sample, found) in self.samples.iter_mut().zip(found.targets) {
            sample.solution.references = Some(Box::new(found.references));
        }
        self.extra.insert("pool".to_owned(), json!(pool));
        self.extra.insert("retrieval".to_owned(), json!({ "settings": settings, "found": tally }));
        if let Some(printer) = self.printer(self.args) {
            tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
        }
        Ok(())
    }

    /// Where tables go; none with `--json`.
    pub(super) fn printer(&self, args: &BenchArgs) -> Option<Printer> {
        (!args.print.json).then(|| Printer::new(None))
    }

    /// Writes the report and prints its path.
    pub(super) fn finish(
        mut self,
        args: &BenchArgs,
        judging: &Judging,
        numbers: BenchmarkResults,
        sections: Vec<Section>,
        facts: &[Fact],
    ) -> Result<Status> {
        self.counts.seconds = self.began.elapsed().as_secs_f64();
        let mut settings = BTreeMap::from([
            ("judge".to_owned(), json!(judging.kind)),
            ("resamples".to_owned(), json!(args.resamples)),
            ("confidence".to_owned(), json!(self.settings.confidence)),
            ("seed".to_owned(), json!(args.seed)),
        ]);
        settings.extend(judging.profile.iter().map(|profile| ("profile".to_owned(), json!(profile))));
        if let Some((protocol, config)) = judging.critic_settings() {
            settings.insert("protocol".to_owned(), json!(protocol));
            settings.insert("votes".to_owned(), json!(config.votes));
            settings.insert("max_tokens".to_owned(), json!(config.max_tokens));
            settings.insert("temperature".to_owned(), json!(config.sampling.temperature));
        }
        settings.extend(args.limit.map(|limit| ("limit".to_owned(), json!(limit))));
        settings.append(&mut self.extra);
        let report = BenchmarkReport {
            schema: SCHEMA,
            benchmark: self.benchmark.to_owned(),
            judge: judging.name.clone(),
            created: gradus_core::time::now(),
            gradus: env!("CARGO_PKG_VERSION").to_owned(),
            settings,
            inputs: std::mem::take(&mut self.inputs),
            counts: self.counts.clone(),
            numbers,
        };
        let folder = self.run()?.folder().to_owned();
        judging.spending().into_iter().for_each(cost::conclude);
        fact::write(&folder, facts)?;
        report.write(&folder, sections)?;
        if args.print.json {
            Printer::new(None).json(&report)?;
        } else {
            tables::counts(&report.counts, &folder, Printer::new(None))?;
        }
        Ok(Status::Done)
    }
}
