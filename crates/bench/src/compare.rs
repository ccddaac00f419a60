//! Runs compared: the same samples, judged by different judges or with different settings.
//!
//! The first run is the one that the others are compared with. Samples are paired by group and id, those with equal ids
//! in their order; what only one run has is left out and counted. Each difference has a 95 % interval and a p-value
//! from a paired bootstrap: both runs see the same resamples, so what they have in common cancels. P-values are not
//! corrected for the number of comparisons.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsStr;
use std::path::Path;

use gradus_core::count::counted;
use gradus_core::metrics::bootstrap::{Settings, resampled, two_sided};
use gradus_plot::bars::{BarSeries, Bars};
use gradus_plot::table::Table;
use gradus_plot::{Block, Page, Section, Unit};
use serde::{Deserialize, Serialize};

use crate::cells::{columns, estimate, number, text};
use crate::error::{Error, Result};
use crate::estimate::{MetricEstimate, ends, estimates};
use crate::fact::{self, Fact, Observation, labels, values};
use crate::report::BenchmarkReport;

/// A finished run.
pub struct FinishedRun {
    /// Its name in the comparison.
    pub name: String,
    /// Its report.
    pub report: BenchmarkReport,
    /// Its per-sample facts.
    pub facts: Vec<Fact>,
}

impl FinishedRun {
    /// Reads the folders of runs. A run is called by its folder's name, or where several have the same one, by its path.
    pub fn read(folders: &[impl AsRef<Path>]) -> Result<Vec<Self>> {
        let names: Vec<_> = folders.iter().map(|folder| folder.as_ref().file_name()).collect();
        let read = |(folder, name): (_, &Option<&OsStr>)| {
            let folder: &Path = AsRef::as_ref(folder);
            let alone = names.iter().filter(|other| *other == name).count() == 1;
            let name = name.filter(|_| alone).unwrap_or(folder.as_os_str()).to_string_lossy().into_owned();
            Ok(Self { name, report: BenchmarkReport::read(folder)?, facts: fact::read(folder)? })
        };
        folders.iter().zip(&names).map(read).collect()
    }
}

/// How one run differs from the first in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The metric, such as `gsm8k/f1`.
    pub number: String,
    /// In the first run.
    pub first: MetricEstimate,
    /// In the other.
    pub other: MetricEstimate,
    /// Other − first.
    pub difference: MetricEstimate,
    /// The two-sided p-value.
    pub p: Option<f64>,
}

/// One run compared with the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunComparison {
    /// The run.
    pub name: String,
    /// Samples in both.
    pub paired: usize,
    /// Samples that only the first has.
    pub only_first: usize,
    /// Samples that only the other has.
    pub only_other: usize,
    /// One per metric.
    pub differences: Vec<Difference>,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The benchmark.
    pub benchmark: String,
    /// The run that the others are compared with.
    pub first: String,
    /// The others.
    pub others: Vec<RunComparison>,
}

/// Compares each of the other runs with the first.
pub fn compare(runs: &[FinishedRun], settings: &Settings) -> Result<Comparison> {
    let [first, others @ ..] = runs else {
        return Err(Error::Data("there is no run to compare".to_owned()));
    };
    let differing = others.iter().find(|other| other.report.benchmark != first.report.benchmark);
    if let Some(other) = differing {
        return Err(Error::Data(format!(
            "{} is a run of {} and {} one of {}: only runs of one benchmark can be compared",
            first.name, first.report.benchmark, other.name, other.report.benchmark
        )));
    }
    let others = others.iter().map(|other| against(first, other, settings)).collect::<Result<_>>()?;
    Ok(Comparison { benchmark: first.report.benchmark.clone(), first: first.name.clone(), others })
}

