//! What every `ScoreSteps` of this crate checks: steps before they are sent, scores after they come.

use gradus_core::contracts::{CallError, ScoreRequest};

/// Refuses a solution that has nothing to score.
pub(crate) fn check_request(request: &ScoreRequest) -> Result<(), CallError> {
    if request.steps.is_empty() {
        let id = &request.id;
        return Err(CallError::Invalid(format!(
            "solution `{id}` has no steps: its text is empty, or was not split (gradus steps)"
        )));
    }
    Ok(())
}

/// One number in [0, 1] per step, or the answer is of no use.
pub(crate) fn check_scores(request: &ScoreRequest, scores: &[f64]) -> Result<(), CallError> {
    let (id, steps) = (&request.id, request.steps.len());
    if scores.len() != steps {
        let found = scores.len();
        return Err(CallError::Failed(format!(
            "solution `{id}` has {steps} steps but {found} scores came back"
        )));
    }
    match scores.iter().position(|score| !(0.0..=1.0).contains(score)) {
        Some(step) => {
            let score = scores[step];
            Err(CallError::Failed(format!(
                "solution `{id}`: the score of step {step} is {score}, outside [0, 1]"
            )))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_one_per_step_and_probabilities() {
        let request =
            ScoreRequest { id: "s1".into(), steps: vec!["a".into(), "b".into()], ..Default::default() };
        check_scores(&request, &[0.0, 1.0]).unwrap();
        for (scores, words) in [
            (&[0.5][..], "2 steps but 1 scores"),
            (&[0.5, 0.5, 0.5][..], "2 steps but 3 scores"),
            (&[0.5, 1.5][..], "step 1 is 1.5"),
            (&[f64::NAN, 0.5][..], "step 0 is NaN"),
        ] {
            let error = check_scores(&request, scores).unwrap_err().to_string();
            assert!(error.contains("`s1`") && error.contains(words), "{error}");
        }
    }
}
