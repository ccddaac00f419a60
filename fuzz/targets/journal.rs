//! Journals: whatever the bytes, a journal opens, keeps what it understood, and takes new entries; what it understood is
//! there once it is opened again, and nothing else.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_durable::Journal;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch::folder().join("journal"));

/// Keys of the seeds' entries.
const KEYS: [&str; 3] = ["a", "b", "c"];

fn open() -> Journal<Vec<f64>> {
    Journal::open(&FILE).expect("a journal opens whatever is in it")
}

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the scratch file can be written");
    let mut journal = open();
    let known = KEYS.map(|key| journal.find(key));
    journal.add("new", "id", &vec![0.5]).expect("the scratch file can be written");
    let again = open();
    assert_eq!(KEYS.map(|key| again.find(key)), known, "what was known is known again");
    assert_eq!(again.find("new"), Some(vec![0.5]));
    let length = FILE.metadata().expect("it is there").len();
    drop(open());
    assert_eq!(FILE.metadata().expect("it is there").len(), length, "a mended journal is not mended again");
});
