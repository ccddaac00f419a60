//! Finding the same problem again, and splitting problems into parts.
//!
//! The last part reads the folder `GRADUS_DATA` (by default `shared/data` beside the checkout) and says so when it
//! is absent.

use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

use gradus_core::Problem;
use gradus_data::dedup::{DedupConfig, Index, Kind, normalize};
use gradus_data::split::{check, part_of};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

const TRAIN: &str = "A train leaves the old station at 9 in the morning and travels north at 60 miles per hour, while a \
                     second train leaves two hours later on the same track at 80 miles per hour. How many hours after \
                     the first train left will the second train catch up with it?";

fn index(problems: &[(&str, &str)]) -> Index {
    let mut index = Index::new(DedupConfig::default());
    for (id, text) in problems {
        index.insert(id, text);
    }
    index
}

#[test]
fn typesetting_does_not_matter() {
    for (a, b) in [
        (r"Find $\dfrac{1}{2} \left( x + 1 \right)$.", r"find \(\frac {1}{2}(x+1)\)"),
        (r"$\frac12 + \frac{3}{4}$", r"$\frac{1}{2}+\dfrac 34$"),
        ("What is 1,000 + 2?", "What   is\n$1{,}000+2$"),
        (r"Let $x\leq 3$ and $y \ne 4$", "let x ≤ 3, and y ≠ 4"),
        (r"\[a \times b\]", "a · b"),
        ("A three-digit number", "A three digit number."),
        ("“Smart” quotes", "\"smart\" quotes"),
        (r"$10,\!000 \text{ apples}$", "10000 apples"),
        ("ÉCOLE", "école"),
    ] {
        assert_eq!(normalize(a), normalize(b));
    }
}

#[test]
fn what_changes_the_problem_is_kept() {
    for (a, b) in [
        ("What is 2 + 3?", "What is 2 + 4?"),
        ("What is 2 + 3?", "What is 2 - 3?"),
        ("What is 5!?", "What is 5?"),
        ("What is 3.5?", "What is 35?"),
        ("Is 1/2 in (0, 1]?", "Is 1/2 in [0, 1)?"),
        ("Is 12 prime?", "Is 1 2 prime?"),
        ("What is 5%?", "What is 5?"),
    ] {
        assert_ne!(normalize(a), normalize(b));
    }
}

#[test]
fn exact_near_and_other_problems_are_told_apart() {
    let numbers = TRAIN.replace("60", "50");
    let words = TRAIN.replace("old station", "new station");
    let index = index(&[
        ("train", TRAIN),
        ("copy", &TRAIN.to_uppercase()),
        ("other", "How many primes are below 20?"),
    ]);
    assert_eq!(index.distinct(), 2);

    let exact = index.find(TRAIN);
    assert_eq!(
        exact.iter().map(|found| (found.id, found.kind)).collect::<Vec<_>>(),
        [("train", Kind::Exact), ("copy", Kind::Exact)]
    );
    assert!(exact.iter().all(|found| found.similarity == 1.0 && found.same_numbers));

    let near = index.find(&words);
    assert_eq!(near.len(), 2);
    assert!(near.iter().all(|found| found.kind == Kind::Near && found.same_numbers));
    assert!(near.iter().all(|found| found.similarity >= 0.8 && found.similarity < 1.0));

    let templated = index.find(&numbers);
    assert!(
        !templated.is_empty()
            && templated.iter().all(|found| found.kind == Kind::Near && !found.same_numbers)
    );
    assert!(index.find("How many apples are in the basket?").is_empty());
}

