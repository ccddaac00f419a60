//! Files of every kind, whole and damaged.

use std::io::Write;

use gradus_data::files;
use gradus_data::files::{Sink, Target};
use serde_json::{Value, json};

use super::Scratch;

fn rows() -> Vec<Value> {
    ["first", "sëcond", "third"]
        .map(|prompt| json!({"prompt": prompt, "completions": ["a }", "b \\\" ]"], "labels": [true, false]}))
        .to_vec()
}

fn lines() -> String {
    rows().iter().map(|row| format!("{row}\n")).collect()
}

fn written_as(scratch: &Scratch, name: &str) -> Vec<Value> {
    let path = scratch.path(name);
    let mut sink = Sink::create(Target::File(path.clone())).unwrap();
    for row in rows() {
        sink.push(&row).unwrap();
    }
    assert_eq!(sink.finish().unwrap(), 3);
    files::rows(&path).unwrap().map(|row| row.unwrap().1).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let scratch = Scratch::new();
    for name in
        ["a.jsonl", "a.json", "a.jsonl.gz", "a.json.gz", "a.jsonl.zst", "a.json.zst", "a.parquet", "a"]
    {
        assert_eq!(written_as(&scratch, name), rows(), "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(scratch.0.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 8, "temporary files are left behind: {left:?}");
}

#[test]
fn an_output_without_rows_is_read_back() {
    let scratch = Scratch::new();
    for name in ["none.json", "none.parquet", "none.json.gz"] {
        let path = scratch.path(name);
        assert_eq!(Sink::create(Target::File(path.clone())).unwrap().finish().unwrap(), 0);
        assert_eq!(files::rows(&path).unwrap().count(), 0, "{name}");
    }
}

#[test]
fn an_unfinished_output_leaves_nothing() {
    let scratch = Scratch::new();
    let path = scratch.file("old.jsonl", "old");
    let mut sink = Sink::create(Target::File(path.clone())).unwrap();
    sink.push(&rows()[0]).unwrap();
    drop(sink);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(std::fs::read_dir(scratch.0.path()).unwrap().count(), 1);
}

#[test]
fn containers_are_told_by_their_content() {
    let scratch = Scratch::new();
    let pretty: String = rows().iter().map(|row| format!("{row:#}\n")).collect();
    let joined: String = rows().iter().map(Value::to_string).collect();
    let array = format!("\n [{}]\n", rows().iter().map(Value::to_string).collect::<Vec<_>>().join(" ,\n"));
    for (name, content) in [
        ("lines", lines()),
        ("crlf", lines().replace('\n', "\r\n")),
        ("no last line break", lines().trim_end().to_owned()),
        ("blank lines", lines().replace('\n', "\n\n \n")),
        ("array", array),
        ("pretty array", format!("{:#}", Value::from(rows()))),
        ("pretty objects", pretty),
        ("one line of objects", joined),
        ("byte order mark", format!("\u{feff}{}", lines())),
    ] {
        let path = scratch.file("data.json", content);
        let read: Vec<Value> = files::rows(&path).unwrap().map(|row| row.unwrap().1).collect();
        assert_eq!(read, rows(), "{name}");
    }
}

#[test]
fn utf_16_is_told_in_any_container() {
    let scratch = Scratch::new();
    for (name, text) in [("a.jsonl", lines()), ("a.csv", "question,response\n2+3?,5\n".to_owned())] {
        let little = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let big = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>();
        for content in [little, big] {
            let said = scratch.outcomes(&scratch.file(name, content));
            assert_eq!(said, [format!("{name}:1: the text is UTF-16, not UTF-8: convert the file to UTF-8")]);
        }
    }
}

#[test]
fn an_object_of_arrays_is_a_file_of_records() {
    let record = |uuid: &str| {
        json!({"Question_UUID": uuid, "Question": uuid, "Model_Solution_Steps": ["Step 1: a"],
            "Model_Solution_Correctness": "correct", "Model_Solution_First_Error_Step": "N/A"})
    };
    let map = json!({"k0": [], "k\"1": [record("a"), record("b")], "k2": [], "k3": [record("c")]});
    let scratch = Scratch::new();
    for content in [map.to_string(), format!("{map:#}")] {
        let path = scratch.file("map.json", content);
        let read: Vec<Value> = files::rows(&path).unwrap().map(|row| row.unwrap().1).collect();
        assert_eq!(read, [record("a"), record("b"), record("c")]);
    }
}

#[test]
fn a_folder_is_its_shards_in_order() {
    let scratch = Scratch::new();
    let rows = rows();
    scratch.file("set/train-00001.jsonl", rows[1].to_string());
    scratch.file("set/train-00000.json", format!("[{}]", rows[0]));
    scratch.file("set/sub/train-00002.jsonl", rows[2].to_string());
    for other in ["set/README.md", "set/dataset_info.json", "set/.hidden.jsonl"] {
        scratch.file(other, "not a record");
    }
    insta::assert_snapshot!("folder", scratch.outcomes(&scratch.path("set")).join("\n"));
}

#[test]
fn damage_is_told_and_contained() {
    let scratch = Scratch::new();
    let rows = rows();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    for _ in 0..2000 {
        gzip.write_all(lines().as_bytes()).unwrap();
    }
    let gzip = gzip.finish().unwrap();
    let mut invalid = lines().into_bytes();
    let at = invalid.windows(2).position(|pair| pair == "ë".as_bytes()).unwrap();
    invalid[at + 1] = b'x';
    let array = Value::from(rows.clone()).to_string();
    let pretty: String = rows.iter().map(|row| format!("{row:#}\n")).collect();
    let score = r#"{"problem": "Q", "candidates": [{"steps": ["a"], "prm_scores": {"p": [NaN]}}]}"#;
    scratch.file("nothing/README.md", "no data here");
    let files: Vec<(&str, Vec<u8>)> = vec![
        ("empty.jsonl", Vec::new()),
        ("blank.jsonl", b" \n\n".to_vec()),
        (
            "broken line.jsonl",
            format!("{}\n{{\"prompt\": \"cut\", \"comple\n{}\n", rows[0], rows[2]).into_bytes(),
        ),
        ("broken first line.jsonl", format!("{{\"prompt\": \"cut\", \"comple\n{}\n", rows[2]).into_bytes()),
        (
            "quote in a line.jsonl",
            format!("{}\n{{\"prompt\": \"a\"b\"}}\n{}\n", rows[0], rows[2]).into_bytes(),
        ),
        ("extra bracket.jsonl", format!("{}}}\n{}\n", rows[0], rows[2]).into_bytes()),
        ("not an object.jsonl", format!("{}\n[1]\n{}\n", rows[0], rows[2]).into_bytes()),
        ("cut last line.jsonl", lines().into_bytes()[..lines().len() - 20].to_vec()),
        ("cut array.json", array.as_bytes()[..array.len() - 30].to_vec()),
        ("cut between.json", format!("[{},", rows[0]).into_bytes()),
        ("cut pretty.json", pretty.as_bytes()[..pretty.len() - 20].to_vec()),
        ("text after array.json", format!("{array} more").into_bytes()),
        ("invalid.jsonl", invalid),
        ("nan.jsonl", score.as_bytes().to_vec()),
        ("text.jsonl", b"hello\nworld\n".to_vec()),
        ("cut.parquet", b"PAR1 and nothing".to_vec()),
    ];
    let mut said: Vec<String> = files
        .into_iter()
        .flat_map(|(name, content)| {
            let path = scratch.file(name, content);
            std::iter::once(format!("== {name}")).chain(scratch.outcomes(&path))
        })
        .collect();
    said.push("== a folder without data".into());
    said.extend(scratch.outcomes(&scratch.path("nothing")));
    said.push("== a file that is not there".into());
    said.extend(scratch.outcomes(&scratch.path("missing.jsonl")));
    insta::assert_snapshot!("damage", said.join("\n"));

    let path = scratch.file("cut.jsonl.gz", &gzip[..gzip.len() - 40]);
    let outcomes = scratch.outcomes(&path);
    let (last, whole) = outcomes.split_last().unwrap();
    assert!(whole.iter().all(|outcome| outcome.starts_with("line ")), "{whole:?}");
    assert!(last.ends_with("the compressed data ends early: the file is truncated, get it again"), "{last}");
    let path = scratch.file("stub.jsonl.gz", &gzip[..12]);
    assert_eq!(
        scratch.outcomes(&path),
        ["stub.jsonl.gz:1: the compressed data ends early: the file is truncated, get it again"]
    );
}

#[test]
fn a_damaged_parquet_file_ends() {
    let scratch = Scratch::new();
    written_as(&scratch, "whole.parquet");
    let whole = std::fs::read(scratch.path("whole.parquet")).unwrap();
    for at in 4..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let path = scratch.file("damaged.parquet", damaged);
        if let Ok(rows) = files::rows(&path) {
            assert!(rows.take(1000).count() < 1000, "byte {at}");
        }
    }
}

/// The columns are known from the first rows; what does not fit later must not be taken for something else.
#[test]
fn parquet_refuses_a_scalar_where_a_list_or_an_object_was() {
    for (usual, odd) in [
        (serde_json::json!({"a": ["x"]}), serde_json::json!({"a": "y"})),
        (serde_json::json!({"a": {"k": 1}}), serde_json::json!({"a": 5})),
        (serde_json::json!({"a": [["x"]]}), serde_json::json!({"a": ["y"]})),
    ] {
        let scratch = Scratch::new();
        let mut sink = Sink::create(Target::File(scratch.path("a.parquet"))).unwrap();
        let pushed = (0..5000).try_for_each(|_| sink.push(&usual)).and_then(|()| sink.push(&odd));
        let error = pushed.and_then(|()| sink.finish().map(|_| ())).unwrap_err().to_string();
        assert!(error.contains("field `a`") && error.contains("write JSONL instead"), "{error}");
    }
}

#[test]
fn parquet_refuses_rows_of_other_columns() {
    let scratch = Scratch::new();
    let mut sink = Sink::create(Target::File(scratch.path("a.parquet"))).unwrap();
    sink.push(&json!({"a": 1})).unwrap();
    sink.push(&json!({"a": {"b": 1}})).unwrap();
    let error = sink.finish().unwrap_err().to_string();
    assert!(error.contains("write JSONL instead"), "{error}");
    assert!(!scratch.path("a.parquet").exists());
}
