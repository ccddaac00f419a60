//! `--set optimizer.learning_rate=1e-5`: single values of a recipe from the command line, old spellings of keys, and
//! the single values in which two recipes differ.

use toml::{Table, Value};

use crate::{Error, Result};

/// Old spellings of keys that recipes and run folders still have: section, old key, key.
const OLD_KEYS: [(&str, &str, &str); 2] =
    [("", "optimiser", "optimizer"), ("model", "quantised", "quantized")];

/// Keys of which a recipe has one: section and both keys. A setting replaces the other one, too.
const ALTERNATIVES: [(&str, &str, &str); 2] = [("steps", "total", "epochs"), ("", "lora", "full")];

/// Replaces old spellings of keys.
pub(super) fn modernize(table: &mut Table) -> std::result::Result<(), String> {
    for (section, old, new) in OLD_KEYS {
        let here = match section {
            "" => Some(&mut *table),
            section => table.get_mut(section).and_then(Value::as_table_mut),
        };
        let Some((here, value)) = here.and_then(|here| here.remove(old).map(|value| (here, value))) else {
            continue;
        };
        if here.insert(new.to_owned(), value).is_some() {
            return Err(format!("has both `{old}` and `{new}`: keep `{new}`"));
        }
    }
    Ok(())
}

/// `optimiser.clip` as `optimizer.clip`: a dotted key without old spellings.
pub(super) fn modern_key(path: &str) -> String {
    let mut keys: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    for (section, old, new) in OLD_KEYS {
        match (section, &mut keys[..]) {
            ("", [first, ..]) if *first == old => *first = new,
            (section, [first, second, ..]) if *first == section && *second == old => *second = new,
            _ => {}
        }
    }
    keys.join(".")
}

/// Puts one setting into a recipe's table.
pub(super) fn apply(table: &mut Table, set: &str) -> Result<()> {
    let refuse = |message: String| Error::Recipe { location: format!("--set {set}"), message };
    let (path, text) = set
        .split_once('=')
        .ok_or_else(|| refuse("expected KEY=VALUE, such as optimizer.learning_rate=1e-5".to_owned()))?;
    let path = modern_key(path);
    let keys: Vec<&str> = path.split('.').collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(refuse("a key is empty: expected KEY=VALUE, such as seed=7".to_owned()));
    }
    let value = value(text.trim()).map_err(refuse)?;
    let (last, sections) = keys.split_last().expect("split gives at least one key");
    let mut here = &mut *table;
    for section in sections {
        let next = here.entry(*section).or_insert_with(|| Value::Table(Table::new()));
        here = next.as_table_mut().ok_or_else(|| refuse(format!("`{section}` is a value, not a section")))?;
    }
    here.insert((*last).to_owned(), value);
    for (section, one, other) in ALTERNATIVES {
        if sections.join(".") == section {
            let pairs = [(one, other), (other, one)];
            if let Some((_, replaced)) = pairs.iter().find(|(key, _)| key == last) {
                here.remove(*replaced);
            }
        }
    }
    // A value may be a whole section with an old key in it.
    modernize(table).map_err(refuse)
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
