//! Pool folders: whatever is damaged, or written by somebody else, the pool opens and is searched, or is refused.
//!
//! An input is a manifest (none: the pool's own), a NUL, and changes to the files of a small pool with a graph and
//! components: a byte names the file, two say where, one is what is flipped; or, from the ninth file on, the file of that
//! number is cut off there. All checksums and sizes are made to match afterwards, as somebody else would.

#![no_main]

mod scratch;
mod stack;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use gradus_core::contracts::{Answer, Embed, Embeddings, Usage};
use gradus_core::{Problem, Record};
use gradus_retrieve::pca::Pca;
use gradus_retrieve::pool::{Encoder, Pool, PoolManifest, Settings, build};
use gradus_retrieve::two_stage::{self, Target, retrieve};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

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
const GRAPH: usize = 1;
/// Bytes of a graph's header.
const HEADER: usize = 4096;
/// Fewer questions would be searched without the graph.
const QUESTIONS: usize = 150;

static FOLDER: LazyLock<PathBuf> = LazyLock::new(scratch::folder);
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// An encoder of so many dimensions.
struct Letters(usize);

impl Embed for Letters {
    fn embed(&self, texts: Vec<String>) -> Answer<'_, Embeddings> {
        let dimension = self.0;
        let mut values = vec![0.0; texts.len() * dimension];
        for (text, vector) in texts.iter().zip(values.chunks_mut(dimension)) {
            text.bytes().enumerate().for_each(|(at, byte)| vector[at % dimension] += f32::from(byte));
        }
        Box::pin(async move { Ok(Embeddings { dimension, values, truncated: 0, usage: Usage::default() }) })
    }
}

/// The manifest and the files of the whole pool.
static WHOLE: LazyLock<(Vec<u8>, [Vec<u8>; 8])> = LazyLock::new(|| {
    let records = (0..QUESTIONS).map(|number| {
        let text = format!("What is {number} + {}?", number * 7 % 13);
        let reference = vec![format!("Step {}.", number % 5)];
        Record::new(Problem { id: number.to_string(), text, reference, ..Problem::default() }, Vec::new())
    });
    let encoder = Encoder { model: &Letters(3), name: "letters", fingerprint: "1" };
    let mut settings = Settings { graph_from: 1, ..Settings::default() };
    settings.guard.num_perm = 16;
    let components = vec![0.8, 0.6, 0.0, 0.0, 0.6, 0.8];
    let reduce =
        |_: &[f32], _: usize| Ok(Pca { mean: vec![0.1; 3], components: components.clone(), kept: 2 });
    let folder = FOLDER.join("whole");
    RUNTIME
        .block_on(build(&folder, records, &encoder, &settings, Some(&reduce), |_| true))
        .expect("a pool is built");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a pool has its files");
    (read("manifest.json"), NAMES.map(read))
});

fn watch() {
    stack::watch();
    // With one thread the same graph is built every time, so that an input means the same in every process.
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().expect("nothing has used it yet");
}

fuzz_target!(init: watch(), |bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, changes) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (manifest, mut files) = WHOLE.clone();
    for change in changes.chunks_exact(4) {
        let file = usize::from(change[0]) % (2 * NAMES.len());
        let (file, cut) = (file % NAMES.len(), file >= NAMES.len());
        let place = usize::from(u16::from_le_bytes([change[1], change[2]]));
        match files[file].get_mut(place) {
            Some(_) if cut => files[file].truncate(place),
            Some(byte) => *byte ^= change[3],
            None => {}
        }
    }
    with_checksum(&mut files[GRAPH]);
    let text = if text.is_empty() { &manifest } else { text };
    std::fs::write(FOLDER.join("manifest.json"), with_checksums(text, &files)).expect("the scratch file can be written");
    for (name, content) in NAMES.iter().zip(&files) {
        std::fs::write(FOLDER.join(name), content).expect("as before");
    }
    match Pool::open_any(&FOLDER) {
        Ok(pool) => search(&pool),
        Err(error) => drop(error.to_string()),
    }
});

fn search(pool: &Pool) {
    for question in pool.questions() {
        question.solutions().for_each(|solution| assert!(solution.steps().count() < 1 << 20));
    }
    let target = |question: &str| Target {
        question: question.to_owned(),
        steps: vec!["Step 3.".to_owned()],
        ..Target::default()
    };
    let targets = [target("What is 14 + 7?"), target("")];
    let settings = two_stage::Settings { questions: 1, database: 1, ..two_stage::Settings::default() };
    let encoder = Letters(pool.manifest().dimension);
    let found = retrieve(pool, Some(&encoder), &targets, &settings, |_, _| true);
    let _ = RUNTIME.block_on(found).map_err(|error| error.to_string());
}

/// The manifest with right checksums and sizes; any other text as it is.
fn with_checksums(text: &[u8], files: &[Vec<u8>; 8]) -> Vec<u8> {
    let Ok(mut manifest) = serde_json::from_slice::<PoolManifest>(text) else { return text.to_vec() };
    let contents: BTreeMap<&str, &Vec<u8>> = NAMES.into_iter().zip(files).collect();
    for entry in manifest.files.values_mut() {
        if let Some(content) = contents.get(&*entry.name) {
            entry.bytes = content.len() as u64;
            entry.blake3 = blake3::hash(content).to_hex().to_string();
        }
    }
    manifest.checksum = String::new();
    let bare = serde_json::to_string(&manifest).expect("a manifest is plain data");
    manifest.checksum = blake3::hash(bare.as_bytes()).to_hex().to_string();
    serde_json::to_vec(&manifest).expect("a manifest is plain data")
}

/// Makes the checksum in a graph's header match.
fn with_checksum(graph: &mut [u8]) {
    let Some((head, body)) = graph.split_at_mut_checked(HEADER) else { return };
    let Ok(mut header) = serde_json::from_slice::<Value>(head) else { return };
    let Some(fields) = header.as_object_mut() else { return };
    fields.insert("bytes".to_owned(), json!(body.len()));
    fields.insert("blake3".to_owned(), json!(blake3::hash(body).to_hex().as_str()));
    let header = header.to_string();
    if header.len() < HEADER {
        head.fill(b' ');
        head[..header.len()].copy_from_slice(header.as_bytes());
    }
}
