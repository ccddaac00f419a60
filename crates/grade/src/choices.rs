//! Options of a multiple-choice question: `(B)`, `\textbf{(B) }12`, `B. 12`, `option B`.

use super::{Reason, Verdict, compare};

/// `(A) 5` is the option A and its value 5: either may be what the other side gives. `None` when no side is an option
/// with a value.
pub(super) fn compare_options(gold: &str, answer: &str) -> Option<Verdict> {
    let agree = |equal: bool| if equal { Verdict::Equal } else { Verdict::Different };
    match (option(gold), option(answer)) {
        (None, None) => match (letter(gold), letter(answer)) {
            // One side must be marked as an option: `b` and `B` may be variables.
            (Some((first, marked)), Some((second, also))) if marked || also => Some(agree(first == second)),
            _ => None,
        },
        (Some((first, gold)), Some((second, answer))) => {
            let verdict = compare(gold, answer);
            // The letter and the value contradict each other.
            Some(if verdict == agree(first == second) {
                verdict
            } else {
                Verdict::Undecided(Reason::Inconclusive)
            })
        }
        (Some((first, gold)), None) => Some(match letter(answer) {
            Some((second, _)) => agree(first == second),
            None => compare(gold, answer),
        }),
        (None, Some((second, answer))) => Some(match letter(gold) {
            Some((first, _)) => agree(first == second),
            None => compare(gold, answer),
        }),
    }
}

/// The text without `\textbf{` and its kin, and whether there was one.
fn unwrapped(text: &str) -> (&str, bool) {
    let mut inner = text;
    loop {
        let next = ["\\textbf{", "\\text{", "\\mathrm{", "\\mathbf{", "\\textit{"]
            .iter()
            .find_map(|start| inner.strip_prefix(start));
        match next {
            Some(next) => inner = next.trim_start(),
            None => return (inner, inner.len() < text.len()),
        }
    }
}

fn option_letter(letter: char) -> Option<char> {
    let letter = letter.to_ascii_uppercase();
    ('A'..='J').contains(&letter).then_some(letter)
}

/// An option's letter and the value after it: `(A) 5`, `\textbf{(A)}\ 5`, `A) 5`, `A. 5`.
fn option(text: &str) -> Option<(char, &str)> {
    let (inner, wrapped) = unwrapped(text);
    let opened = inner.strip_prefix('(');
    let mut characters = opened.unwrap_or(inner).chars();
    let letter = characters.next().filter(|letter| opened.is_some() || letter.is_ascii_uppercase())?;
    let letter = option_letter(letter)?;
    let rest = characters.as_str();
    let mut value = match opened {
        Some(_) => rest.strip_prefix(')')?,
        None => rest.strip_prefix([')', '.', ':'])?,
    };
    // Only brackets stand right before the value.
    let spaced = value.starts_with([' ', '~', '\\', '}', '$', ':', '.']);
    if wrapped {
        value = value.trim_start().strip_prefix('}')?;
    }
    // `(A) 5, (B) 6` lists options.
    if value
        .as_bytes()
        .windows(3)
        .any(|part| part[0] == b'(' && part[2] == b')' && part[1].is_ascii_uppercase())
    {
        return None;
    }
    let mut value = value.trim_start_matches([' ', '~', ':', '$', '.', '}']);
    for space in ["\\ ", "\\quad", "\\,", "\\;"] {
        value = value.strip_prefix(space).unwrap_or(value).trim_start();
    }
    let is_value = value.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        || ["\\frac", "\\dfrac", "\\sqrt", "\\$", "\\pi"].iter().any(|start| value.starts_with(start));
    // `(a+b)(c)` is no option, nor is `A: B`; in bold any value may follow.
    let may_be_sum = opened.is_some_and(|inner| inner.starts_with(|c: char| c.is_ascii_lowercase()));
    let is_value = is_value && !(may_be_sum && value.starts_with('-'));
    let plain = spaced && (is_value || (wrapped && !value.is_empty()));
    plain.then_some((letter, value))
}

/// The letter of an answer that is an option alone, and whether it is marked as one: `A`, `(A)`, `\text{(A)}`, `option A`.
fn letter(text: &str) -> Option<(char, bool)> {
    let (inner, _) = unwrapped(text);
    let inner = inner.trim_end_matches(['}', ' ', '.']);
    let named = ["option ", "choice ", "answer ", "Option ", "Choice ", "Answer "]
        .iter()
        .find_map(|word| inner.strip_prefix(word));
    let core = named.unwrap_or(inner).trim();
    let bare = core.strip_prefix('(').unwrap_or(core).trim_end_matches(')').trim();
    let mut characters = bare.chars();
    let first = characters.next()?;
    if characters.next().is_some() {
        return None;
    }
    let marked = named.is_some() || core.len() > bare.len();
    let letter = option_letter(first).filter(|_| marked || first.is_ascii_uppercase())?;
    Some((letter, marked))
}