fn against(first: &FinishedRun, other: &FinishedRun, settings: &Settings) -> Result<RunComparison> {
    // The same text may be there several times, with labels of several people.
    let mut theirs: HashMap<(&str, &str), VecDeque<&Observation>> = HashMap::new();
    for fact in &other.facts {
        theirs.entry((&fact.group, &fact.id)).or_default().push_back(&fact.observation);
    }
    let mut groups: Vec<String> = Vec::new();
    let mut strata: Vec<Vec<(&Observation, &Observation)>> = Vec::new();
    let mut only_first = 0;
    for fact in &first.facts {
        let Some(observation) = theirs.get_mut(&(&*fact.group, &*fact.id)).and_then(VecDeque::pop_front)
        else {
            only_first += 1;
            continue;
        };
        let index = groups.iter().position(|group| *group == fact.group).unwrap_or_else(|| {
            groups.push(fact.group.clone());
            strata.push(Vec::new());
            groups.len() - 1
        });
        strata[index].push((&fact.observation, observation));
    }
    if strata.is_empty() {
        return Err(Error::Data(nothing_in_common(first, other)));
    }
    let side = |strata: &[Vec<(&Observation, &Observation)>], second: bool| -> Vec<Option<f64>> {
        let own: Vec<Vec<&Observation>> = strata
            .iter()
            .map(|pairs| pairs.iter().map(|(a, b)| if second { *b } else { *a }).collect())
            .collect();
        values(&own)
    };
    let of_first: Vec<Vec<&Observation>> =
        strata.iter().map(|pairs| pairs.iter().map(|(a, _)| *a).collect()).collect();
    let of_other: Vec<Vec<&Observation>> =
        strata.iter().map(|pairs| pairs.iter().map(|(_, b)| *b).collect()).collect();
    let names = labels(&groups, &of_first);
    if names != labels(&groups, &of_other) {
        return Err(Error::Data(format!("{} and {} have different metrics", first.name, other.name)));
    }
    let apart = |strata: &[Vec<(&Observation, &Observation)>]| -> Vec<Option<f64>> {
        let pairs = side(strata, false).into_iter().zip(side(strata, true));
        pairs.map(|(a, b)| a.zip(b).map(|(a, b)| b - a)).collect()
    };
    let firsts = estimates(&of_first, settings, |strata| values(strata));
    let seconds = estimates(&of_other, settings, |strata| values(strata));
    let differences = names
        .into_iter()
        .zip(firsts.into_iter().zip(seconds))
        .zip(apart(&strata).into_iter().zip(resampled(&strata, settings, apart)))
        .map(|((number, (first, other)), (difference, mut values))| Difference {
            number,
            first,
            other,
            p: difference.and_then(|_| two_sided(&values)),
            difference: MetricEstimate { value: difference, interval: ends(&mut values, settings) },
        })
        .collect();
    Ok(RunComparison {
        name: other.name.clone(),
        paired: strata.iter().map(Vec::len).sum(),
        only_first,
        only_other: theirs.values().map(VecDeque::len).sum(),
        differences,
    })
}

/// Why no sample of one run is in the other, and what to do about it.
fn nothing_in_common(first: &FinishedRun, other: &FinishedRun) -> String {
    let ids: BTreeSet<&str> = first.facts.iter().map(|fact| fact.id.as_str()).collect();
    let common = other.facts.iter().filter(|fact| ids.contains(fact.id.as_str())).count();
    if common == 0 {
        return format!(
            "{} and {} have no sample in common: run both on the same data",
            first.name, other.name
        );
    }
    let groups = |run: &FinishedRun| -> String {
        let groups: BTreeSet<&str> = run.facts.iter().map(|fact| fact.group.as_str()).collect();
        groups.into_iter().collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} and {} have {} in common, in subsets that are named after their input files and differ ({}; {}): give the \
         file of {} the other's name, run the benchmark again with --reuse {}, and compare that run",
        first.name,
        other.name,
        counted(common, "sample"),
        groups(first),
        groups(other),
        other.name,
        other.name
    )
}

/// The comparison as a page.
pub fn page(comparison: &Comparison) -> Page {
    let sections = comparison.others.iter().map(|other| against_section(&comparison.first, other)).collect();
    Page {
        title: format!("{}: {} against {}", comparison.benchmark, comparison.first, names(comparison)),
        subtitle: "Paired bootstrap over the samples that both runs have; p-values are not corrected for their number.".to_owned(),
        sections,
        data_json: serde_json::to_string_pretty(comparison).ok(),
    }
}

fn names(comparison: &Comparison) -> String {
    comparison.others.iter().map(|other| other.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn against_section(first: &str, other: &RunComparison) -> Section {
    let series = |name: &str, of: fn(&Difference) -> MetricEstimate| BarSeries {
        name: name.to_owned(),
        values: other.differences.iter().map(|difference| of(difference).for_chart(100.0)).collect(),
    };
    let bars = Bars {
        title: format!("{first} and {}", other.name),
        caption: "In percent; whiskers: 95 % bootstrap intervals of each run by itself.".to_owned(),
        value_label: "%".to_owned(),
        unit: Unit::Score,
        categories: other.differences.iter().map(|difference| difference.number.clone()).collect(),
        series: vec![series(first, |found| found.first), series(&other.name, |found| found.other)],
        references: Vec::new(),
    };
    let row = |found: &Difference| {
        vec![
            text(&found.number),
            estimate(&found.first),
            estimate(&found.other),
            estimate(&found.difference),
            number(found.p),
        ]
    };
    let table = Table {
        title: "Differences".to_owned(),
        caption: "A difference is significant at the 5 % level where its interval excludes 0.".to_owned(),
        columns: [
            columns(Unit::Number, &["metric"]),
            columns(Unit::Score, &[first, &other.name, "difference"]),
            columns(Unit::Decimal, &["p"]),
        ]
        .concat(),
        rows: other.differences.iter().map(row).collect(),
    };
    Section {
        heading: other.name.clone(),
        intro: format!(
            "{} in both runs; {} only in {first}, {} only in {}.",
            counted(other.paired, "sample"),
            other.only_first,
            other.only_other,
            other.name
        ),
        blocks: vec![Block::Bars(bars), Block::Table(table)],
    }
}
