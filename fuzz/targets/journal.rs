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

fn known(journal: &Journal<Vec<f64>>) -> [Option<Vec<f64>>; 3] {
    KEYS.map(|key| journal.find(key))
}

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the scratch file can be written");
    let mut reader = Journal::none();
    reader.also(&FILE).expect("a journal is read whatever is in it");
    assert_eq!(std::fs::read(&*FILE).expect("it is there"), bytes, "reading changes nothing");
    let mut journal = open();
    let before = known(&journal);
    assert_eq!(known(&reader), before, "a reader knows what a writer knows");
    journal.add("new", "id", &vec![0.5]).expect("the scratch file can be written");
    drop(journal);
    let again = open();
    assert_eq!(known(&again), before, "what was known is known again");
    assert_eq!(again.find("new"), Some(vec![0.5]));
    drop(again);
    let mended = std::fs::read(&*FILE).expect("it is there");
    drop(open());
    assert_eq!(std::fs::read(&*FILE).expect("it is there"), mended, "a mended journal is not mended again");
});
