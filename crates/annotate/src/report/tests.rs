//! Reports of panels written by hand, whose numbers can be counted on paper.

use super::*;
use gradus_core::{LabelSource, StepLabel};

fn row(problem: &str, right: bool, truth: Option<usize>, found: &[FirstErrorVote]) -> PanelRow {
    let label = |error| Annotation::from_first_error(3, error, &LabelSource::Human);
    let annotations = found.iter().map(|votes| votes.map(label));
    PanelRow {
        problem: problem.to_owned(),
        steps: 3,
        outcome: Outcome::from_correct(right),
        truth: Some(label(truth)),
        annotations: annotations.collect(),
    }
}

#[test]
fn labels_after_the_first_error_count() {
    let label = |mark| Some(StepLabel::hard(mark, LabelSource::Human));
    let marks = [Mark::Incorrect, Mark::Correct, Mark::Incorrect];
    let truth = Annotation::from_labels(marks.map(label).to_vec());
    let rows = vec![PanelRow {
        truth: Some(truth.clone()),
        annotations: vec![Some(truth)],
        ..row("a", false, None, &[])
    }];
    let panel = Panel { names: vec!["x".into()], annotators: vec!["x".into()], rows };
    let report = report(&panel, &bootstrap::Settings { resamples: 0, ..Default::default() });
    assert_eq!(report.annotators[0].agreement.unwrap().steps, 3);
}

#[test]
fn numbers_of_a_hand_written_panel() {
    let rows = vec![
        row("a", true, None, &[Some(None), Some(None)]),
        row("a", false, Some(1), &[Some(Some(1)), Some(Some(1))]),
        row("b", false, Some(0), &[Some(None), Some(Some(0))]),
        row("b", true, None, &[Some(None), None]),
    ];
    let panel = Panel { names: vec!["x".into(), "y".into()], rows, ..Panel::default() };
    let report = report(&panel, &bootstrap::Settings { resamples: 50, ..Default::default() });
    let [x, y] = &report.annotators[..] else { panic!("two annotators") };
    assert_eq!((x.decided, x.undecided, x.labels, x.errors), (4, 0, 3 + 2 + 3 + 3, 1));
    assert_eq!((y.decided, y.undecided, y.errors), (3, 1, 2));
    // True targets: 3, 2, 1 and 3 steps; x is wrong on one, y undecided on three.
    let found = x.agreement.unwrap();
    assert_eq!((found.steps, found.accuracy), (9, Some(8.0 / 9.0)));
    assert_eq!((y.agreement.unwrap().undecided, y.agreement.unwrap().accuracy), (3, Some(6.0 / 9.0)));
    // x: of two right solutions both predicted, of two wrong ones one.
    assert_eq!(x.outcome_prediction.auc.unwrap().value, 0.75);
    assert_eq!(
        (x.outcome_prediction.right_without_error, x.outcome_prediction.wrong_with_error),
        (Some(2.0 / 3.0), Some(1.0))
    );
    assert_eq!((y.outcome_prediction.solutions, y.outcome_prediction.auc.unwrap().value), (3, 1.0));
    let two = &report.pairs[0];
    assert_eq!((two.pair.both, two.kept, two.overlap), (3, Some(2.0 / 3.0), Some(0.5)));
    assert_eq!((two.outcome_prediction.solutions, two.outcome_prediction.auc.unwrap().value), (2, 1.0));
    let rules: Vec<(&str, usize, usize)> =
        report.together.iter().map(|rule| (&*rule.rule, rule.decided, rule.errors)).collect();
    assert_eq!(
        rules[..4],
        [("consensus", 2, 1), ("intersection", 4, 1), ("union", 4, 2), ("majority", 4, 1)]
    );
    assert_eq!((rules[4].0, rules[4].1), ("dawid-skene", 4));
    assert_eq!(report.reliability.len(), 2);
}

