//! A browser of mistakes: solutions step by step with their scores, the true and the predicted first error marked.
//!
//! It is a list of `<details>`; the script adds filters by subset and kind, and buttons for the next and the previous
//! one. Steps are counted from 0, as everywhere in Gradus.

use std::fmt::Write as _;

use crate::chart_shell::{ChartShell, enclosed};
use crate::escape::escaped;
use crate::number::{counted, missing_note};
use crate::prose::prose;

/// Solutions that were judged wrongly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mistakes {
    /// The heading.
    pub title: String,
    /// What is shown and how to read it.
    pub caption: String,
    /// The solutions.
    pub solutions: Vec<Mistake>,
    /// How many of them are shown at most; the caption says so when there are more.
    pub limit: Option<usize>,
}

/// One solution.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mistake {
    /// Its name.
    pub id: String,
    /// The part of the benchmark it is from.
    pub subset: String,
    /// The problem.
    pub problem: String,
    /// The solution.
    pub steps: Vec<ScoredStep>,
    /// The first wrong step; `None` where all are right.
    pub truth: Option<usize>,
    /// What was predicted.
    pub predicted: Verdict,
    /// A remark.
    pub note: Option<String>,
}

/// A step and what the model made of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoredStep {
    /// The step.
    pub text: String,
    /// Its score from 0 (wrong) to 1 (right).
    pub score: Option<f64>,
}

/// A prediction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verdict {
    /// All steps are right.
    #[default]
    NoError,
    /// This step is the first wrong one.
    At(usize),
    /// There was no answer that could be read.
    Undecided,
}

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    MissedError,
    FalseAlarm,
    WrongPlace,
    Undecided,
    /// Not a mistake; it can be shown all the same.
    Right,
}

impl Kind {
    fn of(mistake: &Mistake) -> Self {
        match (mistake.truth, mistake.predicted) {
            (_, Verdict::Undecided) => Kind::Undecided,
            (Some(_), Verdict::NoError) => Kind::MissedError,
            (None, Verdict::At(_)) => Kind::FalseAlarm,
            (Some(truth), Verdict::At(found)) if truth != found => Kind::WrongPlace,
            (Some(_), Verdict::At(_)) | (None, Verdict::NoError) => Kind::Right,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::MissedError => "missed error",
            Kind::FalseAlarm => "false alarm",
            Kind::WrongPlace => "wrong place",
            Kind::Undecided => "undecided",
            Kind::Right => "right",
        }
    }
}

/// The chart as HTML.
pub(super) fn draw(mistakes: &Mistakes) -> String {
    let shown = &mistakes.solutions[..mistakes.limit.unwrap_or(usize::MAX).min(mistakes.solutions.len())];
    let mut notes = Vec::new();
    if shown.len() < mistakes.solutions.len() {
        notes.push(format!("The first {} of {} are here.", shown.len(), mistakes.solutions.len()));
    }
    let scores = shown.iter().flat_map(|solution| &solution.steps).filter(|step| score(step).is_none());
    notes.extend(
        missing_note(scores.count()).map(|note| note.replace("value", "score").replace("gap", "dash")),
    );
    let shell = ChartShell {
        kind: "mistakes",
        title: &mistakes.title,
        caption: &mistakes.caption,
        notes,
        ..ChartShell::default()
    };
    if shown.is_empty() {
        return enclosed(&shell, "<p class=\"empty\">There are none.</p>\n");
    }
    let mut inside = filters(shown);
    for (index, mistake) in shown.iter().enumerate() {
        inside += &solution(mistake, index == 0);
    }
    enclosed(&shell, &inside)
}

fn score(step: &ScoredStep) -> Option<f64> {
    step.score.filter(|score| score.is_finite())
}

/// What the script makes use of; without it the list is whole.
fn filters(shown: &[Mistake]) -> String {
    let mut subsets: Vec<&str> = shown.iter().map(|mistake| mistake.subset.as_str()).collect();
    subsets.sort_unstable();
    let mut kinds: Vec<Kind> = shown.iter().map(Kind::of).collect();
    kinds.sort_unstable();
    let kinds: Vec<&str> = kinds.into_iter().map(Kind::name).collect();
    let select = |name: &str, every: &str, all: &[&str]| {
        let mut out = format!(
            "<select data-filter=\"{name}\" aria-label=\"{name}\"><option value=\"\">{every}</option>"
        );
        for chunk in all.chunk_by(|a, b| a == b) {
            let value = escaped(chunk[0]);
            let _ = write!(out, "<option value=\"{value}\">{value} ({})</option>", chunk.len());
        }
        out + "</select>\n"
    };
    format!(
        "<form class=\"filters\" hidden=\"hidden\">\n{}{}<button type=\"button\" data-go=\"-1\">← previous</button>\n\
         <button type=\"button\" data-go=\"1\">next →</button>\n<output></output>\n</form>\n",
        select("subset", "all subsets", &subsets),
        select("kind", "all kinds", &kinds),
    )
}

