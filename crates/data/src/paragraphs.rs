//! Adjacent steps joined at random into paragraphs, as language models write them: people label short steps, and models
//! write long ones.
//!
//! Where a paragraph ends depends on the seed, the problem and the steps so far, and on no later step. So solutions that
//! begin alike are cut alike, and candidates after one prefix stay candidates after one prefix.
//!
//! A paragraph is wrong if it contains the first wrong step, unknown after that, and else what its last step is: a step that
//! is right says that all steps so far are. A step without a label is not joined to one that has one, so no label becomes
//! unknown; whether a label is right or wrong decides nothing. What belongs to single steps and not to paragraphs is left
//! out: scores, references, evidence, and labels after the first error.

use gradus_core::{Annotation, FirstError, Mark, Problem, Solution, StepLabel};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Steps are joined up to about so many characters; the layouts of references are drawn from the same.
pub(crate) const CHARACTERS: [usize; 7] = [0, 60, 120, 200, 300, 450, 700];
/// Share of problems whose solutions stay as they are.
const UNCHANGED: f64 = 0.2;
/// Share of paragraphs whose steps follow each other on one line.
const ON_ONE_LINE: f64 = 0.75;

/// Joins steps of a solution into paragraphs. Returns how many were joined to the one before them; where none is, the
/// solution stays as it is. Its id says with which seed, so that several kinds of paragraphs can be used together.
///
/// ```
/// use gradus_core::{Annotation, LabelSource, Problem, Solution};
/// let steps: Vec<String> = (0..12).map(|step| format!("Step number {step}.")).collect();
/// let labels = Annotation::from_first_error(12, Some(7), &LabelSource::Human);
/// let mut solution = Solution { steps, annotations: vec![labels], ..Solution::default() };
/// let joined = gradus_data::paragraphs::merge_steps(&Problem::default(), &mut solution, 3);
/// assert_eq!(solution.steps.len(), 12 - joined);
/// let gradus_core::FirstError::At(wrong) = solution.annotations[0].first_error else { unreachable!() };
/// assert!(solution.steps[wrong].contains("number 7"));
/// ```
pub fn merge_steps(problem: &Problem, solution: &mut Solution, seed: u64) -> usize {
    let starts = starts(problem, solution, seed);
    let joined = solution.steps.len() - starts.len();
    if joined == 0 {
        return 0;
    }
    let ends = || starts.iter().map(|(start, _)| *start).skip(1).chain([solution.steps.len()]);
    let steps =
        starts.iter().zip(ends()).map(|((start, between), end)| solution.steps[*start..end].join(between));
    let steps: Vec<String> = steps.collect();
    let paragraphs: Vec<(usize, usize)> = starts.iter().map(|(start, _)| *start).zip(ends()).collect();
    solution.annotations.iter_mut().for_each(|annotation| label(annotation, &paragraphs));
    solution.steps = steps;
    solution.id = format!("{}/paragraphs-{seed}", solution.id);
    solution.scores.clear();
    solution.references = None;
    joined
}

