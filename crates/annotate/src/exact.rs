//! Exact checks: a step with arithmetic that is proved wrong is incorrect; about all other steps nothing is said.
//!
//! No model is asked. The proof is the label's evidence. What counts as proved is `gradus_grade::checks`'s to say.

use gradus_core::{Annotation, Evidence, FirstError, LabelSource, Mark, Solution, StepLabel};
use gradus_grade::checks::{Findings, examine};

/// The kind of error that a false equality is, by the names that reference-guided annotators use.
const CATEGORY: &str = "NUMERIC";

/// The labels that findings about a solution of so many steps give; none where nothing is proved wrong. The first error
/// is known only where it is the first step: an earlier one may be wrong without a proof.
///
/// ```
/// use gradus_annotate::exact;
/// use gradus_core::{FirstError, Solution};
/// let steps = ["There are 48/2 = 26 in May.", "That makes 48 + 26 = 74."].map(str::to_owned);
/// let mut solution = Solution { steps: steps.to_vec(), ..Solution::default() };
/// let findings = exact::label("How many are sold in all?", &mut solution);
/// assert_eq!((findings.right, findings.wrong.len()), (1, 1));
/// let annotation = &solution.annotations[0];
/// assert_eq!((annotation.first_error, annotation.source_name().as_str()), (FirstError::At(0), "exact"));
/// assert!(annotation.labels[1].is_none() && annotation.is_partial());
/// ```
pub fn annotation(findings: &Findings, steps: usize) -> Option<Annotation> {
    if findings.wrong.is_empty() {
        return None;
    }
    let mut labels: Vec<Option<StepLabel>> = vec![None; steps];
    for proof in &findings.wrong {
        let label =
            labels[proof.step].get_or_insert_with(|| StepLabel::hard(Mark::Incorrect, LabelSource::Exact));
        let evidence = label
            .evidence
            .get_or_insert_with(|| Evidence { errors: vec![CATEGORY.to_owned()], ..Evidence::default() });
        if !evidence.explanation.is_empty() {
            evidence.explanation.push_str("; ");
        }
        evidence.explanation.push_str(&proof.proof);
    }
    let first_error = match labels.first() {
        Some(Some(_)) => FirstError::At(0),
        _ => FirstError::Unknown,
    };
    Some(Annotation { labels, first_error, ..Annotation::default() })
}

/// Labels a solution, in place of exact labels that it had.
pub fn label(problem: &str, solution: &mut Solution) -> Findings {
    let findings = examine(problem, &solution.steps);
    replace(solution, &findings);
    findings
}

/// Gives a solution the labels of findings, in place of exact labels that it had. Annotations in which others labeled,
/// too, stay.
pub fn replace(solution: &mut Solution, findings: &Findings) {
    let is_exact = |label: &StepLabel| label.source == LabelSource::Exact;
    solution.annotations.retain(|annotation| {
        let mut labels = annotation.labels.iter().flatten().peekable();
        labels.peek().is_none() || !labels.all(is_exact)
    });
    solution.annotations.extend(annotation(findings, solution.steps.len()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solution(steps: &[&str]) -> Solution {
        Solution { steps: steps.iter().map(|step| (*step).to_owned()).collect(), ..Solution::default() }
    }

    #[test]
    fn only_what_is_proved_has_a_label_and_old_labels_go() {
        let mut wrong = solution(&["2 + 2 = 4", "3 + 3 = 7 and 2 * 2 = 5", "so 7"]);
        for _ in 0..2 {
            label("", &mut wrong);
            assert_eq!(wrong.annotations.len(), 1);
        }
        let labels = &wrong.annotations[0].labels;
        assert_eq!((labels[0].is_none(), labels[2].is_none()), (true, true));
        assert_eq!(wrong.annotations[0].first_error, FirstError::Unknown, "nothing is known of step 0");
        let evidence = labels[1].as_ref().and_then(|label| label.evidence.as_ref()).unwrap();
        assert_eq!(evidence.explanation, "3 + 3 = 6, not 7; 2 * 2 = 4, not 5");
        wrong.steps[1] = "3 + 3 = 6".to_owned();
        label("", &mut wrong);
        assert!(wrong.annotations.is_empty());
    }

    #[test]
    fn the_first_step_is_the_first_error_where_it_is_proved_wrong() {
        let mut wrong = solution(&["3 + 3 = 7", "2 * 2 = 5"]);
        label("", &mut wrong);
        assert_eq!(wrong.annotations[0].first_error, FirstError::At(0));
    }

    #[test]
    fn labels_of_others_beside_an_exact_one_stay() {
        let by = |source| Some(StepLabel::hard(Mark::Incorrect, source));
        let mixed = Annotation::from_labels(vec![by(LabelSource::Human), by(LabelSource::Exact)]);
        let mut solved = solution(&["2 + 2 = 4", "3 + 3 = 7"]);
        solved.annotations = vec![mixed.clone(), Annotation::default()];
        label("", &mut solved);
        label("", &mut solved);
        assert_eq!(solved.annotations.len(), 3);
        assert_eq!(solved.annotations[0], mixed);
    }
}
