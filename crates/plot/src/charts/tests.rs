//! Every chart: well-formed, with every value reachable in text, whatever the data is like.

use super::bars::{BarSeries, Bars, Reference};
use super::cloud::{self, CloudSeries, Dot};
use super::dumbbell::{Dumbbell, DumbbellRow};
use super::heatmap::Heatmap;
use super::histogram::{Distribution, Histogram};
use super::lines::{LineSeries, Lines};
use super::mistakes::{Mistake, Mistakes, ScoredStep, Verdict};
use super::radar::{Radar, RadarSeries};
use super::reliability::{Bin, Reliability};
use super::scatter::{Fit, Point, PointSeries, Scatter};
use super::table::{Cell, Column, Table};
use super::{Block, Marker};
use crate::{Estimate, Page, Section, Spacing, Unit};

/// A title that would break out of any element or attribute that did not escape it.
const HOSTILE: &str = "\"><script>alert('1')</script>&\u{0}{{body}}";

/// The text of a drawn block, which must be well-formed and have a title, a caption and, where it is drawn, two sizes.
fn text_of(block: &Block) -> String {
    let html = block.draw();
    let document = roxmltree::Document::parse(&html).unwrap_or_else(|error| panic!("{error}: {html}"));
    let chart = document.root_element();
    assert_eq!(chart.tag_name().name(), "figure");
    let named = |name: &'static str| chart.descendants().filter(move |node| node.has_tag_name(name));
    assert_eq!(named("h3").count(), 1);
    for svg in named("svg").filter(|svg| svg.attribute("role") == Some("img")) {
        let children: Vec<&str> =
            svg.children().map(|child| child.tag_name().name()).filter(|n| !n.is_empty()).collect();
        assert_eq!(children[..2], ["title", "desc"]);
        let shape = svg.attribute("viewBox").expect("a drawing scales");
        assert!(!shape.contains("NaN") && svg.attribute("width").is_none(), "{shape}");
    }
    for bad in ["NaN", "inf"] {
        let found = chart
            .descendants()
            .flat_map(|node| node.attributes())
            .find(|attribute| attribute.value().contains(bad));
        assert!(found.is_none(), "{found:?}");
    }
    assert_eq!(named("script").count(), 0, "{html}");
    chart.descendants().filter_map(|node| node.text()).collect::<Vec<_>>().join("\n")
}

fn drawn(block: &Block) -> bool {
    block.draw().contains("role=\"img\"")
}

fn strings(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("name {index}")).collect()
}

fn near(value: f64) -> Option<Estimate> {
    Some(Estimate::between(value, value - 1.25, value + 1.25))
}

fn bars(categories: usize, series: usize) -> Bars {
    let values = |series: usize| {
        (0..categories).map(|index| near(10.0 + (index * 7 + series * 3) as f64 / 8.0)).collect()
    };
    Bars {
        title: "Bars".to_owned(),
        unit: Unit::Score,
        categories: strings(categories),
        series: (0..series)
            .map(|index| BarSeries { name: format!("series {index}"), values: values(index) })
            .collect(),
        ..Bars::default()
    }
}

#[test]
fn bars_of_any_number() {
    for (categories, series) in [(1, 1), (4, 3), (40, 1), (40, 6), (2, 30)] {
        let chart = bars(categories, series);
        let text = text_of(&Block::Bars(chart.clone()));
        for value in chart.series.iter().flat_map(|series| &series.values).flatten() {
            let (low, high) = value.interval.expect("all have one");
            assert!(text.contains(&format!("{:.2} ({low:.2}–{high:.2})", value.value)), "{value:?}");
        }
        assert!(!text.contains("missing"));
    }
}

#[test]
fn missing_bars_are_counted() {
    let mut chart = bars(4, 2);
    chart.series[0].values[1] = None;
    chart.series[0].values[2] = Some(Estimate::exactly(f64::NAN));
    chart.series[1].values.truncate(3);
    chart.references = vec![
        Reference { category: 0, name: "theirs".to_owned(), value: 12.3 },
        Reference { category: 9, ..Reference::default() },
    ];
    let text = text_of(&Block::Bars(chart));
    assert!(text.contains("3 values are missing"), "{text}");
    assert!(text.contains("1 reference is not drawn"), "{text}");
    assert!(text.contains("theirs: 12.30"), "{text}");
}