/// Where paragraphs start, and what stands between their steps.
fn starts(problem: &Problem, solution: &Solution, seed: u64) -> Vec<(usize, &'static str)> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"paragraphs\0").update(&seed.to_le_bytes()).update(problem.id.as_bytes());
    let drawn = |hasher: &blake3::Hasher| ChaCha8Rng::from_seed(*hasher.finalize().as_bytes());
    let unchanged = drawn(&hasher).random_bool(UNCHANGED);
    let mut starts: Vec<(usize, &'static str)> = Vec::new();
    let (mut length, mut wanted) = (0, 0);
    for (step, text) in solution.steps.iter().enumerate() {
        let stays = |annotation: &Annotation| stays_known(annotation, step);
        let joins = step > 0 && !unchanged && length < wanted && solution.annotations.iter().all(stays);
        if !joins {
            let mut random = drawn(&hasher);
            wanted = *CHARACTERS.choose(&mut random).expect("there are some");
            starts.push((step, if random.random_bool(ON_ONE_LINE) { " " } else { "\n" }));
            length = 0;
        }
        length += text.chars().count();
        hasher.update(b"\0").update(text.as_bytes());
    }
    starts
}

/// Whether no label becomes unknown when `step` follows the one before it in a paragraph.
fn stays_known(annotation: &Annotation, step: usize) -> bool {
    let known = |step: usize| annotation.labels.get(step).is_some_and(Option::is_some);
    let after_error = matches!(annotation.first_error, FirstError::At(wrong) if step > wrong);
    after_error || known(step) || !known(step - 1)
}

/// The labels of paragraphs, given by their first step and the one after their last.
fn label(annotation: &mut Annotation, paragraphs: &[(usize, usize)]) {
    let wrong = match annotation.first_error {
        FirstError::At(wrong) => Some(wrong),
        FirstError::None | FirstError::Unknown => None,
    };
    let of_paragraph = |&(start, end): &(usize, usize)| -> Option<StepLabel> {
        let found = match wrong {
            Some(wrong) if start > wrong => None,
            Some(wrong) if wrong < end => annotation.labels.get(wrong)?.clone(),
            _ => {
                // A last step that only does not help (PRM800K's neutral) ends a paragraph that is right as a whole.
                let last = annotation.labels[end - 1].as_ref();
                let known = || annotation.labels[start..end].iter().flatten();
                last.map(|last| known().rfind(|label| label.mark == Mark::Correct).unwrap_or(last).clone())
            }
        };
        found.map(|label| StepLabel { evidence: None, ..label })
    };
    annotation.labels = paragraphs.iter().map(of_paragraph).collect();
    if let Some(wrong) = wrong {
        let place = paragraphs.iter().position(|(_, end)| wrong < *end);
        annotation.first_error = place.map_or(FirstError::Unknown, FirstError::At);
    }
}

#[cfg(test)]
mod tests {
    use gradus_core::LabelSource;
    use proptest::prelude::*;

    use super::*;

    fn rated(marks: &[Option<Mark>]) -> Annotation {
        let label = |mark: &Option<Mark>| mark.map(|mark| StepLabel::hard(mark, LabelSource::Human));
        Annotation::from_labels(marks.iter().map(label).collect())
    }

    fn solution(steps: &[String], marks: &[Option<Mark>]) -> Solution {
        Solution { steps: steps.to_vec(), annotations: vec![rated(marks)], ..Solution::default() }
    }

    fn problem(id: &str) -> Problem {
        Problem { id: id.to_owned(), ..Problem::default() }
    }

    /// The first seed with which all steps become one paragraph.
    fn in_one(marks: &[Option<Mark>]) -> Solution {
        let steps: Vec<String> = marks.iter().enumerate().map(|(step, _)| format!("s{step}")).collect();
        let merged = (0..500).map(|seed| {
            let mut solution = solution(&steps, marks);
            merge_steps(&problem("p"), &mut solution, seed);
            solution
        });
        merged.min_by_key(|solution| solution.steps.len()).unwrap()
    }

    #[test]
    fn labels_are_carried() {
        use Mark::{Correct, Incorrect, Neutral};
        let marks = |solution: &Solution| -> Vec<Option<Mark>> {
            solution.annotations[0]
                .labels
                .iter()
                .map(|label| label.as_ref().map(|label| label.mark))
                .collect()
        };
        let right = in_one(&[Some(Correct), Some(Neutral)]);
        assert_eq!(
            (marks(&right), right.annotations[0].first_error),
            (vec![Some(Correct)], FirstError::None)
        );
        assert_eq!(marks(&in_one(&[Some(Neutral), Some(Neutral)])), [Some(Neutral)]);
        let wrong = in_one(&[Some(Correct), Some(Incorrect), None, Some(Correct)]);
        assert_eq!(
            (marks(&wrong), wrong.annotations[0].first_error),
            (vec![Some(Incorrect)], FirstError::At(0))
        );
        assert!(wrong.id.starts_with("/paragraphs-"), "{}", wrong.id);
        // A label is carried to the end of a paragraph, and never lost to a step without one.
        assert_eq!(marks(&in_one(&[None, Some(Correct)])), [Some(Correct)]);
        assert_eq!(marks(&in_one(&[Some(Correct), None])), [Some(Correct), None]);
        assert_eq!(marks(&in_one(&[None, None, Some(Incorrect)])), [Some(Incorrect)]);
        assert_eq!(marks(&in_one(&[None, None])), [None]);
    }

    #[test]
    fn scores_and_references_are_of_steps() {
        let mut solution = in_one(&[Some(Mark::Correct); 3]);
        assert!(solution.scores.is_empty() && solution.references.is_none());
        let id = solution.id.clone();
        assert_eq!(merge_steps(&problem("p"), &mut solution, 0), 0);
        assert_eq!(solution.id, id);
    }

    fn some_steps() -> impl Strategy<Value = Vec<(String, Option<Mark>)>> {
        let mark = prop_oneof![
            6 => Just(Some(Mark::Correct)),
            2 => Just(Some(Mark::Neutral)),
            1 => Just(Some(Mark::Incorrect)),
            1 => Just(None),
        ];
        prop::collection::vec(("[a-z]{1,90}", mark), 0..30)
    }

    proptest! {
        #[test]
        fn no_text_and_no_label_is_lost(steps in some_steps(), seed in 0_u64..1000) {
            let (texts, marks): (Vec<String>, Vec<Option<Mark>>) = steps.into_iter().unzip();
            let before = solution(&texts, &marks);
            let mut after = before.clone();
            let joined = merge_steps(&problem("p"), &mut after, seed);
            prop_assert_eq!(after.steps.len() + joined, before.steps.len());
            if joined == 0 {
                prop_assert_eq!(after, before);
                return Ok(());
            }
            let words = |steps: &[String]| steps.join(" ").replace('\n', " ");
            prop_assert_eq!(words(&after.steps), words(&before.steps));

            let (old, new) = (&before.annotations[0], &after.annotations[0]);
            prop_assert_eq!(new.labels.len(), after.steps.len());
            let counted = |steps: &[String]| -> Vec<usize> {
                steps.iter().map(|text| text.split_whitespace().count()).collect()
            };
            let lengths = counted(&after.steps);
            let mut start = 0;
            for (paragraph, length) in lengths.into_iter().enumerate() {
                let end = start + length;
                let label = new.labels[paragraph].as_ref().map(|label| label.mark);
                match old.first_error {
                    FirstError::At(wrong) if (start..end).contains(&wrong) => {
                        prop_assert_eq!(label, Some(Mark::Incorrect));
                        prop_assert_eq!(new.first_error, FirstError::At(paragraph));
                    }
                    FirstError::At(wrong) if start > wrong => prop_assert_eq!(label, None),
                    // No label is lost, and none is made up.
                    _ => {
                        prop_assert_eq!(label.is_some(), marks[start..end].iter().any(Option::is_some));
                        prop_assert_eq!(label.is_some(), marks[end - 1].is_some());
                        prop_assert_ne!(label, Some(Mark::Incorrect));
                    }
                }
                start = end;
            }
            if !matches!(old.first_error, FirstError::At(_)) {
                prop_assert_eq!(new.first_error, old.first_error);
            }
            let mut again = before.clone();
            merge_steps(&problem("p"), &mut again, seed);
            prop_assert_eq!(again, after);
        }

        #[test]
        fn what_begins_alike_is_cut_alike(
            steps in some_steps(),
            seed in 0_u64..1000,
            other in "[A-Z]{1,90}",
            rated: bool,
        ) {
            let texts: Vec<String> = steps.into_iter().map(|(text, _)| text).collect();
            prop_assume!(texts.len() > 1);
            let right: Vec<Option<Mark>> = (0..texts.len())
                .map(|step| (rated || step + 1 == texts.len()).then_some(Mark::Correct))
                .collect();
            let mut one = solution(&texts, &right);
            let mut changed = texts.clone();
            *changed.last_mut().unwrap() = other;
            let mut wrong = right.clone();
            *wrong.last_mut().unwrap() = Some(Mark::Incorrect);
            let mut two = solution(&changed, &wrong);
            merge_steps(&problem("p"), &mut one, seed);
            merge_steps(&problem("p"), &mut two, seed);
            prop_assert_eq!(one.steps.len(), two.steps.len());
            let last = one.steps.len() - 1;
            prop_assert_eq!(&one.steps[..last], &two.steps[..last]);
            prop_assert_eq!(two.annotations[0].first_error, FirstError::At(last));
        }
    }
}
