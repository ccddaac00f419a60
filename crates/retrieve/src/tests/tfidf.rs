//! TF-IDF search against scikit-learn (`tests/reference/tfidf.py`).
//!
//! The second part reads real questions from the folder `GRADUS_DATA` (by default `shared/data` beside the checkout)
//! and says so when it is absent.

use std::path::PathBuf;

use serde_json::Value;

use crate::tfidf::TfIdf;

fn reference(section: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../../tests/reference/tfidf.json")).unwrap();
    all[section].clone()
}

fn strings(case: &Value, field: &str) -> Vec<String> {
    case[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn questions() -> Option<Vec<String>> {
    let folder = std::env::var_os("GRADUS_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = folder.join("gsm8k/test.jsonl");
    let Ok(lines) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: no GSM8K questions at {} (set GRADUS_DATA)", path.display());
        return None;
    };
    let question =
        |line| serde_json::from_str::<Value>(line).unwrap()["question"].as_str().unwrap().to_owned();
    Some(lines.lines().take(500).map(question).collect())
}

#[test]
fn a_made_up_corpus_has_scikit_learns_similarities() {
    let case = reference("small");
    let texts = strings(&case, "texts");
    let index = TfIdf::fit(&texts);
    let expected = case["similarities"].as_array().unwrap();
    for (query, expected) in strings(&case, "queries").iter().zip(expected) {
        let mut found = vec![0.0; texts.len()];
        for (text, similarity) in index.search(query, texts.len(), |_| true) {
            found[text] = similarity;
        }
        for (text, expected) in expected.as_array().unwrap().iter().enumerate() {
            let (found, expected) = (f64::from(found[text]), expected.as_f64().unwrap());
            assert!(
                (found - expected).abs() < 1e-7,
                "{query:?} and text {text}: {found}, expected {expected}"
            );
            assert_eq!(found > 0.0, expected > 0.0, "{query:?} and text {text}");
        }
    }
}

#[test]
fn neighbours_of_real_questions_are_scikit_learns() {
    let Some(questions) = questions() else { return };
    let index = TfIdf::fit(&questions);
    assert_eq!(questions.len(), 500);
    for case in reference("gsm8k").as_array().unwrap() {
        let query = usize::try_from(case["query"].as_u64().unwrap()).unwrap();
        let mut found = index.search(&questions[query], 6, |_| true);
        assert_eq!(found.remove(0), (query, 1.0), "a question is nearest to itself");
        let expected = case["nearest"].as_array().unwrap();
        assert_eq!(found.len(), expected.len());
        for ((text, similarity), expected) in found.into_iter().zip(expected) {
            assert_eq!(Some(text as u64), expected[0].as_u64(), "neighbours of {query}");
            let difference = f64::from(similarity) - expected[1].as_f64().unwrap();
            assert!(difference.abs() < 1e-7, "{query} and {text}: {similarity}, expected {}", expected[1]);
        }
    }
}