#[test]
fn texts_without_words_match_only_themselves() {
    let index = index(&[("a", "?!"), ("b", ""), ("c", "$$")]);
    assert_eq!(index.find("?!").iter().map(|found| found.id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(index.find("").iter().map(|found| found.id).collect::<Vec<_>>(), ["b"]);
    assert!(index.find("??").is_empty());
}

#[test]
fn settings_out_of_range_are_refused() {
    let message = |config: DedupConfig| config.check().unwrap_err().to_string();
    let bad = DedupConfig { threshold: 0.0, ..DedupConfig::default() };
    assert_eq!(message(bad), "field `threshold`: is 0: expected a number above 0 and at most 1");
    let bad = DedupConfig { shingle: 0, ..DedupConfig::default() };
    assert_eq!(message(bad), "field `shingle`: is 0: expected at least 1");
    let absurd = DedupConfig { num_perm: 1_000_000_000_000, ..DedupConfig::default() };
    assert_eq!(message(absurd), "field `num_perm`: is 1000000000000: expected at most 65536");
    assert!(DedupConfig::default().check().is_ok());
}

/// Of all edited problems that are still similar enough, banding must propose nearly all.
#[test]
#[expect(clippy::print_stderr, reason = "a report for `--nocapture`")]
fn banding_finds_what_is_similar() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let config = DedupConfig::default();
    let mut index = Index::new(config.clone());
    let mut problems = Vec::new();
    for id in 0..2_000 {
        let words: Vec<String> = (0..60).map(|_| format!("w{}", random.random_range(0..3_000))).collect();
        index.insert(&id.to_string(), &words.join(" "));
        problems.push(words);
    }
    let (mut similar, mut found) = (0, 0);
    for (id, words) in problems.iter().enumerate() {
        let mut edited = words.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..edited.len());
            edited[at] = "edited".to_owned();
        }
        let edited = edited.join(" ");
        if config.similarity(&words.join(" "), &edited) >= config.threshold {
            similar += 1;
            found += usize::from(index.find(&edited).iter().any(|other| other.id == id.to_string()));
        }
    }
    eprintln!("banding: {found} of {similar} near duplicates found");
    assert!(similar > 500 && found * 1_000 >= similar * 995);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_exact_duplicate_is_always_found(texts in prop::collection::vec(any::<String>(), 1..20)) {
        let mut index = Index::new(DedupConfig::default());
        for (id, text) in texts.iter().enumerate() {
            index.insert(&id.to_string(), text);
        }
        for (id, text) in texts.iter().enumerate() {
            let id = id.to_string();
            prop_assert!(index.find(text).iter().any(|found| found.id == id && found.kind == Kind::Exact));
        }
    }

    #[test]
    fn similarity_is_symmetric(a in "([a-d]{1,2} ){0,20}", b in "([a-d]{1,2} ){0,20}") {
        let config = DedupConfig::default();
        let similarity = config.similarity(&a, &b);
        prop_assert_eq!(similarity, config.similarity(&b, &a));
        prop_assert!((0.0..=1.0).contains(&similarity));
        if !a.trim().is_empty() {
            prop_assert_eq!(config.similarity(&a, &a), 1.0);
        }
    }

    #[test]
    fn a_normal_form_is_its_own_normal_form(text in "[a-zA-Z0-9 .,$=+]{0,40}") {
        let normal = normalize(&text);
        prop_assert_eq!(normalize(&normal), normal);
    }

    #[test]
    fn a_part_depends_on_the_problem_alone(text in "[a-z0-9][a-z0-9 ]{0,40}", seed in any::<u64>()) {
        let shares = [("train".to_owned(), 0.8), ("dev".to_owned(), 0.1), ("test".to_owned(), 0.1)];
        let part = part_of(&problem(&text), &shares, seed);
        prop_assert!(part < 3);
        prop_assert_eq!(part, part_of(&problem(&format!("  {}.", text.to_uppercase())), &shares, seed));
    }
}

fn problem(text: &str) -> Problem {
    Problem { text: text.to_owned(), ..Problem::default() }
}

fn shares(shares: &[(&str, f64)]) -> Vec<(String, f64)> {
    shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect()
}

