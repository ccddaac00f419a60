//! The public datasets, every record of every file. They lie in `shared/data` beside the checkout, or where
//! `GRADUS_DATA` says; without them the test says that it did nothing.

use std::collections::BTreeSet;

use gradus_core::{FirstError, Outcome};
use gradus_data::files;
use gradus_data::files::Item;
use gradus_data::readers::Format;
use serde_json::Value;

use super::comes_back;

/// The items of one file, after checking that each was detected as `format`.
fn items(path: &str, format: Format) -> Option<Vec<Item>> {
    let path = gradus_testing::real_data()?.join(path);
    let items: Vec<Item> = files::open(&[path], None)
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}"));
    for item in &items {
        assert_eq!(item.format, format, "{}", item.place);
    }
    Some(items)
}

fn first_errors(items: &[Item]) -> [usize; 3] {
    let mut counts = [0; 3];
    for item in items {
        for annotation in item.record.solutions.iter().flat_map(|solution| &solution.annotations) {
            counts[match annotation.first_error {
                FirstError::At(_) => 0,
                FirstError::None => 1,
                FirstError::Unknown => 2,
            }] += 1;
        }
    }
    counts
}

/// Every file with its format and number of records.
const FILES: [(&str, Format, usize); 46] = [
    ("best_of_n/gsm8k_n32.jsonl.gz", Format::BestOfN, 237),
    ("best_of_n/math500_n32.jsonl.gz", Format::BestOfN, 252),
    ("best_of_n/olympiadbench_n8.json", Format::CandidateOutcomes, 200),
    ("gsm8k/example_model_solutions.jsonl", Format::Gsm8kSolutions, 1319),
    ("gsm8k/test.jsonl", Format::Gsm8k, 1319),
    ("gsm8k/train.jsonl", Format::Gsm8k, 7473),
    ("many_models/gsm8k.jsonl.gz", Format::ManyModels, 643),
    ("many_models/math_level5.jsonl.gz", Format::ManyModels, 342),
    ("math/math500.jsonl", Format::Math, 500),
    ("math/test.jsonl", Format::Math, 5000),
    ("math/train.jsonl", Format::Math, 7500),
    ("math_shepherd/samples.jsonl", Format::MathShepherd, 7),
    ("musique/dev_decompositions.json", Format::Musique, 2417),
    ("musique/with_paragraphs_200.json", Format::Musique, 200),
    ("prm800k/phase1_train_prefixes.jsonl.gz", Format::Prm800kPrefixes, 14179),
    ("prm800k/ratings_subset.jsonl", Format::Prm800kRatings, 1339),
    ("prm800k/raw_format_samples.jsonl", Format::Prm800k, 6),
    ("prm800k/raw_phase1-test.json", Format::Prm800k, 1),
    ("prm800k/raw_phase1-train.json", Format::Prm800k, 3),
    ("prm800k/raw_phase2-test.json", Format::Prm800k, 1),
    ("prm800k/raw_phase2-train.json", Format::Prm800k, 1),
    ("prm800k/raw_phase2_train_example.jsonl", Format::Prm800k, 9),
    ("prmbench/prmbench.jsonl", Format::PrmBench, 3013),
    ("problems/aime24.jsonl", Format::Problems, 30),
    ("problems/amc23.jsonl", Format::Problems, 40),
    ("problems/college_math.jsonl", Format::Problems, 2818),
    ("problems/gaokao2023en.jsonl", Format::Problems, 385),
    ("problems/minerva_math.jsonl", Format::Math, 272),
    ("problems/olympiadbench.jsonl", Format::Problems, 675),
    ("processbench/gsm8k.json", Format::ProcessBench, 214),
    ("processbench/math.json", Format::ProcessBench, 504),
    ("processbench/olympiadbench.json", Format::ProcessBench, 469),
    ("processbench/omnimath.json", Format::ProcessBench, 495),
    ("step_labels/bigbench_mistake/dyck_languages.jsonl", Format::BigBenchMistake, 986),
    ("step_labels/bigbench_mistake/logical_deduction.jsonl", Format::BigBenchMistake, 300),
    ("step_labels/bigbench_mistake/multistep_arithmetic.jsonl", Format::BigBenchMistake, 300),
    ("step_labels/bigbench_mistake/tracking_shuffled_objects.jsonl", Format::BigBenchMistake, 300),
    ("step_labels/bigbench_mistake/word_sorting.jsonl", Format::BigBenchMistake, 300),
    ("step_labels/eic.jsonl.gz", Format::Eic, 5013),
    ("step_labels/mr_ben_math.json", Format::MrBen, 918),
    ("step_labels/mr_gsm8k_subset.json", Format::MrGsm8k, 590),
    ("step_labels/mr_math_invalid_errors.json", Format::ReasonEval, 159),
    ("step_labels/mr_math_redundant_errors.json", Format::ReasonEval, 300),
    ("step_labels/parc.jsonl.gz", Format::Parc, 459),
    ("step_labels/prm800k_phase2_natural.jsonl.gz", Format::FirstError, 193),
    ("step_labels/stepverify.json", Format::StepVerify, 1002),
];

