//! Files of any container: whatever the bytes, reading ends, with records or with errors, and never in a panic.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_data::files;
use libfuzzer_sys::fuzz_target;

/// More rows than an input of this size holds, unless somebody took pains to compress them.
const TOO_MANY: usize = 1_000_000;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| scratch::folder().join("records"));

fuzz_target!(init: stack::watch_uncaught(), |bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("the scratch file can be written");
    if let Ok(rows) = files::rows(&FILE) {
        assert!(rows.take(TOO_MANY).count() < TOO_MANY, "the rows do not end");
    }
    if let Ok(records) = files::open(std::slice::from_ref(&*FILE), None) {
        for item in records {
            // What a user is told must not panic either.
            let _ = item.map_err(|error| error.to_string());
        }
    }
});
