//! The report of a run: `report.json` for programs and `report.html` for people, in the run's folder.
//!
//! `report.json` has a schema version, the settings, hashes of the inputs, counts of undecided, truncated and
//! excluded samples, and the results with their intervals. The page shows the same results and needs no network.

use std::collections::BTreeMap;
use std::path::Path;

use gradus_core::count::counted;
use gradus_durable::{read_plain, replace_plain_file};
use gradus_plot::{Block, Page, Section};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::{best_of_n, drift, labels, lm_eval, preference, prmbench, processbench};

/// Version of `report.json`. A reader refuses versions it does not know.
pub const SCHEMA: u32 = 1;

/// The results of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchmarkResults {
    /// First errors.
    #[serde(rename = "processbench")]
    ProcessBench(Box<processbench::ProcessBenchResults>),
    /// Injected errors by class.
    #[serde(rename = "prmbench")]
    PrmBench(Box<prmbench::PrmBenchResults>),
    /// Choices among solutions.
    BestOfN(Box<best_of_n::BestOfNResults>),
    /// Bias by generator.
    Preference(Box<preference::PreferenceResults>),
    /// Agreement of labels.
    Labels(Box<labels::LabelResults>),
    /// Outcome bias of a process reward model.
    Drift(Box<drift::DriftResults>),
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// As it was named.
    pub path: String,
    /// BLAKE3 of its bytes.
    pub blake3: String,
}

/// Counts of samples, tokens and time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleCounts {
    /// Samples in the results.
    pub samples: usize,
    /// Of these, without a usable judgment; they count as incorrect.
    pub undecided: usize,
    /// Why, counted.
    pub reasons: BTreeMap<String, usize>,
    /// Answers that were cut off at the token limit.
    pub truncated: usize,
    /// Records that could not be read.
    pub skipped: u64,
    /// Solutions that were in several input files.
    #[serde(default)]
    pub united: usize,
    /// Excluded samples, by reason.
    pub dropped: BTreeMap<String, usize>,
    /// Judgments from an earlier run.
    pub resumed: usize,
    /// Tokens that went through the judge in this run.
    pub tokens: u64,
    /// Seconds this run took.
    pub seconds: f64,
}

/// The report of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The benchmark's name.
    pub benchmark: String,
    /// The judge's name.
    pub judge: String,
    /// When, in UTC.
    pub created: String,
    /// The program's version.
    pub gradus: String,
    /// Every setting that affects the results.
    pub settings: BTreeMap<String, Value>,
    /// The input files.
    pub inputs: Vec<InputFile>,
    /// Counts of samples, tokens and time.
    pub counts: SampleCounts,
    /// The results.
    pub numbers: BenchmarkResults,
}

impl BenchmarkReport {
    /// Writes `report.json`, `report.html` and, where the results are metrics of tasks, `lm-eval.json` into `folder`, each whole or not at all.
    pub fn write(&self, folder: &Path, sections: Vec<Section>) -> Result<()> {
        let json =
            serde_json::to_string_pretty(self).map_err(|error| Error::run(folder, error.to_string()))?;
        replace_plain_file(&folder.join("report.json"), json.as_bytes())?;
        if let Some(results) = lm_eval::results(self) {
            replace_plain_file(&folder.join("lm-eval.json"), format!("{results:#}\n").as_bytes())?;
        }
        let page = Page {
            title: format!("{} of {}", self.benchmark, self.judge),
            subtitle: self.subtitle(),
            sections: sections.into_iter().chain([self.circumstances()]).collect(),
            data_json: Some(json),
        };
        Ok(replace_plain_file(&folder.join("report.html"), page.html().as_bytes())?)
    }

    /// Reads the report of a run.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("report.json");
        let text = read_plain(&path, u64::MAX).map_err(|error| match error.is_missing() {
            true => Error::run(folder, "has no report.json: the run is not finished"),
            false => error.into(),
        })?;
        let version: Option<u64> =
            serde_json::from_slice::<Value>(&text).ok().and_then(|value| value.get("schema")?.as_u64());
        if version != Some(u64::from(SCHEMA)) {
            let found = version.map_or("none".to_owned(), |version| version.to_string());
            return Err(Error::run(&path, format!("schema version {found}: this program reads {SCHEMA}")));
        }
        serde_json::from_slice(&text).map_err(|error| {
            let how = "rerun its command; answers are kept";
            Error::run(&path, format!("not a report of this version of the program ({error}): {how}"))
        })
    }

    fn subtitle(&self) -> String {
        let counts = &self.counts;
        let samples = counted(counts.samples, "sample");
        let mut text = format!("{samples}, {} undecided", counts.undecided);
        for (count, what) in [
            (counts.truncated, "truncated at the token limit"),
            (counts.skipped as usize, "unreadable records"),
            (counts.dropped.values().sum(), "excluded"),
        ] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        format!("{text}. {}, gradus {}.", self.created, self.gradus)
    }

    /// The settings, inputs and counts as text.
    fn circumstances(&self) -> Section {
        let mut blocks = vec![Block::Text(format!(
            "Settings: {}.",
            listed(self.settings.iter().map(|(name, value)| format!("{name} = {value}")))
        ))];
        blocks.push(Block::Text(format!(
            "Inputs: {}.",
            listed(self.inputs.iter().map(|file| format!(
                "{} (BLAKE3 {}…)",
                file.path,
                &file.blake3[..12.min(file.blake3.len())]
            )))
        )));
        let reasons = self.counts.reasons.iter().map(|(reason, count)| format!("{count} × {reason}"));
        if !self.counts.reasons.is_empty() {
            blocks.push(Block::Text(format!("Undecided, counted as incorrect: {}.", listed(reasons))));
        }
        let dropped = self.counts.dropped.iter().map(|(reason, count)| format!("{count} × {reason}"));
        if !self.counts.dropped.is_empty() {
            blocks.push(Block::Text(format!("Excluded: {}.", listed(dropped))));
        }
        Section { heading: "How this was measured".to_owned(), intro: String::new(), blocks }
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "none".to_owned() } else { items.join("; ") }
}
