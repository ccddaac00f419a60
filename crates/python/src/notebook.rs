//! What notebooks show: the program's own pages, in a frame that keeps their styles and scripts apart from the notebook's.

use std::collections::BTreeSet;

use gradus_backend::decision_of_scores;
use gradus_core::select::DecisionRule;
use gradus_core::{Problem, Record, Solution};
use gradus_view::{LeftOut, ViewOptions};

/// A solution with one model's scores, which become a first error by `decision`.
pub(crate) fn scored(
    problem: &str,
    steps: &[String],
    name: &str,
    scores: &[f64],
    decision: DecisionRule,
) -> String {
    let solution = Solution {
        id: "solution".to_owned(),
        problem_id: "problem".to_owned(),
        steps: steps.to_vec(),
        scores: [(name.to_owned(), scores.to_vec())].into(),
        ..Solution::default()
    };
    let problem = Problem { id: "problem".to_owned(), text: problem.to_owned(), ..Problem::default() };
    let record = Record::new(problem, vec![solution]);
    let options = ViewOptions { decision, ..ViewOptions::default() };
    framed(&gradus_view::page("Scored solution", &[record], &LeftOut::default(), &options))
}

/// Records as `gradus view` shows them.
pub(crate) fn records(title: &str, records: &[Record], left_out: LeftOut) -> String {
    let mut options = ViewOptions::default();
    let solutions = records.iter().flat_map(|record| &record.solutions);
    let names = solutions.flat_map(|solution| solution.scores.keys());
    for name in names.collect::<BTreeSet<_>>() {
        let own = decision_of_scores(name);
        if own != options.decision {
            options.decisions.insert(name.clone(), own);
        }
    }
    framed(&gradus_view::page(title, records, &left_out, &options))
}

/// A whole page inside a notebook. It may run its own scripts, and reach nothing of the notebook.
fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{page}\" sandbox=\"allow-scripts\" style=\"width:100%;height:32em;border:0\" \
         title=\"Gradus\"></iframe>"
    )
}
