//! Turns the parsers' errors about a recipe into sentences that name the key and, if there is one, the key that
//! was probably meant.

use serde_path_to_error::{Path, Segment};

use crate::Error;

/// Names less alike than this are not suggested.
const ALIKE: f64 = 0.6;

/// Sections that every recipe has.
const SECTIONS: [&str; 4] = ["model", "data", "optimizer", "steps"];

/// The file is no TOML.
pub(super) fn syntax(name: &str, text: &str, error: &toml::de::Error) -> Error {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count() + 1;
    let message = error.message().replace('\n', ", ");
    Error::Recipe { location: format!("{name}:{line}"), message: format!("no valid TOML: {message}") }
}

/// A key or a value is not what a recipe has.
pub(super) fn keys(name: &str, sets: &[String], path: &Path, error: &toml::de::Error) -> Error {
    let mut segments = segments(path);
    let message = error.message().trim();
    let message = if let Some((key, known)) = complaint(message, "unknown field `") {
        // The path ends with the unknown key itself.
        if segments.last().is_some_and(|last| *last == key) {
            segments.pop();
        }
        let meant = suggestion(&key, &known);
        let sentence = format!("unknown key `{key}`{}: {meant}", within(&segments));
        segments.push(key);
        sentence
    } else if let Some((found, known)) = complaint(message, "unknown variant `") {
        let meant = suggestion(&found, &known);
        format!("{} is `{found}`: {meant}", named(&segments))
    } else if let Some(key) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next())
    {
        match within(&segments) {
            section if section.is_empty() && SECTIONS.contains(&key) => {
                format!("the section [{key}] is missing")
            }
            section => format!("`{key}` is missing{section}"),
        }
    } else {
        format!("{}: {}", named(&segments), plainly(message))
    };
    let joined = segments.join(".");
    let guilty = sets.iter().rev().find(|set| {
        let key = super::overrides::modern_key(set.split('=').next().unwrap_or_default());
        !joined.is_empty() && (key == joined || joined.starts_with(&format!("{key}.")))
    });
    let location = guilty.map_or_else(|| name.to_owned(), |set| format!("--set {set}"));
    Error::Recipe { location, message }
}

/// `data.train[1]` as its parts: `data`, `train[1]`.
fn segments(path: &Path) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    for segment in path {
        match (segment, segments.last_mut()) {
            (Segment::Map { key }, _) => segments.push(key.clone()),
            (Segment::Seq { index }, Some(list)) => *list += &format!("[{index}]"),
            _ => {}
        }
    }
    segments
}

/// `unknown field `x`, expected one of `a`, `b`` gives x and [a, b].
fn complaint(message: &str, opening: &str) -> Option<(String, Vec<String>)> {
    let rest = message.strip_prefix(opening)?;
    let (found, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((found.to_owned(), known))
}

fn suggestion(found: &str, known: &[String]) -> String {
    let likeness = |name: &String| strsim::normalized_damerau_levenshtein(found, name);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best {
        Some(best) if likeness(best) >= ALIKE => format!("did you mean `{best}`?"),
        Some(_) => format!("expected one of {}", known.join(", ")),
        None => "expected none".to_owned(),
    }
}

/// ` in [a.b]`, or nothing at the top.
fn within(sections: &[String]) -> String {
    if sections.is_empty() { String::new() } else { format!(" in [{}]", sections.join(".")) }
}

fn named(segments: &[String]) -> String {
    match segments.split_last() {
        Some((key, sections)) => format!("`{key}`{}", within(sections)),
        None => "the recipe".to_owned(),
    }
}

/// Rust's names of types, as a reader of recipes would say them.
fn plainly(message: &str) -> String {
    let mut text = message.to_owned();
    for (rust, plain) in [
        ("expected f64", "expected a number"),
        ("expected usize", "expected a whole number of at least 0"),
        ("expected u64", "expected a whole number of at least 0"),
        ("expected a sequence", "expected a list"),
        ("expected a string", "expected text"),
        ("expected path string", "expected text"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: ", "found "),
        ("invalid value: ", "found "),
    ] {
        text = text.replace(rust, plain);
    }
    // `expected struct Lora` and the like.
    text.split(" expected struct ").next().map_or(text.clone(), |start| {
        if start.len() < text.len() { format!("{start} expected a section") } else { text.clone() }
    })
}
