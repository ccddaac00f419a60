//! The results of a run as lm-evaluation-harness writes them, for programs that read its `results_*.json`.
//!
//! Each subset or class is a task with `metric,none` and `metric_stderr,none`; standard errors are those of a normal
//! distribution with our bootstrap interval. Benchmarks whose results are no metrics of tasks (preference, labels, drift)
//! have none.

use serde_json::{Map, Value, json};

use crate::estimate::MetricEstimate;
use crate::report::{BenchmarkReport, BenchmarkResults};

/// Half of a 95 % interval, in standard errors.
const HALF_INTERVAL: f64 = 1.959_964;

/// A task: its name, how many samples it has, and its metrics.
struct Task {
    name: String,
    samples: Option<usize>,
    metrics: Vec<(String, MetricEstimate)>,
}

/// The results in lm-evaluation-harness's form.
pub(crate) fn results(report: &BenchmarkReport) -> Option<Value> {
    let tasks = tasks(report)?;
    let (mut results, mut samples) = (Map::new(), Map::new());
    let (mut versions, mut shots, mut better, mut configs) = (Map::new(), Map::new(), Map::new(), Map::new());
    for task in tasks {
        let mut found = Map::new();
        found.insert("alias".to_owned(), task.name.clone().into());
        let mut directions = Map::new();
        for (metric, estimate) in &task.metrics {
            let Some(value) = estimate.value else { continue };
            let error = estimate.interval.map(|(low, high)| (high - low) / (2.0 * HALF_INTERVAL));
            found.insert(format!("{metric},none"), value.into());
            found.insert(format!("{metric}_stderr,none"), error.map_or_else(|| "N/A".into(), Value::from));
            directions.insert(metric.clone(), true.into());
        }
        results.insert(task.name.clone(), found.into());
        better.insert(task.name.clone(), directions.into());
        versions.insert(task.name.clone(), 1.into());
        shots.insert(task.name.clone(), 0.into());
        configs.insert(
            task.name.clone(),
            json!({"task": task.name, "num_fewshot": 0, "metadata": {"version": 1}}),
        );
        if let Some(count) = task.samples {
            samples.insert(task.name, json!({"original": count, "effective": count}));
        }
    }
    Some(json!({
        "results": results, "group_subtasks": {}, "configs": configs, "versions": versions, "n-shot": shots,
        "higher_is_better": better, "n-samples": samples,
        "config": {"model": "gradus", "model_args": {"pretrained": report.judge}, "gradus": report.settings},
        "model_name": report.judge, "model_name_sanitized": report.judge.replace(['/', ' '], "__"),
        "model_source": "gradus", "gradus_version": report.gradus, "created": report.created,
        "total_evaluation_time_seconds": report.counts.seconds.to_string(),
    }))
}

fn tasks(report: &BenchmarkReport) -> Option<Vec<Task>> {
    let metric = |name: &str, estimate: MetricEstimate| (name.to_owned(), estimate);
    Some(match &report.numbers {
        BenchmarkResults::ProcessBench(found) => {
            let whole = Task {
                name: "processbench".to_owned(),
                samples: Some(report.counts.samples),
                metrics: vec![metric("f1", found.average_f1), metric("acc", found.average_accuracy)],
            };
            let subset = |group: &crate::processbench::GroupResults| Task {
                name: format!("processbench_{}", group.name),
                samples: Some(group.scores.erroneous + group.scores.error_free),
                metrics: vec![
                    metric("f1", group.f1),
                    metric("acc", group.accuracy),
                    metric("acc_error", group.acc_err),
                    metric("acc_correct", group.acc_cor),
                ],
            };
            std::iter::once(whole).chain(found.subsets.iter().map(subset)).collect()
        }
        BenchmarkResults::PrmBench(found) => {
            let whole = Task {
                name: "prmbench".to_owned(),
                samples: Some(report.counts.samples),
                metrics: vec![metric("prm_score", found.overall)],
            };
            let class = |class: &crate::prmbench::ClassResults| Task {
                name: format!("prmbench_{}", class.name),
                samples: Some(class.samples),
                metrics: vec![
                    metric("prm_score", class.score),
                    metric("f1", class.f1),
                    metric("negative_f1", class.negative_f1),
                ],
            };
            std::iter::once(whole).chain(found.classes.iter().map(class)).collect()
        }
        BenchmarkResults::BestOfN(found) => {
            let at = |name: &str, over: &[MetricEstimate]| -> Vec<(String, MetricEstimate)> {
                found
                    .sizes
                    .iter()
                    .zip(over)
                    .map(|(size, estimate)| metric(&format!("{name}@{size}"), *estimate))
                    .collect()
            };
            let set = |set: &crate::best_of_n::DatasetResults| {
                let mut metrics =
                    [at("pass", &set.pass), at("maj", &set.majority), at("mean", &set.chance)].concat();
                for scorer in &set.scorers {
                    for choice in &scorer.choices {
                        let name = format!("{}_{}", scorer.name, choice.aggregation.name());
                        metrics.extend(at(&format!("{name}_best"), &choice.best));
                        metrics.extend(at(&format!("{name}_vote"), &choice.vote));
                    }
                }
                Task { name: format!("best_of_n_{}", set.name), samples: Some(set.problems), metrics }
            };
            found.sets.iter().map(set).collect()
        }
        BenchmarkResults::Preference(_) | BenchmarkResults::Labels(_) | BenchmarkResults::Drift(_) => {
            return None;
        }
    })
}
