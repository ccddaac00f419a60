//! Solutions that share their first steps, as a tree: what a beam or tree search has kept, and where it branched.
//!
//! Steps without a branch between them are one node, so the depth is at most the number of solutions.

use std::fmt::Write as _;

use gradus_core::Record;
use gradus_core::count::counted;
use gradus_plot::{escaped, prose_excerpt};

use crate::candidate::Candidates;
use crate::solution::answer_text;
use crate::{ViewOptions, cell};

/// Characters of a step that are shown.
const WIDTH: usize = 200;
/// Branchings beyond which the rest is a flat list: browsers do not nest elements without end.
const DEEPEST: usize = 24;

/// The tree of a record's solutions; empty where no two solutions share a step.
pub(crate) fn tree(record: &Record, candidates: &Candidates, prefix: &str, options: &ViewOptions) -> String {
    let shown = record.solutions.len().min(options.solutions);
    let solutions: Vec<usize> =
        (0..shown).filter(|index| !record.solutions[*index].steps.is_empty()).collect();
    let groups = branches(record, &solutions, 0);
    let shares = groups.iter().any(|group| group.len() > 1);
    if !shares || record.earliest_equal()[..shown].iter().all(|earliest| *earliest == 0) {
        return String::new();
    }
    let strategy = record.solutions.iter().find_map(|one| one.metadata.get("strategy")?.as_str());
    let title = strategy.map_or("Shared steps as a tree".to_owned(), |name| format!("Search tree ({name})"));
    let walk = Walk { record, candidates, prefix, options };
    let nodes: String = groups.iter().map(|group| walk.node(group, 0, 0)).collect();
    format!("<details class=\"tree\"><summary>{}</summary>\n<ul>\n{nodes}</ul></details>\n", escaped(&title))
}

/// Solutions grouped by their step at `at`, in order.
fn branches(record: &Record, solutions: &[usize], at: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for index in solutions {
        let step = record.solutions[*index].steps[at].trim();
        match groups.iter_mut().find(|(text, _)| *text == step) {
            Some((_, group)) => group.push(*index),
            None => groups.push((step, vec![*index])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

struct Walk<'a> {
    record: &'a Record,
    candidates: &'a Candidates,
    prefix: &'a str,
    options: &'a ViewOptions,
}

impl Walk<'_> {
    /// The steps that a group shares from `from` on, then its branches.
    fn node(&self, group: &[usize], from: usize, depth: usize) -> String {
        let steps = |index: usize| &self.record.solutions[index].steps;
        let first = steps(group[0]);
        let shared = |at: usize| {
            group
                .iter()
                .all(|index| steps(*index).get(at).is_some_and(|step| step.trim() == first[at].trim()))
        };
        let end = (from + 1..first.len()).find(|at| !shared(*at)).unwrap_or(first.len());
        let mut out = String::from("<li>");
        out += &self.step(group[0], from);
        if end - from > 2 {
            let _ = write!(out, "<div class=\"soft\">… {}</div>", counted(end - from - 2, "step"));
        }
        if end - from > 1 {
            out += &self.step(group[0], end - 1);
        }
        let (ended, going): (Vec<usize>, Vec<usize>) =
            group.iter().partition(|index| steps(**index).len() <= end);
        for index in ended {
            out += &self.leaf(index);
        }
        if depth >= DEEPEST {
            going.iter().for_each(|index| out += &self.leaf(*index));
        } else if !going.is_empty() {
            let inner = branches(self.record, &going, end);
            let nodes: String = inner.iter().map(|group| self.node(group, end, depth + 1)).collect();
            let _ = write!(out, "<ul>\n{nodes}</ul>");
        }
        out + "</li>\n"
    }

    fn step(&self, index: usize, step: usize) -> String {
        let solution = &self.record.solutions[index];
        let score = solution.scores.values().next().and_then(|scores| scores.get(step).copied());
        let score = score.filter(|score| score.is_finite()).map(|score| {
            format!("<span class=\"chip {}\">{}</span> ", cell::tone(score), cell::number(score))
        });
        let text = prose_excerpt(&solution.steps[step], WIDTH);
        format!(
            "<div class=\"node\"><span class=\"soft\">{step}</span> {}{text}</div>",
            score.unwrap_or_default()
        )
    }

    fn leaf(&self, index: usize) -> String {
        let candidate = &self.candidates.all[index];
        let star = if self.candidates.chosen(index, self.options).is_empty() { "" } else { "★ " };
        let answer = candidate.answer.as_deref().map(|answer| format!(": {}", answer_text(answer)));
        format!(
            "<div class=\"leaf\"><a href=\"#{}-{index}\">{star}Solution {}</a>{} {}</div>",
            self.prefix,
            index + 1,
            answer.unwrap_or_default(),
            cell::outcome(candidate.outcome)
        )
    }
}
