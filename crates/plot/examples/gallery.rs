//! Every chart on one page, with made-up numbers: `cargo run -p gradus-plot --example gallery -- gallery.html`.
//!
//! `scripts/screenshots.py gallery.html OUTDIR` shows how it looks. The second half has what charts must stand: one
//! category and forty, long names, missing values, nothing at all.

use gradus_plot::bars::{BarSeries, Bars, Reference};
use gradus_plot::cloud::{self, CloudSeries, Dot};
use gradus_plot::dumbbell::{Dumbbell, DumbbellRow};
use gradus_plot::heatmap::{Heatmap, Shade};
use gradus_plot::histogram::{Distribution, Histogram};
use gradus_plot::lines::{LineSeries, Lines};
use gradus_plot::mistakes::{Mistake, Mistakes, ScoredStep, Verdict};
use gradus_plot::radar::{Radar, RadarSeries};
use gradus_plot::reliability::{Bin, Reliability};
use gradus_plot::scatter::{Fit, Point, PointSeries, Scatter};
use gradus_plot::table::{Best, Cell, Column, Table};
use gradus_plot::{Block, Estimate, Marker, Page, Section, Spacing, Unit};

const SUBSETS: [&str; 4] = ["GSM8K", "MATH", "OlympiadBench", "Omni-MATH"];
const MODELS: [&str; 14] = [
    "Qwen2.5-Math-PRM-7B",
    "Qwen2.5-Math-PRM-72B",
    "Skywork-PRM-7B",
    "Skywork-PRM-1.5B",
    "RLHFlow-PRM-Mistral-8B",
    "RLHFlow-PRM-Deepseek-8B",
    "Math-Shepherd-PRM-7B",
    "EurusPRM-Stage2",
    "Pure-PRM-7B",
    "ours, LoRA r16",
    "ours, whole",
    "ours, synthetic only",
    "majority vote",
    "pass@N (upper bound)",
];

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".to_owned());
    std::fs::write(path, page().html())
}

