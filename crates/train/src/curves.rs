//! Metrics of one or several runs as one HTML page: a chart for each metric, a curve for each run and split.
//!
//! Noisy curves are smoothed, with a band of the values behind. The page is drawn by `gradus-plot`: it needs no network,
//! and its content security policy forbids it to load anything.

use gradus_plot::lines::{LineSeries, Lines};
use gradus_plot::{Block, Estimate, Page, Section, Unit};

use crate::run::metrics::{MetricsLine, smoothed};

/// Longer curves are thinned out to this many points: a chart has no more pixels.
const MAX_POINTS: usize = 400;
/// Curves with at least this many points are smoothed.
const NOISY: usize = 100;
/// Weight of the last smoothed value.
const SMOOTHING: f64 = 0.8;

/// Charts that come first, in this order.
const FIRST: [&str; 4] = ["loss", "accuracy", "f1", "reward"];
/// Charts about the run itself, which come last.
const LAST: [&str; 7] =
    ["gradient_norm", "learning_rate", "epoch", "tokens_per_second", "seconds", "memory", "memory_gib"];
/// Metrics that follow a formula: they are never smoothed.
const EXACT: [&str; 2] = ["learning_rate", "epoch"];

/// A run to draw.
#[derive(Debug, Clone)]
pub struct RunCurves {
    /// Its name in the charts.
    pub name: String,
    /// Its metrics.
    pub lines: Vec<MetricsLine>,
}

/// One metric of all runs.
struct Chart {
    metric: String,
    curves: Vec<Curve>,
    /// Values that are not finite and cannot be drawn.
    missing: usize,
}

/// One metric of one split of one run.
struct Curve {
    /// Index of the run.
    run: usize,
    name: String,
    points: Vec<(u64, f64)>,
}

/// The page of these runs' curves.
///
/// ```
/// use gradus_train::curves::{RunCurves, page};
/// use gradus_train::run::MetricsLine;
///
/// let lines = (1..=50).map(|step| MetricsLine::now(step, "train", [("loss", 1.0 / step as f64)])).collect();
/// let html = page(&[RunCurves { name: "first".to_owned(), lines }]);
/// assert!(html.contains("<svg"));
/// ```
pub fn page(runs: &[RunCurves]) -> String {
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let (run, result): (Vec<Chart>, Vec<Chart>) =
        charts(runs).into_iter().partition(|chart| LAST.contains(&chart.metric.as_str()));
    let sections = [("Metrics", result), ("Run", run)].into_iter().filter(|(_, charts)| !charts.is_empty());
    let mut sections: Vec<Section> = sections
        .map(|(heading, charts)| Section {
            heading: heading.to_owned(),
            intro: String::new(),
            blocks: charts.into_iter().map(|chart| Block::Lines(draw(chart))).collect(),
        })
        .collect();
    if sections.is_empty() {
        let blocks = vec![Block::Text("There are no metrics yet.".to_owned())];
        sections.push(Section { heading: "Metrics".to_owned(), intro: String::new(), blocks });
    }
    Page { title: names.join(", "), sections, ..Page::default() }.html()
}

/// Sorts all metrics into charts.
fn charts(runs: &[RunCurves]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for line in &run.lines {
            let name = format!("{} {}", run.name, line.split);
            for (metric, value) in &line.values {
                put(&mut charts, metric, (index, &name), (line.step, *value));
            }
        }
    }
    charts.sort_by_cached_key(|chart| rank(&chart.metric));
    charts
}

/// Adds a point to the curve of this run and name.
fn put(charts: &mut Vec<Chart>, metric: &str, (run, name): (usize, &str), point: (u64, f64)) {
    let index = charts.iter().position(|chart| chart.metric == metric).unwrap_or_else(|| {
        charts.push(Chart { metric: metric.to_owned(), curves: Vec::new(), missing: 0 });
        charts.len() - 1
    });
    let chart = &mut charts[index];
    if !point.1.is_finite() {
        chart.missing += 1;
        return;
    }
    match chart.curves.iter_mut().find(|curve| (curve.run, curve.name.as_str()) == (run, name)) {
        Some(curve) => curve.points.push(point),
        None => chart.curves.push(Curve { run, name: name.to_owned(), points: vec![point] }),
    }
}

