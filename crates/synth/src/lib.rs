//! A synthetic world: programs that write problems, reference solutions, and right and spoiled step-by-step
//! solutions whose step labels are exact because the program put the error there.
//!
//! - families (question shift): ten of arithmetic and algebra, one of multi-hop look-up, one of spatial relations
//! - styles (step shift): equations, prose, enumeration
//! - error kinds, each at a random step; later steps build on the error or go on as if it had not happened
//!
//! A family builds a `Plan`; the plan's body writes a `Draft` (right, or with one error); `voice` words it.
//! Record `i` of a seed is the same whatever number of records is asked for, on every platform.
//! Synthetic data is for tests and for small honest experiments. It is never mixed with real results.
//!
//! ```
//! use gradus_synth::{SynthConfig, Family, generate};
//! let config = SynthConfig { problems: 2, families: vec![Family::Shopping], ..SynthConfig::default() };
//! for record in generate(&config) {
//!     assert!(record.problem.answer.is_some());
//!     assert_eq!(record.solutions.len(), config.solutions_per_problem);
//! }
//! ```

mod calc;
mod dice;
mod families;
mod grid;
mod kinds;
mod lookup;
mod number;
mod plan;
mod unit;
mod voice;
mod words;

use serde::{Deserialize, Serialize};

use dice::Dice;
use gradus_core::{Annotation, Fault, LabelSource, Metadata, Outcome, Problem, Record, Solution};
pub use kinds::{ErrorKind, Family, Style};
use plan::{Draft, Plan, RECALL};

/// The hardest difficulty.
const HARDEST: u8 = 5;

/// What to generate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SynthConfig {
    /// Same seed, same bytes.
    pub seed: u64,
    /// How many problems.
    pub problems: usize,
    /// How many solutions each.
    pub solutions_per_problem: usize,
    /// The share of solutions with an error, 0 to 1.
    pub wrong_share: f64,
    /// Families to draw from.
    pub families: Vec<Family>,
    /// Styles to draw from.
    pub styles: Vec<Style>,
    /// Error kinds to draw from.
    pub errors: Vec<ErrorKind>,
    /// Lowest and highest difficulty, 1 to 5.
    pub difficulty: (u8, u8),
    /// How often later steps build on an error instead of ignoring it, 0 to 1.
    pub propagate: f64,
}

impl Default for SynthConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            problems: 1000,
            solutions_per_problem: 4,
            wrong_share: 0.5,
            families: Family::ALL.to_vec(),
            styles: Style::ALL.to_vec(),
            errors: ErrorKind::ALL.to_vec(),
            difficulty: (1, HARDEST),
            propagate: 0.7,
        }
    }
}

impl SynthConfig {
    /// Refuses what cannot be generated, and says why.
    ///
    /// ```
    /// use gradus_synth::SynthConfig;
    /// let config = SynthConfig { wrong_share: 1.5, ..SynthConfig::default() };
    /// assert_eq!(config.check().unwrap_err().to_string(), "field `wrong_share`: is 1.5: expected 0 to 1");
    /// ```
    pub fn check(&self) -> Result<(), Fault> {
        for (field, share) in [("wrong_share", self.wrong_share), ("propagate", self.propagate)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(Fault::new(field, format!("is {share}: expected 0 to 1")));
            }
        }
        let (low, high) = self.difficulty;
        if low < 1 || high > HARDEST || low > high {
            let expected = format!("expected lowest and highest within 1 to {HARDEST}");
            return Err(Fault::new("difficulty", format!("is {low} to {high}: {expected}")));
        }
        if self.families.is_empty() {
            return Err(Fault::new("families", "is empty: name at least one family"));
        }
        if self.styles.is_empty() {
            return Err(Fault::new("styles", "is empty: name at least one style"));
        }
        if self.wrong_share == 0.0 {
            return Ok(());
        }
        if self.errors.is_empty() {
            return Err(Fault::new(
                "errors",
                "is empty: name at least one error kind, or set `wrong_share` to 0",
            ));
        }
        match self.families.iter().find(|family| !self.errors.iter().any(|&error| family.admits(error))) {
            None => Ok(()),
            Some(family) => {
                let named: Vec<_> = self.errors.iter().map(|error| error.name()).collect();
                let message = format!("none of {} can occur in family `{}`", named.join(", "), family.name());
                Err(Fault::new("errors", message))
            }
        }
    }
}

