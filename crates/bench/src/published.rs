//! Published results from papers, for comparison: `assets/published/*.toml`.
//!
//! None of it was measured by Gradus, and models, data and settings differ; a table of these rows names its source.

use gradus_plot::table::{Cell, Column, Table};
use gradus_plot::{Estimate, Unit};
use serde::Deserialize;
use toml::Value;

const PROCESSBENCH: &str = include_str!("../../../assets/published/processbench.toml");
const PRMBENCH: &str = include_str!("../../../assets/published/prmbench.toml");
const BEST_OF_N: &str = include_str!("../../../assets/published/best_of_n.toml");
const PREFERENCE: &str = include_str!("../../../assets/published/preference.toml");
const SPARE: &str = include_str!("../../../assets/published/spare.toml");

/// Numbers of one source, in percent as printed.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// The paper, the table, and how it differs.
    pub source: String,
    /// What the numbers are.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<PublishedRow>,
}

/// A published row.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedRow {
    /// The model or method.
    pub name: String,
    /// Its kind, such as 'Open-source PRM', or the paper it is from.
    pub kind: String,
    /// One per column; none where the source has no number.
    pub values: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct File {
    source: Source,
    #[serde(default)]
    row: Vec<toml::Table>,
    #[serde(default)]
    ranking: Vec<toml::Table>,
}

#[derive(Deserialize)]
struct Source {
    paper: String,
    table: String,
    #[serde(default)]
    note: String,
}

/// F1 on ProcessBench's subsets and their mean.
pub fn processbench() -> Published {
    let columns = [
        ("GSM8K", "gsm8k.f1"),
        ("MATH", "math.f1"),
        ("OlympiadBench", "olympiadbench.f1"),
        ("Omni-MATH", "omnimath.f1"),
        ("average F1", "average_f1"),
    ];
    table(PROCESSBENCH, |file| file.row, &["model", "method"], &columns)
}

/// PRMScores.
pub fn prmbench() -> Published {
    let columns = [
        ("overall", "overall"),
        ("NR", "simplicity.nr"),
        ("NCL", "simplicity.ncl"),
        ("ES", "soundness.es"),
        ("SC", "soundness.sc"),
        ("DC", "soundness.dc"),
        ("CI", "soundness.ci"),
        ("PS", "sensitivity.ps"),
        ("DR", "sensitivity.dr"),
        ("MS", "sensitivity.ms"),
    ];
    table(PRMBENCH, |file| file.row, &["model"], &columns)
}

/// Accuracy of the candidate that a PRM scores highest.
pub(crate) fn best_of_n() -> Published {
    let columns = [
        ("RetrievalPRM", "retrieval_prm"),
        ("RLHFlow-PRM", "rlhflow_prm"),
        ("Skywork-PRM", "skywork_prm"),
        ("Math-Shepherd", "math_shepherd"),
    ];
    table(BEST_OF_N, |file| file.row, &["dataset", "policy"], &columns)
}

/// Accuracy of choices among 20 samples.
pub(crate) fn ranking() -> Published {
    table(SPARE, |file| file.ranking, &["method"], &[("GSM8K", "gsm8k"), ("MATH-500", "math500")])
}

/// Mean |BI| and accuracy of critics.
pub fn preference() -> Published {
    table(
        PREFERENCE,
        |file| file.row,
        &["model", "method"],
        &[("mean |BI|", "mean_abs_bi"), ("accuracy", "accuracy")],
    )
}

fn table(
    text: &str,
    rows: fn(File) -> Vec<toml::Table>,
    name: &[&str],
    columns: &[(&str, &str)],
) -> Published {
    let file: File = toml::from_str(text).expect("a test reads every file of published numbers");
    let source = [file.source.paper.as_str(), &file.source.table, &file.source.note]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| part.trim_end_matches('.').to_owned() + ".")
        .collect::<Vec<_>>()
        .join(" ");
    let text_at = |row: &toml::Table, key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let row = |row: toml::Table| PublishedRow {
        name: name.iter().filter_map(|key| text_at(&row, key)).collect::<Vec<_>>().join(", "),
        kind: text_at(&row, "group").or_else(|| text_at(&row, "source")).unwrap_or_default(),
        values: columns.iter().map(|(_, path)| number_at(&row, path)).collect(),
    };
    let columns_named = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let rows: Vec<PublishedRow> = rows(file).into_iter().map(row).collect();
    let rows = rows.into_iter().filter(|row| row.values.iter().any(Option::is_some)).collect();
    Published { source, columns: columns_named, rows }
}

fn number_at(row: &toml::Table, path: &str) -> Option<f64> {
    let mut parts = path.split('.');
    let mut value = row.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

impl Published {
    /// As a table, our own numbers (in percent) first.
    pub(crate) fn beside(
        &self,
        title: &str,
        ours: &[(String, Vec<Option<Estimate>>)],
        differs: &str,
    ) -> Table {
        let mut columns = vec![
            Column { name: "model".to_owned(), unit: Unit::Number, best: None },
            Column { name: "kind".to_owned(), unit: Unit::Number, best: None },
        ];
        columns.extend(self.columns.iter().map(|name| Column {
            name: name.clone(),
            unit: Unit::Score,
            best: None,
        }));
        let own = ours.iter().map(|(name, values)| {
            let mut row = vec![Cell::Text(name.clone()), Cell::Text("this run".to_owned())];
            row.extend(values.iter().map(|value| Cell::Number(*value)));
            row
        });
        let theirs = self.rows.iter().map(|published| {
            let mut row = vec![Cell::Text(published.name.clone()), Cell::Text(published.kind.clone())];
            row.extend(published.values.iter().map(|value| Cell::Number(value.map(Estimate::exactly))));
            row
        });
        let rows = own.chain(theirs).collect();
        Table {
            title: title.to_owned(),
            caption: format!("{differs} Published: {}", self.source),
            columns,
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read_and_every_column_has_numbers() {
        for published in [processbench(), prmbench(), best_of_n(), ranking(), preference()] {
            assert!(published.rows.len() >= 3, "{}", published.source);
            for (index, column) in published.columns.iter().enumerate() {
                let filled = published.rows.iter().any(|row| row.values[index].is_some());
                assert!(filled, "{column} of {}", published.source);
            }
            assert!(published.rows.iter().all(|row| !row.name.is_empty()), "{}", published.source);
        }
    }

    #[test]
    fn a_known_row() {
        let rows = processbench().rows;
        let found = rows.iter().find(|row| row.name == "RetrievalPRM-7B").unwrap();
        assert_eq!(found.values, [Some(74.6), Some(71.1), Some(60.2), Some(57.33), Some(65.8)]);
    }

    #[test]
    fn ours_come_first() {
        let ours = [("mine".to_owned(), vec![Some(Estimate::exactly(1.0)); 5])];
        let table = processbench().beside("t", &ours, "Half of it.");
        assert_eq!(table.rows[0][0], Cell::Text("mine".to_owned()));
        assert!(table.caption.contains("RetrievalPRM (Zhu et al., 2025)"));
    }
}
