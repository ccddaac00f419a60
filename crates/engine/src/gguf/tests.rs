//! Reading what was written, refusing what is damaged; and a writer of small files, for other tests, too.

use proptest::prelude::*;

use super::*;

/// Writes small GGUF files for tests.
#[derive(Default)]
pub(crate) struct Writer {
    pairs: Vec<u8>,
    pair_count: u64,
    infos: Vec<u8>,
    tensor_count: u64,
    data: Vec<u8>,
}

impl Writer {
    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    fn pair(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Self {
        Self::string(&mut self.pairs, key);
        self.pairs.extend(kind.to_le_bytes());
        self.pairs.extend(value);
        self.pair_count += 1;
        self
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) -> &mut Self {
        let mut bytes = Vec::new();
        Self::string(&mut bytes, value);
        self.pair(key, STRING, &bytes)
    }

    pub(crate) fn u32(&mut self, key: &str, value: u32) -> &mut Self {
        self.pair(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) -> &mut Self {
        self.pair(key, 7, &[value.into()])
    }

    fn list(&mut self, key: &str, kind: u32, len: usize, elements: &[u8]) -> &mut Self {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((len as u64).to_le_bytes());
        bytes.extend(elements);
        self.pair(key, ARRAY, &bytes)
    }

    pub(crate) fn texts<S: AsRef<str>>(&mut self, key: &str, values: &[S]) -> &mut Self {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| Self::string(&mut bytes, value.as_ref()));
        self.list(key, STRING, values.len(), &bytes)
    }

    pub(crate) fn f32s(&mut self, key: &str, values: &[f32]) -> &mut Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.list(key, 6, values.len(), &bytes)
    }

    pub(crate) fn i32s(&mut self, key: &str, values: &[i32]) -> &mut Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.list(key, 5, values.len(), &bytes)
    }

    /// `shape` outermost first.
    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize], kind: TensorKind, data: &[u8]) -> &mut Self {
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        Self::string(&mut self.infos, name);
        self.infos.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|n| self.infos.extend((*n as u64).to_le_bytes()));
        self.infos.extend((kind as u32).to_le_bytes());
        self.infos.extend((self.data.len() as u64).to_le_bytes());
        self.tensor_count += 1;
        self.data.extend(data);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(self.tensor_count.to_le_bytes());
        out.extend(self.pair_count.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.infos);
        out.resize(out.len().next_multiple_of(32), 0);
        out.extend(&self.data);
        out
    }

    pub(crate) fn open(&self) -> Gguf {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), self.bytes()).unwrap();
        Gguf::open(file.path()).unwrap()
    }
}

fn small() -> Writer {
    let mut writer = Writer::default();
    writer
        .text("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .pair("llama.rope.freq_base", 6, &10_000f32.to_le_bytes())
        .pair("nested", ARRAY, &[&[9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 8]].concat())
        .bool("tokenizer.ggml.add_bos_token", true)
        .texts("tokenizer.ggml.tokens", &["a", "é", ""])
        .f32s("tokenizer.ggml.scores", &[0.0, -1.5])
        .i32s("tokenizer.ggml.token_type", &[1, -1])
        .tensor("norm", &[4], TensorKind::F32, &[7; 16])
        .tensor("q", &[2, 64], TensorKind::Q8_0, &[9; 136]);
    writer
}

#[test]
fn reads_what_was_written() {
    let gguf = small().open();
    assert_eq!(gguf.get::<&str>("general.architecture").unwrap(), "llama");
    assert_eq!(gguf.get::<u64>("llama.block_count").unwrap(), 2);
    assert_eq!(gguf.get::<f32>("llama.rope.freq_base").unwrap(), 10_000.0);
    assert_eq!(gguf.find::<bool>("tokenizer.ggml.add_bos_token").unwrap(), Some(true));
    assert_eq!(gguf.get::<Vec<&str>>("tokenizer.ggml.tokens").unwrap(), ["a", "é", ""]);
    assert_eq!(gguf.get::<Vec<f32>>("tokenizer.ggml.scores").unwrap(), [0.0, -1.5]);
    assert_eq!(gguf.get::<Vec<i64>>("tokenizer.ggml.token_type").unwrap(), [1, -1]);
    let q = gguf.tensor("q").unwrap();
    assert_eq!((q.shape.as_slice(), q.kind), (&[2, 64][..], TensorKind::Q8_0));
    assert_eq!(gguf.bytes()[q.range.clone()], [9; 136]);
    assert_eq!(gguf.bytes()[gguf.tensor("norm").unwrap().range.clone()], [7; 16]);
}

#[test]
fn errors_say_what_was_found() {
    let gguf = small().open();
    let said = |result: Result<u64>| result.unwrap_err().to_string();
    assert!(said(gguf.get("llama.head_count")).ends_with("the metadata have no `llama.head_count`"));
    let wrong = said(gguf.get("general.architecture"));
    assert!(wrong.ends_with("`general.architecture` should be an integer (u64), but is the text \"llama\""));
    let negative = gguf.get::<Vec<u64>>("tokenizer.ggml.token_type").unwrap_err().to_string();
    assert!(negative.ends_with("should be an array of counts, but is an array of 2 i32"), "{negative}");
    assert!(parse(b"GGU").unwrap_err().contains("3 bytes are too few"));
    assert!(parse(b"PK\x03\x04rest").unwrap_err().contains("it starts with \"PK\\u{3}\\u{4}\""));
    assert_eq!(parse(b"GGUF\x01\0\0\0").unwrap_err(), "GGUF version 1; only versions 2 and 3 are read");
    assert!(parse(b"GGUF\0\0\0\x03").unwrap_err().contains("big-endian"));
    let mut writer = Writer::default();
    let mut bytes = writer.tensor("w", &[1, 512], TensorKind::F32, &[0; 2048]).bytes();
    let kind = bytes.windows(4).position(|window| window == 512u32.to_le_bytes()).unwrap() + 16;
    bytes[kind] = 23;
    assert!(parse(&bytes).unwrap_err().contains("tensor `w`: stored as IQ4_XS (type 23)"));
    bytes[kind] = 99;
    assert_eq!(parse(&bytes).unwrap_err(), "tensor `w`: unknown type 99");
}

#[test]
fn counts_beyond_the_file_are_refused_at_once() {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend(u64::MAX.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    assert!(parse(&bytes).unwrap_err().contains("cut short or corrupt"));
}

/// Found by fuzzing: a dimension of 0 makes a tensor small whatever its others are, and rows were allocated for them.
#[test]
fn an_empty_dimension_is_refused() {
    let bytes = Writer::default().tensor("w", &[1 << 40, 0], TensorKind::F32, &[]).bytes();
    assert_eq!(parse(&bytes).unwrap_err(), "tensor `w`: a dimension of 0");
}

/// Reads everything that can be read, as a loader would.
fn read_all(bytes: &[u8]) {
    let Ok((metadata, tensors)) = parse(bytes) else { return };
    for value in metadata.values() {
        Vec::<&str>::from_value(value, bytes);
        Vec::<f32>::from_value(value, bytes);
        Vec::<i64>::from_value(value, bytes);
        value.describe();
    }
    for tensor in tensors.values() {
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(elements / tensor.kind.block_len() * tensor.kind.block_bytes(), tensor.range.len());
        assert!(bytes.get(tensor.range.clone()).is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutations_and_cuts_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = small().bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read_all(&bytes);
    }

    #[test]
    fn every_true_cut_is_refused(cut in any::<prop::sample::Index>()) {
        let bytes = small().bytes();
        prop_assert!(parse(&bytes[..cut.index(bytes.len())]).is_err());
    }
}