#[test]
fn every_record_of_every_dataset_comes_back() {
    let Some(folder) = gradus_testing::real_data() else { return };
    let mut unlisted = BTreeSet::new();
    let mut todo = vec![folder.clone()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|end| end != "md") {
            unlisted.insert(path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned());
        }
    }
    for (path, format, count) in FILES {
        unlisted.remove(path);
        let rows = files::rows(&folder.join(path)).unwrap();
        let mut read = 0;
        for row in rows {
            comes_back(&row.unwrap().1, format);
            read += 1;
        }
        assert_eq!(read, count, "{path}");
    }
    assert!(unlisted.is_empty(), "files without a test: {unlisted:?}");
}

#[test]
fn processbench_errors_are_counted() {
    for (subset, erroneous) in [("gsm8k", 115), ("math", 302), ("olympiadbench", 324), ("omnimath", 373)] {
        let Some(items) = items(&format!("processbench/{subset}.json"), Format::ProcessBench) else { return };
        assert_eq!(first_errors(&items)[0], erroneous, "{subset}");
    }
}

#[test]
fn prmbench_reports_steps_that_are_not_there() {
    let Some(items) = items("prmbench/prmbench.jsonl", Format::PrmBench) else { return };
    let with_issues: Vec<_> = items.iter().filter(|item| !item.issues.is_empty()).collect();
    assert_eq!(with_issues.len(), 48);
    assert!(with_issues.iter().flat_map(|item| &item.issues).all(|issue| issue.field == "error_steps"));
    // Seven records name no step that is there; 97 are right throughout.
    assert_eq!(first_errors(&items), [3013 - 7 - 97, 97, 7]);
    let ids: BTreeSet<_> = items.iter().map(|item| &item.record.solutions[0].id).collect();
    assert_eq!(ids.len(), 3013);
}

#[test]
fn best_of_n_has_32_candidates_with_seven_score_columns() {
    let Some(items) = items("best_of_n/gsm8k_n32.jsonl.gz", Format::BestOfN) else { return };
    assert_eq!(items.len(), 237);
    for solutions in items.iter().map(|item| &item.record.solutions) {
        assert_eq!(solutions.len(), 32);
        assert!(solutions.iter().all(|solution| solution.scores.len() == 7));
        assert!(solutions.iter().all(|solution| solution.outcome != Outcome::Unknown));
    }
}

#[test]
fn mr_ben_errors_are_found_by_their_number() {
    let Some(items) = items("step_labels/mr_ben_math.json", Format::MrBen) else { return };
    assert_eq!(first_errors(&items), [769, 149, 0]);
    let raw: Vec<Value> =
        files::rows(&gradus_testing::real_data().unwrap().join("step_labels/mr_ben_math.json"))
            .unwrap()
            .map(|row| row.unwrap().1)
            .collect();
    let moved = items.iter().zip(raw).filter(|(item, raw)| {
        let number: Option<usize> =
            raw["Model_Solution_First_Error_Step"].as_str().and_then(|number| number.parse().ok());
        match item.record.solutions[0].annotations[0].first_error {
            FirstError::At(index) => number != Some(index + 1),
            _ => false,
        }
    });
    assert_eq!(moved.count(), 138);
}

#[test]
fn other_step_labels_are_counted() {
    for (path, format, expected) in [
        ("step_labels/mr_gsm8k_subset.json", Format::MrGsm8k, [590, 0, 0]),
        ("step_labels/mr_math_invalid_errors.json", Format::ReasonEval, [83, 76, 0]),
        ("step_labels/mr_math_redundant_errors.json", Format::ReasonEval, [0, 300, 0]),
        ("step_labels/stepverify.json", Format::StepVerify, [1002, 0, 0]),
        ("step_labels/bigbench_mistake", Format::BigBenchMistake, [1708, 478, 0]),
    ] {
        let Some(items) = items(path, format) else { return };
        assert_eq!(first_errors(&items), expected, "{path}");
        assert!(items.iter().all(|item| item.issues.is_empty()), "{path}");
    }
}

/// MATH's training file has the gold answer in a field too: the box must say the same. One record's field has the
/// box's braces and the full stop after it in its answer.
#[test]
fn the_last_box_is_the_gold_answer() {
    let Some(folder) = gradus_testing::real_data() else { return };
    let differ = files::rows(&folder.join("math/train.jsonl"))
        .unwrap()
        .filter(|row| {
            let mut fields = row.as_ref().unwrap().1.as_object().unwrap().clone();
            let gold = fields.remove("answer").unwrap();
            Format::Math.read(fields).unwrap().record.problem.answer.as_deref() != gold.as_str()
        })
        .count();
    assert_eq!(differ, 1);
}

