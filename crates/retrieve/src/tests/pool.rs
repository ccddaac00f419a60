//! Building, adding, resuming, opening, and refusing what is damaged.

use std::path::{Path, PathBuf};

use gradus_core::{Mark, Problem, Record};

use super::fake::{DIMENSION, Words, record, records, vector};
use crate::pca::Pca;
use crate::pool::{self, Duplicate, Encoder, Pool, PoolBuildSummary, PoolManifest, Settings};
use crate::source::{Hit, PoolSource};
use crate::{Error, Result};

pub(crate) fn settings() -> Settings {
    Settings { batch: 8, ahead: 2, ..Settings::default() }
}

pub(crate) fn encoder(model: &Words) -> Encoder<'_> {
    Encoder { model, name: "words", fingerprint: "words" }
}

pub(super) async fn build(folder: &Path, records: Vec<Record>, model: &Words) -> Result<PoolBuildSummary> {
    pool::build(folder, records, &encoder(model), &settings(), None, |_| true).await
}

/// The nearest questions, of which none is barred.
async fn nearest(pool: &Pool, queries: &[f32], k: usize) -> Vec<Vec<Hit>> {
    let barred = vec![[].as_slice(); queries.len() / pool.dimension()];
    pool.nearest(queries, k, &barred).await.unwrap()
}

/// Every question, solution, step and vector.
pub(super) fn contents(pool: &Pool) -> Vec<String> {
    let mut lines = Vec::new();
    let dimension = pool.dimension();
    for question in pool.questions() {
        lines.push(format!("{} {} {:?}", question.id, question.text, question.vector()));
        for solution in question.solutions() {
            lines.push(solution.id.to_owned());
            for step in solution.steps() {
                let vector = &pool.step_rows()[step.row as usize * dimension..][..dimension];
                lines.push(format!("{} {:?} {vector:?}", step.text, step.mark));
            }
        }
    }
    lines
}

#[tokio::test]
async fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let model = Words::default();
    let report = build(&path, records(0..30), &model).await.unwrap();
    assert_eq!((report.counts.questions, report.counts.solutions, report.dimension), (30, 50, DIMENSION));
    assert_eq!(report.counts.steps, 20 * (3 + 2) + 10 * 3);
    assert_eq!(report.dropped.unlabeled_steps, 20);
    assert_eq!(
        (report.embedded.done, model.texts(), model.most()),
        (report.embedded.total, report.embedded.total, 1)
    );
    let pool = Pool::open(&path, &encoder(&Words::default())).unwrap();
    // "So we are done." is one row.
    assert_eq!(pool.step_texts().count(), report.counts.step_texts);
    assert_eq!(pool.step_texts().filter(|text| *text == "So we are done.").count(), 1);
    let question = pool.question(4);
    assert_eq!((question.id, question.text), ("p4", record(4).problem.text.as_str()));
    let solutions: Vec<_> = question.solutions().collect();
    assert_eq!(solutions.iter().map(|solution| solution.id).collect::<Vec<_>>(), ["p4/right", "p4/wrong"]);
    let steps: Vec<_> = solutions[1].steps().map(|step| (step.text, step.mark)).collect();
    assert_eq!(steps, [("We add 6 and 4 candles.", Mark::Correct), ("The sum is 11.", Mark::Incorrect)]);
    let expected = pool.project(vector(question.text).to_vec());
    assert_eq!(question.vector(), expected);
    assert!((expected.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-5);
    assert_eq!(names(folder.path()), ["p"]);
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_interrupted_build_goes_on_and_embeds_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    build(&whole, records(0..30), &Words::default()).await.unwrap();
    let path = folder.path().join("p");
    let (mut texts, mut attempts, mut total) = (0, 0, 0);
    let mut seen = std::collections::HashMap::new();
    loop {
        let model = Words::failing_after(2);
        let result = build(&path, records(0..30), &model).await;
        attempts += 1;
        texts += model.texts();
        for (text, times) in model.seen.into_inner().unwrap() {
            *seen.entry(text).or_insert(0) += times;
        }
        match result {
            Ok(report) => {
                total = total.max(report.embedded.total);
                assert!(report.embedded.resumed > 0);
                break;
            }
            Err(error) => {
                assert!(error.to_string().contains("the server is gone"), "{error}");
                assert!(!path.exists());
            }
        }
    }
    assert!(attempts > 2);
    assert_eq!((texts, seen.values().copied().max()), (total, Some(1)));
    let (ours, theirs) = (
        Pool::open(&path, &encoder(&Words::default())).unwrap(),
        Pool::open(&whole, &encoder(&Words::default())).unwrap(),
    );
    assert_eq!(contents(&ours), contents(&theirs));
    assert_eq!(names(folder.path()), ["p", "whole"]);
}

