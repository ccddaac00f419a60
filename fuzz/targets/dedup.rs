//! The duplicate index: every text that was put in is found again, exactly.
//!
//! Each line of the input is one text.

#![no_main]

mod stack;

use gradus_data::dedup::{DedupConfig, Index, Kind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: stack::watch(), |text: &str| {
    let mut index = Index::new(DedupConfig { num_perm: 16, ..DedupConfig::default() });
    let texts: Vec<(String, &str)> =
        text.split('\n').enumerate().map(|(line, text)| (line.to_string(), text)).collect();
    for (id, text) in &texts {
        index.insert(id, text);
    }
    for (id, text) in &texts {
        let found = index.find(text);
        let exact = found.iter().any(|found| found.id == id && found.kind == Kind::Exact && found.same_numbers);
        assert!(exact, "{text:?} was put in and is not found: {found:?}");
    }
});
