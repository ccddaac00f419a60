//! `--set optimiser.learning_rate=1e-5`: single values of a recipe from the command line; and, the other way round,
//! the single values in which two recipes differ.

use toml::{Table, Value};

use crate::{Error, Result};

/// Puts one setting into a recipe's table.
pub(super) fn apply(table: &mut Table, set: &str) -> Result<()> {
    let refuse = |message: String| Error::Recipe { place: format!("--set {set}"), message };
    let (path, text) = set
        .split_once('=')
        .ok_or_else(|| refuse("expected KEY=VALUE, such as optimiser.learning_rate=1e-5".to_owned()))?;
    let keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(refuse("a key is empty: expected KEY=VALUE, such as seed=7".to_owned()));
    }
    let value = value(text.trim()).map_err(refuse)?;
    let (last, sections) = keys.split_last().expect("split gives at least one key");
    let mut here = table;
    for section in sections {
        let next = here.entry(*section).or_insert_with(|| Value::Table(Table::new()));
        here = next.as_table_mut().ok_or_else(|| refuse(format!("`{section}` is a value, not a section")))?;
    }
    here.insert((*last).to_owned(), value);
    Ok(())
}

/// A TOML value; a bare word is text.
fn value(text: &str) -> std::result::Result<Value, String> {
    let parsed = format!("value = {text}").parse::<Table>();
    if let Ok(mut table) = parsed
        && table.len() == 1
        && let Some(value) = table.remove("value")
    {
        return Ok(value);
    }
    if text.starts_with(['[', '{', '"', '\'']) {
        return Err(format!("`{text}` is no TOML value: texts inside lists and tables need quotes"));
    }
    Ok(Value::String(text.to_owned()))
}

/// Collects the values that differ.
pub(super) fn differences(at: &str, mine: &Table, theirs: &Table, found: &mut Vec<(String, String, String)>) {
    let mut keys: Vec<&String> = mine.keys().chain(theirs.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        match (mine.get(key), theirs.get(key)) {
            (Some(Value::Table(mine)), Some(Value::Table(theirs))) => differences(&path, mine, theirs, found),
            (Some(Value::Table(mine)), None) if !mine.is_empty() => {
                differences(&path, mine, &Table::new(), found);
            }
            (None, Some(Value::Table(theirs))) if !theirs.is_empty() => {
                differences(&path, &Table::new(), theirs, found);
            }
            (mine, theirs) if mine != theirs => {
                let [mine, theirs] =
                    [mine, theirs].map(|value| value.map_or_else(String::new, ToString::to_string));
                found.push((path, mine, theirs));
            }
            _ => {}
        }
    }
}
