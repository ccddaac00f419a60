//! Dataset formats and containers, from the outside.
//!
//! `examples`: hand-written records of every format and what they become. `laws`: random records of every format
//! come back as they were; `rows` makes them, of `random` values. `outputs`: files of model outputs in the forms of other programs. `faults`: what a user is told about bad records. `limits`: what is large beyond reason, and pipes. `containers`: files of every kind, whole
//! and damaged. `real_data`: the public datasets, where the folder `shared/data` lies beside the checkout.

mod containers;
mod examples;
mod faults;
mod laws;
mod limits;
mod outputs;
mod random;
mod real_data;
mod rows;

use std::path::{Path, PathBuf};

use gradus_core::Record;
use gradus_data::files;
use gradus_data::files::Item;
use gradus_data::readers::{Format, Parsed};
use serde_json::Value;

/// Reads one upstream record, its format told by its fields.
fn read(row: &Value) -> (Format, Parsed) {
    let fields = row.as_object().expect("a record is an object");
    let format = Format::detect(fields).unwrap_or_else(|| panic!("no format for {row}"));
    let parsed = format.read(fields.clone()).unwrap_or_else(|fault| panic!("{fault}: {row}"));
    (format, parsed)
}

/// Upstream → our record → JSON text → our record → upstream must change nothing.
fn comes_back(row: &Value, expected: Format) -> Record {
    let (format, parsed) = read(row);
    assert_eq!(format, expected, "{row}");
    let text = serde_json::to_string(&parsed.record).unwrap();
    let record: Record = serde_json::from_str(&text).unwrap();
    assert_eq!(record, parsed.record, "{row}");
    let written = format.write(&record);
    assert_eq!(written.rows, std::slice::from_ref(row), "{:?}", written.dropped);
    assert_eq!((written.cut, &written.lost[..]), (0, &[][..]), "{row}");
    record
}

/// A folder for the files of one test, and the file `name` in it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// The problem's text of every record, and the sentence of every error.
    fn outcomes(&self, path: &Path) -> Vec<String> {
        let short = |text: String| text.replace(&format!("{}/", self.0.path().display()), "");
        match files::open(&[path.to_path_buf()], None) {
            Ok(records) => records
                .map(|item| match item {
                    Ok(Item { record, place, .. }) => format!("line {}: {}", place.line, record.problem.text),
                    Err(error) => short(error.to_string()),
                })
                .collect(),
            Err(error) => vec![short(error.to_string())],
        }
    }
}