fn page() -> Page {
    let section =
        |heading: &str, intro: &str, blocks| Section { heading: heading.into(), intro: intro.into(), blocks };
    let results = vec![Block::Bars(f1()), Block::Table(table()), Block::Radar(radar())];
    let scores =
        vec![Block::Lines(sweep()), Block::Histogram(histogram()), Block::Reliability(reliability())];
    let errors =
        vec![Block::Heatmap(positions()), Block::Dumbbell(generators()), Block::Mistakes(mistakes())];
    let search = vec![Block::Lines(best_of_n()), Block::Scatter(scatter())];
    Page {
        title: "Gallery: every chart of a Gradus report".to_owned(),
        subtitle: "All numbers are made up. 3,400 solutions, 4 subsets, threshold chosen on MATH.".to_owned(),
        sections: vec![
            section(
                "Results",
                "F1 is the harmonic mean of the accuracies on solutions with and without an error.",
                results,
            ),
            section("Scores and thresholds", "", scores),
            section("Where errors are found", "Steps are counted from 0.", errors),
            section("Search", "Best of N: the solution with the highest score is kept.", search),
            section("Datasets", "", vec![Block::Cloud(questions())]),
            section("Awkward data", "What charts must stand.", awkward()),
        ],
        data_json: Some(r#"{"made_up": true, "hostile": "</script><script>alert(1)</script>"}"#.to_owned()),
    }
}

/// Numbers from 0 to 1 that look random and are always the same.
fn noise(seed: usize) -> f64 {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
    for _ in 0..3 {
        state ^= state >> 29;
        state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state ^= state >> 32;
    }
    (state >> 11) as f64 / (1u64 << 53) as f64
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn around(value: f64, half: f64) -> Option<Estimate> {
    Some(Estimate::between(value, value - half, value + half))
}

fn f1() -> Bars {
    let series = |name: &str, values: [f64; 4], half: f64| BarSeries {
        name: name.to_owned(),
        values: values.iter().map(|value| around(*value, half)).collect(),
    };
    let published =
        [("Qwen2.5-Math-PRM-7B", [82.4, 77.6, 67.5, 66.3]), ("GPT-4o as a critic", [79.2, 63.6, 51.4, 53.5])];
    let references = published.iter().flat_map(|(name, values)| {
        values.iter().enumerate().map(|(category, value)| Reference {
            category,
            name: (*name).to_owned(),
            value: *value,
        })
    });
    Bars {
        title: "F1 on ProcessBench by subset".to_owned(),
        caption:
            "Higher is better. Whiskers: 95 % bootstrap intervals; ticks with letters: published values of others."
                .to_owned(),
        value_label: "F1".to_owned(),
        unit: Unit::Score,
        categories: strings(&SUBSETS),
        series: vec![
            series("ours, LoRA r16", [74.1, 69.8, 58.2, 55.0], 1.9),
            series("ours, whole", [77.9, 72.4, 61.0, 58.8], 1.8),
            series("ours, synthetic only", [58.3, 41.7, 30.4, 28.1], 2.4),
        ],
        references: references.collect(),
    }
}

fn table() -> Table {
    let column = |name: &str, unit, best| Column { name: name.to_owned(), unit, best };
    let mut columns = vec![column("model", Unit::Number, None), column("parameters", Unit::Number, None)];
    columns.extend(SUBSETS.iter().map(|name| column(name, Unit::Score, Some(Best::Highest))));
    columns.push(column("mean", Unit::Score, Some(Best::Highest)));
    columns.push(column("ECE", Unit::Decimal, Some(Best::Lowest)));
    columns.push(column("tokens/s", Unit::Count, Some(Best::Highest)));
    let rows = MODELS[..12].iter().enumerate().map(|(index, name)| {
        let base = 42.0 + 35.0 * noise(index);
        let value = |column: usize| base + 12.0 - 7.0 * column as f64 + 4.0 * noise(index * 7 + column);
        let exactly = |value| Cell::Number(Some(Estimate::exactly(value)));
        let mut row = vec![Cell::Text((*name).to_owned()), Cell::Text("7.6 B".to_owned())];
        row.extend((0..4).map(|column| match (index, column) {
            (4, 3) => Cell::Number(None),
            _ => Cell::Number(around(value(column), 1.0 + noise(index + column))),
        }));
        row.push(exactly((0..4).map(value).sum::<f64>() / 4.0));
        row.push(exactly(0.02 + 0.1 * noise(index + 50)));
        row.push(exactly((3000.0 + 9000.0 * noise(index + 90)).round()));
        row
    });
    Table {
        title: "All models".to_owned(),
        caption: "F1 with 95 % intervals. The best of each column is bold; a click on a header sorts."
            .to_owned(),
        columns,
        rows: rows.collect(),
    }
}

fn radar() -> Radar {
    let axes = [
        "redundancy",
        "circular logic",
        "counterfactual",
        "step consistency",
        "domain consistency",
        "confidence",
        "missing prerequisite",
        "deception",
        "multiple solutions",
    ];
    let series = |name: &str, seed: usize, base: f64| RadarSeries {
        name: name.to_owned(),
        values: (0..axes.len()).map(|axis| Some(base + 30.0 * noise(seed + axis))).collect(),
    };
    let mut broken = series("o1-mini (published)", 31, 55.0);
    broken.values[4] = None;
    Radar {
        title: "PRMBench by category".to_owned(),
        caption: "PRMScore from 0 at the center to 100 at the rim; further out is better.".to_owned(),
        axes: strings(&axes),
        series: vec![series("ours, whole", 11, 50.0), series("Math-Shepherd-PRM-7B", 21, 30.0), broken],
    }
}

fn sweep() -> Lines {
    let line = |name: &str, center: f64, high: f64| LineSeries {
        name: name.to_owned(),
        points: (0..=50)
            .map(|index| {
                let x = f64::from(index) / 50.0;
                let value = high * (-(x - center).powi(2) / 0.12).exp() + 4.0 * noise(index as usize) / 10.0;
                (x, around(value, 1.8))
            })
            .collect(),
    };
    Lines {
        title: "F1 by threshold".to_owned(),
        caption: "A step is called wrong when its score is under the threshold. Bands: 95 % intervals."
            .to_owned(),
        x_label: "threshold".to_owned(),
        y_label: "F1".to_owned(),
        y_unit: Unit::Score,
        series: vec![
            line("GSM8K", 0.52, 77.0),
            line("MATH", 0.48, 72.0),
            line("OlympiadBench", 0.41, 61.0),
            line("Omni-MATH", 0.4, 58.0),
        ],
        markers: vec![
            Marker { x: 0.44, label: "chosen on MATH: 0.44".to_owned() },
            Marker { x: 0.5, label: "usual: 0.5".to_owned() },
        ],
        ..Lines::default()
    }
}

fn histogram() -> Histogram {
    let bins = 25usize;
    let share =
        |x: f64, right: bool| if right { x.powi(4) * 900.0 + 20.0 } else { (1.0 - x).powi(2) * 420.0 + 30.0 };
    let distribution = |name: &str, right: bool, missing| Distribution {
        name: name.to_owned(),
        counts: (0..bins)
            .map(|bin| (share(bin as f64 / bins as f64, right) * (0.8 + 0.4 * noise(bin))) as u64)
            .collect(),
        missing,
    };
    Histogram {
        title: "Scores of right and wrong steps".to_owned(),
        caption: "Each distribution as shares of its own total; the less they overlap, the better."
            .to_owned(),
        x_label: "score".to_owned(),
        edges: (0..=bins).map(|edge| edge as f64 / bins as f64).collect(),
        series: vec![distribution("right steps", true, 0), distribution("first wrong steps", false, 3)],
        markers: vec![Marker { x: 0.44, label: "threshold".to_owned() }],
        ..Histogram::default()
    }
}

fn reliability() -> Reliability {
    let bin = |index: usize| {
        let low = index as f64 / 10.0;
        let (score, count) =
            (low + 0.04 + 0.03 * noise(index), [812, 340, 205, 160, 0, 149, 190, 310, 940, 5120][index]);
        let observed = (score.powf(1.35) + 0.03).min(0.98);
        let half = 0.9 / (f64::from(count.max(1))).sqrt();
        let found = Estimate::between(observed, (observed - half).max(0.0), (observed + half).min(1.0));
        Bin {
            edges: (low, low + 0.1),
            score: (count > 0).then_some(score),
            observed: (count > 0).then_some(found),
            count: count as u64,
        }
    };
    Reliability {
        title: "Are scores probabilities?".to_owned(),
        caption: "Points on the diagonal: of the steps scored 0.7, 70 % are right. Whiskers: 95 % (Wilson)."
            .to_owned(),
        score_label: "score of the step".to_owned(),
        observed_label: "share of right steps".to_owned(),
        noun: "steps".to_owned(),
        bins: (0..10).map(bin).collect(),
    }
}

fn positions() -> Heatmap {
    let mut rows: Vec<String> = (0..12).map(|step| step.to_string()).collect();
    rows.push("12+".to_owned());
    rows.push("none".to_owned());
    let mut columns = rows.clone();
    columns.push("undecided".to_owned());
    let count = |row: usize, column: usize| {
        let size = 190.0 * (-(row as f64) / 4.5).exp();
        let near = row.abs_diff(column) as f64;
        let value = match (row, column) {
            (13, 13) => 1248.0,
            (13, 14) | (_, 14) => 6.0 * noise(row * 3 + 1),
            (13, _) => 40.0 * noise(column) / (1.0 + column as f64),
            (_, 13) => size * 0.3 + 9.0 * noise(row),
            _ => size * (-near * 1.1).exp() + 3.0 * noise(row * 17 + column) - 1.0,
        };
        Some(value.max(0.0) as u64)
    };
    Heatmap {
        title: "Where is the first error?".to_owned(),
        caption: "Solutions by true and predicted first error; outlined cells are right, those beside them near misses.".to_owned(),
        row_label: "true first error".to_owned(),
        column_label: "predicted".to_owned(),
        counts: (0..rows.len()).map(|row| (0..columns.len()).map(|column| count(row, column)).collect()).collect(),
        rows,
        columns,
        shade: Shade::Log,
    }
}

fn generators() -> Dumbbell {
    let names = [
        "Qwen2.5-Math-72B-Instruct",
        "Qwen2.5-Math-7B-Instruct",
        "Qwen2-1.5B-Instruct",
        "Qwen2-72B-Instruct",
        "Llama-3.1-70B-Instruct",
        "Llama-3.1-8B-Instruct",
        "Meta-Llama-3-70B-Instruct",
        "Meta-Llama-3-8B-Instruct",
        "Qwen2.5-7B-Instruct",
        "Qwen2.5-72B-Instruct",
        "Qwen2-7B-Instruct",
        "Qwen2.5-Coder-7B",
    ];
    let row = |(index, name): (usize, &&str)| {
        let (first, second) = (0.05 + 0.3 * noise(index + 3), 0.1 + 0.35 * noise(index + 33));
        DumbbellRow {
            name: (*name).to_owned(),
            first: around(first, 0.02),
            second: (index != 6).then(|| Estimate::between(second, second - 0.03, second + 0.03)),
            index: (index != 6).then_some(second - first),
        }
    };
    Dumbbell {
        title: "Bias by generator".to_owned(),
        caption: "False alarms against missed errors for each generator; BI is FNR less FPR, 0 is fair."
            .to_owned(),
        value_label: "rate".to_owned(),
        unit: Unit::Share,
        first: "FPR (false alarms)".to_owned(),
        second: "FNR (missed errors)".to_owned(),
        index: "BI".to_owned(),
        index_unit: Unit::Decimal,
        rows: names.iter().enumerate().map(row).collect(),
    }
}

fn mistakes() -> Mistakes {
    let steps = |texts: &[(&str, f64)]| -> Vec<ScoredStep> {
        texts
            .iter()
            .map(|(text, score)| ScoredStep { text: (*text).to_owned(), score: Some(*score) })
            .collect()
    };
    let apples = &[
        ("First find how many apples are left after Monday: \\(24 - 7 = 17\\).", 0.98),
        ("On Tuesday twice as many are sold as on Monday, so \\(2 \\times 7 = 14\\) are sold.", 0.93),
        ("That leaves \\(17 - 14 = 4\\) apples.", 0.71),
        (
            "Each apple costs 0.50, so the rest is worth \\(4 \\times 0.50 = 2\\).\nThe answer is \\(\\boxed{2}\\).",
            0.44,
        ),
    ];
    let long = "\\[\\sum_{k=1}^{n}\\frac{1}{k(k+1)(k+2)}=\\frac{1}{2}\\sum_{k=1}^{n}\\left(\\frac{1}{k(k+1)}-\\frac{1}{(k+1)(k+2)}\\right)=\\frac{1}{2}\\left(\\frac{1}{2}-\\frac{1}{(n+1)(n+2)}\\right)\\]";
    let sum = &[
        ("Write each term as a difference of two simpler fractions, so that the sum telescopes:", 0.97),
        (long, 0.82),
        ("As n grows, the second part goes to 0, and the limit is 1/2.", 0.12),
        ("<b>Hence</b> the answer is 1/2 & nothing else.", 0.08),
    ];
    let problem = "A shop has 24 apples. On Monday it sells 7, on Tuesday twice as many. What are the rest worth at 0.50 each?";
    let limit = "Find \\(\\lim_{n\\to\\infty}\\sum_{k=1}^{n}\\frac{1}{k(k+1)(k+2)}\\).";
    let solution = |index: usize| {
        let first = index.is_multiple_of(2);
        let (truth, predicted) = match index % 4 {
            0 => (Some(2), Verdict::NoError),
            1 => (Some(2), Verdict::At(3)),
            2 => (None, Verdict::At(3)),
            _ => (Some(2), Verdict::Undecided),
        };
        Mistake {
            id: format!("{}-{}", SUBSETS[index % 4].to_lowercase(), 100 + index * 37),
            subset: SUBSETS[index % 4].to_owned(),
            problem: if first { problem } else { limit }.to_owned(),
            steps: if first { steps(apples) } else { steps(sum) },
            truth,
            predicted,
            note: (index == 1).then(|| "The wrong step is short and repeats what looks right.".to_owned()),
        }
    };
    Mistakes {
        title: "Mistakes to read".to_owned(),
        caption: "Each step with its score, orange for wrong and blue for right; the true and the predicted first error are marked.".to_owned(),
        solutions: (0..14).map(solution).collect(),
        limit: Some(12),
    }
}

fn best_of_n() -> Lines {
    let line = |(index, name): (usize, &&str)| LineSeries {
        name: (*name).to_owned(),
        points: (0..=6)
            .map(|power| {
                let gain = 3.0 + 2.6 * noise(index * 5) + if index == 13 { 3.0 } else { 0.0 };
                let value = 52.0 + gain * f64::from(power) - 0.22 * f64::from(power * power);
                (f64::from(1 << power), around(value, if index < 9 { 0.0 } else { 0.9 }))
            })
            .map(|(x, value)| (x, value.map(|v| if index < 9 { Estimate::exactly(v.value) } else { v })))
            .collect(),
    };
    Lines {
        title: "Best of N on MATH-500".to_owned(),
        caption: "Accuracy of the solution with the best score among N. pass@N is what a perfect choice would reach.".to_owned(),
        x_label: "N".to_owned(),
        x_unit: Unit::Count,
        x_spacing: Spacing::Log2,
        y_label: "accuracy".to_owned(),
        y_unit: Unit::Score,
        series: MODELS.iter().enumerate().map(line).collect(),
        markers: vec![],
    }
}

fn scatter() -> Scatter {
    let fit = |x: f64| 40.0 + 0.35 * (x - 40.0);
    let point = |(index, name): (usize, &&str)| {
        let x = 32.0 + 45.0 * noise(index * 3 + 2);
        Point { name: (*name).to_owned(), x, y: fit(x) + 4.0 * (noise(index + 70) - 0.5) }
    };
    let all: Vec<Point> = MODELS[..13].iter().enumerate().map(point).collect();
    let (published, ours) = all.split_at(9);
    let xs: Vec<f64> = (0..=40).map(|index| 30.0 + f64::from(index) * 1.25).collect();
    Scatter {
        title: "Does finding errors help to choose?".to_owned(),
        caption: "Each point is a model: F1 on ProcessBench against accuracy with best of 8, with a least-squares line.".to_owned(),
        x_label: "F1 on ProcessBench".to_owned(),
        x_unit: Unit::Score,
        y_label: "best of 8 on MATH-500".to_owned(),
        y_unit: Unit::Score,
        series: vec![
            PointSeries { name: "published".to_owned(), points: published.to_vec() },
            PointSeries { name: "ours".to_owned(), points: ours.to_vec() },
        ],
        fit: Some(Fit {
            line: xs.iter().map(|x| (*x, fit(*x))).collect(),
            band: xs.iter().map(|x| (*x, fit(*x) - 1.0 - (x - 55.0).abs() * 0.06, fit(*x) + 1.0 + (x - 55.0).abs() * 0.06)).collect(),
            r: 0.93,
            p: 0.000_02,
        }),
    }
}

fn questions() -> cloud::Cloud {
    let texts = [
        "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. How many clips did Natalia sell altogether in April and May?",
        "Let \\(f(x) = ax + 3\\) for \\(x > 2\\). Find \\(a + b\\) if the piecewise function is continuous.",
        "Determine all functions \\(f: \\mathbb{R} \\to \\mathbb{R}\\) with \\(f(x^2 + f(y)) = y + f(x)^2\\).",
        "How many sequences of 1s and 0s of length 19 begin with a 0 and have no two consecutive 0s?",
    ];
    let bell = |seed: usize| (0..6).map(|part| noise(seed * 6 + part)).sum::<f64>() - 3.0;
    // Each dataset has some topics, and shares some with the next.
    let dot = |series: usize, index: usize| {
        let topic = series * 5 + index % 9;
        let (angle, far) =
            (noise(topic * 31 + 7) * std::f64::consts::TAU, 30.0 * noise(topic * 17 + 3).sqrt());
        let size = 1.5 + 4.0 * noise(topic + 90);
        let seed = series * 10_000 + index;
        Dot {
            name: format!("{} {}", series * 10_000 + index, texts[series]),
            x: far * angle.cos() + size * bell(seed),
            y: far * angle.sin() + size * bell(seed + 50_000),
        }
    };
    let series = |(series, count): (usize, usize)| CloudSeries {
        name: SUBSETS[series].to_owned(),
        dots: (0..count).map(|index| dot(series, index)).collect(),
    };
    cloud::Cloud {
        title: "How far apart are the questions?".to_owned(),
        caption: "Each dot is a question; those near each other are alike (t-SNE of their vectors). Axes and the distances between groups mean nothing.".to_owned(),
        series: [1319, 1000, 675, 400].into_iter().enumerate().map(series).collect(),
    }
}

fn awkward() -> Vec<Block> {
    let generators = 40;
    let forty = Bars {
        title: "Forty categories, one missing".to_owned(),
        caption: "Bars lie down when labels need the room.".to_owned(),
        value_label: "accuracy".to_owned(),
        unit: Unit::Share,
        categories: (0..generators).map(|index| format!("a-rather-long-generator-name-{index:02}")).collect(),
        series: vec![BarSeries {
            name: "ours".to_owned(),
            values: (0..generators)
                .map(|index| around(0.3 + 0.5 * noise(index), 0.03).filter(|_| index != 7))
                .collect(),
        }],
        references: vec![],
    };
    let one = Bars {
        title: "One bar".to_owned(),
        caption: "And one reference.".to_owned(),
        unit: Unit::Share,
        categories: strings(&["all"]),
        series: vec![BarSeries { name: "ours".to_owned(), values: vec![around(0.713, 0.02)] }],
        references: vec![Reference { category: 0, name: "chance".to_owned(), value: 0.5 }],
        ..Bars::default()
    };
    let losses = Bars {
        title: "Gains and losses".to_owned(),
        caption: "Values on both sides of zero.".to_owned(),
        value_label: "points gained".to_owned(),
        categories: strings(&["calibration", "more data", "no warm-up"]),
        series: vec![
            BarSeries {
                name: "MATH".to_owned(),
                values: vec![around(2.1, 0.6), around(0.4, 0.5), around(-1.7, 0.7)],
            },
            BarSeries { name: "GSM8K".to_owned(), values: vec![around(-0.9, 0.6), None, around(-3.0, 0.4)] },
        ],
        ..Bars::default()
    };
    let gaps = Lines {
        title: "Lines with gaps".to_owned(),
        caption: "A point alone is a dot; one series has a single point.".to_owned(),
        x_label: "step".to_owned(),
        y_label: "loss".to_owned(),
        series: vec![
            LineSeries {
                name: "broken".to_owned(),
                points: (0..12)
                    .map(|step| {
                        (
                            f64::from(step),
                            (![3, 5, 6].contains(&step))
                                .then(|| Estimate::exactly(1.0 / f64::from(step + 1))),
                        )
                    })
                    .collect(),
            },
            LineSeries {
                name: "a single point with a name that is much longer than there is room for".to_owned(),
                points: vec![(4.0, around(0.7, 0.1))],
            },
        ],
        ..Lines::default()
    };
    let nothing = Bars {
        title: "Nothing".to_owned(),
        caption: "There is no data at all.".to_owned(),
        ..Bars::default()
    };
    let ten = cloud::Cloud {
        title: "Ten series, one dot each and one lost".to_owned(),
        caption: "From the ninth on they are rings.".to_owned(),
        series: (0..10)
            .map(|index| CloudSeries {
                name: format!("a dataset with a rather long name {index}"),
                dots: vec![Dot {
                    name: format!("question {index}"),
                    x: if index == 3 { f64::NAN } else { index as f64 },
                    y: noise(index),
                }],
            })
            .collect(),
    };
    vec![
        Block::Bars(forty),
        Block::Bars(one),
        Block::Bars(losses),
        Block::Lines(gaps),
        Block::Cloud(ten),
        Block::Bars(nothing),
    ]
}
