//! TF-IDF over texts with an inverted index, as scikit-learn's `TfidfVectorizer` with its defaults.
//!
//! - terms: of the lower-cased text, every run of two or more letters, digits and underscores; Python's
//!   `(?u)\b\w\w+\b`, so combining marks end a run, and one letter alone is no term
//! - idf = ln((1 + texts) / (1 + texts with the term)) + 1
//! - weight = count · idf; a text's weights have length 1; similarity = Σ weight · weight, the cosine
//!
//! Terms that no text has count for nothing in a query. Sums are in f64, so that texts of equal similarity tie.
//! Left out: stop words, n-grams, sublinear counts, limits on frequencies.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

/// Texts indexed by their terms.
#[derive(Debug, Clone)]
pub(crate) struct TfIdf {
    vocabulary: HashMap<String, u32>,
    idf: Vec<f64>,
    /// Where the postings of each term begin, and at last where those of the last end.
    starts: Vec<usize>,
    /// By term, then by text.
    postings: Vec<Posting>,
    /// 1 / length of a text's weights; 0 for a text without terms.
    scale: Vec<f64>,
}

/// A text has a term so often. Eight bytes; the weight is count · idf · scale.
#[derive(Debug, Clone, Copy)]
struct Posting {
    text: u32,
    count: u32,
}

/// Texts that are being indexed; none of them is kept.
#[derive(Default)]
pub(crate) struct TfIdfBuilder {
    vocabulary: HashMap<String, u32>,
    counted: Vec<Vec<(u32, u32)>>,
}

impl TfIdfBuilder {
    /// Indexes a text; its number is how many came before.
    ///
    /// # Panics
    /// Beyond 4,294,967,295 texts.
    pub(crate) fn add(&mut self, text: &str) {
        assert!(u32::try_from(self.counted.len() + 1).is_ok(), "more texts than fit an index");
        let vocabulary = &mut self.vocabulary;
        let numbers = terms(text, |term| {
            // Looked up before it is owned: nearly every term is known.
            Some(vocabulary.get(term).copied().unwrap_or_else(|| {
                let number = vocabulary.len() as u32;
                vocabulary.insert(term.to_owned(), number);
                number
            }))
        });
        self.counted.push(count(numbers));
    }

    pub(crate) fn finish(self) -> TfIdf {
        let Self { vocabulary, counted } = self;
        // Counting sort of the postings by term; of one term they stay in the order of texts.
        let mut starts = vec![0; vocabulary.len() + 1];
        for (term, _) in counted.iter().flatten() {
            starts[*term as usize + 1] += 1;
        }
        let smooth = 1.0 + counted.len() as f64;
        let idf: Vec<f64> =
            starts[1..].iter().map(|&texts: &usize| (smooth / (1.0 + texts as f64)).ln() + 1.0).collect();
        for term in 1..starts.len() {
            starts[term] += starts[term - 1];
        }
        let mut next = starts.clone();
        let mut postings = vec![Posting { text: 0, count: 0 }; starts[vocabulary.len()]];
        for (text, terms) in counted.iter().enumerate() {
            for &(term, count) in terms {
                postings[next[term as usize]] = Posting { text: text as u32, count };
                next[term as usize] += 1;
            }
        }
        let scale = counted.iter().map(|terms| scale(terms, &idf)).collect();
        TfIdf { vocabulary, idf, starts, postings, scale }
    }
}

impl TfIdf {
    /// Indexes `texts`; a text's number is its index.
    pub(crate) fn fit<T: AsRef<str>>(texts: &[T]) -> Self {
        let mut builder = TfIdfBuilder::default();
        texts.iter().for_each(|text| builder.add(text.as_ref()));
        builder.finish()
    }

