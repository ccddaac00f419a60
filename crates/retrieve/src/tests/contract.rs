//! What every pool must do, in a folder or on a server: tests that each runs, by the macro at the end.

use gradus_core::{Problem, Record};

use super::fake::{DIMENSION, Words, record, records};
use super::pool::{encoder, settings};
use crate::Error;
use crate::pca::{self, Keep, Pca};
use crate::pool::{Encoder, PoolAddress, Progress, VectorSample, verify_vectors};
use crate::two_stage::{Found, Settings, Strategy, Target, retrieve};

/// Where pools are kept for the length of a test.
pub(crate) trait Shelf {
    /// A pool of this name, there or not.
    fn pool(&self, name: &str) -> PoolAddress;
}

impl Shelf for tempfile::TempDir {
    fn pool(&self, name: &str) -> PoolAddress {
        PoolAddress::from(&*self.path().join(name))
    }
}

/// Half of the dimensions, or as many as there are rows.
pub(crate) fn halved(rows: &[f32], dimension: usize) -> crate::Result<Pca> {
    let kept = (dimension / 2).min(rows.len() / dimension);
    Ok(pca::fit(rows, dimension, Keep::Fixed(kept))?.pca)
}

/// Records with everything that can go wrong in a database: the character 0, quotes, backslashes, other scripts.
pub(crate) fn odd_records() -> Vec<Record> {
    let odd = [
        "nul \0 here",
        "it's \"quoted\" \\ and \\N",
        "日本語の問題 🦀 combining e\u{301}",
        "\u{feff}mark\r\n\ttab",
    ];
    let one = |(number, text): (usize, &&str)| {
        let problem = Problem {
            id: format!("odd {number} \0"),
            text: format!("{text}, how many?"),
            reference: vec![(*text).to_owned(), format!("{text} and so on")],
            ..Problem::default()
        };
        Record::new(problem, Vec::new())
    };
    odd.iter().enumerate().map(one).collect()
}

/// Targets that are strangers, copies, near copies and shuffled copies of the first `count` records.
pub(crate) fn targets(count: usize) -> Vec<Target> {
    let mut targets = Vec::new();
    for number in (0..count + 8).step_by(3) {
        let own = record(number);
        let text = own.problem.text.clone();
        let mut shuffled: Vec<&str> = text.split_whitespace().collect();
        shuffled.reverse();
        let steps = own.solutions.first().map_or_else(Vec::new, |solution| solution.steps.clone());
        for (kind, question) in [
            ("own", text.clone()),
            ("near", format!("Now then: {text}")),
            ("shuffled", shuffled.join(" ")),
            ("stranger", format!("Tom sees {number} ladders and {} rivers, how many?", number + 3)),
        ] {
            let id = format!("p{number}/{}", if kind == "near" { "wrong" } else { "right" });
            targets.push(Target { id: id.clone(), question, steps: steps.clone(), own: vec![id] });
        }
    }
    targets
}

/// Settings that differ in everything that decides what is found.
pub(crate) fn many_settings() -> Vec<Settings> {
    let plain = Settings::default();
    vec![
        plain.clone(),
        Settings { questions: 5, database: 3, steps: 4, ..plain.clone() },
        Settings { questions: 0, ..plain.clone() },
        Settings { steps: 0, cosine: 0.9, ..plain.clone() },
        Settings { questions: 1000, database: 1000, steps: 3, ..plain.clone() },
        Settings { allow_duplicates: true, ..plain.clone() },
        Settings { strategy: Strategy::TfIdf, steps: 2, ..plain.clone() },
        Settings { strategy: Strategy::Random { seed: 7 }, ..plain.clone() },
        Settings { strategy: Strategy::Random { seed: 8 }, questions: 1000, database: 1000, ..plain },
    ]
}

pub(crate) async fn found(pool: &PoolAddress, targets: &[Target], settings: &Settings) -> Found {
    let pool = pool.open().unwrap();
    let model = Words::default();
    let model = settings.embeds().then_some(&model as &dyn gradus_core::contracts::Embed);
    retrieve(&*pool, model, targets, settings, |_, _| true).await.unwrap()
}

pub(crate) async fn build_and_find(shelf: &impl Shelf) {
    let pool = shelf.pool("p");
    let model = Words::default();
    let report =
        pool.build(records(0..36), &encoder(&model), &settings(), Some(&halved), |_| true).await.unwrap();
    assert_eq!((report.counts.questions, report.dimension, model.most()), (36, DIMENSION / 2, 1));
    let opened = pool.open().unwrap();
    assert_eq!(opened.manifest().counts, report.counts);
    let marks = opened.marks().await.unwrap();
    assert_eq!(marks.correct + marks.incorrect + marks.neutral, report.counts.steps);
    assert!(marks.wrong_solutions > 0 && marks.wrong_solutions == marks.incorrect);
    assert!(opened.bytes().await.unwrap() > 1000 && !opened.is_approximate());
    let check = verify_vectors(&*opened, &encoder(&model), VectorSample::All, |_, _| true).await.unwrap();
    assert!(check.checked == check.total && check.largest_distance < 1e-5, "{check:?}");
    let own = record(13);
    let target = Target { id: "p13/right".to_owned(), question: own.problem.text, ..Target::default() };
    let found = found(&pool, &[target], &Settings::default()).await;
    assert_eq!(found.targets[0].seen.excluded.exact, 1);
    assert!(found.targets[0].seen.questions.iter().all(|question| question.question != "p13"));
    // It is there already, and stays.
    let again = pool.build(records(0..3), &encoder(&model), &settings(), None, |_| true).await.unwrap_err();
    assert!(again.to_string().contains("is there already: add to it, or "), "{again}");
}

