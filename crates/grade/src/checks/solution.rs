//! Which steps of a solution are proved wrong.

use serde::{Deserialize, Serialize};

use super::{Context, Verdict, check, check_in};

/// An equality in a step that is proved wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// The step, from 0.
    pub step: usize,
    /// Where the equality begins in the step's text, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Why it is wrong, such as `48/2 = 24, not 26`.
    pub proof: String,
}

/// What exact checks find in a solution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Equalities that hold.
    pub right: usize,
    /// Equalities of which it cannot be told.
    pub undecided: usize,
    /// Those that are proved wrong.
    pub wrong: Vec<Proof>,
}

/// The equalities in the steps of a solution that are proved wrong, in their order. The problem and the steps before say
/// which arithmetic is meant, as [`Context`] does.
///
/// ```
/// use gradus_grade::checks::prove;
/// let steps = ["There are 48/2 = 26 in May.", "That makes 48 + 26 = 74."].map(str::to_owned);
/// let proofs = prove("She sold half as many as the 48 in May.", &steps);
/// assert_eq!(proofs.len(), 1);
/// assert_eq!((proofs[0].step, proofs[0].proof.as_str()), (0, "48/2 = 24, not 26"));
/// ```
pub fn prove(problem: &str, steps: &[String]) -> Vec<Proof> {
    examine(problem, steps).wrong
}

/// Checks all steps of a solution.
pub fn examine(problem: &str, steps: &[String]) -> Findings {
    let mut found = Findings::default();
    let mut context: Option<Context> = None;
    let mut read = 0;
    for (step, text) in steps.iter().enumerate() {
        // Hardly any step needs to know what came before it.
        let alone = check(text);
        if alone.iter().all(|check| check.verdict != Verdict::Wrong) {
            found.count(alone.iter().map(|check| check.verdict));
            continue;
        }
        let context = context.get_or_insert_with(|| Context::of(problem));
        steps[read..step].iter().for_each(|before| context.add(before));
        read = step;
        let checks = check_in(text, context);
        found.count(checks.iter().map(|check| check.verdict));
        let wrong = checks.into_iter().filter_map(|check| Some((check.span, check.proof?)));
        found.wrong.extend(wrong.map(|(span, proof)| Proof {
            step,
            start: span.start,
            end: span.end,
            proof,
        }));
    }
    found
}

impl Findings {
    fn count(&mut self, verdicts: impl Iterator<Item = Verdict>) {
        for verdict in verdicts {
            self.right += usize::from(verdict == Verdict::Right);
            self.undecided += usize::from(verdict == Verdict::Undecided);
        }
    }
}