#[test]
fn lines_with_gaps_and_places_that_do_not_exist() {
    let points = vec![
        (1.0, near(50.5)),
        (2.0, None),
        (4.0, near(60.25)),
        (8.0, near(61.0)),
        (0.0, near(1.0)),
        (f64::NAN, near(2.0)),
    ];
    let chart = Lines {
        title: "Lines".to_owned(),
        x_spacing: Spacing::Log2,
        x_unit: Unit::Count,
        y_unit: Unit::Score,
        series: vec![LineSeries { name: "one".to_owned(), points }],
        markers: vec![
            Marker { x: 4.0, label: "here".to_owned() },
            Marker { x: 99.0, label: "far".to_owned() },
        ],
        ..Lines::default()
    };
    let text = text_of(&Block::Lines(chart));
    for expected in [
        "50.50 (49.25–51.75)",
        "60.25",
        "61.00",
        "1 value is missing",
        "2 points have no place",
        "1 marker is outside",
        "here: 4",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn many_lines_are_all_named() {
    for count in [1, 12, 26, 40] {
        let line = |index: usize| LineSeries {
            name: format!("line {index}."),
            points: vec![(0.0, near(1.0)), (1.0, near(index as f64))],
        };
        let chart = Lines { series: (0..count).map(line).collect(), ..Lines::default() };
        let text = text_of(&Block::Lines(chart));
        assert!((0..count).all(|index| text.contains(&format!("line {index}."))));
    }
}

#[test]
fn heatmaps_of_any_shape() {
    for (rows, columns) in [(1, 1), (14, 15), (3, 40), (19, 3)] {
        let count = |row: usize, column: usize| row * 50 + column;
        let counts = |row: usize| (0..columns).map(|column| Some(count(row, column) as u64)).collect();
        let counts = (0..rows).map(counts).collect();
        let chart = Heatmap { rows: strings(rows), columns: strings(columns), counts, ..Heatmap::default() };
        let text = text_of(&Block::Heatmap(chart));
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            assert!(
                text.contains(&format!("\nname {column}\n{} (", count(row, column))),
                "{row} {column} in {text}"
            );
        }
    }
    let ragged = Heatmap {
        rows: strings(2),
        columns: strings(2),
        counts: vec![vec![Some(1), None], vec![Some(12_345)]],
        ..Heatmap::default()
    };
    let text = text_of(&Block::Heatmap(ragged));
    assert!(
        text.contains("2 values are missing") && text.contains("12,345 (100.00\u{202f}% of the row)"),
        "{text}"
    );
}

#[test]
fn reliability_with_empty_bins() {
    let bin = |edges, count: u64, observed| Bin {
        edges,
        score: (count > 0).then_some((edges.0 + edges.1) / 2.0),
        observed,
        count,
    };
    let share = Some(Estimate::between(0.25, 0.2, 0.3));
    let chart = Reliability {
        bins: vec![
            bin((0.0, 0.5), 1200, share),
            bin((0.5, 0.75), 0, None),
            bin((0.75, 1.0), 3, Some(Estimate::exactly(f64::NAN))),
        ],
        ..Reliability::default()
    };
    let text = text_of(&Block::Reliability(chart));
    for expected in
        ["1 bin is empty", "1 value is missing", "25.00\u{202f}% (20.00–30.00\u{202f}%)", "1,200 values"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn histograms_count_what_is_in_no_bin() {
    let chart = Histogram {
        edges: vec![0.0, 0.5, 1.0],
        series: vec![
            Distribution { name: "right".to_owned(), counts: vec![1, 3], missing: 0 },
            Distribution { name: "wrong".to_owned(), counts: vec![0, 0], missing: 7 },
        ],
        ..Histogram::default()
    };
    let text = text_of(&Block::Histogram(chart));
    for expected in ["right: 75.00\u{202f}% (3)", "wrong: 7 in no bin", "wrong: 0.00\u{202f}% (0)"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let falling = Histogram {
        edges: vec![1.0, 0.0],
        series: vec![Distribution { counts: vec![1], ..Distribution::default() }],
        ..Histogram::default()
    };
    assert!(text_of(&Block::Histogram(falling)).contains("do not rise"));
}

#[test]
fn radars_with_one_axis_and_with_gaps() {
    for axes in [1, 2, 3, 9] {
        let values = (0..axes).map(|axis| Some(10.5 * axis as f64)).collect();
        let chart = Radar {
            axes: strings(axes),
            series: vec![RadarSeries { name: "ours".to_owned(), values }],
            ..Radar::default()
        };
        assert!(text_of(&Block::Radar(chart)).contains(&format!("ours: {:.2}", 10.5 * (axes - 1) as f64)));
    }
    let values = vec![Some(50.0), None, Some(f64::INFINITY), Some(130.0)];
    let chart = Radar {
        axes: strings(4),
        series: vec![RadarSeries { name: "ours".to_owned(), values }],
        ..Radar::default()
    };
    let text = text_of(&Block::Radar(chart));
    assert!(text.contains("2 values are missing") && text.contains("1 value is outside 0 to 100"), "{text}");
}

#[test]
fn dumbbells_are_sorted() {
    let row =
        |name: &str, index| DumbbellRow { name: name.to_owned(), first: near(5.0), second: near(7.5), index };
    let mut rows = vec![row("low", Some(-0.5)), row("lost", None), row("high", Some(0.5))];
    rows[0].second = None;
    let chart = Dumbbell { index: "BI".to_owned(), rows, ..Dumbbell::default() };
    let text = text_of(&Block::Dumbbell(chart));
    let place = |name: &str| text.find(&format!("\n{name}\n")).unwrap_or_else(|| panic!("{name} in {text}"));
    assert!(place("high") < place("low") && place("low") < place("lost"));
    for expected in ["1 value is missing", "1 row is without BI", "BI: -0.5", "7.5 (6.25–8.75)"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn scatters_say_what_the_fit_is() {
    let point = |x, y| Point { name: format!("at {x}"), x, y };
    let fit = Fit {
        line: vec![(0.0, 0.0), (2.0, 2.0)],
        band: vec![(0.0, -1.0, 1.0), (2.0, 1.0, 3.0)],
        r: 0.987,
        p: 0.0201,
    };
    let chart = Scatter {
        y_label: "accuracy".to_owned(),
        series: vec![PointSeries {
            name: "all".to_owned(),
            points: vec![point(1.5, 0.25), point(0.5, 1.75), point(f64::NAN, 1.0)],
        }],
        fit: Some(fit),
        ..Scatter::default()
    };
    let text = text_of(&Block::Scatter(chart));
    for expected in
        ["r\u{a0}=\u{a0}0.99, p\u{a0}=\u{a0}0.020, n\u{a0}=\u{a0}2", "1 point is missing", "accuracy: 0.25"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let one = Scatter {
        series: vec![PointSeries { points: vec![point(3.0, 3.0)], ..PointSeries::default() }],
        ..Scatter::default()
    };
    assert!(drawn(&Block::Scatter(one)));
}

#[test]
fn clouds_count_their_dots_and_name_them_once() {
    let dot = |index: usize| Dot {
        name: format!("question {index}\n{}", HOSTILE.repeat(9)),
        x: index as f64,
        y: (index * index % 97) as f64,
    };
    let lost = Dot { x: f64::NAN, ..Dot::default() };
    let named = |name: &str, dots| CloudSeries { name: name.to_owned(), dots };
    let chart = cloud::Cloud {
        title: "Cloud".to_owned(),
        series: vec![
            named("many", (0..1234).map(dot).collect()),
            named("few", vec![Dot { x: 3.0, y: 4.0, ..Dot::default() }, lost]),
            named("none", vec![]),
        ],
        ..cloud::Cloud::default()
    };
    let html = Block::Cloud(chart.clone()).draw();
    assert_eq!(html.matches("role=\"img\"").count(), 1, "one drawing for all widths");
    assert_eq!(html.matches("\" cx=").count(), 1235 + 3, "dots and keys");
    let text = text_of(&Block::Cloud(chart));
    for expected in [
        "many (1,234)",
        "few (1)",
        "none (0)",
        "1 dot is missing",
        "Dots by series. many: 1,234, few: 1, none: 0.",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert_eq!(html.matches("question 700 ").count(), 1);
    assert!(text.lines().all(|line| line.chars().count() < 90), "names are cut");
}

#[test]
fn mathematics_of_mistakes_is_rendered() {
    let step = ScoredStep { text: "So $x^2 = 4$.".to_owned(), score: None };
    let mistake =
        Mistake { problem: r"Solve \(\frac{x}{2}\).".to_owned(), steps: vec![step], ..Mistake::default() };
    let html = Block::Mistakes(Mistakes { solutions: vec![mistake], ..Mistakes::default() }).draw();
    assert!(html.contains("<mfrac>") && html.contains("<msup>"), "{html}");
}

#[test]
fn mistakes_are_limited_and_escaped() {
    let step = |text: &str, score| ScoredStep { text: text.to_owned(), score };
    let mistake = Mistake {
        id: "gsm8k-1".to_owned(),
        subset: "a < b".to_owned(),
        problem: HOSTILE.to_owned(),
        steps: vec![step("1 < 2 & 3", Some(0.987)), step("so", None), step("thus", Some(f64::NAN))],
        truth: Some(1),
        predicted: Verdict::At(9),
        note: Some("a remark".to_owned()),
    };
    let chart = Mistakes { solutions: vec![mistake; 5], limit: Some(2), ..Mistakes::default() };
    let text = text_of(&Block::Mistakes(chart));
    for expected in [
        "The first 2 of 5",
        "4 scores are missing",
        "1 < 2 & 3",
        "0.99",
        "true first error",
        "step 9, but there are 3 steps",
        "wrong place (2)",
        "a remark",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(text_of(&Block::Mistakes(Mistakes::default())).contains("There are none"));
}

#[test]
fn tables_show_gaps_as_dashes() {
    let column = |name: &str| Column { name: name.to_owned(), unit: Unit::Share, best: None };
    let chart = Table {
        columns: vec![column("model"), column("accuracy"), column("recall")],
        rows: vec![
            vec![Cell::Text(HOSTILE.to_owned()), Cell::Number(Some(Estimate::between(0.5, 0.4, 0.6)))],
            vec![
                Cell::Text("b".to_owned()),
                Cell::Number(None),
                Cell::Number(Some(Estimate::exactly(0.123))),
            ],
        ],
        ..Table::default()
    };
    let text = text_of(&Block::Table(chart));
    for expected in ["2 values are missing", "50.0\u{202f}%", "40.0–60.0\u{202f}%", "12.3\u{202f}%", "–"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

/// Every kind of chart with this title and nothing in it.
fn empty(title: &str) -> Vec<Block> {
    let title = || title.to_owned();
    vec![
        Block::Bars(Bars { title: title(), ..Bars::default() }),
        Block::Lines(Lines { title: title(), ..Lines::default() }),
        Block::Heatmap(Heatmap { title: title(), ..Heatmap::default() }),
        Block::Reliability(Reliability { title: title(), ..Reliability::default() }),
        Block::Histogram(Histogram { title: title(), ..Histogram::default() }),
        Block::Radar(Radar { title: title(), ..Radar::default() }),
        Block::Dumbbell(Dumbbell { title: title(), ..Dumbbell::default() }),
        Block::Scatter(Scatter { title: title(), ..Scatter::default() }),
        Block::Cloud(cloud::Cloud { title: title(), ..cloud::Cloud::default() }),
        Block::Mistakes(Mistakes { title: title(), ..Mistakes::default() }),
        Block::Table(Table { title: title(), ..Table::default() }),
    ]
}

#[test]
fn nothing_is_said_to_be_nothing() {
    for block in empty(HOSTILE) {
        let text = text_of(&block);
        assert!(text.contains("There is nothing") || text.contains("There are no"), "{text}");
        assert!(text.contains("alert('1')"), "the title is there: {text}");
    }
}

#[test]
fn labels_of_any_length() {
    let long = "a name that does not end ".repeat(20);
    let mut chart = bars(3, 2);
    chart.categories = vec![long.clone(), "数学".repeat(40), String::new()];
    chart.series[0].name = long.clone();
    assert!(text_of(&Block::Bars(chart)).contains(&long));
    let map = Heatmap {
        rows: vec![long.clone()],
        columns: vec![long.clone(); 3],
        counts: vec![vec![Some(1); 3]],
        ..Heatmap::default()
    };
    assert!(text_of(&Block::Heatmap(map)).contains(&long));
    let values = vec![Some(1.0); 3];
    let radar = Radar {
        axes: vec![long.clone(); 3],
        series: vec![RadarSeries { name: long.clone(), values }],
        ..Radar::default()
    };
    assert!(text_of(&Block::Radar(radar)).contains(&long));
    let line = LineSeries { name: long.clone(), points: vec![(0.0, near(1.0)), (1.0, near(2.0))] };
    let lines =
        Lines { x_label: long.clone(), y_label: long.clone(), series: vec![line], ..Lines::default() };
    assert!(text_of(&Block::Lines(lines)).contains(&long));
}

#[test]
fn a_page_loads_nothing_and_escapes_everything() {
    let mut blocks = empty(HOSTILE);
    blocks.push(Block::Text(format!("{HOSTILE}\n\nsecond")));
    let section = Section { heading: HOSTILE.to_owned(), intro: HOSTILE.to_owned(), blocks };
    let page = Page {
        title: HOSTILE.to_owned(),
        subtitle: HOSTILE.to_owned(),
        sections: vec![section.clone(), section],
        data_json: Some(r#"{"a": "</script><script>alert(1)</script>"}"#.to_owned()),
    };
    let html = page.html();
    assert_eq!(html.matches("<script").count(), 2, "the data and our own script");
    assert_eq!(html.matches("</script>").count(), 2);
    assert!(html.contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=", "url(", "@import"] {
        // The policy names its sources, the script names nothing.
        assert!(!html.replace("default-src", "").contains(outside), "{outside}");
    }
    assert_eq!(html.matches("<li><a href=\"#section-").count(), 2);
    assert!(html.contains("{{body}}"), "text that looks like a place in the template stays as it is");
    let sections = html.matches("<section id=").count();
    assert_eq!(sections, 2);
}
