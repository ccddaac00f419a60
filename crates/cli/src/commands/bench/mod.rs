//! `gradus bench`: measures a judge on a benchmark, resumable at every answer.
//!
//! Read the samples → ask the judge → numbers → `report.json`, `report.html`, and a table in the terminal.

mod compare;
mod critic;
mod judging;
mod labels;
mod preference;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use gradus_bench::fact::Fact;
use gradus_bench::judge::Judged;
use gradus_bench::report::{BenchmarkReport, BenchmarkResults, InputFile, SCHEMA, SampleCounts, input_file};
use gradus_bench::run::{Progress as Done, Run, reasons};
use gradus_bench::{Error, Sample, best_of_n, drift, fact, prmbench, processbench};
use gradus_core::FirstError;
use gradus_core::metrics::bootstrap::Settings;
use gradus_plot::Section;
use gradus_retrieve::two_stage::Target;
use serde_json::{Value, json};

use super::{Status, Usage};
use crate::args::bench::{Api, Bench, BenchCommand, BestOfN};
use crate::input;
use crate::interrupt;
use crate::local;
use crate::printer::{self, Printer};
use crate::progress::Progress;
use crate::references::{self, Library, Tally};
use judging::{AHEAD, Judging};

pub(super) fn run(command: &BenchCommand) -> Result<Status> {
    match command {
        BenchCommand::ProcessBench(args) => stoppable(process_bench(args)),
        BenchCommand::PrmBench(args) => stoppable(prm_bench(args)),
        BenchCommand::BestOfN(args) => stoppable(best_of(args)),
        BenchCommand::Drift(args) => stoppable(drift_of(args)),
        BenchCommand::Labels(args) => stoppable(labels::run(args)),
        BenchCommand::Preference(args) => stoppable(preference::run(args)),
        BenchCommand::Compare(args) => compare::run(args),
    }
}

/// A run that was asked to stop has lost nothing.
fn stoppable(result: Result<Status>) -> Result<Status> {
    match result {
        Err(error) if is_stop(&error) => {
            printer::note(error.to_string());
            Ok(Status::Interrupted)
        }
        other => other,
    }
}

fn is_stop(error: &anyhow::Error) -> bool {
    use gradus_retrieve::Error as Retrieval;
    matches!(error.downcast_ref(), Some(Error::Stopped))
        || matches!(error.downcast_ref(), Some(Retrieval::Stopped))
}

fn process_bench(args: &Bench) -> Result<Status> {
    let mut job = Job::read("processbench", args)?;
    job.keep("the first error is unknown", |sample| sample.first_error() != FirstError::Unknown);
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let judged = job.ask(&judging)?;
    let (numbers, facts) = processbench::measure(&job.samples, &judged, args.judge.threshold, &job.settings)?;
    show::processbench(&numbers, &judging.name, job.printer(args))?;
    let sections = processbench::sections(&numbers, &judging.name, &job.samples, &judged);
    job.finish(args, &judging, BenchmarkResults::ProcessBench(Box::new(numbers)), sections, &facts)
}

fn prm_bench(args: &Bench) -> Result<Status> {
    let mut job = Job::read("prmbench", args)?;
    job.keep("it is no PRMBench record", |sample| prmbench::class_of(sample).is_some());
    let judging = job.judge()?;
    let judged = job.ask(&judging)?;
    let (numbers, facts) = prmbench::measure(&job.samples, &judged, args.judge.threshold, &job.settings)?;
    show::prmbench(&numbers, &judging.name, job.printer(args))?;
    let sections = prmbench::sections(&numbers, &judging.name);
    job.finish(args, &judging, BenchmarkResults::PrmBench(Box::new(numbers)), sections, &facts)
}

