//! What notebooks show: the program's own pages, in a frame that keeps their styles and scripts apart from the notebook's.

use gradus_core::{Problem, Record, Solution};
use gradus_view::{LeftOut, ViewOptions};

/// A solution with one model's scores.
pub(crate) fn scored(problem: &str, steps: &[String], name: &str, scores: &[f64]) -> String {
    let solution = Solution {
        id: "solution".to_owned(),
        problem_id: "problem".to_owned(),
        steps: steps.to_vec(),
        scores: [(name.to_owned(), scores.to_vec())].into(),
        ..Solution::default()
    };
    let problem = Problem { id: "problem".to_owned(), text: problem.to_owned(), ..Problem::default() };
    records("Scored solution", &[Record::new(problem, vec![solution])], LeftOut::default())
}

/// Records as `gradus view` shows them.
pub(crate) fn records(title: &str, records: &[Record], left_out: LeftOut) -> String {
    framed(&gradus_view::page(title, records, &left_out, &ViewOptions::default()))
}

/// A whole page inside a notebook. It may run its own scripts, and reach nothing of the notebook.
fn framed(page: &str) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<iframe srcdoc=\"{page}\" sandbox=\"allow-scripts\" style=\"width:100%;height:32em;border:0\" \
         title=\"Gradus\"></iframe>"
    )
}
