//! Counting a dataset: exact numbers on a small one, and totals that add up on any.

use std::path::Path;

use gradus_core::Fault;
use gradus_core::{Annotation, Domain, LabelSource, Mark, Outcome, Problem, Record, Solution, StepLabel};
use gradus_data::SourceLocation;
use gradus_data::files;
use gradus_data::files::Item;
use gradus_data::readers::Format;
use gradus_data::stats::{Bin, Stats, Summary};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use proptest::strategy::Strategy;

fn item(problem: Problem, solutions: Vec<Solution>, issues: Vec<Fault>) -> Item {
    let place = SourceLocation { path: Path::new("made.jsonl").into(), line: 3 };
    Item { record: Record::new(problem, solutions), place, format: Format::Gradus, issues, note: None }
}

fn problem(id: &str) -> Problem {
    Problem { id: id.to_owned(), text: format!("Problem {id}"), ..Problem::default() }
}

fn solution(id: &str, steps: &[&str]) -> Solution {
    Solution {
        id: id.to_owned(),
        problem_id: "p".to_owned(),
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        ..Solution::default()
    }
}

fn summary(items: &[Item]) -> Summary {
    let mut stats = Stats::default();
    for item in items {
        stats.add(item);
    }
    stats.finish()
}

fn bin(from: usize, to: usize, count: u64) -> Bin {
    Bin { from, to: Some(to), count }
}

