//! The public datasets, read by the program.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Folder, real_data};

fn stats(name: &str) -> Option<Value> {
    let path = real_data()?.join(name);
    Some(Folder::new().run_args(&["data", "stats", "--json", path.to_str().unwrap()]).json())
}

#[test]
fn processbench() {
    for (name, records, erroneous) in
        [("gsm8k", 214, 115), ("math", 504, 302), ("olympiadbench", 469, 324), ("omnimath", 495, 373)]
    {
        let Some(stats) = stats(&format!("processbench/{name}.json")) else { return };
        assert_eq!(stats["records"], records, "{name}");
        assert_eq!(stats["errors"]["erroneous"], erroneous, "{name}");
    }
}

#[test]
fn prmbench() {
    let Some(stats) = stats("prmbench/prmbench.jsonl") else { return };
    assert_eq!(stats["records"], 3013);
    let issues = stats["issues"].as_array().unwrap();
    let lines: BTreeSet<_> = issues.iter().map(|issue| issue["line"].as_u64()).collect();
    assert_eq!(lines.len(), 48);
}

#[test]
fn best_of_n() {
    let Some(stats) = stats("best_of_n/gsm8k_n32.jsonl.gz") else { return };
    assert_eq!((stats["problems"].as_u64(), stats["solutions"].as_u64()), (Some(237), Some(7584)));
    let columns = stats["scores"].as_object().unwrap();
    assert_eq!(columns.len(), 7);
    assert!(columns.values().all(|column| column["length_mismatches"] == 0), "{columns:?}");
}
