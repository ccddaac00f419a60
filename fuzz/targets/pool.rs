//! Pool folders: whatever the manifest, the pool opens or is refused. What follows a NUL in the input is the content of
//! `steps.f32`.

#![no_main]

mod scratch;
mod stack;

use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_retrieve::pool::{Pool, PoolManifest};
use libfuzzer_sys::fuzz_target;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);

fuzz_target!(init: stack::watch(), |bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, content) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    std::fs::write(FOLDER.join("steps.f32"), content).expect("the scratch file can be written");
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