    /// The `k` texts most similar to `query` of those that `keep` allows, with their similarity, from the highest; of
    /// equal ones the lower number first. Texts without a common term are never found, so there may be fewer.
    pub(crate) fn search(&self, query: &str, k: usize, keep: impl Fn(usize) -> bool) -> Vec<(usize, f32)> {
        let terms = count(terms(query, |term| self.vocabulary.get(term).copied()));
        let query_scale = scale(&terms, &self.idf);
        let mut sums = vec![0.0; self.scale.len()];
        for &(term, count) in &terms {
            let (term, idf) = (term as usize, self.idf[term as usize]);
            let weight = f64::from(count) * idf * query_scale * idf;
            for posting in &self.postings[self.starts[term]..self.starts[term + 1]] {
                sums[posting.text as usize] += weight * f64::from(posting.count);
            }
        }
        let mut found: Vec<(usize, f32)> = sums
            .iter()
            .zip(&self.scale)
            .enumerate()
            .filter(|(_, (sum, _))| **sum > 0.0)
            .map(|(text, (sum, scale))| (text, (sum * scale) as f32))
            .collect();
        let nearest = |a: &(usize, f32), b: &(usize, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        // In order, a few at a time: `keep` may cost more than the search, and most are never asked about.
        let (mut kept, mut rest, mut few) = (Vec::new(), &mut found[..], k.saturating_mul(2).max(32));
        while kept.len() < k && !rest.is_empty() {
            if few < rest.len() {
                rest.select_nth_unstable_by(few, nearest);
            }
            let (now, later) = rest.split_at_mut(few.min(rest.len()));
            now.sort_unstable_by(nearest);
            kept.extend(now.iter().filter(|(text, _)| keep(*text)).take(k - kept.len()));
            (rest, few) = (later, few.saturating_mul(4));
        }
        kept
    }
}

/// What a term is. Not `\w`, which here has marks and joiners too; Python's is exactly these categories.
static TERM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{L}\p{N}_]{2,}").expect("a fixed pattern compiles"));

/// The numbers of the text's terms, as `number` gives them.
fn terms(text: &str, mut number: impl FnMut(&str) -> Option<u32>) -> Vec<u32> {
    let lower = text.to_lowercase();
    TERM.find_iter(&lower).filter_map(|term| number(term.as_str())).collect()
}

/// Each term once, in order, with its count.
fn count(mut terms: Vec<u32>) -> Vec<(u32, u32)> {
    terms.sort_unstable();
    terms.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32)).collect()
}

