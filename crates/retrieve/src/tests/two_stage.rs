//! References for targets, and what the guard keeps out.

use std::path::Path;

use gradus_core::Mark;

use super::fake::{Words, record, records};
use crate::pool::{self, Encoder, Pool};
use crate::source::PoolSource;
use crate::two_stage::{Excluded, Settings, Strategy, Target, retrieve};

async fn pool_of(folder: &Path, count: usize) -> Pool {
    let path = folder.join("p");
    let encoder = Encoder { model: &Words::default(), name: "words", fingerprint: "words" };
    pool::build(&path, records(0..count), &encoder, &pool::Settings::default(), None, |_| true)
        .await
        .unwrap();
    Pool::open(&path, &encoder).unwrap()
}

/// A question like those about ladders, asked otherwise.
fn stranger() -> Target {
    Target {
        id: "t".to_owned(),
        question: "Tom sees 7 ladders , then 5 more ladders . How many ladders in all?".to_owned(),
        steps: ["We add 7 and 5 ladders.", "The sum is 13.", "So we are done."].map(str::to_owned).to_vec(),
        own: vec!["t".to_owned()],
    }
}

#[tokio::test]
async fn the_nearest_questions_and_steps_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 36).await;
    let model = Words::default();
    let targets = [stranger(), Target { id: "u".to_owned(), ..stranger() }];
    let found = retrieve(&pool, Some(&model), &targets, &Settings::default(), |_, _| true).await.unwrap();
    // Two targets with the same four texts: each is embedded once.
    assert_eq!((found.embedded, model.most(), model.texts()), (4, 1, 4));
    let first = &found.targets[0];
    assert_eq!(first.references.questions.len(), 2);
    assert!(first.references.questions.iter().all(|reference| reference.question.contains("ladders")));
    assert_eq!(first.references.questions[0].steps[0].1, Mark::Correct);
    assert!(first.seen.questions[0].similarity >= first.seen.questions[1].similarity);
    assert_eq!(first.seen.nearest, first.seen.questions[0].similarity);
    assert_eq!(first.references.steps.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(first.references.steps[2][0].text, "So we are done.");
    assert!((first.seen.steps[2][0].similarity.unwrap() - 1.0).abs() < 1e-5);
    assert_eq!(first.seen.steps[2][0].step, Some(2));
    assert_eq!(first.seen.excluded, Excluded::default());
    assert_eq!(first.references, found.targets[1].references);
}

#[tokio::test]
async fn the_steps_are_the_nearest_of_the_database_by_brute_force() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 36).await;
    let settings = Settings { database: 4, steps: 3, questions: 4, ..Settings::default() };
    let found =
        retrieve(&pool, Some(&Words::default()), &[stranger()], &settings, |_, _| true).await.unwrap();
    let found = &found.targets[0];
    let of: Vec<&str> = found.seen.questions.iter().map(|question| question.question.as_str()).collect();
    for (step, neighbors) in stranger().steps.iter().zip(&found.seen.steps) {
        let query = pool.project(super::fake::vector(step).to_vec());
        let mut best = std::collections::BTreeMap::new();
        for question in pool.questions().filter(|question| of.contains(&question.id)) {
            for step in question.solutions().flat_map(|solution| solution.steps()) {
                let row = &pool.step_rows()[step.row as usize * pool.dimension()..][..pool.dimension()];
                let similarity: f64 =
                    row.iter().zip(&query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                best.insert(step.row, similarity);
            }
        }
        let mut best: Vec<f64> = best.into_values().collect();
        best.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(neighbors.len(), 3);
        for (neighbor, best) in neighbors.iter().zip(best) {
            assert!((f64::from(neighbor.similarity.unwrap()) - best).abs() < 1e-5);
        }
    }
}

