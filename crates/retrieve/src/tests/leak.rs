//! The guard on real data: ProcessBench's MATH problems are problems of MATH's test set, and planted copies are added.
//! Reads the folder `GRADUS_DATA` (by default `shared/data` beside the checkout) and says so when it is absent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use gradus_core::{Problem, Record};
use gradus_data::dedup::{DedupConfig, normalize};
use gradus_data::files;
use rayon::prelude::*;

use super::fake::Words;
use crate::pool::{self, Encoder, Pool};
use crate::two_stage::{Settings, Target, retrieve};

#[expect(clippy::print_stderr, reason = "a skipped test must say so")]
fn records(name: &str) -> Option<Vec<Record>> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let path = std::env::var_os("GRADUS_DATA").map_or(default, PathBuf::from).join(name);
    if !path.exists() {
        eprintln!("skipped: there is no {}", path.display());
        return None;
    }
    let records = files::open(&[path], None).unwrap();
    Some(records.map(|item| item.unwrap().record).collect())
}

/// Copies that say the same in the same words.
fn copies(question: &str) -> [String; 6] {
    [
        question.to_owned(),
        question.to_lowercase(),
        question.split_whitespace().collect::<Vec<_>>().join("  \n"),
        format!("{question} ."),
        format!("  {}", question.trim_end_matches(['.', '?', ' '])),
        question.replace("\\frac", "\\dfrac").replace('$', " $ "),
    ]
}

#[tokio::test]
async fn nothing_of_a_targets_own_question_is_retrieved() {
    let (Some(test), Some(targets)) = (records("math/test.jsonl"), records("processbench/math.json")) else {
        return;
    };
    let mut pool_records = test;
    for (number, target) in targets.iter().enumerate().step_by(5) {
        for (copy, text) in copies(&target.problem.question()).into_iter().enumerate() {
            let reference = vec!["A planted step.".to_owned()];
            let id = format!("planted-{number}-{copy}");
            pool_records.push(Record::new(Problem { id, text, reference, ..Problem::default() }, vec![]));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let model = Words::default();
    let encoder = Encoder { model: &model, name: "words", fingerprint: "words" };
    pool::build(&path, pool_records, &encoder, &pool::Settings::default(), None, |_| true).await.unwrap();
    let pool = Pool::open(&path, &encoder).unwrap();
    let asked: Vec<Target> = targets
        .iter()
        .flat_map(|record| {
            record.solutions.iter().map(|solution| Target {
                id: solution.id.clone(),
                question: record.problem.question(),
                steps: solution.steps.clone(),
                own: vec![],
            })
        })
        .collect();
    // The vectors say nothing here: words in any order are alike. The texts decide.
    let settings = Settings { cosine: 2.0, ..Settings::default() };
    let found = retrieve(&pool, Some(&model), &asked, &settings, |_, _| true).await.unwrap();

    // By brute force: every question of the pool against every target.
    let (config, questions): (_, Vec<(&str, &str)>) =
        (DedupConfig::default(), pool.questions().map(|question| (question.id, question.text)).collect());
    let normal: Vec<String> = questions.iter().map(|(_, text)| normalize(text)).collect();
    let shingles: Vec<_> = questions.par_iter().map(|(_, text)| config.shingles(text)).collect();
    let own: Vec<(BTreeSet<&str>, usize)> = asked
        .par_iter()
        .map(|target| {
            let (same, words) = (normalize(&target.question), config.shingles(&target.question));
            let is_exact = |index: &usize| normal[*index] == same;
            let is_own =
                |index: &usize| is_exact(index) || words.similarity(&shingles[*index]) >= config.threshold;
            let own = (0..questions.len()).filter(is_own).map(|index| questions[index].0).collect();
            (own, (0..questions.len()).filter(is_exact).count())
        })
        .collect();
    let mut exact_in_all = 0;
    for ((target, (own, exact)), index) in found.targets.iter().zip(&own).zip(0..) {
        let retrieved = target.seen.questions.iter().chain(target.seen.steps.iter().flatten());
        for from in retrieved {
            assert!(!own.contains(from.question.as_str()), "{} saw its own {}", target.id, from.question);
        }
        assert_eq!(target.seen.excluded.exact, *exact, "{}", target.id);
        assert!(target.seen.excluded.exact + target.seen.excluded.near >= own.len(), "{}", target.id);
        exact_in_all += exact;
        // Copies with the very same text have become one question, under the first one's name.
        let planted = |id: &&str| id.starts_with(&format!("planted-{index}-"));
        let missed: Vec<_> =
            questions.iter().map(|(id, _)| *id).filter(planted).filter(|id| !own.contains(id)).collect();
        assert_eq!(missed, Vec::<&str>::new(), "{}", target.id);
    }
    let (excluded, guarded) = found.excluded();
    assert!(guarded * 10 > asked.len() * 5 && excluded.exact == exact_in_all);
}
