//! Colors of series, apart for most eyes (after Okabe and Ito), in a light and a dark page.

use std::fmt::Write as _;

/// Light and dark, in the order in which series take them; the page of training curves has the same.
const COLORS: [(&str, &str); 8] = [
    ("#0072B2", "#56B4E9"),
    ("#D55E00", "#FF8C42"),
    ("#009E73", "#34D399"),
    ("#CC79A7", "#F0A6CA"),
    ("#8A6D00", "#F0E442"),
    ("#5B4FCF", "#A79BFF"),
    ("#A61C28", "#FF7A85"),
    ("#555555", "#BBBBBB"),
];
/// Ways in which lines are dashed once all colors are taken.
const DASHES: usize = 3;

/// The classes that give a series its color (`--c` in the style sheet) and, beyond the eighth, its dashes.
pub(crate) fn class(series: usize) -> String {
    let dashes = series / COLORS.len() % DASHES;
    let color = color(series);
    if dashes == 0 { format!("c{color}") } else { format!("c{color} d{dashes}") }
}

/// Which color a series has.
pub(crate) fn color(series: usize) -> usize {
    series % COLORS.len()
}

/// The part of the style sheet that names the colors of series. Paper is always light.
pub(crate) fn style() -> String {
    let (mut light, mut dark, mut rules) = (String::new(), String::new(), String::new());
    for (index, (day, night)) in COLORS.iter().enumerate() {
        let _ = write!(light, "--curve-{index}: {day}; ");
        let _ = write!(dark, "--curve-{index}: {night}; ");
        let _ = writeln!(rules, ".c{index} {{ --c: var(--curve-{index}) }}");
    }
    format!(
        ":root {{ {light}}}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n{rules}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_stay_apart_beyond_the_eighth() {
        let classes: std::collections::BTreeSet<String> = (0..24).map(class).collect();
        assert_eq!(classes.len(), 24);
        assert_eq!((class(0).as_str(), class(9).as_str()), ("c0", "c1 d1"));
    }
}
