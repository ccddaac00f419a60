//! `model.safetensors.index.json`: whatever the bytes, a sharded model is loaded or refused, and no file outside of its
//! folder is read. What follows a NUL in the input replaces its `config.json`.

#![no_main]

mod probe;
mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_engine::models::ModelPath;
use gradus_engine::{LoadOptions, Model};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = scratch::copy_of("crates/engine/tests/reference/models/llama-sharded");
    // What an index may try to reach: the folder above has the same shards.
    for shard in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        std::fs::copy(folder.join(shard), folder.with_file_name(shard)).expect("it can be copied");
    }
    folder
});

static CONFIG: LazyLock<Vec<u8>> =
    LazyLock::new(|| std::fs::read(FOLDER.join("config.json")).expect("the model has one"));

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (index, config) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(&*CONFIG));
    let path = FOLDER.join("model.safetensors.index.json");
    std::fs::write(path, index).expect("the scratch file can be written");
    std::fs::write(FOLDER.join("config.json"), config).expect("as before");
    match Model::load(&ModelPath::Folder(FOLDER.clone()), &LoadOptions::default()) {
        Ok(model) => {
            let index: Value = serde_json::from_slice(index).expect("what was read is JSON");
            let shards = index["weight_map"].as_object().expect("what was read has a map").values();
            assert!(shards.clone().all(|shard| shard.as_str().is_some_and(|name| !name.contains('/'))));
            probe::run(&model);
        }
        Err(error) => drop(error.to_string()),
    }
});
