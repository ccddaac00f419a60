//! MinHash signatures cut into bands.
//!
//! Two sets of similarity s agree on one hash with probability s, on a band of r hashes with s^r, and on at least
//! one of b bands with 1 − (1 − s^r)^b.

/// The recall that banding must keep at the threshold.
const RECALL: f64 = 0.999;

/// Hash functions `h ↦ a·h + b`, the same in every run.
#[derive(Debug)]
pub(super) struct Hasher {
    functions: Vec<(u64, u64)>,
    rows: usize,
}

impl Hasher {
    pub(super) fn new(num_perm: usize, threshold: f64) -> Self {
        let recall = |rows: usize| {
            let bands = (num_perm / rows) as i32;
            1.0 - (1.0 - threshold.powi(rows as i32)).powi(bands)
        };
        let rows = (1..=num_perm).take_while(|&rows| recall(rows) >= RECALL).last().unwrap_or(1);
        let mut state = 0;
        let mut next = || {
            state += 1;
            mix(state)
        };
        let functions = (0..num_perm / rows * rows).map(|_| (next() | 1, next())).collect();
        Self { functions, rows }
    }

    pub(super) fn bands(&self) -> usize {
        self.functions.len() / self.rows
    }

    /// The bucket of each band.
    pub(super) fn buckets(&self, shingles: &[u64]) -> impl Iterator<Item = u64> {
        self.functions.chunks(self.rows).enumerate().map(|(band, functions)| {
            functions.iter().fold(mix(band as u64), |bucket, (a, b)| {
                let least = shingles.iter().map(|shingle| shingle.wrapping_mul(*a).wrapping_add(*b)).min();
                mix(bucket ^ least.unwrap_or(0))
            })
        })
    }
}

/// A hash of a list of words: FNV-1a with a separator, mixed.
pub(super) fn hash_words(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0xff]));
    mix(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
