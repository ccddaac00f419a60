//! `model.safetensors.index.json`: whatever the bytes, a sharded model is loaded or refused, and no file outside of its
//! folder is read.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model};
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> =
    LazyLock::new(|| scratch::copy_of("crates/engine/tests/reference/models/llama-sharded"));

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let index = FOLDER.join("model.safetensors.index.json");
    std::fs::write(index, bytes).expect("the scratch file can be written");
    let _ = Model::load(&ModelPath::Folder(FOLDER.clone()), &LoadOptions::default())
        .map(drop)
        .map_err(|error| error.to_string());
});