#[test]
fn a_partial_annotator_changes_no_number_of_others() {
    let rows = vec![
        row("a", true, None, &[Some(None), Some(None)]),
        row("b", false, Some(1), &[Some(Some(1)), Some(Some(0))]),
    ];
    let names = ["x", "y"].map(str::to_owned).to_vec();
    let mut with = Panel { names: names.clone(), annotators: names, rows };
    let settings = bootstrap::Settings { resamples: 0, ..Default::default() };
    let without = report(&with, &settings);
    let proved = || Some(StepLabel::hard(Mark::Incorrect, LabelSource::Exact));
    with.names.insert(0, "exact".into());
    with.annotators.insert(0, "exact".into());
    with.rows[0].annotations.insert(0, None);
    with.rows[1].annotations.insert(0, Some(Annotation::from_labels(vec![proved(), proved(), None])));
    let mut found = report(&with, &settings);
    let exact = found.annotators.remove(0);
    assert_eq!(found, without);
    assert_eq!((exact.decided, exact.labels, exact.errors, exact.partial), (0, 2, 1, true));
    assert_eq!((exact.first_errors, exact.outcome_prediction.solutions), (None, 0));
    assert_eq!(exact.agreement.unwrap().wrong.precision, Some(0.5));
}

#[test]
fn true_labels_after_the_first_error_count() {
    use gradus_core::StepLabel;
    let labels = |marks: &[Mark]| {
        let label = |mark: &Mark| Some(StepLabel::hard(*mark, LabelSource::Human));
        Annotation::from_labels(marks.iter().map(label).collect())
    };
    let row = PanelRow {
        truth: Some(labels(&[Mark::Correct, Mark::Incorrect, Mark::Correct, Mark::Incorrect])),
        annotations: vec![Some(labels(&[Mark::Correct, Mark::Incorrect, Mark::Incorrect, Mark::Incorrect]))],
        steps: 4,
        ..PanelRow::default()
    };
    let panel = Panel { names: vec!["x".into()], rows: vec![row], ..Panel::default() };
    let report = report(&panel, &bootstrap::Settings { resamples: 0, ..Default::default() });
    let found = report.annotators[0].agreement.unwrap();
    assert_eq!((found.steps, found.accuracy), (4, Some(0.75)));
}

#[test]
fn runs_of_one_annotator_and_their_cost_against_monte_carlo() {
    let cost = |tokens: u64, seconds: f64| Cost { completion_tokens: tokens, seconds, ..Cost::default() };
    // True: an error at step 1 of 3, so two steps have a label; the third has none.
    let mut rows = vec![
        row("a", false, Some(1), &[Some(Some(1)), Some(Some(1)), Some(Some(0)), Some(Some(1))]),
        row("b", true, None, &[Some(None), Some(None), Some(None), None]),
    ];
    for row in &mut rows {
        let costs = [cost(100, 2.0), cost(100, 4.0), cost(100, 2.0), cost(300, 0.0)];
        for (annotation, cost) in row.annotations.iter_mut().zip(costs) {
            if let Some(annotation) = annotation {
                annotation.cost = Some(cost);
            }
        }
    }
    let names = ["reference m", "reference m (1)", "reference m (2)", "monte-carlo m"];
    let annotators = ["reference m", "reference m", "reference m", "monte-carlo m"];
    let panel = Panel {
        names: names.map(str::to_owned).to_vec(),
        annotators: annotators.map(str::to_owned).to_vec(),
        rows,
    };
    let report = report(&panel, &bootstrap::Settings { resamples: 0, ..Default::default() });
    let [repeats] = &report.repeats[..] else { panic!("one annotator has several runs") };
    assert_eq!((repeats.name.as_str(), repeats.runs), ("reference m", 3));
    // 5 of 5 steps, 5 of 5, and 3 of 5: the third run is wrong at step 0 and silent at step 1.
    let accuracy = repeats.accuracy.unwrap();
    assert!((accuracy - (1.0 + 1.0 + 0.6) / 3.0).abs() < 1e-9, "{accuracy}");
    let deviation = repeats.deviation.unwrap();
    assert!((deviation - (0.16f64 / 3.0).sqrt()).abs() < 1e-9, "{deviation}");
    assert_eq!(repeats.majority_accuracy, Some(1.0));
    // Problem a: 2 of 2, 0 of 1, 0 of 1 alike; problem b: 9 of 9.
    assert_eq!(repeats.agreement, Some(11.0 / 13.0));
    let ratios = &report.cost_ratios;
    assert_eq!(ratios.len(), 3);
    assert_eq!((ratios[0].solutions, ratios[0].tokens, ratios[0].seconds), (1, Some(3.0), None));
}