fn rank(metric: &str) -> (usize, String) {
    let index = match FIRST.iter().position(|name| *name == metric) {
        Some(index) => index,
        None => {
            LAST.iter().position(|name| *name == metric).map_or(FIRST.len(), |index| FIRST.len() + 1 + index)
        }
    };
    (index, metric.to_owned())
}

fn draw(chart: Chart) -> Lines {
    let Chart { metric, curves, missing } = chart;
    let smoothable = |curve: &Curve| curve.points.len() >= NOISY && !EXACT.contains(&metric.as_str());
    let mut caption = match missing {
        0 => String::new(),
        1 => "1 value is not finite. ".to_owned(),
        _ => format!("{missing} values are not finite. "),
    };
    if curves.iter().any(smoothable) {
        caption += "Lines are smoothed; bands reach to the values.";
    }
    let series = curves.iter().map(|curve| LineSeries {
        name: curve.name.clone(),
        points: if smoothable(curve) { smooth(&curve.points) } else { thinned(&curve.points) },
    });
    let name = metric.replace('_', " ");
    Lines {
        title: name.clone(),
        caption: caption.trim().to_owned(),
        x_label: "step".to_owned(),
        x_unit: Unit::Count,
        y_label: name,
        series: series.collect(),
        ..Lines::default()
    }
}

type Points = Vec<(f64, Option<Estimate>)>;

/// The smoothed curve, with a band that reaches to the lowest and the highest value of each stretch: no spike is lost.
fn smooth(points: &[(u64, f64)]) -> Points {
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    let smoothed = smoothed(&values, SMOOTHING);
    let stretch = points.len().div_ceil(MAX_POINTS);
    let of = |(points, smoothed): (&[(u64, f64)], &[f64])| {
        let (step, value) = (points[points.len() - 1].0, smoothed[smoothed.len() - 1]);
        let values = || points.iter().map(|(_, value)| *value);
        let (low, high) = (values().fold(value, f64::min), values().fold(value, f64::max));
        (step as f64, Some(Estimate::between(value, low, high)))
    };
    points.chunks(stretch).zip(smoothed.chunks(stretch)).map(of).collect()
}

