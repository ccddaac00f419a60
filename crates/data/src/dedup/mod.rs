//! Find the same problem again: exactly, or nearly. The engine of the leak guard.
//!
//! Exact: equal after [`normalize()`], by BLAKE3. Near: the Jaccard similarity of the sets of word shingles reaches a
//! threshold. MinHash signatures in bands (Broder 1997; Indyk and Motwani 1998) propose candidates, and the exact
//! similarity decides, so a match is never an estimate. Bands are as selective as a recall of 0.999 at the threshold
//! allows. Everything is deterministic.
//!
//! Maths problems from one template that differ in their numbers are different problems: see
//! [`Match::same_numbers`]. What is left out: paraphrases and translations.
//!
//! ```
//! use gradus_data::dedup::{DedupConfig, Index, Kind};
//! let mut index = Index::new(DedupConfig::default());
//! index.insert("p1", "What is $\\dfrac{1}{2}$ of 6?");
//! let found = index.find("what is  \\(\\frac12\\) of 6");
//! assert_eq!((found[0].id, found[0].kind), ("p1", Kind::Exact));
//! ```

mod minhash;
mod normalize;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use minhash::Hasher;
pub use normalize::normalize;

use gradus_core::Fault;

/// The most hash functions, and words to a shingle. A signature has room for all of them.
const MOST: usize = 65_536;

/// What counts as the same problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DedupConfig {
    /// The least similarity of a near duplicate, above 0 and at most 1.
    pub threshold: f64,
    /// Hash functions of a signature: more find more, and cost more.
    pub num_perm: usize,
    /// Words to a shingle.
    pub shingle: usize,
}

impl Default for DedupConfig {
    fn default() -> Self {
        Self { threshold: 0.8, num_perm: 128, shingle: 3 }
    }
}

impl DedupConfig {
    /// Checks that every setting is in its range.
    pub fn check(&self) -> Result<(), Fault> {
        if !(self.threshold > 0.0 && self.threshold <= 1.0) {
            let found = self.threshold;
            return Err(Fault::new(
                "threshold",
                format!("is {found}: expected a number above 0 and at most 1"),
            ));
        }
        for (field, value) in [("num_perm", self.num_perm), ("shingle", self.shingle)] {
            if value == 0 {
                return Err(Fault::new(field, "is 0: expected at least 1"));
            }
            if value > MOST {
                return Err(Fault::new(field, format!("is {value}: expected at most {MOST}")));
            }
        }
        Ok(())
    }

    /// A problem's word shingles.
    pub fn shingles(&self, text: &str) -> Shingles {
        Shingles(Fingerprint::new(text, self.shingle).shingles)
    }

    /// The Jaccard similarity of two problems, from 0 to 1.
    pub fn similarity(&self, a: &str, b: &str) -> f64 {
        self.shingles(a).similarity(&self.shingles(b))
    }
}

/// A problem's word shingles, to be compared with many others'.
///
/// ```
/// use gradus_data::dedup::DedupConfig;
/// let config = DedupConfig::default();
/// let asked = config.shingles("What is the sum of 2 and 3?");
/// let with_choices = config.shingles("What is the sum of 2 and 3? A: 5 B: 6 C: 7 D: 8");
/// assert!(asked.similarity(&with_choices) < 0.8 && asked.containment(&with_choices) > 0.9);
/// ```
#[derive(Debug, Clone)]
pub struct Shingles(Box<[u64]>);

impl Shingles {
    /// The share of all shingles that both have (Jaccard).
    pub fn similarity(&self, other: &Self) -> f64 {
        jaccard(&self.0, &other.0)
    }

    /// The share of the smaller one's shingles that the larger one has, too: 1 where one text has the other in it.
    pub fn containment(&self, other: &Self) -> f64 {
        let least = self.0.len().min(other.0.len());
        if least == 0 { 0.0 } else { shared(&self.0, &other.0) as f64 / least as f64 }
    }
}

/// Where problems are filed, for an index that is kept on disk.
///
/// ```
/// use gradus_data::dedup::{DedupConfig, Filing};
/// let filing = Filing::new(&DedupConfig::default());
/// assert_eq!(filing.keys("What is $1 + 1$?")[0], filing.keys("what is 1 + 1")[0]);
/// ```
#[derive(Debug)]
pub struct Filing {
    hasher: Hasher,
    shingle: usize,
}

impl Filing {
    /// # Panics
    /// When `config` does not pass [`DedupConfig::check`].
    pub fn new(config: &DedupConfig) -> Self {
        if let Err(fault) = config.check() {
            panic!("filing needs settings that pass `DedupConfig::check`: {fault}");
        }
        Self { hasher: Hasher::new(config.num_perm, config.threshold), shingle: config.shingle }
    }

    /// The keys of a text: first one that texts share which are equal after normalisation, then one per band, of which
    /// near duplicates share at least one. Other texts may share a key by chance.
    pub fn keys(&self, text: &str) -> Vec<u64> {
        let fingerprint = Fingerprint::new(text, self.shingle);
        let mut exact = [0; 8];
        exact.copy_from_slice(&fingerprint.hash.as_bytes()[..8]);
        let exact = std::iter::once(u64::from_le_bytes(exact));
        exact.chain(self.hasher.buckets(&fingerprint.shingles)).collect()
    }
}

/// How a problem matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Equal after normalisation.
    Exact,
    /// Similar above the threshold.
    Near,
}

