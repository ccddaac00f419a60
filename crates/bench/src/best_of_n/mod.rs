//! Best-of-N: accuracy of the answer that a scorer chooses among N solutions.
//!
//! For N = 1, 2, 4, … and every aggregation of step scores: the candidate with the highest score (`best`), the answer
//! with the largest sum of scores (`vote`, answers merged by the grader), the answer given most often (`majority`),
//! whether any candidate is right (`pass`), and a blind choice (`chance`). What scores are good for is `best` less `chance`
//! and `vote` less `majority`, problem by problem: pairs tell apart what two intervals side by side do not.
//!
//! Two readings of N: *first* takes the first N candidates as they stand in the file; *expected* is the exact mean over
//! all subsets of N, with far less variance (`best`, `pass`). A candidate without scores is never chosen over one that
//! has some and weighs nothing in a vote; it is counted. Equals: the earliest candidate wins.
//!
//! Beside the choices: the scores of solutions with a right and with a wrong answer.

mod by_outcome;
mod outcome_page;
mod page;
mod results;

pub use by_outcome::{OutcomeScores, ScoresByOutcome};
pub use page::sections;
pub use results::{
    BestOfNResults, Choice, DatasetResults, OverN, Pool, ScorerResults, measure, pools, sizes, write_groups,
};
