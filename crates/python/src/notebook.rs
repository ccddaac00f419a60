//! What notebooks show: the program's own pages, in a frame that keeps their styles and scripts apart from the notebook's.

use std::collections::BTreeSet;

use gradus_annotate::exact;
use gradus_backend::{decision_of_scores, has_exact_checks};
use gradus_core::select::DecisionRule;
use gradus_core::{Problem, Record, Solution};
use gradus_view::{LeftOut, ViewOptions};

/// A solution with one model's scores, which become a first error by `decision`, and with `exact_checks` by what is proved
/// wrong.
pub(crate) fn scored(
    problem: &str,
    steps: &[String],
    (name, scores): (&str, &[f64]),
    decision: DecisionRule,
    exact_checks: bool,
) -> String {
    let mut solution = Solution {
        id: "solution".to_owned(),
        problem_id: "problem".to_owned(),
        steps: steps.to_vec(),
        scores: [(name.to_owned(), scores.to_vec())].into(),
        ..Solution::default()
    };
    let mut options = ViewOptions { decision, ..ViewOptions::default() };
    if exact_checks {
        exact::label(problem, &mut solution);
        options.exact_checks.insert(name.to_owned());
    }
    let problem = Problem { id: "problem".to_owned(), text: problem.to_owned(), ..Problem::default() };
    let record = Record::new(problem, vec![solution]);
    framed(&gradus_view::page("Scored solution", &[record], &LeftOut::default(), &options))
}

/// Records as `gradus view` shows them.
pub(crate) fn records(title: &str, records: &[Record], left_out: LeftOut) -> String {
    let mut options = ViewOptions::default();
    let solutions = records.iter().flat_map(|record| &record.solutions);
    let names = solutions.flat_map(|solution| solution.scores.keys());
    for name in names.collect::<BTreeSet<_>>() {
        if has_exact_checks(name) {
            options.exact_checks.insert(name.clone());
        }
        let own = decision_of_scores(name);
        if own != options.decision {
            options.decisions.insert(name.clone(), own);
        }
    }
    let mut records = records.to_vec();
    for Record { problem, solutions, .. } in &mut records {
        let proofs =
            |solution: &Solution| options.exact_checks.iter().any(|name| solution.scores.contains_key(name));
        for solution in solutions.iter_mut().filter(|solution| proofs(solution)) {
            exact::label(&problem.text, solution);
        }
    }
    framed(&gradus_view::page(title, &records, &left_out, &options))
}

/// A whole page inside a notebook. It may run its own scripts, and reach nothing of the notebook.
fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{page}\" sandbox=\"allow-scripts\" style=\"width:100%;height:32em;border:0\" \
         title=\"Gradus\"></iframe>"
    )
}