#[tokio::test]
async fn a_build_that_is_told_to_stop_stops_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let (first, second) = (Words::default(), Words::default());
    let stopped =
        pool::build(&path, records(0..30), &encoder(&first), &settings(), None, |progress| progress.done < 8)
            .await;
    assert!(matches!(stopped, Err(Error::Stopped)));
    // Another encoder must not go on with these vectors.
    let other = Encoder { model: &second, name: "other", fingerprint: "other" };
    let refused = pool::build(&path, records(0..30), &other, &settings(), None, |_| true).await;
    assert!(refused.unwrap_err().to_string().contains("another encoder"));
    let report = build(&path, records(0..30), &second).await.unwrap();
    assert_eq!(report.embedded.resumed, 8);
    assert_eq!(second.texts(), report.embedded.total - 8);
}

#[tokio::test]
async fn adding_gives_what_building_at_once_gives() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = (folder.path().join("p"), folder.path().join("whole"));
    let halve = |rows: &[f32], dimension: usize| {
        let kept = dimension / 2;
        let components =
            (0..kept * dimension).map(|at| f32::from(at % dimension == at / dimension * 2)).collect();
        assert!(!rows.is_empty());
        Ok(Pca { mean: vec![0.01; dimension], components, kept })
    };
    let model = Words::default();
    pool::build(&whole, records(0..30), &encoder(&model), &settings(), Some(&halve), |_| true).await.unwrap();
    let model = Words::default();
    pool::build(&path, records(0..20), &encoder(&model), &settings(), Some(&halve), |_| true).await.unwrap();
    for _ in 0..2 {
        let report =
            pool::add(&path, records(15..30), &encoder(&model), &settings(), |_| true).await.unwrap();
        assert_eq!((report.counts.questions, report.dimension, model.most()), (30, DIMENSION / 2, 1));
    }
    let (ours, theirs) = (
        Pool::open(&path, &encoder(&Words::default())).unwrap(),
        Pool::open(&whole, &encoder(&Words::default())).unwrap(),
    );
    assert_eq!(contents(&ours), contents(&theirs));
    assert_eq!(ours.manifest().counts, theirs.manifest().counts);
    assert_eq!(names(&path).len(), 8);
    let text = &record(25).problem.text;
    let text = text.as_str();
    let found = ours.duplicates(&[text], 0.9).await.unwrap();
    assert_eq!(found, theirs.duplicates(&[text], 0.9).await.unwrap());
    assert!(found[0].contains(&(25, Duplicate::Exact)));
    // Half an addition leaves the pool as it was.
    let failing = Words::failing_after(0);
    pool::add(&path, records(30..40), &encoder(&failing), &settings(), |_| true).await.unwrap_err();
    assert_eq!(contents(&Pool::open(&path, &encoder(&Words::default())).unwrap()), contents(&theirs));
}

#[tokio::test]
async fn what_is_no_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let model = Words::default();
    let empty =
        Record::new(Problem { id: "e".to_owned(), text: "Why?".to_owned(), ..Problem::default() }, vec![]);
    let message = build(&path, vec![empty], &model).await.unwrap_err().to_string();
    assert_eq!(message, "none of 1 records has a labeled or a reference solution: a pool needs some");
    for fault in [
        (|answer| answer.values[3] = f32::NAN) as fn(&mut gradus_core::contracts::Embeddings),
        |answer| answer.values.truncate(5),
        |answer| answer.dimension = 0,
    ] {
        let model = Words { fault: Some(fault), ..Words::default() };
        let error = build(&path, records(0..3), &model).await.unwrap_err();
        assert!(matches!(error, Error::Encoder { .. }), "{error}");
    }
    build(&path, records(0..3), &model).await.unwrap();
    let message = build(&path, records(0..3), &model).await.unwrap_err().to_string();
    assert!(message.ends_with("is there already: add to it, or remove it first"), "{message}");
    let other = Encoder { model: &model, name: "other", fingerprint: "other" };
    let message = Pool::open(&path, &other).unwrap_err().to_string();
    assert!(message.contains("was built with the encoder `words`"), "{message}");
    let message = Pool::open(&folder.path().join("none"), &encoder(&model)).unwrap_err().to_string();
    assert!(message.contains("is no pool"), "{message}");
    let zero = Settings { batch: 0, ..settings() };
    let error = pool::add(&path, vec![], &encoder(&model), &zero, |_| true).await.unwrap_err();
    assert_eq!(error.to_string(), "batch is 0: expected at least 1");
}

