//! Monte Carlo labels at another threshold: the counts that are kept with the labels decide, nobody is asked again.
//!
//! A step with more right completions than the threshold is correct. One with fewer is incorrect if all completions were
//! drawn, or if those that were not could not change it; otherwise sampling was stopped too early to tell. What comes
//! after the first incorrect step is unknown, as before. A lower threshold may find a step correct after which nothing
//! was sampled: from there on labels stay unknown.

use gradus_core::select::search::states_answer;
use gradus_core::{Annotation, LabelSource, Mark, Solution, StepLabel};

/// How to label anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelabelConfig {
    /// A step is correct if more completions than this are right.
    pub threshold: u32,
    /// Completions that were to be drawn at each step.
    pub samples: u32,
}

/// Why Monte Carlo labels cannot be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RelabelError {
    /// A step's sampling was stopped when its label at the old threshold was certain.
    StoppedEarly,
    /// Bisection did not look at a step.
    NotSampled,
}

impl RelabelError {
    /// The reason in a few words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::StoppedEarly => "sampling stopped early: label with --no-early-stop or --labels soft",
            Self::NotSampled => "a step was not sampled: label with --search linear",
        }
    }
}

/// Most completions of a step, if Monte Carlo labeled.
pub fn most_samples(annotation: &Annotation) -> Option<u32> {
    annotation.labels.iter().flatten().filter_map(|label| Some(counts(label)?.1)).max()
}

/// The labels of a Monte Carlo annotation of `solution` at another threshold.
///
/// ```
/// use gradus_annotate::relabel::{RelabelConfig, relabel};
/// use gradus_core::{Annotation, FirstError, LabelSource, Mark, Solution, StepLabel};
/// let counted = |successes| LabelSource::MonteCarlo { model: "m".into(), successes, samples: 8 };
/// let label = |successes| Some(StepLabel::hard(Mark::Correct, counted(successes)));
/// let solution = Solution { steps: vec!["One.".into(), "Two.".into()], ..Solution::default() };
/// let at_0 = Annotation::from_labels(vec![label(6), label(2)]);
/// let at_3 = relabel(&at_0, &solution, RelabelConfig { threshold: 3, samples: 8 }).unwrap();
/// assert_eq!((at_3.first_error, at_3.source_name().as_str()), (FirstError::At(1), "monte-carlo m"));
/// ```
pub fn relabel(
    annotation: &Annotation,
    solution: &Solution,
    config: RelabelConfig,
) -> Result<Annotation, RelabelError> {
    let mut labels: Vec<Option<StepLabel>> = Vec::with_capacity(annotation.labels.len());
    let mut wrong = false;
    for (step, label) in annotation.labels.iter().enumerate() {
        let label = label.as_ref().filter(|_| !wrong);
        labels.push(match label.and_then(|label| Some((label, counts(label)?))) {
            None => None,
            Some((label, counts)) => {
                let mark = mark(counts, config, || states_its_answer(solution, step))?;
                wrong = mark == Mark::Incorrect;
                Some(StepLabel { mark, ..label.clone() })
            }
        });
    }
    let Annotation { cost, unseeded, .. } = annotation.clone();
    Ok(Annotation { cost, unseeded, ..Annotation::from_labels(labels) })
}

fn counts(label: &StepLabel) -> Option<(u32, u32)> {
    match label.source {
        LabelSource::MonteCarlo { successes, samples, .. } => Some((successes, samples)),
        _ => None,
    }
}

fn mark(
    (right, drawn): (u32, u32),
    RelabelConfig { threshold, samples }: RelabelConfig,
    is_stated: impl Fn() -> bool,
) -> Result<Mark, RelabelError> {
    let left = samples.saturating_sub(drawn);
    match drawn {
        0 => Err(RelabelError::NotSampled),
        // The last step of a solution that states its answer is its own and only sample, whatever the threshold.
        1 if left > 0 && is_stated() => Ok(Mark::from_correct(right > 0)),
        _ if right > threshold => Ok(Mark::Correct),
        _ if right + left <= threshold || left == 0 => Ok(Mark::Incorrect),
        _ => Err(RelabelError::StoppedEarly),
    }
}

fn states_its_answer(solution: &Solution, step: usize) -> bool {
    step + 1 == solution.steps.len() && states_answer(&solution.steps.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::FirstError;

    fn annotation(counts: &[(u32, u32)], threshold: u32) -> Annotation {
        let mut labels: Vec<Option<StepLabel>> = Vec::new();
        for (successes, samples) in counts {
            let (successes, samples) = (*successes, *samples);
            let source = LabelSource::MonteCarlo { model: String::new(), successes, samples };
            labels.push(Some(StepLabel::hard(Mark::from_correct(successes > threshold), source)));
        }
        Annotation::from_labels(labels)
    }

    fn solution(last: &str) -> Solution {
        Solution { steps: ["One.", "Two.", last].map(str::to_owned).to_vec(), ..Solution::default() }
    }

    fn first_error(counts: &[(u32, u32)], threshold: u32) -> Result<FirstError, RelabelError> {
        let config = RelabelConfig { threshold, samples: 8 };
        relabel(&annotation(counts, 0), &solution("Three."), config).map(|found| found.first_error)
    }

    #[test]
    fn counts_decide() {
        let all = [(7, 8), (4, 8), (1, 8)];
        assert_eq!(first_error(&all, 0), Ok(FirstError::None));
        assert_eq!(first_error(&all, 2), Ok(FirstError::At(2)));
        assert_eq!(first_error(&all, 4), Ok(FirstError::At(1)));
        assert_eq!(first_error(&all, 7), Ok(FirstError::At(0)));
        let found = relabel(&annotation(&all, 0), &solution("3"), RelabelConfig { threshold: 4, samples: 8 })
            .unwrap();
        assert_eq!(found.labels[2], None, "nothing is said after the first error");
    }

    #[test]
    fn what_was_not_drawn_is_not_guessed() {
        assert_eq!(first_error(&[(1, 1), (1, 2), (1, 1)], 3), Err(RelabelError::StoppedEarly));
        assert_eq!(
            first_error(&[(8, 8), (0, 5), (0, 8)], 3),
            Ok(FirstError::At(1)),
            "three more change nothing"
        );
        assert_eq!(first_error(&[(0, 0), (2, 8), (0, 8)], 1), Err(RelabelError::NotSampled));
        // Sampled at a threshold of 3, up to the second step.
        let mut high = annotation(&[(7, 8), (2, 8)], 3);
        high.labels.push(None);
        let found = relabel(&high, &solution("3"), RelabelConfig { threshold: 1, samples: 8 }).unwrap();
        assert_eq!((found.first_error, found.targets().count()), (FirstError::Unknown, 2));
    }

    #[test]
    fn a_stated_answer_is_its_own_sample() {
        let stated = [(7, 8), (7, 8), (1, 1)];
        let config = RelabelConfig { threshold: 3, samples: 8 };
        let found = relabel(&annotation(&stated, 0), &solution("The answer is 3."), config).unwrap();
        assert_eq!(found.first_error, FirstError::None);
        let unstated = relabel(&annotation(&stated, 0), &solution("Three."), config);
        assert_eq!(unstated, Err(RelabelError::StoppedEarly));
    }
}
