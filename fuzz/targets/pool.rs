//! Pool folders: whatever the manifest, the pool opens or is refused. What follows a NUL in the input is the content of
//! every file.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_retrieve::pool::{Pool, PoolManifest};
use libfuzzer_sys::fuzz_target;

/// A manifest can name no others.
const NAMES: [&str; 8] = [
    "questions.f32",
    "questions.graph",
    "steps.f32",
    "pca.f32",
    "texts.utf8",
    "texts.u64",
    "layout.u32",
    "guard.u64",
];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    for name in NAMES {
        std::fs::write(FOLDER.join(name), content).expect("the scratch file can be written");
    }
    std::fs::write(FOLDER.join("manifest.json"), with_checksums(text, content)).expect("as before");
    let _ = Pool::open_any(&FOLDER).map(drop).map_err(|error| error.to_string());
});

/// The manifest with right checksums, so that the fuzzer gets past them; any other text as it is.
fn with_checksums(text: &[u8], content: &[u8]) -> Vec<u8> {
    let Ok(mut manifest) = serde_json::from_slice::<PoolManifest>(text) else { return text.to_vec() };
    for entry in manifest.files.values_mut() {
        entry.blake3 = blake3::hash(content).to_hex().to_string();
    }
    manifest.checksum = String::new();
    let bare = serde_json::to_string(&manifest).expect("a manifest is plain data");
    manifest.checksum = blake3::hash(bare.as_bytes()).to_hex().to_string();
    serde_json::to_vec(&manifest).expect("a manifest is plain data")
}