#[test]
fn shares_are_met_and_seeds_differ() {
    let shares = shares(&[("train", 0.7), ("none", 0.0), ("dev", 0.2), ("test", 0.1)]);
    let parts =
        |seed| (0..20_000).map(|n| part_of(&problem(&format!("What is {n} + 1?")), &shares, seed)).collect();
    let first: Vec<usize> = parts(1);
    for (part, (name, share)) in shares.iter().enumerate() {
        let taken = first.iter().filter(|&&other| other == part).count() as f64 / first.len() as f64;
        assert!((taken - share).abs() < 0.01, "{name}: {taken}");
    }
    assert_eq!(first, parts(1));
    assert_ne!(first, parts(2));
    // Written down once: a part must not change between versions.
    assert_eq!(first[..12], [2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn shares_that_make_no_sense_are_refused() {
    let message = |pairs: &[(&str, f64)]| check(&shares(pairs)).unwrap_err().to_string();
    assert_eq!(message(&[("a", 0.5), ("b", 0.4)]), "field `shares`: the shares add up to 0.9: expected 1");
    assert_eq!(message(&[("a", 1.5), ("b", -0.5)]), "field `shares.a`: is 1.5: expected 0 to 1");
    assert_eq!(message(&[("a", f64::NAN)]), "field `shares.a`: is NaN: expected 0 to 1");
    assert_eq!(
        message(&[("a", 0.5), ("a", 0.5)]),
        "field `shares.a`: is named twice: every split needs its own name"
    );
    assert_eq!(message(&[]), "field `shares`: no split is named: expected at least one");
    assert!(check(&shares(&[("a", 0.1), ("b", 0.2), ("c", 0.7)])).is_ok());
}

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn text(row: &Value) -> &str {
    row["problem"].as_str().unwrap()
}

#[test]
#[expect(clippy::print_stderr, reason = "a report for `--nocapture`")]
fn known_leaks_between_real_datasets_are_found() {
    let Some(data) = gradus_testing::real_data() else { return };
    let (train, test) = (rows(&data.join("math/train.jsonl")), rows(&data.join("math/test.jsonl")));
    let start = Instant::now();
    let mut index = Index::new(DedupConfig::default());
    for (id, row) in test.iter().enumerate() {
        index.insert(&format!("test/{id}"), text(row));
    }
    let math500 = rows(&data.join("math/math500.jsonl"));
    let found =
        math500.iter().filter(|row| index.find(text(row)).iter().any(|f| f.kind == Kind::Exact)).count();
    assert_eq!((found, math500.len()), (500, 500));

    // PRM800K says of each problem whether it is of MATH's training or test half.
    let rated = rows(&data.join("prm800k/ratings_subset.jsonl"));
    let of = |source: &str| {
        let solutions: Vec<_> =
            rated.iter().filter(|row| row["problem_source"] == source).map(text).collect();
        let problems: HashSet<_> = solutions.iter().copied().collect();
        let exact = |text: &&str| index.find(text).iter().any(|found| found.kind == Kind::Exact);
        let near = |text: &&str| index.find(text).iter().any(|found| found.kind == Kind::Near);
        let counts = (solutions.iter().filter(|t| exact(t)).count(), solutions.len());
        eprintln!(
            "PRM800K {source}: {} of {} solutions, {} of {} problems in MATH test exactly; {} problems nearly",
            counts.0,
            counts.1,
            problems.iter().filter(|t| exact(t)).count(),
            problems.len(),
            problems.iter().filter(|t| !exact(t) && near(t)).count()
        );
        counts
    };
    let (found, all) = of("MATH-test");
    assert_eq!((found, all), (429, 429));
    of("MATH-train");

    for (id, row) in train.iter().enumerate() {
        index.insert(&format!("train/{id}"), text(row));
    }
    let inserted = start.elapsed();
    let (mut near, mut near_same, mut exact) = (0, 0, 0);
    for row in &test {
        let found = index.find(text(row));
        let leaks: Vec<_> = found.iter().filter(|f| f.id.starts_with("train/")).collect();
        exact += usize::from(leaks.iter().any(|f| f.kind == Kind::Exact));
        near += usize::from(leaks.iter().any(|f| f.kind == Kind::Near));
        near_same += usize::from(leaks.iter().any(|f| f.kind == Kind::Near && f.same_numbers));
    }
    eprintln!(
        "MATH: 12,500 problems inserted by {inserted:?}, {} distinct, 5,000 looked up by {:?}; test problems with an \
         exact copy in train {exact}, a near one {near}, of which with the same numbers {near_same}",
        index.distinct(),
        start.elapsed()
    );
}