#[test]
fn a_small_dataset_is_counted_exactly() {
    let human = LabelSource::Human;
    let wrong = Solution {
        generator: Some("small".to_owned()),
        outcome: Outcome::Wrong,
        annotations: vec![Annotation::from_first_error(4, Some(2), &human)],
        scores: [("prm".to_owned(), vec![0.9, 0.8, 0.1, 0.2]), ("short".to_owned(), vec![0.5, f64::NAN])]
            .into(),
        ..solution("s0", &["2 + 3 = 5", "so 5", "5 + 1 = 7", &"long ".repeat(30)])
    };
    let soft = |value| {
        Some(StepLabel::soft(
            value,
            LabelSource::MonteCarlo { model: String::new(), successes: 1, samples: 2 },
        ))
    };
    let right = Solution {
        generator: Some("small".to_owned()),
        outcome: Outcome::Correct,
        annotations: vec![
            Annotation::from_labels(vec![soft(1.0), Some(StepLabel::hard(Mark::Neutral, human.clone()))]),
            Annotation::from_first_error(2, Some(0), &human),
        ],
        scores: [("prm".to_owned(), vec![1.0, 0.6])].into(),
        ..solution("s1", &["2 + 3 = 5", "done"])
    };
    let first =
        Problem { answer: Some("5".to_owned()), reference: vec!["2 + 3 = 5".to_owned()], ..problem("p1") };
    let second = Problem { context: vec!["A fact.".to_owned()], domain: Domain::Qa, ..problem("p2") };
    let issue = Fault::new("candidates[1].error", "is 9, but there are 2 steps");
    let found = summary(&[
        item(first.clone(), vec![wrong, right], vec![issue, Fault::new("level", "is 12: expected 1 to 5")]),
        item(second, vec![], vec![]),
        item(first, vec![solution("s1", &[])], vec![]),
    ]);

    assert_eq!((found.schema, found.records, found.problems, found.solutions, found.steps), (1, 3, 2, 3, 6));
    assert_eq!((found.duplicate_problem_ids, found.duplicate_solution_ids), (1, 1));
    assert_eq!((found.with_answer, found.with_reference, found.with_context), (2, 2, 1));
    assert_eq!(found.formats.into_iter().collect::<Vec<_>>(), [("gradus", 3)]);
    assert_eq!(found.domains.into_iter().collect::<Vec<_>>(), [("math", 2), ("qa", 1)]);
    assert_eq!((found.candidates.min, found.candidates.mean, found.candidates.max), (0, 1.5, 3));
    assert_eq!(found.candidates.histogram, [bin(0, 0, 1), bin(1, 1, 0), bin(2, 2, 0), bin(3, 4, 1)]);
    let steps = [bin(0, 0, 1), bin(1, 1, 0), bin(2, 2, 1), bin(3, 3, 0), bin(4, 4, 1)];
    assert_eq!(found.steps_per_solution, steps);
    assert_eq!(
        found.step_chars,
        [bin(0, 0, 0), bin(1, 19, 5), bin(20, 49, 0), bin(50, 99, 0), bin(100, 199, 1)]
    );
    assert_eq!((found.outcomes.correct, found.outcomes.wrong, found.outcomes.unknown), (1, 1, 1));

    assert_eq!(found.annotations, 3);
    let labels = &found.labels;
    assert_eq!(
        (labels.correct, labels.incorrect, labels.neutral, labels.unknown, labels.soft),
        (3, 2, 1, 2, 1)
    );
    let errors = &found.errors;
    assert_eq!((errors.erroneous, errors.error_free, errors.unknown, errors.disagreeing), (2, 0, 1, 1));
    assert_eq!(errors.position, [bin(0, 0, 1), bin(1, 1, 0), bin(2, 2, 1)]);
    assert_eq!(errors.decile, [1, 0, 0, 0, 0, 1, 0, 0, 0, 0]);

    let generators = found
        .generators
        .iter()
        .map(|g| (g.name.as_deref(), g.solutions, g.erroneous, g.error_free, g.outcome_correct));
    assert_eq!(generators.collect::<Vec<_>>(), [(None, 1, 0, 0, 0), (Some("small"), 2, 2, 0, 1)]);

    let prm = &found.scores["prm"];
    assert_eq!((prm.solutions, prm.values, prm.not_finite, prm.length_mismatches), (2, 6, 0, 0));
    assert_eq!((prm.min, prm.max), (Some(0.1), Some(1.0)));
    assert!((prm.mean.unwrap() - 0.6).abs() < 1e-12);
    let short = &found.scores["short"];
    assert_eq!((short.solutions, short.values, short.not_finite, short.length_mismatches), (1, 1, 1, 1));

    let issues: Vec<_> = found
        .issues
        .iter()
        .map(|issue| {
            (
                issue.file.as_str(),
                issue.line,
                issue.problem.as_str(),
                issue.solution.as_deref(),
                issue.field.as_str(),
            )
        })
        .collect();
    assert_eq!(
        issues,
        [("made.jsonl", 3, "p1", Some("s1"), "candidates[1].error"), ("made.jsonl", 3, "p1", None, "level"),]
    );
    assert_eq!(found.issues[0].message, "is 9, but there are 2 steps");
}

#[test]
fn an_empty_dataset_has_a_summary() {
    let found = serde_json::to_value(summary(&[])).unwrap();
    assert_eq!(found["schema"], 1);
    assert_eq!(found["candidates"]["mean"], 0.0);
    assert!(found["steps_per_solution"].as_array().unwrap().is_empty());
}