/// What makes the weights' length 1; 0 without terms.
fn scale(terms: &[(u32, u32)], idf: &[f64]) -> f64 {
    let square: f64 =
        terms.iter().map(|&(term, count)| (f64::from(count) * idf[term as usize]).powi(2)).sum();
    if square > 0.0 { square.sqrt().recip() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn terms_of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        terms(text, |term| {
            found.push(term.to_owned());
            None
        });
        found
    }

    /// By the definition: dense vectors over words without punctuation, every pair.
    fn by_brute_force(texts: &[String], query: &str) -> Vec<f64> {
        let split = |text: &str| -> Vec<String> {
            text.to_lowercase().split(' ').filter(|word| word.len() > 1).map(str::to_owned).collect()
        };
        let documents: Vec<Vec<String>> = texts.iter().map(|text| split(text)).collect();
        let mut frequency: BTreeMap<String, f64> = BTreeMap::new();
        for document in &documents {
            for word in document.iter().collect::<BTreeSet<_>>() {
                *frequency.entry(word.clone()).or_default() += 1.0;
            }
        }
        let vector = |words: &[String]| -> Vec<f64> {
            let weight = |(word, texts_with): (&String, &f64)| {
                let count = words.iter().filter(|other| *other == word).count() as f64;
                count * (((1.0 + texts.len() as f64) / (1.0 + texts_with)).ln() + 1.0)
            };
            let weights: Vec<f64> = frequency.iter().map(weight).collect();
            let length = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
            weights.iter().map(|weight| if length > 0.0 { weight / length } else { 0.0 }).collect()
        };
        let query = vector(&split(query));
        documents.iter().map(|words| vector(words).iter().zip(&query).map(|(a, b)| a * b).sum()).collect()
    }

    fn sentences() -> impl Strategy<Value = (Vec<String>, String)> {
        let sentence = || {
            prop::collection::vec(
                prop::sample::select(vec!["aa", "bb", "Cc", "dd", "éé", "ff", "g", "42"]),
                0..8,
            )
            .prop_map(|words| words.join(" "))
        };
        (prop::collection::vec(sentence(), 0..30), sentence())
    }

    #[test]
    fn terms_are_pythons() {
        assert_eq!(terms_of("It's x_1 = 3.50, a_b; (2nd)!"), ["it", "x_1", "50", "a_b", "2nd"]);
        assert_eq!(terms_of("Straße ÉCOLE 日本語 ½2 ΟΔΟΣ"), ["straße", "école", "日本語", "½2", "οδος"]);
        // The dot that lower-casing takes off İ, and vowel signs, are marks.
        assert_eq!(terms_of("İstanbul हिन्दी e\u{301}te\u{301}"), ["stanbul", "te"]);
        assert_eq!(terms_of("a b c . 1 _"), Vec::<String>::new());
    }

    #[test]
    fn nothing_is_found_in_nothing_or_for_nothing() {
        assert!(TfIdf::fit::<&str>(&[]).search("some words", 3, |_| true).is_empty());
        assert!(TfIdf::fit(&["", "a b"]).search("some words", 3, |_| true).is_empty());
        let index = TfIdf::fit(&["some words", ""]);
        assert!(index.search("", 3, |_| true).is_empty() && index.search("others", 3, |_| true).is_empty());
        assert!(index.search("words", 0, |_| true).is_empty());
    }

    #[test]
    fn of_equal_texts_the_first_comes_first() {
        let index = TfIdf::fit(&["pear tree", "apple", "tree pear", "pear tree", "pear"]);
        assert_eq!(index.search("Pear, tree", 3, |_| true), [(0, 1.0), (2, 1.0), (3, 1.0)]);
        assert_eq!(index.search("pear tree", 2, |_| true), [(0, 1.0), (2, 1.0)]);
    }

    proptest! {
        #[test]
        fn search_is_the_cosine_by_brute_force((texts, query) in sentences(), k in 0..40usize) {
            let expected = by_brute_force(&texts, &query);
            let found = TfIdf::fit(&texts).search(&query, k, |_| true);
            prop_assert_eq!(found.len(), k.min(expected.iter().filter(|cosine| **cosine > 0.0).count()));
            for &(text, cosine) in &found {
                prop_assert!((f64::from(cosine) - expected[text]).abs() < 1e-6);
            }
            prop_assert!(found.is_sorted_by(|a, b| a.1 > b.1 || a.1 == b.1 && a.0 < b.0));
            // What was not found is no nearer than the last that was.
            if let Some(&(_, last)) = found.last() {
                for (text, cosine) in expected.iter().enumerate() {
                    prop_assert!(*cosine < f64::from(last) + 1e-6 || found.iter().any(|(other, _)| *other == text));
                }
            }
        }

        #[test]
        fn a_shorter_list_is_the_head_of_a_longer((texts, query) in sentences(), k in 0..40usize) {
            let index = TfIdf::fit(&texts);
            let all = index.search(&query, usize::MAX, |_| true);
            prop_assert_eq!(&index.search(&query, k, |_| true)[..], &all[..k.min(all.len())]);
        }

        #[test]
        fn a_text_finds_itself(text in "\\PC{0,40}", others in prop::collection::vec("\\PC{0,40}", 0..5)) {
            let texts: Vec<String> = std::iter::once(text.clone()).chain(others).collect();
            let found = TfIdf::fit(&texts).search(&text, 1, |_| true);
            prop_assert_eq!(found, if terms_of(&text).is_empty() { vec![] } else { vec![(0, 1.0)] });
        }
    }
}