#[tokio::test]
async fn the_guard_keeps_the_targets_own_question_out() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 36).await;
    let own = record(13);
    let shouted = own.problem.text.to_uppercase().replace('?', " ?!");
    let near = format!("Now: {}", own.problem.text);
    let target = |question: &str| Target {
        id: "p13/right".to_owned(),
        question: question.to_owned(),
        steps: own.solutions[0].steps.clone(),
        own: vec!["p13/right".to_owned()],
    };
    let targets = [target(&own.problem.text), target(&shouted), target(&near)];
    for strategy in [Strategy::Nearest, Strategy::Random { seed: 7 }] {
        // All of the pool is asked for, so that only the guard decides.
        let settings = Settings { questions: 36, database: 36, strategy, cosine: 1.1, ..Settings::default() };
        let found = retrieve(&pool, Some(&Words::default()), &targets, &settings, |_, _| true).await.unwrap();
        for (found, (exact, near)) in found.targets.iter().zip([(1, 0), (1, 0), (0, 1)]) {
            assert_eq!((found.seen.excluded.exact, found.seen.excluded.own), (exact, 1));
            assert!(found.seen.excluded.near >= near);
            assert!(found.seen.questions.iter().all(|question| question.question != "p13"));
            assert!(found.seen.steps.iter().flatten().all(|step| step.question != "p13"));
            assert_eq!(found.seen.questions.len(), 36 - found.seen.excluded.exact - found.seen.excluded.near);
        }
    }
    // By the vector alone: the same words in another order.
    let mut words: Vec<&str> = own.problem.text.split_whitespace().collect();
    words.sort_unstable();
    let settings = Settings { near: 1.0, cosine: 0.999, questions: 36, ..Settings::default() };
    let found = retrieve(&pool, Some(&Words::default()), &[target(&words.join(" "))], &settings, |_, _| true)
        .await
        .unwrap();
    let found = &found.targets[0];
    assert_eq!(found.seen.excluded, Excluded { cosine: 1, own: 1, ..Excluded::default() });
    assert!(
        found.seen.nearest.unwrap() < 0.999
            && found.seen.questions.iter().all(|question| question.question != "p13")
    );
    // Those who know let the question pass; their own solution still does not.
    let settings = Settings { allow_duplicates: true, ..Settings::default() };
    let found =
        retrieve(&pool, Some(&Words::default()), &targets[..1], &settings, |_, _| true).await.unwrap();
    let found = &found.targets[0];
    assert_eq!(
        (found.seen.questions[0].question.as_str(), found.seen.questions[0].solution.as_str()),
        ("p13", "p13/wrong")
    );
    assert_eq!(found.seen.excluded, Excluded { own: 1, ..Excluded::default() });
}

#[tokio::test]
async fn parts_can_be_left_out_and_small_pools_give_what_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 3).await;
    let model = Words::default();
    let no_steps = Settings { steps: 0, ..Settings::default() };
    let found = retrieve(&pool, Some(&model), &[stranger()], &no_steps, |_, _| true).await.unwrap();
    assert_eq!((found.embedded, found.targets[0].references.questions.len()), (1, 2));
    assert!(found.targets[0].references.steps.is_empty());
    let no_questions = Settings { questions: 0, ..Settings::default() };
    let found = retrieve(&pool, Some(&model), &[stranger()], &no_questions, |_, _| true).await.unwrap();
    assert!(found.targets[0].references.questions.is_empty() && found.targets[0].seen.nearest.is_some());
    assert_eq!(found.targets[0].references.steps.len(), 3);
    let many = Settings { questions: 100, database: 100, steps: 1000, ..Settings::default() };
    let found = retrieve(&pool, Some(&model), &[stranger()], &many, |_, _| true).await.unwrap();
    assert_eq!(found.targets[0].references.questions.len(), 3);
    assert_eq!(found.targets[0].references.steps[0].len(), pool.manifest().counts.step_texts);
    assert_eq!(retrieve(&pool, Some(&model), &[], &many, |_, _| true).await.unwrap().targets, []);
    // Nothing is left when the only question is the target's own.
    let alone = tempfile::tempdir().unwrap();
    let pool = pool_of(alone.path(), 1).await;
    let own = Target { question: record(0).problem.text, ..stranger() };
    let found = retrieve(&pool, Some(&model), &[own], &Settings::default(), |_, _| true).await.unwrap();
    assert!(found.targets[0].references.questions.is_empty() && found.targets[0].seen.nearest.is_none());
    assert_eq!(found.targets[0].references.steps, [vec![], vec![], vec![]]);
}