pub(crate) async fn add_is_as_if_built_at_once(shelf: &impl Shelf) {
    let (whole, grown) = (shelf.pool("whole"), shelf.pool("grown"));
    let model = Words::default();
    // Without components, which would be fitted to fewer texts.
    whole.build(records(0..30), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    let model = Words::default();
    grown.build(records(0..14), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    let report = grown.add(records(10..30), &encoder(&model), &settings(), |_| true).await.unwrap();
    assert_eq!((report.before.questions, report.counts.questions, model.most()), (14, 30, 1));
    assert!(report.dropped.known_solutions > 0);
    assert_eq!(grown.open().unwrap().manifest().counts, whole.open().unwrap().manifest().counts);
    let targets = targets(30);
    for settings in many_settings() {
        assert_eq!(found(&grown, &targets, &settings).await, found(&whole, &targets, &settings).await);
    }
    let again = grown.add(records(10..30), &encoder(&model), &settings(), |_| true).await.unwrap();
    assert_eq!((again.embedded.total, again.before, model.most()), (0, again.counts, 1));
}

pub(crate) async fn a_failed_build_is_resumed(shelf: &impl Shelf) {
    let pool = shelf.pool("p");
    let failing = Words::failing_after(3);
    let error = pool
        .build(records(0..36), &encoder(&failing), &settings(), Some(&halved), |_| true)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Encoder { done: 24, .. }), "{error}");
    assert!(pool.open().is_err(), "nothing half done is there");
    let model = Words::default();
    let watch = |done: Progress| done.done <= 40;
    let stopped = pool.build(records(0..36), &encoder(&model), &settings(), Some(&halved), watch).await;
    assert!(matches!(stopped, Err(Error::Stopped)));
    let report =
        pool.build(records(0..36), &encoder(&model), &settings(), Some(&halved), |_| true).await.unwrap();
    assert!(report.embedded.resumed >= 40, "{report:?}");
    assert_eq!(model.most(), 1);
    let fresh = shelf.pool("fresh");
    fresh.build(records(0..36), &encoder(&model), &settings(), Some(&halved), |_| true).await.unwrap();
    let targets = targets(36);
    assert_eq!(
        found(&pool, &targets, &Settings::default()).await,
        found(&fresh, &targets, &Settings::default()).await
    );
}

pub(crate) async fn what_cannot_be_used_is_refused(shelf: &impl Shelf) {
    let pool = shelf.pool("p");
    let model = Words::default();
    assert!(pool.open().is_err());
    assert!(pool.add(records(0..3), &encoder(&model), &settings(), |_| true).await.is_err());
    let nothing = Record::new(Problem { text: "Why?".to_owned(), ..Problem::default() }, Vec::new());
    let error = pool.build(vec![nothing], &encoder(&model), &settings(), None, |_| true).await.unwrap_err();
    assert!(error.to_string().contains("none of 1 records"), "{error}");
    pool.build(records(0..5), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    let other = Encoder { model: &model, name: "others", fingerprint: "others" };
    for refused in [
        pool.open().unwrap().expect(&other).unwrap_err(),
        pool.add(records(5..9), &other, &settings(), |_| true).await.unwrap_err(),
    ] {
        let expected = "was built with the encoder `words`: vectors of `others` cannot be compared with it";
        assert!(refused.to_string().ends_with(expected), "{refused}");
    }
    assert_eq!(pool.open().unwrap().manifest().counts.questions, 5);
}

pub(crate) async fn odd_texts_come_back_whole(shelf: &impl Shelf) {
    let pool = shelf.pool("p");
    let model = Words::default();
    let records = odd_records();
    pool.build(records.clone(), &encoder(&model), &settings(), None, |_| true).await.unwrap();
    let target = Target { question: "how many?".to_owned(), ..Target::default() };
    let wide = Settings { questions: 9, ..Settings::default() };
    let found = found(&pool, &[target], &wide).await;
    let mut texts: Vec<&str> =
        found.targets[0].references.questions.iter().map(|found| found.question.as_str()).collect();
    let mut expected: Vec<String> = records.iter().map(|record| record.problem.question()).collect();
    texts.sort_unstable();
    expected.sort_unstable();
    assert_eq!(texts, expected);
}

/// Runs the contract's tests; `$make` gives a shelf, or none where there is no server.
macro_rules! contract_tests {
    ($make:expr) => {
        $crate::tests::contract::contract_tests!(
            $make,
            build_and_find,
            add_is_as_if_built_at_once,
            a_failed_build_is_resumed,
            what_cannot_be_used_is_refused,
            odd_texts_come_back_whole
        );
    };
    ($make:expr, $($name:ident),+) => {
        $(
            #[tokio::test]
            async fn $name() {
                let Some(shelf) = $make().await else { return };
                $crate::tests::contract::$name(&shelf).await;
            }
        )+
    };
}
pub(crate) use contract_tests;

mod folder {
    async fn make() -> Option<tempfile::TempDir> {
        tempfile::tempdir().ok()
    }

    contract_tests!(make);
}