/// Keeps the lowest and the highest point of each stretch, so that no spike is lost.
fn thinned(points: &[(u64, f64)]) -> Points {
    let exactly = |(step, value): &(u64, f64)| (*step as f64, Some(Estimate::exactly(*value)));
    if points.len() <= MAX_POINTS {
        return points.iter().map(exactly).collect();
    }
    let stretch = points.len().div_ceil(MAX_POINTS / 2);
    let ends = points.chunks(stretch).flat_map(|stretch| {
        let by_value = |a: &&(u64, f64), b: &&(u64, f64)| a.1.total_cmp(&b.1);
        let ends = [stretch.iter().min_by(by_value), stretch.iter().max_by(by_value)];
        let mut ends: Vec<&(u64, f64)> = ends.into_iter().flatten().collect();
        ends.sort_by_key(|(step, _)| *step);
        ends.dedup();
        ends
    });
    ends.map(exactly).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A curve with noise that is the same every time.
    fn run(name: &str, steps: u64, speed: f64) -> RunCurves {
        let mut lines = Vec::new();
        for step in 1..=steps {
            let noise = ((step * 7919) % 101) as f64 / 1000.0;
            let loss = (-(step as f64) * speed / steps as f64).exp() + noise;
            let rate = 1e-4 * (1.0 - step as f64 / steps as f64);
            let values = [
                ("loss", loss),
                ("learning_rate", rate),
                ("gradient_norm", loss * 3.0),
                ("kl", noise * 0.01),
            ];
            lines.push(MetricsLine { time: 0.0, ..MetricsLine::now(step, "train", values) });
            if step % (steps / 5) == 0 {
                let values = [("loss", loss + 0.1), ("first_error_f1", 1.0 - loss / 2.0)];
                lines.push(MetricsLine { time: 0.0, ..MetricsLine::now(step, "eval", values) });
            }
        }
        RunCurves { name: name.to_owned(), lines }
    }

    #[test]
    fn a_page_of_two_runs() {
        let html = page(&[run("fast <b>", 300, 4.0), run("slow", 200, 2.0)]);
        if let Some(path) = std::env::var_os("GRADUS_KEEP_PAGE") {
            std::fs::write(path, &html).unwrap();
        }
        let titles: Vec<&str> =
            html.split("<figcaption><h3>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        assert_eq!(titles, ["loss", "first error f1", "kl", "gradient norm", "learning rate"]);
        // Every chart is drawn once for wide and once for narrow pages.
        assert_eq!(html.matches("<svg class=\"wide\"").count(), 5);
        // In the legend of the loss: both splits of both runs.
        let loss = html.split("<figure").nth(1).unwrap();
        for name in ["fast &lt;b&gt; train", "fast &lt;b&gt; eval", "slow train", "slow eval"] {
            assert!(loss.contains(&format!("</svg>{name}</li>")), "{name}");
        }
        assert!(html.contains("<title>fast &lt;b&gt;, slow</title>"));
        assert!(html.contains("Content-Security-Policy\" content=\"default-src 'none'"));
        // Neither in the page nor in its data may a name become markup.
        assert!(!html.contains("fast <b>"));
        assert!(!html.contains("{{"));
        assert!(!html.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "").contains("http"));
    }

    #[test]
    fn a_small_chart() {
        let values = [(1, 1.0), (2, 0.5), (3, f64::NAN), (4, 0.25)];
        let lines = values.map(|(step, loss)| MetricsLine::now(step, "train", [("loss", loss)]));
        let mut charts = charts(&[RunCurves { name: "tiny".to_owned(), lines: lines.to_vec() }]);
        let lines = draw(charts.remove(0));
        let exactly = |step: f64, value| (step, Some(Estimate::exactly(value)));
        let points = vec![exactly(1.0, 1.0), exactly(2.0, 0.5), exactly(4.0, 0.25)];
        assert_eq!(lines.series, [LineSeries { name: "tiny train".to_owned(), points }]);
        assert_eq!((lines.title.as_str(), lines.caption.as_str()), ("loss", "1 value is not finite."));
        assert!(charts.is_empty());
    }

    #[test]
    fn nothing_to_draw_is_said() {
        assert!(page(&[]).contains("There are no metrics yet."));
        let lines = vec![MetricsLine::now(1, "train", [("loss", f64::NAN)])];
        let html = page(&[RunCurves { name: "nan".to_owned(), lines }]);
        assert!(html.contains("1 value is not finite") && !html.contains("<svg "));
        let lines = vec![MetricsLine::now(1, "train", [("loss", 0.0)])];
        assert!(page(&[RunCurves { name: "one".to_owned(), lines }]).contains("<svg "));
    }

    #[test]
    fn thinning_and_smoothing_keep_spikes() {
        let mut points: Vec<(u64, f64)> = (0..100_000).map(|step| (step, 1.0)).collect();
        points[54_321].1 = 9.0;
        points[54_400].1 = -9.0;
        let thin = thinned(&points);
        assert!(thin.len() <= MAX_POINTS);
        for spike in [(54_321.0, 9.0), (54_400.0, -9.0)] {
            assert!(thin.contains(&(spike.0, Some(Estimate::exactly(spike.1)))));
        }
        assert!(thin.is_sorted_by_key(|(step, _)| *step));
        let smooth = smooth(&points);
        assert!(smooth.len() <= MAX_POINTS);
        let bands = || smooth.iter().filter_map(|(_, value)| value.as_ref()?.interval);
        assert!(bands().any(|(_, high)| high == 9.0) && bands().any(|(low, _)| low == -9.0));
        assert!(bands().all(|(low, high)| low <= high));
    }

    #[test]
    fn charts_have_an_order() {
        let mut names = ["learning_rate", "kl", "loss", "bias", "memory", "reward"];
        names.sort_by_cached_key(|name| rank(name));
        assert_eq!(names, ["loss", "reward", "bias", "kl", "learning_rate", "memory"]);
    }
}