fn best_of(BestOfN { vote_power, bench: args }: &BestOfN) -> Result<Status> {
    let mut job = Job::read("best-of-n", args)?;
    let asked = args.judge.model.is_some() || args.judge.scores.is_some() || args.judge.critic;
    let (judging, pools) = if asked {
        let judging = job.judge()?;
        let judged = job.ask(&judging)?;
        let pools = best_of_n::pools(&job.samples, Some((&judging.name, &judged)));
        (judging, pools)
    } else {
        let recorded = Judging::recorded("recorded", &args.judge);
        job.open(&recorded)?;
        job.counts.samples = job.samples.len();
        (recorded, best_of_n::pools(&job.samples, None))
    };
    job.extra.insert("vote_power".to_owned(), json!(vote_power));
    best_of_n::write_groups(job.run()?.folder(), &pools)?;
    let sizes = best_of_n::sizes(&pools);
    let (numbers, facts) = best_of_n::measure(&pools, &sizes, *vote_power, &job.settings)?;
    show::best_of_n(&numbers, job.printer(args))?;
    let sections = best_of_n::sections(&numbers);
    job.finish(args, &judging, BenchmarkResults::BestOfN(Box::new(numbers)), sections, &facts)
}

fn drift_of(args: &Bench) -> Result<Status> {
    let mut job = Job::read("drift", args)?;
    job.keep("the outcome is unknown", |sample| sample.solution.outcome.is_correct().is_some());
    job.keep("it has no steps", |sample| !sample.solution.steps.is_empty());
    let judging = job.judge()?;
    let judged = job.ask(&judging)?;
    let numbers = drift::measure(&job.samples, &judged, args.judge.threshold)?;
    show::drift(&numbers, &judging.name, job.printer(args))?;
    let sections = drift::sections(&numbers, &judging.name);
    job.finish(args, &judging, BenchmarkResults::Drift(Box::new(numbers)), sections, &[])
}

/// A benchmark on its way from files to a report.
struct Job<'a> {
    benchmark: &'static str,
    args: &'a Bench,
    samples: Vec<Sample>,
    inputs: Vec<InputFile>,
    counts: SampleCounts,
    settings: Settings,
    run: Option<Run>,
    began: Instant,
    /// Settings of this benchmark alone.
    extra: BTreeMap<String, Value>,
}