fn solution(mistake: &Mistake, open: bool) -> String {
    let kind = Kind::of(mistake);
    let predicted = match mistake.predicted {
        Verdict::NoError => "no error".to_owned(),
        Verdict::At(step) => format!("step {step}"),
        Verdict::Undecided => "undecided".to_owned(),
    };
    let truth = mistake.truth.map_or("no error".to_owned(), |step| format!("step {step}"));
    let (id, subset, name) = (escaped(&mistake.id), escaped(&mistake.subset), kind.name());
    let open = if open { " open=\"open\"" } else { "" };
    let mut out = format!(
        "<details{open} data-subset=\"{subset}\" data-kind=\"{name}\">\n<summary><span class=\"kind\">{name}</span> \
         <b>{id}</b> <span class=\"subset\">{subset}</span> <span class=\"places\">true: {truth}; predicted: \
         {predicted}</span></summary>\n<div class=\"problem\">{}</div>\n",
        prose(&mistake.problem)
    );
    if let Some(note) = &mistake.note {
        let _ = writeln!(out, "<p class=\"remark\">{}</p>", prose(note));
    }
    out += "<ol start=\"0\">\n";
    for (index, step) in mistake.steps.iter().enumerate() {
        out += &step_of(step, index, mistake);
    }
    out += "</ol>\n";
    let count = mistake.steps.len();
    let found = if let Verdict::At(step) = mistake.predicted { Some(step) } else { None };
    let beyond = [(mistake.truth, "true"), (found, "predicted")];
    for (step, whose) in
        beyond.into_iter().filter_map(|(step, whose)| Some((step.filter(|s| *s >= count)?, whose)))
    {
        let steps = counted(count, "step", "steps");
        let _ = writeln!(
            out,
            "<p class=\"remark\">The {whose} first error is step {step}, but there are {steps}.</p>"
        );
    }
    out + "</details>\n"
}

fn step_of(step: &ScoredStep, index: usize, mistake: &Mistake) -> String {
    let truly = mistake.truth == Some(index);
    let found = mistake.predicted == Verdict::At(index);
    let flag = match (truly, found) {
        (true, true) => "<strong class=\"flag\">✔ true and predicted first error</strong>",
        (true, false) => "<strong class=\"flag\">▲ true first error</strong>",
        (false, true) => "<strong class=\"flag\">◆ predicted first error</strong>",
        (false, false) => "",
    };
    let class = match (truly, found) {
        (true, true) => " class=\"true found\"",
        (true, false) => " class=\"true\"",
        (false, true) => " class=\"found\"",
        (false, false) => "",
    };
    // From orange over nothing to blue; the number is printed, and ink stays readable on all of them.
    let (shown, color) = score(step).map_or(("–".to_owned(), String::new()), |score| {
        let from_middle = (score.clamp(0.0, 1.0) - 0.5) * 2.0;
        let side = if from_middle < 0.0 { "bad" } else { "good" };
        let strength = (from_middle.abs() * 42.0).round();
        (
            format!("{score:.2}"),
            format!(" style=\"--tone: color-mix(in srgb, var(--{side}) {strength}%, transparent)\""),
        )
    });
    format!(
        "<li{class}{color}><span class=\"number\">{index}</span><span class=\"score\">{shown}</span>\
         <div class=\"say\">{flag}{}</div></li>\n",
        prose(step.text.trim_end())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_mistakes() {
        let kind = |truth, predicted| Kind::of(&Mistake { truth, predicted, ..Mistake::default() });
        assert_eq!(kind(Some(2), Verdict::NoError), Kind::MissedError);
        assert_eq!(kind(None, Verdict::At(0)), Kind::FalseAlarm);
        assert_eq!(kind(Some(2), Verdict::At(3)), Kind::WrongPlace);
        assert_eq!(kind(Some(2), Verdict::Undecided), Kind::Undecided);
        assert_eq!(kind(Some(2), Verdict::At(2)), Kind::Right);
        assert_eq!(kind(None, Verdict::NoError), Kind::Right);
    }
}
