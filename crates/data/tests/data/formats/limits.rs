//! What is large beyond reason is refused before it fills the memory, and pipes are read as files are.

use std::io::Write;

use gradus_core::limits::{FREE_EXPANSION, Limit};
use gradus_data::files;
use serde_json::Value;

use super::Scratch;

const GOOD: &str = r#"{"prompt": "1 + 1?", "completions": ["1 + 1 = 2"], "labels": [true]}"#;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A record with more values than a record may have, which takes 20 MB as text.
fn bomb() -> Vec<u8> {
    let most = Limit::RecordValues.default_value() as usize;
    let mut record = br#"{"prompt": ["#.to_vec();
    record.extend_from_slice(&b"0,".repeat(most));
    record.extend_from_slice(b"0]}");
    record
}

const TOO_MANY: &str = "more than 10,000,000 JSON values: set GRADUS_MAX_RECORD_VALUES to raise the limit";

#[test]
fn a_record_of_too_many_values_costs_its_line() {
    let scratch = Scratch::new();
    let content = [GOOD.as_bytes(), b"\n", &bomb(), b"\n", GOOD.as_bytes(), b"\n"].concat();
    let path = scratch.file("bomb.jsonl.gz", gzip(&content));
    let outcomes = scratch.outcomes(&path);
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    assert!(outcomes[1].ends_with(&format!("bomb.jsonl.gz:2: the record has {TOO_MANY}")), "{}", outcomes[1]);
    assert!(outcomes[2].starts_with("line 3"), "{}", outcomes[2]);
    let path = scratch.file("bomb.json", [b"[".as_slice(), &bomb(), b"]"].concat());
    let outcomes = scratch.outcomes(&path);
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert!(outcomes[0].ends_with(TOO_MANY), "{}", outcomes[0]);
}

#[test]
fn a_cell_and_a_row_of_too_many_values_are_refused() {
    let scratch = Scratch::new();
    let list = format!("[{}0]", "0,".repeat(Limit::RecordValues.default_value() as usize));
    let path = scratch.file("cell.csv", format!("problem,solution\nQ,\"{list}\"\n"));
    let said = files::rows(&path).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(said.ends_with(&format!("cell.csv:2: the row has {TOO_MANY}")), "{said}");
    let path = scratch.file("cell.tsv", format!("problem\tsolution\nQ\t{list}\n"));
    let said = files::rows(&path).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(said.ends_with(&format!("cell.tsv:2: field `solution`: has {TOO_MANY}")), "{said}");
}

#[test]
fn data_that_expands_too_much_is_refused() {
    let scratch = Scratch::new();
    let blank = vec![b'\n'; FREE_EXPANSION as usize + (1 << 20)];
    let small = [&blank[..1 << 20], GOOD.as_bytes()].concat();
    let path = scratch.file("small.jsonl.zst", zstd::encode_all(&small[..], 3).unwrap());
    assert_eq!(files::rows(&path).unwrap().count(), 1);
    let path = scratch.file("blank.jsonl.zst", zstd::encode_all(&blank[..], 3).unwrap());
    let said = files::rows(&path).err().unwrap().to_string();
    let words = "the compressed data expands to more than 500 times its size: set GRADUS_MAX_EXPANSION";
    assert!(said.contains(words) && !said.contains("damaged"), "{said}");
}

#[test]
fn blank_lines_and_marks_before_the_first_record_are_skipped() {
    let scratch = Scratch::new();
    let blank = "\r\n \n".repeat(20_000);
    for (name, content, line) in [
        ("a.jsonl", format!("{blank}{GOOD}\r\n"), 40_001),
        ("b.json", format!("\u{feff}{blank}[\n{GOOD}]"), 40_002),
        ("c.csv", "\u{feff}\r\n\r\nproblem,solution\r\nQ,S\r\n".to_owned(), 4),
        ("d.csv", format!("{blank}problem,solution\nQ,S"), 40_002),
        ("e", "\n\nproblem,response\nQ,S\n".to_owned(), 4),
        ("f.tsv", "\n\tproblem\tsolution\n0\tQ\tS\n".to_owned(), 3),
    ] {
        let path = scratch.file(name, content);
        let rows: Vec<(u64, Value)> = files::rows(&path).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 1, "{name}");
        assert_eq!(rows[0].0, line, "{name}");
        assert!(rows[0].1.get("problem").or(rows[0].1.get("prompt")).is_some(), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_as_a_file_is() {
    use std::os::fd::AsRawFd as _;
    let scratch = Scratch::new();
    let rows = [GOOD, GOOD].map(|row| serde_json::from_str::<Value>(row).unwrap());
    for name in ["a.jsonl", "a.json", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"] {
        let mut sink = files::Sink::create(files::Target::File(scratch.path(name))).unwrap();
        rows.iter().for_each(|row| sink.push(row).unwrap());
        sink.finish().unwrap();
        let content = std::fs::read(scratch.path(name)).unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let written = std::thread::spawn(move || writer.write_all(&content));
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let read: Vec<Value> = files::rows(path.as_ref()).unwrap().map(|row| row.unwrap().1).collect();
        assert_eq!(read, rows, "{name}");
        written.join().unwrap().unwrap();
    }
}