#[tokio::test]
async fn chance_is_seeded_by_target() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 36).await;
    let model = Words::default();
    let settings = |seed| Settings { strategy: Strategy::Random { seed }, ..Settings::default() };
    let other = Target { id: "u".to_owned(), ..stranger() };
    let both =
        retrieve(&pool, Some(&model), &[stranger(), other.clone()], &settings(1), |_, _| true).await.unwrap();
    let one = retrieve(&pool, Some(&model), &[other], &settings(1), |_, _| true).await.unwrap();
    assert_eq!(both.targets[1], one.targets[0]);
    assert_ne!(both.targets[0].references, both.targets[1].references);
    let seeded = retrieve(&pool, Some(&model), &[stranger()], &settings(2), |_, _| true).await.unwrap();
    assert_ne!(both.targets[0].references, seeded.targets[0].references);
    // Chance needs no vectors: nothing is embedded, and nothing is said of similarity.
    assert_eq!((both.embedded, model.texts(), both.targets[0].seen.nearest), (0, 0, None));
    let without = retrieve(&pool, None, &[stranger()], &settings(1), |_, _| true).await.unwrap();
    assert_eq!(without.targets[0], both.targets[0]);
    let nearest = retrieve(&pool, None, &[stranger()], &Settings::default(), |_, _| true).await.unwrap_err();
    assert_eq!(nearest.to_string(), "encoder is missing: only random references need none");
    assert_eq!(both.targets[0].seen.questions[0].similarity, None);
    assert_eq!(both.targets[0].references.steps.len(), 3);
}

#[tokio::test]
async fn settings_that_cannot_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 3).await;
    for (settings, expected) in [
        (
            Settings { near: 0.5, ..Settings::default() },
            "near is 0.5: the pool's guard finds similarities from 0.8 to 1",
        ),
        (Settings { cosine: f32::NAN, ..Settings::default() }, "cosine is no number"),
        (Settings { database: 0, ..Settings::default() }, "database is 0: expected at least 1"),
    ] {
        let error = retrieve(&pool, Some(&Words::default()), &[stranger()], &settings, |_, _| true)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn words_choose_as_the_guard_allows_and_need_no_vectors_of_steps() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 36).await;
    let model = Words::default();
    let settings = Settings { strategy: Strategy::TfIdf, ..Settings::default() };
    let own = record(13);
    let copy = Target { id: "c".to_owned(), question: own.problem.text, ..stranger() };
    let found = retrieve(&pool, Some(&model), &[stranger(), copy], &settings, |_, _| true).await.unwrap();
    assert_eq!(model.texts(), 2);
    let first = &found.targets[0];
    assert!(first.references.questions.iter().all(|reference| reference.question.contains("ladders")));
    assert_eq!(first.references.steps[2][0].text, "So we are done.");
    assert!((first.seen.steps[2][0].similarity.unwrap() - 1.0).abs() < 1e-6);
    let second = &found.targets[1];
    assert_eq!((second.seen.questions.len(), second.seen.excluded.exact), (2, 1));
    assert!(second.seen.questions.iter().all(|question| question.question != "p13"));
    let (all, targets) = found.excluded();
    assert_eq!((all.exact, targets), (1, 1));
}

#[tokio::test]
async fn retrieval_stops_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let pool = pool_of(folder.path(), 9).await;
    let stopped =
        retrieve(&pool, Some(&Words::default()), &[stranger()], &Settings::default(), |_, _| false).await;
    assert!(matches!(stopped, Err(crate::Error::Stopped)));
}

#[tokio::test]
async fn a_question_that_holds_the_targets_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let model = Words::default();
    let encoder = Encoder { model: &model, name: "words", fingerprint: "words" };
    let mut with_choices = record(13);
    with_choices.problem.text +=
        "\nA: one of nine\nB: two of nine\nC: four of nine\nD: none of the other choices";
    let all = records(0..9).into_iter().chain([with_choices]);
    pool::build(&path, all, &encoder, &pool::Settings::default(), None, |_| true).await.unwrap();
    let pool = Pool::open(&path, &encoder).unwrap();
    let target = Target { id: "t".to_owned(), question: record(13).problem.text, ..Target::default() };
    assert_eq!(
        pool.duplicates(&[&target.question], 0.8).await.unwrap(),
        [[]],
        "words alone do not reach the threshold"
    );
    for strategy in [Strategy::Nearest, Strategy::TfIdf, Strategy::Random { seed: 1 }] {
        let settings = Settings { questions: 20, cosine: 0.999, strategy, ..Settings::default() };
        let found = retrieve(&pool, Some(&model), std::slice::from_ref(&target), &settings, |_, _| true)
            .await
            .unwrap();
        let seen = &found.targets[0].seen;
        assert_eq!(seen.excluded, Excluded { near: 1, ..Excluded::default() }, "{strategy:?}");
        assert!(seen.questions.iter().all(|question| question.question != "p13"));
    }
}