impl<'a> Job<'a> {
    /// Reads the samples, the first `--limit` problems of each subset.
    fn read(benchmark: &'static str, args: &'a Bench) -> Result<Self> {
        if !args.judge.threshold.is_finite() {
            return Err(Usage("--threshold must be a number".to_owned()).into());
        }
        let began = Instant::now();
        let mut samples: Vec<Sample> = Vec::new();
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        let tally = input::for_each(&args.input, |item| {
            paths.insert(item.place.path.to_path_buf());
            samples.extend(Sample::of(item.record, &item.place.path));
            Ok(())
        })?;
        let files = paths.iter().filter(|path| path.as_path() != Path::new("-"));
        let inputs = files.map(|path| input_file(path)).collect::<Result<_, _>>()?;
        let mut job = Self {
            benchmark,
            args,
            samples,
            inputs,
            counts: SampleCounts { skipped: tally.skipped, ..SampleCounts::default() },
            settings: Settings { resamples: args.resamples, seed: args.seed, ..Settings::default() },
            run: None,
            began,
            extra: BTreeMap::new(),
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
    fn keep(&mut self, reason: &str, qualifies: impl FnMut(&Sample) -> bool) {
        let before = self.samples.len();
        self.samples.retain(qualifies);
        let lost = before - self.samples.len();
        if lost > 0 {
            *self.counts.dropped.entry(reason.to_owned()).or_default() += lost;
        }
    }

    /// Starts the judge and opens the run's folder, if anything is left to be judged.
    fn judge(&mut self) -> Result<Judging> {
        if self.samples.is_empty() {
            let reasons: Vec<String> =
                self.counts.dropped.iter().map(|(reason, count)| format!("{count} × {reason}")).collect();
            let why = if reasons.is_empty() { "the input has none".to_owned() } else { reasons.join("; ") };
            return Err(Error::Data(format!("no solution can be used: {why}")).into());
        }
        if let Some(name) = &self.args.judge.scores {
            self.check_scores(name)?;
        }
        let judging = Judging::start(&self.args.judge, &self.args.options)?;
        self.open(&judging)?;
        Ok(judging)
    }

    /// Scores that no sample has are a misspelt name, not a judge that decides nothing.
    fn check_scores(&self, name: &str) -> Result<()> {
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

    fn open(&mut self, judging: &Judging) -> Result<()> {
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
            return Err(Usage(format!("{folder} is a run of {other}: give another folder with -o")).into());
        }
        let mut run = Run::open(&folder)?;
        self.args.answers.iter().try_for_each(|other| run.also(other))?;
        self.run = Some(run);
        Ok(())
    }

    fn run(&mut self) -> Result<&mut Run> {
        self.run.as_mut().context("the run's folder is opened with the judge")
    }

    /// Asks about every sample.
    fn ask(&mut self, judging: &Judging) -> Result<Vec<Judged>> {
        interrupt::be_patient();
        self.retrieve(judging)?;
        let samples = std::mem::take(&mut self.samples);
        let mut bar = Progress::new(samples.len() as u64, false);
        let began = Instant::now();
        let source = judging.source();
        let asked = self.run()?.judge(&samples, &source, AHEAD, |done: Done| {
            let speed = done.tokens as f64 / began.elapsed().as_secs_f64().max(1e-9);
            bar.now(done.done as u64, &format!("{} undecided  {speed:.0} tokens/s", done.undecided));
            !interrupt::asked()
        });
        let (judged, done) = local::wait(asked)??;
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
    fn retrieve(&mut self, judging: &Judging) -> Result<()> {
        let augmentation = &self.args.judge.augmentation;
        let Some(pool) = &augmentation.pool else { return Ok(()) };
        let settings = augmentation.retrieval.settings();
        match (&judging.profile, self.args.judge.api) {
            (Some(profile), _) => references::check_profile(profile, &settings)?,
            (None, Api::Score) => {}
            (None, _) => {
                let message =
                    "--pool needs a local reward model or --api score: others have no place for references";
                return Err(Usage(message.to_owned()).into());
            }
        }
        let Some(library) = Library::of(augmentation, &self.args.options)? else { return Ok(()) };
        let targets: Vec<Target> =
            self.samples.iter().map(|sample| Target::from(&sample.request())).collect();
        let found = library.retrieve(&targets, &settings)?;
        let mut tally = Tally::default();
        tally.add(&found);
        for (sample, found) in self.samples.iter_mut().zip(found.targets) {
            sample.solution.references = Some(Box::new(found.references));
        }
        self.extra.insert("pool".to_owned(), json!(pool.display().to_string()));
        self.extra.insert("retrieval".to_owned(), json!({ "settings": settings, "found": tally }));
        if let Some(printer) = self.printer(self.args) {
            tally.lines().into_iter().try_for_each(|line| printer.line(line))?;
        }
        Ok(())
    }

    /// Where tables go; none with `--json`.
    fn printer(&self, args: &Bench) -> Option<Printer> {
        (!args.print.json).then(|| Printer::new(None))
    }

    /// Writes the report and says where it is.
    fn finish(
        mut self,
        args: &Bench,
        judging: &Judging,
        numbers: BenchmarkResults,
        sections: Vec<Section>,
        facts: &[Fact],
    ) -> Result<Status> {
        self.counts.seconds = self.began.elapsed().as_secs_f64();
        let mut settings = BTreeMap::from([
            ("judge".to_owned(), json!(judging.kind)),
            ("threshold".to_owned(), json!(args.judge.threshold)),
            ("resamples".to_owned(), json!(args.resamples)),
            ("confidence".to_owned(), json!(self.settings.confidence)),
            ("seed".to_owned(), json!(args.seed)),
        ]);
        settings.extend(judging.profile.iter().map(|profile| ("profile".to_owned(), json!(profile))));
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
        fact::write(&folder, facts)?;
        report.write(&folder, sections)?;
        if args.print.json {
            Printer::new(None).json(&report)?;
        } else {
            show::counts(&report.counts, &folder, Printer::new(None))?;
        }
        Ok(Status::Done)
    }
}
