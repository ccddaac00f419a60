//! Gives a draft its wording in one of the styles.
//!
//! ```text
//! equations    Cost of the apples = 3 * 4 = 12 dollars
//! prose        The apples cost $12, because 3 times 4 is 12.
//! enumeration  Step 1: Find the cost of the apples: 3 * 4 = 12 dollars.
//! ```
//! Formulas come with `*` and `/`; a voice may write `×` and `÷` instead.

use super::dice::Dice;
use super::kinds::Style;
use super::plan::{Draft, Piece};
use super::words::capital;

/// The steps of a draft as text, the statement of the answer last.
pub(super) fn write(draft: &Draft, style: Style, dice: &mut Dice) -> Vec<String> {
    let mut steps = match style {
        Style::Equations => equations(draft, dice),
        Style::Prose => prose(draft, dice),
        Style::Enumeration => enumeration(draft, dice),
    };
    if style != Style::Prose && dice.chance(0.5) {
        for step in &mut steps {
            *step = step.replace(" * ", " × ").replace(" / ", " ÷ ");
        }
    }
    steps
}

/// The reference solution: always the same wording.
pub(super) fn reference(draft: &Draft) -> Vec<String> {
    let mut steps: Vec<_> =
        draft.pieces.iter().map(|piece| format!("{} = {}", title(&piece.what), piece.formula)).collect();
    steps.push(format!("The answer is {}.", draft.answer));
    steps
}

/// `the cost of the apples` as a heading.
fn title(what: &str) -> String {
    capital(bare(what))
}

fn bare(what: &str) -> &str {
    what.strip_prefix("the ").unwrap_or(what)
}

fn equations(draft: &Draft, dice: &mut Dice) -> Vec<String> {
    let mark = dice.pick(&[" =", ":"]);
    let line = |piece: &Piece| match &piece.recall {
        Some(earlier) => format!(
            "From above, {} = {}, so {}{mark} {}",
            bare(&earlier.what),
            earlier.value,
            bare(&piece.what),
            piece.formula
        ),
        None => format!("{}{mark} {}", title(&piece.what), piece.formula),
    };
    let mut steps: Vec<_> = draft.pieces.iter().map(line).collect();
    let answer = &draft.answer;
    steps.push(match dice.between(0, 2) {
        0 => format!("\\boxed{{{answer}}}"),
        1 => format!("Answer: \\boxed{{{answer}}}"),
        _ => format!("Answer = {answer}"),
    });
    steps
}

fn prose(draft: &Draft, dice: &mut Dice) -> Vec<String> {
    let last = draft.pieces.len().saturating_sub(1);
    let mut steps: Vec<String> = Vec::new();
    for (index, Piece { what, words, claim, recall, .. }) in draft.pieces.iter().enumerate() {
        let opening = match (index, last) {
            _ if recall.is_some() => "",
            (0, _) => dice.pick(&["First, ", "To begin with, ", "", ""]),
            (i, last) if i == last => dice.pick(&["Finally, ", "Last, ", "", ""]),
            _ => dice.pick(&["Next, ", "Then, ", "After that, ", "", "", ""]),
        };
        let body = match dice.between(0, 4) {
            0 => format!("{opening}{words}, so {claim}."),
            1 => format!("{opening}since {words}, {claim}."),
            2 => format!("{opening}{claim}, because {words}."),
            3 => format!("{opening}we need {what}: {words}, so {claim}."),
            _ => format!("{opening}{words}. This means that {claim}."),
        };
        let before = recall.as_ref().map(|earlier| {
            let lead = dice.pick(&["We already know that", "Recall that", "As found before,", "We saw that"]);
            format!("{lead} {}. ", earlier.claim)
        });
        steps.push(before.unwrap_or_default() + &capital(&body));
    }
    let lead = dice.pick(&["The answer is", "So the final answer is", "Therefore, the answer is"]);
    steps.push(format!("{lead} {}.", draft.answer));
    steps
}

fn enumeration(draft: &Draft, dice: &mut Dice) -> Vec<String> {
    let marker = dice.between(0, 2);
    let mark = |number: usize| match marker {
        0 => format!("Step {number}: "),
        1 => format!("{number}. "),
        _ => format!("({number}) "),
    };
    let form = dice.between(0, 2);
    let mut steps = Vec::new();
    for (index, Piece { what, listed, reason, claim, recall, .. }) in draft.pieces.iter().enumerate() {
        let verb = dice.pick(&["Find", "Work out", "Determine"]);
        let body = match recall {
            Some(earlier) => {
                let verb = verb.to_lowercase();
                format!("We know that {}. Now {verb} {what}: {listed}.", earlier.claim)
            }
            None if form == 0 => format!("{verb} {what}: {listed}."),
            None if form == 1 => format!("{}: {listed}.", title(what)),
            None => format!("{}, so {claim}.", capital(reason)),
        };
        steps.push(mark(index + 1) + &body);
    }
    let answer = &draft.answer;
    let end = match dice.between(0, 2) {
        0 => format!("The answer is {answer}."),
        1 => format!("Final answer: {answer}"),
        _ => format!("The answer is \\boxed{{{answer}}}."),
    };
    steps.push(mark(draft.pieces.len() + 1) + &end);
    steps
}
