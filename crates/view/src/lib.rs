//! Records as web pages: a problem with its solutions, step by step, with the scores of several reward models and the
//! labels of several annotators side by side.
//!
//! - [`record()`], [`records`]: fragments of HTML, for a page with the assets of [`shell`]
//! - [`page()`]: one file that needs no network, as `gradus view` writes it
//! - [`shell`]: the served page's frame: navigation, form, style sheet and scripts
//!
//! The HTML is whole without scripts; they add the filter and the keyboard. Every text of a record is escaped, and its
//! mathematics becomes MathML ([`gradus_plot::prose()`]).
//!
//! ```
//! use gradus_core::{Problem, Record, Solution};
//! use gradus_view::{LeftOut, ViewOptions};
//! let steps = vec!["$2 + 3 = 6$".to_owned()];
//! let scores = [("my-prm".to_owned(), vec![0.125])].into();
//! let solution = Solution { id: "s".into(), problem_id: "p".into(), steps, scores, ..Solution::default() };
//! let problem = Problem { id: "p".into(), text: "What is 2 + 3?".into(), ..Problem::default() };
//! let record = Record::new(problem, vec![solution]);
//! let html = gradus_view::record(1, &record, &ViewOptions::default());
//! assert!(html.contains("0.12") && html.contains("<math>") && html.contains("first suspected error"));
//! let page = gradus_view::page("scored.jsonl", &[record], &LeftOut::default(), &ViewOptions::default());
//! assert!(page.starts_with("<!doctype html>"));
//! ```

mod candidate;
mod cell;
mod columns;
mod evidence;
mod metadata;
mod page;
mod record;
pub mod shell;
mod solution;
mod table;
mod tree;

use std::collections::{BTreeMap, BTreeSet};

use gradus_core::select::{Aggregation, DecisionRule};

pub use page::{page, records};
pub use record::record;

/// How records are shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewOptions {
    /// The rule by which scores become a first error.
    pub decision: DecisionRule,
    /// Rules of scores that have one of their own, by the name of the scores.
    pub decisions: BTreeMap<String, DecisionRule>,
    /// Names of scores beside which proofs decide, too: the first error is then at or before the first step that the
    /// solution's exact labels prove wrong.
    pub exact_checks: BTreeSet<String>,
    /// The aggregation by which the chosen solution is marked.
    pub aggregation: Aggregation,
    /// Most solutions of a record that are shown step by step.
    pub solutions: usize,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            decision: DecisionRule::default(),
            decisions: BTreeMap::new(),
            exact_checks: BTreeSet::new(),
            aggregation: Aggregation::Last,
            solutions: 64,
        }
    }
}

impl ViewOptions {
    /// The rule of the scores of this name.
    fn decision_of(&self, name: &str) -> DecisionRule {
        self.decisions.get(name).copied().unwrap_or(self.decision)
    }
}

/// What a page does not show of its input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Records past the limit.
    pub records: u64,
    /// Invalid records.
    pub invalid: u64,
}

/// The beginning of a text on one line.
fn excerpt(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= width {
        return flat;
    }
    flat.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