#[test]
fn gold_answers_are_found() {
    for (path, format, missing) in [
        ("gsm8k/train.jsonl", Format::Gsm8k, 0),
        ("math/test.jsonl", Format::Math, 0),
        ("math/math500.jsonl", Format::Math, 0),
        ("problems/minerva_math.jsonl", Format::Math, 0),
        ("problems/amc23.jsonl", Format::Problems, 0),
        ("problems/olympiadbench.jsonl", Format::Problems, 0),
        ("many_models/gsm8k.jsonl.gz", Format::ManyModels, 0),
        ("step_labels/stepverify.json", Format::StepVerify, 0),
    ] {
        let Some(items) = items(path, format) else { return };
        let without =
            items.iter().filter(|item| item.record.problem.answer.as_deref().is_none_or(str::is_empty));
        assert_eq!(without.count(), missing, "{path}");
        assert!(items.iter().all(|item| !item.record.problem.answer.as_deref().unwrap_or("").contains('#')));
    }
}

/// The ratings of completions, each once: alternatives share the labels of the path before them.
#[test]
fn every_rating_of_prm800k_arrives() {
    for (path, ratings, negative, written_by_people) in [
        ("prm800k/raw_phase2_train_example.jsonl", 107, 21, 0),
        ("prm800k/raw_phase1-train.json", 148, 67, 13),
    ] {
        let Some(items) = items(path, Format::Prm800k) else { return };
        let mut labels = Vec::new();
        for item in &items {
            for (index, solution) in item.record.solutions.iter().enumerate() {
                let all = &solution.annotations[0].labels;
                // The first solution is the path, the others add their last step to it.
                labels.extend(if index == 0 { &all[..] } else { &all[all.len() - 1..] });
                // A labeller who gave up left the last step without a rating.
                assert!(all[..all.len() - 1].iter().all(Option::is_some), "{path}");
            }
        }
        let marks: Vec<_> = labels.into_iter().flatten().map(|label| label.mark).collect();
        assert_eq!(marks.len(), ratings + written_by_people, "{path}");
        assert_eq!(
            marks.iter().filter(|mark| **mark == gradus_core::Mark::Incorrect).count(),
            negative,
            "{path}"
        );
        // A format that wants a label for every step takes them all.
        let trl: Vec<_> = items.iter().map(|item| Format::Trl.write(&item.record)).collect();
        assert!(trl.iter().all(|written| written.dropped.is_empty()), "{path}");
        assert!(trl.iter().map(|written| written.cut).sum::<usize>() <= 1, "{path}");
    }
}

#[test]
fn candidates_after_a_prefix_are_counted() {
    let Some(items) = items("prm800k/phase1_train_prefixes.jsonl.gz", Format::Prm800kPrefixes) else {
        return;
    };
    let mut counts = [0; 3];
    for solution in items.iter().flat_map(|item| &item.record.solutions) {
        let label = solution.annotations[0].labels.last().unwrap().as_ref().unwrap();
        counts[(label.mark.rating() + 1) as usize] += 1;
    }
    assert_eq!(counts, [16_702, 8_725, 17_006]);
}

#[test]
fn errors_written_in_are_counted() {
    let Some(items) = items("step_labels/eic.jsonl.gz", Format::Eic) else { return };
    let issues = items.iter().filter(|item| !item.issues.is_empty()).count();
    assert_eq!(first_errors(&items), [5013 - issues, 0, issues]);
    assert_eq!(issues, 25);
}

/// The reference of a question of several hops states its right answer.
#[test]
fn musique_references_reach_their_own_answer() {
    let Some(items) = items("musique/dev_decompositions.json", Format::Musique) else { return };
    let right = items.iter().filter(|item| {
        let problem = &item.record.problem;
        let answer = problem.final_answer(&problem.reference.join("\n"));
        answer.is_some_and(|found| problem.accepts(&found.answer) == Some(true))
    });
    let share = right.count() as f64 / items.len() as f64;
    assert!(share >= 0.97, "{share}");
    assert!(items.iter().all(|item| item.record.problem.reference.iter().all(|step| !step.contains(" >> "))));
}

/// Neither calculator marks nor step numbers are part of any text.
#[test]
fn marks_of_the_source_reach_no_text() {
    for (path, format) in [
        ("gsm8k/train.jsonl", Format::Gsm8k),
        ("gsm8k/example_model_solutions.jsonl", Format::Gsm8kSolutions),
        ("math_shepherd/samples.jsonl", Format::MathShepherd),
        ("step_labels/mr_gsm8k_subset.json", Format::MrGsm8k),
    ] {
        let Some(items) = items(path, format) else { return };
        for record in items.iter().map(|item| &item.record) {
            let reference = record.problem.reference.iter();
            let solutions = record.solutions.iter().map(gradus_core::Solution::full_text);
            let texts = reference.cloned().chain(solutions.filter(|_| format != Format::MrGsm8k));
            for text in texts {
                assert!(!text.contains("<<") || !text.contains(">>"), "{path}: {text}");
            }
        }
    }
    let Some(items) = items("math_shepherd/samples.jsonl", Format::MathShepherd) else { return };
    for solution in items.iter().flat_map(|item| &item.record.solutions) {
        assert!(solution.steps.iter().all(|step| !step.starts_with("Step ")), "{:?}", solution.steps);
        assert!(solution.truth().is_none(), "Monte Carlo labels are no truth");
    }
}