/// A solution's steps, first error, whether it is annotated, outcome and generator.
fn solutions() -> impl Strategy<Value = Vec<Solution>> {
    let one = (0..120usize, any::<prop::sample::Index>(), 0..4u8, 0..3u8, 0..3u8);
    prop::collection::vec(one, 0..6).prop_map(|all| {
        let make = |(id, (steps, error, annotated, outcome, generator)): (
            usize,
            (usize, prop::sample::Index, u8, u8, u8),
        )| {
            let error = (annotated == 1 && steps > 0).then(|| error.index(steps.max(1)));
            let annotation = Annotation::from_first_error(steps, error, &LabelSource::Unstated);
            let unknown = Annotation { labels: vec![None; steps], ..Annotation::default() };
            Solution {
                id: format!("s{id}"),
                steps: (0..steps).map(|step| "x".repeat(step * step)).collect(),
                annotations: match annotated {
                    0 => vec![],
                    3 => vec![unknown, annotation],
                    _ => vec![annotation],
                },
                outcome: [Outcome::Correct, Outcome::Wrong, Outcome::Unknown][usize::from(outcome)],
                generator: ["a", "b"].get(usize::from(generator)).map(|&name| name.to_owned()),
                scores: [("prm".to_owned(), vec![0.5; steps])].into(),
                ..Solution::default()
            }
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn totals_add_up(records in prop::collection::vec((0..4u8, solutions()), 0..8)) {
        let items: Vec<Item> =
            records.into_iter().map(|(id, solutions)| item(problem(&id.to_string()), solutions, vec![])).collect();
        let found = summary(&items);
        let total = |bins: &[Bin]| bins.iter().map(|bin| bin.count).sum::<u64>();
        prop_assert_eq!(found.records, items.len() as u64);
        prop_assert_eq!(found.records, found.problems + found.duplicate_problem_ids);
        prop_assert_eq!(found.records, found.domains.values().sum::<u64>());
        prop_assert_eq!(found.records, found.formats.values().sum::<u64>());
        prop_assert_eq!(found.problems, total(&found.candidates.histogram));
        prop_assert_eq!(found.solutions, total(&found.steps_per_solution));
        prop_assert_eq!(found.steps, total(&found.step_chars));
        let outcomes = &found.outcomes;
        prop_assert_eq!(found.solutions, outcomes.correct + outcomes.wrong + outcomes.unknown);
        let errors = &found.errors;
        prop_assert_eq!(found.solutions, errors.erroneous + errors.error_free + errors.unknown);
        prop_assert_eq!(errors.erroneous, total(&errors.position));
        prop_assert_eq!(errors.erroneous, errors.decile.iter().sum::<u64>());
        prop_assert_eq!(found.solutions, found.generators.iter().map(|row| row.solutions).sum::<u64>());
        prop_assert_eq!(errors.erroneous, found.generators.iter().map(|row| row.erroneous).sum::<u64>());
        prop_assert_eq!(errors.error_free, found.generators.iter().map(|row| row.error_free).sum::<u64>());
        prop_assert_eq!(outcomes.correct, found.generators.iter().map(|row| row.outcome_correct).sum::<u64>());
        let slots: usize = items.iter().flat_map(|item| &item.record.solutions).flat_map(|s| &s.annotations)
            .map(|annotation| annotation.labels.len()).sum();
        let labels = &found.labels;
        prop_assert_eq!(slots as u64, labels.correct + labels.incorrect + labels.neutral + labels.unknown);
        let scored = found.scores.get("prm").map_or(0, |column| column.values);
        prop_assert_eq!(found.steps, scored);
    }
}

#[test]
fn real_datasets_are_counted_as_their_authors_count_them() {
    let Some(data) = gradus_testing::real_data() else { return };
    let read = |path: &str| {
        let items = files::open(&[data.join(path)], None).unwrap();
        summary(&items.map(Result::unwrap).collect::<Vec<_>>())
    };
    let sampled = read("best_of_n/gsm8k_n32.jsonl.gz");
    assert_eq!((sampled.records, sampled.problems, sampled.solutions), (237, 237, 237 * 32));
    assert_eq!((sampled.candidates.min, sampled.candidates.max, sampled.candidates.mean), (32, 32, 32.0));
    assert_eq!(sampled.scores.len(), 7);
    assert_eq!(sampled.annotations, 0);

    let judged = read("processbench");
    assert_eq!((judged.records, judged.solutions, judged.with_answer), (1_682, 1_682, 0));
    assert_eq!(judged.errors.erroneous + judged.errors.error_free, 1_682);
    assert!(judged.generators.len() > 1 && judged.issues.is_empty());
    // Counted with Python: rows with `final_answer_correct`, and those of them with a `label` of 0 or more.
    let processes: Vec<_> =
        judged.wrong_processes.iter().map(|file| (file.correct_answers, file.with_error)).collect();
    assert_eq!(processes, [(102, 3), (254, 52), (235, 90), (247, 125)]);
}