#[tokio::test]
async fn damage_is_refused_with_the_files_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let keep_two = |_: &[f32], dimension: usize| {
        Ok(Pca { mean: vec![0.0; dimension], components: vec![0.1; 2 * dimension], kept: 2 })
    };
    let model = Words::default();
    pool::build(&path, records(0..6), &encoder(&model), &settings(), Some(&keep_two), |_| true)
        .await
        .unwrap();
    let mut files = 0;
    for name in names(&path) {
        let file: PathBuf = path.join(&name);
        let sound = std::fs::read(&file).unwrap();
        let refused = |bytes: Option<&[u8]>, what: &str| {
            match bytes {
                Some(bytes) => std::fs::write(&file, bytes).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let message = Pool::open(&path, &encoder(&Words::default()))
                .expect_err(&format!("{name}: {what}"))
                .to_string();
            assert!(message.contains(name.as_str()) && !message.contains('\n'), "{name}: {what}: {message}");
        };
        for at in [0, 1, sound.len() / 3, sound.len() / 2, sound.len() - 2] {
            let mut garbled = sound.clone();
            garbled[at] ^= 0x11;
            refused(Some(&garbled), "a flipped byte");
        }
        refused(Some(&sound[..sound.len() - 3]), "cut off");
        refused(Some(&[]), "empty");
        refused(Some(&[&sound[..], b"more"].concat()), "too long");
        refused(None, "missing");
        std::fs::write(&file, &sound).unwrap();
        Pool::open(&path, &encoder(&Words::default())).unwrap();
        files += 1;
    }
    assert_eq!(files, 8);
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("\"gradus_pool\": 1", "\"gradus_pool\": 9")).unwrap();
    let message = Pool::open(&path, &encoder(&Words::default())).unwrap_err().to_string();
    assert!(message.ends_with("version 9 is not supported: this program reads version 1"), "{message}");
    std::fs::write(&manifest, text).unwrap();
    let mut absurd = PoolManifest::read(&path).unwrap();
    absurd.guard.shingle = 0;
    absurd.write(&path).unwrap();
    let message = Pool::open(&path, &encoder(&Words::default())).unwrap_err().to_string();
    assert!(message.contains("field `shingle`: is 0: expected at least 1"), "{message}");
}

#[tokio::test]
async fn a_large_pool_is_searched_through_a_graph() {
    let folder = tempfile::tempdir().unwrap();
    let (path, plain) = (folder.path().join("p"), folder.path().join("plain"));
    let model = Words::default();
    let large = Settings { graph_from: 20, ..settings() };
    pool::build(&path, records(0..30), &encoder(&model), &large, None, |_| true).await.unwrap();
    build(&plain, records(0..30), &model).await.unwrap();
    let open = |path: &Path| Pool::open(path, &encoder(&model));
    let (graph, exact) = (open(&path).unwrap(), open(&plain).unwrap());
    assert_eq!((graph.is_approximate(), exact.is_approximate()), (true, false));
    let queries = exact.question_rows();
    assert_eq!(nearest(&graph, queries, 3).await, nearest(&exact, queries, 3).await);
    pool::add(&path, records(30..40), &encoder(&model), &large, |_| true).await.unwrap();
    assert_eq!(nearest(&open(&path).unwrap(), queries, 40).await[0].len(), 40);
    assert!(names(&path).contains(&"questions.2.graph".to_owned()));
    let file = path.join("questions.2.graph");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let message = open(&path).unwrap_err().to_string();
    assert!(message.contains("questions.2.graph: is damaged"), "{message}");
}