/// The records of a configuration, one at a time.
///
/// # Panics
///
/// If [`SynthConfig::check`] would refuse the configuration.
pub fn generate(config: &SynthConfig) -> impl Iterator<Item = Record> + '_ {
    if let Err(fault) = config.check() {
        panic!("check the configuration before generating: {fault}");
    }
    (0..config.problems).map(|index| record(config, index))
}

fn record(config: &SynthConfig, index: usize) -> Record {
    let mut dice = Dice::new(config.seed, index as u64);
    let family = dice.pick(&config.families);
    let difficulty = dice.between(config.difficulty.0.into(), config.difficulty.1.into()) as u8;
    let plan = spoilable_plan(config, family, difficulty, &mut dice);
    let solved = plan.solve(&mut dice, 0.0);
    let id = format!("synth-{}-{index}", config.seed);
    let mut metadata = Metadata::new();
    metadata.insert("family".into(), family.name().into());
    metadata.insert("difficulty".into(), difficulty.into());

    let solution = |k: usize| {
        let style = dice.pick(&config.styles);
        let wrong = dice.chance(config.wrong_share);
        let error = if wrong { spoil(config, &plan, &mut dice) } else { None };
        let (kind, draft) = match error {
            Some((kind, draft)) => (Some(kind), draft),
            None => (None, plan.solve(&mut dice, RECALL)),
        };
        let steps = voice::write(&draft, style, &mut dice);
        let mut metadata = metadata.clone();
        metadata.insert("style".into(), style.name().into());
        if let Some(kind) = kind {
            metadata.insert("error".into(), kind.name().into());
            metadata.insert("propagated".into(), draft.propagated.into());
        }
        let labels = Annotation::from_first_error(steps.len(), draft.first_error, &LabelSource::Injected);
        Solution {
            id: format!("{id}/{k}"),
            problem_id: id.clone(),
            generator: Some(format!("synth/{}", style.name())),
            steps,
            answer: Some(draft.answer),
            outcome: Outcome::from_correct(draft.right),
            annotations: vec![labels],
            metadata,
            ..Solution::default()
        }
    };
    let solutions = (0..config.solutions_per_problem).map(solution).collect();
    let problem = Problem {
        reference: voice::reference(&solved),
        answer: Some(solved.answer),
        id,
        text: plan.text,
        context: plan.context,
        domain: plan.domain,
        source: "synth".into(),
        metadata,
        ..Problem::default()
    };
    Record::new(problem, solutions)
}

/// A plan that offers a place for at least one of the errors, if errors are wanted. Not every plan has, say, a
/// subtraction whose sign could be wrong.
fn spoilable_plan(config: &SynthConfig, family: Family, difficulty: u8, dice: &mut Dice) -> Plan {
    for _ in 0..1000 {
        let plan = families::plan(family, difficulty, dice);
        if config.wrong_share == 0.0 || spoil(config, &plan, &mut dice.clone()).is_some() {
            return plan;
        }
    }
    panic!("family `{}` offers no place for an error that `Family::admits` says it can have", family.name());
}

/// A solution with an error of a kind drawn from those that the plan has a place for.
fn spoil(config: &SynthConfig, plan: &Plan, dice: &mut Dice) -> Option<(ErrorKind, Draft)> {
    let mut kinds = config.errors.clone();
    dice.shuffle(&mut kinds);
    let propagate = dice.chance(config.propagate);
    kinds.into_iter().find_map(|kind| Some((kind, plan.spoil(kind, propagate, dice)?)))
}
