//! Prints the outcome of a search: the selected solution, its answer, other answers and the cost.

use anyhow::Result;
use gradus_core::select::search::{Found, SearchOutcome, SearchUsage, Settings, StopReason};
use gradus_core::select::vote::{self, Power};

use crate::terminal::paint;
use crate::terminal::printer::{self, Printer};
use gradus_core::count::counted;

/// Other answers that are shown.
const ANSWERS: usize = 10;

pub(super) fn outcome(printer: Printer, outcome: &SearchOutcome, settings: &Settings) -> Result<()> {
    match outcome.best() {
        Some(best) => {
            solution(printer, best)?;
            let answer = best.answer.as_deref().unwrap_or("none");
            let score = best.aggregate.map_or_else(String::new, |score| {
                format!("  {} ({})", paint::score(score), settings.aggregation)
            });
            printer.line(format!("\n{}{score}", paint::bold(&format!("answer  {answer}"))))?;
        }
        None => {
            if let Some(begun) = outcome.solutions.first() {
                solution(printer, begun)?;
                printer.line("")?;
            }
            printer.line(paint::red("no solution is complete"))?;
        }
    }
    answers(printer, outcome, settings.vote_power)?;
    printer.line(format!("\n{}", cost(&outcome.usage)))?;
    printer.line(format!("stopped: {}", reason(outcome.stopped)))?;
    if let Some(error) = &outcome.error {
        printer.line(format!("first error: {error}"))?;
    }
    Ok(())
}

fn solution(printer: Printer, found: &Found) -> Result<()> {
    for (index, step) in found.steps.iter().enumerate() {
        let score = found.scores.get(index).map_or_else(|| "    -".to_owned(), |score| paint::score(*score));
        let text = step.replace('\n', "\n             ");
        printer.line(format!("  {score}  {index:>2}  {text}"))?;
    }
    Ok(())
}

/// The answers of all complete solutions, the most frequent first.
fn answers(printer: Printer, outcome: &SearchOutcome, power: Power) -> Result<()> {
    let complete: Vec<&Found> = outcome.solutions.iter().filter(|found| found.complete).collect();
    let stated: Vec<Option<&str>> = complete.iter().map(|found| found.answer.as_deref()).collect();
    let groups = vote::groups(&stated);
    let mut firsts: Vec<(usize, usize)> = Vec::new();
    for group in groups.iter().flatten() {
        match firsts.iter_mut().find(|(first, _)| first == group) {
            Some((_, votes)) => *votes += 1,
            None => firsts.push((*group, 1)),
        }
    }
    firsts.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    let without = groups.iter().filter(|group| group.is_none()).count();
    let unfinished = outcome.solutions.len() - complete.len();
    if firsts.len() > 1 || firsts.iter().any(|(_, votes)| *votes > 1) {
        let row = |(first, votes): &(usize, usize)| {
            let members = (0..groups.len()).filter(|index| groups[*index] == Some(*first));
            let sum: Option<f64> =
                members.map(|index| complete[index].aggregate.map(|score| power.of(score))).sum();
            vec![
                printer::excerpt(stated[*first].unwrap_or_default(), 40),
                votes.to_string(),
                sum.map_or_else(|| "-".to_owned(), |sum| format!("{sum:.3}")),
            ]
        };
        let rows: Vec<Vec<String>> = firsts.iter().take(ANSWERS).map(row).collect();
        printer.line("")?;
        let weights = if power == Power::ONE { "sum of scores" } else { "sum of weights" };
        printer.table(&["answers", "votes", weights], &rows)?;
        if firsts.len() > ANSWERS {
            printer.line(format!("… and {} more (--json)", firsts.len() - ANSWERS))?;
        }
    }
    for (count, words) in [(without, "without an answer"), (unfinished, "unfinished")] {
        if count > 0 {
            printer.line(format!("{} {words}", counted(count, "solution")))?;
        }
    }
    Ok(())
}

/// What a search cost, in one line.
pub(super) fn cost(usage: &SearchUsage) -> String {
    let mut text = format!(
        "{} generated in {}",
        counted(usage.generated_tokens, "token"),
        counted(usage.generate_calls, "request")
    );
    if usage.score_calls > 0 {
        text += &format!(
            ", {} scored in {}",
            counted(usage.scored_tokens, "token"),
            counted(usage.score_calls, "request")
        );
    }
    let lost = [
        (usage.failed_calls, "failed request", ""),
        (usage.cut, "sample", " truncated"),
        (usage.duplicates, "duplicate", ""),
        (usage.empty, "empty sample", ""),
        (usage.undecided, "sample", " without a score"),
    ];
    for (count, noun, rest) in lost.into_iter().filter(|(count, ..)| *count > 0) {
        text += &format!("; {}{rest}", counted(count, noun));
    }
    text
}

fn reason(stopped: StopReason) -> &'static str {
    match stopped {
        StopReason::Enough => "all samples were drawn",
        StopReason::NoneLeft => "no partial solution can be extended",
        StopReason::Steps => "maximum steps reached",
        StopReason::Budget => "token budget exhausted",
        StopReason::Failed => "the generator failed",
        _ => "other reason",
    }
}