/// A problem of the index that matches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Match<'a> {
    /// The id it was inserted with.
    pub id: &'a str,
    /// How it matches.
    pub kind: Kind,
    /// Jaccard similarity of the shingles; 1 for an exact match.
    pub similarity: f64,
    /// Both have the same numbers, in any order. Where they differ, it may well be another problem.
    pub same_numbers: bool,
}

/// Problems that can be asked for again.
///
/// About 1.4 kB a problem at the default settings; equal problems share it.
#[derive(Debug)]
pub struct Index {
    config: DedupConfig,
    hasher: Hasher,
    problems: Vec<Entry>,
    exact: HashMap<blake3::Hash, u32>,
    /// The last problem put into each bucket of a band; `chain` leads to the ones before it.
    buckets: HashMap<u64, u32>,
    chain: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    ids: Vec<Box<str>>,
    fingerprint: Fingerprint,
}

/// What is kept of a text.
#[derive(Debug)]
struct Fingerprint {
    /// Sorted, without repetitions.
    shingles: Box<[u64]>,
    numbers: u64,
    hash: blake3::Hash,
}

const END: u32 = u32::MAX;

impl Index {
    /// An empty index.
    ///
    /// # Panics
    /// When `config` does not pass [`DedupConfig::check`].
    pub fn new(config: DedupConfig) -> Self {
        if let Err(fault) = config.check() {
            panic!("a dedup index needs settings that pass `DedupConfig::check`: {fault}");
        }
        let hasher = Hasher::new(config.num_perm, config.threshold);
        let (exact, buckets) = (HashMap::new(), HashMap::new());
        Self { config, hasher, problems: Vec::new(), exact, buckets, chain: Vec::new() }
    }

    /// Problems inserted that differ after normalisation.
    pub fn distinct(&self) -> usize {
        self.problems.len()
    }

    /// Adds a problem. The same id may be added several times with different texts.
    pub fn insert(&mut self, id: &str, text: &str) {
        let fingerprint = Fingerprint::new(text, self.config.shingle);
        let new =
            u32::try_from(self.problems.len()).expect("an index holds fewer than four billion problems");
        let known = *self.exact.entry(fingerprint.hash).or_insert(new);
        if known != new {
            self.problems[known as usize].ids.push(id.into());
            return;
        }
        for bucket in self.hasher.buckets(&fingerprint.shingles) {
            self.chain.push(self.buckets.insert(bucket, new).unwrap_or(END));
        }
        self.problems.push(Entry { ids: vec![id.into()], fingerprint });
    }

    /// Every problem that matches `text`: exact matches first, then the most similar, then as inserted.
    pub fn find(&self, text: &str) -> Vec<Match<'_>> {
        let wanted = Fingerprint::new(text, self.config.shingle);
        let mut near: Vec<(f64, u32)> = self
            .candidates(&wanted)
            .into_iter()
            .filter(|&index| self.problems[index as usize].fingerprint.hash != wanted.hash)
            .map(|index| {
                (jaccard(&wanted.shingles, &self.problems[index as usize].fingerprint.shingles), index)
            })
            .filter(|(similarity, _)| *similarity >= self.config.threshold)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let exact = self.exact.get(&wanted.hash).map(|&index| (Kind::Exact, 1.0, index));
        let near = near.into_iter().map(|(similarity, index)| (Kind::Near, similarity, index));
        let matches = exact.into_iter().chain(near).flat_map(|(kind, similarity, index)| {
            let entry = &self.problems[index as usize];
            let same_numbers = entry.fingerprint.numbers == wanted.numbers;
            entry.ids.iter().map(move |id| Match { id, kind, similarity, same_numbers })
        });
        matches.collect()
    }

    /// Problems that share a bucket with `wanted`, once each.
    fn candidates(&self, wanted: &Fingerprint) -> Vec<u32> {
        let bands = self.hasher.bands();
        let mut found = Vec::new();
        // Every problem takes one place per band in the chain.
        for (band, bucket) in self.hasher.buckets(&wanted.shingles).enumerate() {
            let mut next = self.buckets.get(&bucket).copied().unwrap_or(END);
            while next != END {
                found.push(next);
                next = self.chain[next as usize * bands + band];
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Fingerprint {
    fn new(text: &str, shingle: usize) -> Self {
        let normal = normalize(text);
        let words: Vec<&str> = normal.split(' ').filter(|word| !word.is_empty()).collect();
        let mut numbers: Vec<&str> = words.iter().filter(|word| is_number(word)).copied().collect();
        numbers.sort_unstable();
        let mut shingles: Vec<u64> =
            words.windows(shingle.min(words.len()).max(1)).map(minhash::hash_words).collect();
        shingles.sort_unstable();
        shingles.dedup();
        // A text without a letter, digit or sign is only equal to itself.
        let exact = if normal.is_empty() { text } else { &normal };
        let hash = blake3::hash(exact.as_bytes());
        Self { shingles: shingles.into(), numbers: minhash::hash_words(&numbers), hash }
    }
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_numeric())
}

/// Jaccard similarity of two sorted sets. Two empty sets have nothing in common.
fn shared(a: &[u64], b: &[u64]) -> usize {
    let (mut shared, mut i, mut j) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (shared, i, j) = (shared + 1, i + 1, j + 1),
        }
    }
    shared
}

fn jaccard(a: &[u64], b: &[u64]) -> f64 {
    let shared = shared(a, b);
    let union = a.len() + b.len() - shared;
    if union == 0 { 0.0 } else { shared as f64 / union as f64 }
}
