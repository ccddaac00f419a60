//! Thousands of small dots in several colors, such as the questions of several datasets in a plane.
//!
//! Axes have no numbers, for the coordinates of t-SNE mean nothing, but both have the same scale. Series are drawn in
//! turns, so that the last does not hide the first. There is one drawing for all widths: it has no text, and a second
//! one would double what is most of the page. For a few points with names and axes there is [`super::scatter`].

use crate::canvas::Canvas;
use crate::chart_shell::{ChartShell, Key, Mark, single};
use crate::colors;
use crate::number::{Unit, counted};

/// Dots in a plane without units.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cloud {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// Dots by color; from the ninth series on they are rings.
    pub series: Vec<CloudSeries>,
}

/// Dots of one color.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CloudSeries {
    /// Their name in the legend; how many they are is added.
    pub name: String,
    /// The dots.
    pub dots: Vec<Dot>,
}

/// One dot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dot {
    /// What is shown under the pointer, cut after 80 characters; nothing for an empty name.
    pub name: String,
    /// Its horizontal value; not finite is missing.
    pub x: f64,
    /// Its vertical value, upwards; not finite is missing.
    pub y: f64,
}

const WIDTH: f64 = 700.0;
/// The least and the most height; between them the drawing has the shape of the cloud.
const HEIGHTS: (f64, f64) = (280.0, 600.0);
/// Between the outermost dots and the edge.
const MARGIN: f64 = 12.0;
const RADIUS: f64 = 2.2;
/// Characters of a name: most of the bytes of a page are names.
const LONGEST: usize = 80;

/// The chart as HTML.
pub(super) fn draw(cloud: &Cloud) -> String {
    let all: usize = cloud.series.iter().map(|series| series.dots.len()).sum();
    let dots = in_turns(cloud);
    let missing = all - dots.len();
    let note = || format!("{} missing and cannot be drawn.", counted(missing, "dot is", "dots are"));
    let counts = |series: &CloudSeries| {
        let drawn = series.dots.iter().filter(|dot| finite(dot)).count();
        Unit::Count.exact(drawn as f64)
    };
    let key = |(index, series): (usize, &CloudSeries)| Key {
        mark: Mark::Circle(index),
        name: format!("{} ({})", series.name, counts(series)),
    };
    let said = |series: &CloudSeries| format!("{}: {}", series.name, counts(series));
    let shell = ChartShell {
        kind: "cloud",
        title: &cloud.title,
        caption: &cloud.caption,
        notes: (missing > 0).then(note).into_iter().collect(),
        legend: cloud.series.iter().enumerate().map(key).collect(),
        summary: format!("Dots by series. {}.", cloud.series.iter().map(said).collect::<Vec<_>>().join(", ")),
        ..ChartShell::default()
    };
    single(&shell, (!dots.is_empty()).then(|| chart(&dots)))
}

fn finite(dot: &Dot) -> bool {
    dot.x.is_finite() && dot.y.is_finite()
}

/// The dots that can be drawn and their series: each series is spread evenly over the whole.
fn in_turns(cloud: &Cloud) -> Vec<(usize, &Dot)> {
    let mut order = Vec::new();
    for (index, series) in cloud.series.iter().enumerate() {
        let share = |rank: usize| (rank as f64 + 0.5) / series.dots.len() as f64;
        let drawn = series.dots.iter().enumerate().filter(|(_, dot)| finite(dot));
        order.extend(drawn.map(|(rank, dot)| (share(rank), index, dot)));
    }
    order.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    order.into_iter().map(|(_, index, dot)| (index, dot)).collect()
}

fn chart(dots: &[(usize, &Dot)]) -> Canvas {
    let ends = |value: fn(&Dot) -> f64| {
        let values = dots.iter().map(|(_, dot)| value(dot));
        values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ((left, right), (bottom, top)) = (ends(|dot| dot.x), ends(|dot| dot.y));
    let (wide, high) = (right - left, top - bottom);
    let room = WIDTH - 2.0 * MARGIN;
    // A single place has no shape: 0 / 0. It takes the least height and any scale.
    let shape = high / wide;
    let shape = if shape.is_nan() { 0.0 } else { shape };
    let height = (room * shape).clamp(HEIGHTS.0, HEIGHTS.1);
    let scale = (room / wide).min(height / high);
    let scale = if scale.is_finite() { scale } else { 0.0 };
    let height = height + 2.0 * MARGIN;
    let (middle, center) = (left + wide / 2.0, bottom + high / 2.0);
    let mut canvas = Canvas::new(WIDTH, height, 13.0);
    canvas.rect("ground", (0.5, 0.5), (WIDTH - 1.0, height - 1.0));
    for (index, dot) in dots {
        let place = (WIDTH / 2.0 + (dot.x - middle) * scale, height / 2.0 - (dot.y - center) * scale);
        canvas.dot(&colors::class(*index), place, RADIUS, &cut(&dot.name));
    }
    canvas
}

/// The beginning of a name on one line.
fn cut(name: &str) -> String {
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(count: usize, x: f64) -> CloudSeries {
        let dot = |index| Dot { name: String::new(), x: x + (index % 7) as f64, y: (index % 11) as f64 };
        CloudSeries { name: "a".to_owned(), dots: (0..count).map(dot).collect() }
    }

    #[test]
    fn dots_have_names_and_series_have_counts() {
        let dot = Dot { name: "What is 2 + 3?".to_owned(), x: 0.5, y: -3.0 };
        let series = vec![CloudSeries { name: "GSM8K".to_owned(), dots: vec![dot] }];
        let html = draw(&Cloud { title: "Questions".to_owned(), series, ..Cloud::default() });
        assert!(html.contains("GSM8K (1)") && html.contains("<title>What is 2 + 3?</title>"));
    }

    #[test]
    fn series_take_turns_by_their_sizes() {
        let cloud = Cloud { series: vec![series(2, 0.0), series(6, 1.0)], ..Cloud::default() };
        let order: Vec<usize> = in_turns(&cloud).iter().map(|(index, _)| *index).collect();
        assert_eq!(order, [1, 0, 1, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn a_name_is_cut_to_one_short_line() {
        assert_eq!(cut("  What is\n\t2 + 3? "), "What is 2 + 3?");
        let cut = cut(&"数学 ".repeat(50));
        assert!(cut.ends_with("学…") && cut.chars().count() <= LONGEST + 1, "{cut}");
    }

    #[test]
    fn a_dot_takes_few_bytes() {
        let few = draw(&Cloud { series: vec![series(100, 0.0)], ..Cloud::default() });
        let many = draw(&Cloud { series: vec![series(1100, 0.0)], ..Cloud::default() });
        let each = (many.len() - few.len()) as f64 / 1000.0;
        assert!(each < 55.0, "{each} bytes");
    }

    #[test]
    fn a_cloud_keeps_its_shape() {
        let dot = |x, y| Dot { x, y, ..Dot::default() };
        for (dots, height) in [
            (vec![dot(0.0, 0.0), dot(1.0, 0.1)], 304.0),
            (vec![dot(0.0, 0.0), dot(1.0, 9.0)], 624.0),
            (vec![dot(0.0, 0.0), dot(2.0, 1.0)], 362.0),
            (vec![dot(3.0, 3.0)], 304.0),
            (vec![dot(3.0, 3.0), dot(3.0, 4.0)], 624.0),
            (vec![dot(3.0, 3.0), dot(4.0, 3.0)], 304.0),
        ] {
            let dots: Vec<(usize, &Dot)> = dots.iter().map(|dot| (0, dot)).collect();
            assert_eq!(chart(&dots).height, height, "{dots:?}");
        }
    }
}
