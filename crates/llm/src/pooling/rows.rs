//! Rows of an answer as scores: `[p]`, `p`, or one probability per class.

use serde::Deserialize;

use super::prompt::Columns;

/// Probabilities in half precision add up to 1 within this.
const ROUNDING: f64 = 0.02;

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or a list of numbers")]
pub(super) enum Row {
    Score(f64),
    Classes(Vec<f64>),
}

/// The probability of 'right' in each row, given with its place among the rows of the answer's entry `entry`.
pub(super) fn right(rows: &[(usize, &Row)], columns: Columns, entry: usize) -> Result<Vec<f64>, String> {
    let width = |row: &Row| match row {
        Row::Score(_) => 0,
        Row::Classes(classes) => classes.len(),
    };
    let first = rows.first().map_or(0, |(_, row)| width(row));
    let take = |&(place, row): &(usize, &Row)| {
        let named = format!("`data[{entry}].data[{place}]` of the answer");
        match row {
            row if width(row) != first => Err(format!("{named} has another length than the rows before it")),
            Row::Score(score) if columns.least <= 1 => Ok(*score),
            Row::Score(_) => Err(format!("{named} has 1 class instead of {}", expected(columns))),
            Row::Classes(classes) => class(classes, columns).map_err(|words| format!("{named} {words}")),
        }
    };
    rows.iter().map(take).collect()
}

fn class(classes: &[f64], columns: Columns) -> Result<f64, String> {
    let Columns { right, least, most } = columns;
    let count = classes.len();
    if count < least || count > most {
        let classes = if count == 1 { "class" } else { "classes" };
        return Err(format!("has {count} {classes} instead of {}", expected(columns)));
    }
    if let [score] = classes {
        return Ok(*score);
    }
    let Some(score) = classes.get(right) else {
        return Err(format!("has {count} classes, and class {right} is read"));
    };
    let sum: f64 = classes.iter().sum();
    if classes.iter().all(|value| *value >= 0.0) && (sum - 1.0).abs() <= ROUNDING {
        return Ok(score.min(1.0));
    }
    let values: Vec<String> = classes.iter().map(f64::to_string).collect();
    let values = values.join(", ");
    Err(format!("is [{values}], which are no probabilities; start the server with its activation on"))
}

fn expected(Columns { least, most, .. }: Columns) -> String {
    match most {
        _ if least == most => least.to_string(),
        usize::MAX => format!("at least {least}"),
        _ => format!("{least} or {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(json: &str, columns: Columns) -> Result<Vec<f64>, String> {
        let rows = serde_json::from_str::<Vec<Row>>(json).map_err(|error| error.to_string())?;
        right(&rows.iter().enumerate().collect::<Vec<_>>(), columns, 0)
    }

    fn read(json: &str) -> Result<Vec<f64>, String> {
        read_as(json, Columns::default())
    }

    #[test]
    fn rows_are_pairs_singles_or_numbers() {
        assert_eq!(read("[[0.25, 0.75], [1, 0]]").unwrap(), [0.75, 0.0]);
        assert_eq!(read("[[0.25], [1]]").unwrap(), [0.25, 1.0]);
        assert_eq!(read("[0.25, 1, 0]").unwrap(), [0.25, 1.0, 0.0]);
        assert_eq!(read("[]").unwrap(), [0.0; 0]);
    }

    #[test]
    fn other_rows_name_their_place() {
        for (json, words) in [
            ("[[0.5, 0.5], [-3.1, 2.2]]", "`data[0].data[1]` of the answer is [-3.1, 2.2], which are no"),
            ("[[0.2, 0.3, 0.5]]", "has 3 classes"),
            ("[[0.5], [0.5, 0.5]]", "`data[0].data[1]` of the answer has another length"),
            ("[0.5, [0.5]]", "has another length"),
            ("[[]]", "has 0 classes"),
            (r#"["high"]"#, "expected a number or a list of numbers"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    #[test]
    fn the_column_for_right_is_the_format_s() {
        let tokens = Columns { right: 0, least: 2, most: 2 };
        assert_eq!(read_as("[[0.25, 0.75]]", tokens).unwrap(), [0.25]);
        assert!(read_as("[[0.25]]", tokens).unwrap_err().contains("has 1 class instead of 2"));
        assert!(read_as("[0.25]", tokens).unwrap_err().contains("has 1 class instead of 2"));
        let classes = Columns { right: 2, least: 1, most: usize::MAX };
        assert_eq!(read_as("[[0.2, 0.3, 0.5]]", classes).unwrap(), [0.5]);
        assert!(read_as("[[0.5, 0.5]]", classes).unwrap_err().contains("has 2 classes, and class 2 is read"));
        let value = Columns { right: 0, least: 1, most: 1 };
        assert_eq!(read_as("[[0.5], [0.25]]", value).unwrap(), [0.5, 0.25]);
        assert!(read_as("[[0.5, 0.5]]", value).unwrap_err().contains("has 2 classes instead of 1"));
    }
}
