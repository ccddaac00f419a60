//! From lines of metrics to what a panel shows.

use std::ops::RangeInclusive;

use super::RunCurves;
use crate::run::metrics::smoothed;

/// More points than this in a curve are thinned out: a panel has no more pixels.
const MOST: usize = 800;
/// Curves with at least this many points are shown smoothed, with the values behind in a faint colour.
const NOISY: usize = 100;
/// How much the last smoothed value counts.
const SMOOTHING: f64 = 0.8;

/// Panels that come first, in this order.
const FIRST: [&str; 4] = ["loss", "accuracy", "f1", "reward"];
/// Panels that come last: how it went, rather than what came of it.
const LAST: [&str; 6] = ["gradient_norm", "learning_rate", "epoch", "tokens_per_second", "seconds", "memory"];

/// Run and split of each curve; its place gives the colour.
pub(super) type Legend = Vec<(String, String)>;

/// All that is on a page.
#[derive(Debug)]
pub(super) struct Curves {
    pub(super) legend: Legend,
    /// The first and the last step of all runs: panels share it, so that they can be compared.
    pub(super) steps: RangeInclusive<u64>,
    pub(super) panels: Vec<Panel>,
}

/// One metric of all runs.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) metric: String,
    pub(super) curves: Vec<Curve>,
    /// Values that are not finite and cannot be drawn.
    pub(super) missing: usize,
}

/// One metric of one split of one run.
#[derive(Debug)]
pub(super) struct Curve {
    /// Place in the legend.
    pub(super) key: usize,
    pub(super) points: Vec<(u64, f64)>,
    /// The same, smoothed, if there are many.
    pub(super) smooth: Option<Vec<(u64, f64)>>,
}

/// Sorts all lines into panels.
pub(super) fn collect(runs: &[RunCurves]) -> Curves {
    let mut legend = Legend::new();
    let mut panels: Vec<Panel> = Vec::new();
    for run in runs {
        let start = legend.len();
        for line in &run.lines {
            let known = legend[start..].iter().position(|(_, split)| *split == line.split);
            let key = known.map_or(legend.len(), |place| start + place);
            if known.is_none() {
                legend.push((run.name.clone(), line.split.clone()));
            }
            for (metric, value) in &line.values {
                put(&mut panels, metric, key, (line.step, *value));
            }
        }
    }
    panels.sort_by_cached_key(|panel| rank(&panel.metric));
    for panel in &mut panels {
        for curve in &mut panel.curves {
            finish(curve, &panel.metric);
        }
    }
    let steps = || runs.iter().flat_map(|run| &run.lines).map(|line| line.step);
    let steps = steps().min().unwrap_or_default()..=steps().max().unwrap_or_default();
    Curves { legend, steps, panels }
}

fn put(panels: &mut Vec<Panel>, metric: &str, key: usize, point: (u64, f64)) {
    let place = panels.iter().position(|panel| panel.metric == metric).unwrap_or_else(|| {
        panels.push(Panel { metric: metric.to_owned(), curves: Vec::new(), missing: 0 });
        panels.len() - 1
    });
    let panel = &mut panels[place];
    if !point.1.is_finite() {
        panel.missing += 1;
        return;
    }
    match panel.curves.iter_mut().find(|curve| curve.key == key) {
        Some(curve) => curve.points.push(point),
        None => panel.curves.push(Curve { key, points: vec![point], smooth: None }),
    }
}

fn rank(metric: &str) -> (usize, String) {
    let place = match FIRST.iter().position(|name| *name == metric) {
        Some(place) => place,
        None => {
            LAST.iter().position(|name| *name == metric).map_or(FIRST.len(), |place| FIRST.len() + 1 + place)
        }
    };
    (place, metric.to_owned())
}

fn finish(curve: &mut Curve, metric: &str) {
    if curve.points.len() >= NOISY && metric != "learning_rate" && metric != "epoch" {
        let values: Vec<f64> = curve.points.iter().map(|(_, value)| *value).collect();
        let steps = curve.points.iter().map(|(step, _)| *step);
        curve.smooth = Some(thinned(steps.zip(smoothed(&values, SMOOTHING)).collect()));
    }
    curve.points = thinned(std::mem::take(&mut curve.points));
}

/// Keeps the lowest and the highest point of each stretch, so that no spike is lost.
fn thinned(points: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    if points.len() <= MOST {
        return points;
    }
    let stretch = points.len().div_ceil(MOST / 2);
    let ends = points.chunks(stretch).flat_map(|stretch| {
        let of = |index: &usize| stretch[*index].1;
        let low = (0..stretch.len()).min_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default();
        let high = (0..stretch.len()).max_by(|a, b| of(a).total_cmp(&of(b))).unwrap_or_default();
        let mut kept = vec![low.min(high), low.max(high)];
        kept.dedup();
        kept.into_iter().map(|index| stretch[index])
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_spikes() {
        let mut points: Vec<(u64, f64)> = (0..100_000).map(|step| (step, 1.0)).collect();
        points[54_321].1 = 9.0;
        points[54_400].1 = -9.0;
        let thin = thinned(points);
        assert!(thin.len() <= MOST);
        assert!(thin.contains(&(54_321, 9.0)) && thin.contains(&(54_400, -9.0)));
        assert!(thin.is_sorted_by_key(|(step, _)| *step));
    }

    #[test]
    fn panels_have_an_order() {
        let mut names = ["learning_rate", "kl", "loss", "bias", "memory", "reward"];
        names.sort_by_cached_key(|name| rank(name));
        assert_eq!(names, ["loss", "reward", "bias", "kl", "learning_rate", "memory"]);
    }
}
