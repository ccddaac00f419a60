//! Pages of made-up records, for the browser tests: `fragment page`, `fragment record`, `fragment records`,
//! `fragment asset PATH`.
//!
//! A record has several models and annotators, references, rollouts, mathematics, and hostile texts everywhere.

use std::io::Write as _;

use gradus_core::Record;
use gradus_view::{LeftOut, ViewOptions, shell};

/// Records as JSON, one a line.
const RECORDS: &str = include_str!("../tests/records.jsonl");

fn main() -> std::io::Result<()> {
    let records: Vec<Record> =
        RECORDS.lines().map(|line| serde_json::from_str(line).expect("a record")).collect();
    let options = ViewOptions::default();
    let left_out = LeftOut { records: 12, invalid: 1 };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let html = match words.as_slice() {
        ["page"] => gradus_view::page("records.jsonl", &records, &left_out, &options),
        ["record"] => gradus_view::record(1, &records[0], &options),
        ["records"] => gradus_view::records(&records, &left_out, &options),
        ["asset", path] => {
            let assets = shell::assets().into_iter().find(|asset| asset.path == *path);
            assets.expect("an asset").body
        }
        other => panic!("unknown arguments {other:?}"),
    };
    std::io::stdout().write_all(html.as_bytes())
}
