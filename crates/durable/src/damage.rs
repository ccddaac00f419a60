//! Damage that was found in what this program keeps for itself, said in one sentence by whoever listens.
//!
//! A journal that skips a damaged line goes on and computes its result again. Nobody needs to decide anything, but
//! nothing is done again without a word: the program that prints sets a listener once.

use std::path::Path;
use std::sync::OnceLock;

static LISTENER: OnceLock<fn(&str)> = OnceLock::new();

/// Sets who is told about damage, for as long as the process runs. The first listener stays.
pub fn on_damage(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// Tells about damage in a file: what is damaged, and what follows from it.
///
/// ```
/// gradus_durable::report_damage("answers/ab.answer".as_ref(), "damaged, its request is sent again");
/// ```
pub fn report_damage(path: &Path, what: &str) {
    if let Some(listener) = LISTENER.get() {
        listener(&format!("{}: {what}", path.display()));
    }
}

/// Tells, in the same way, about a change to what this program keeps, such as a new layout.
pub fn report_change(path: &Path, what: &str) {
    report_damage(path, what);
}

/// Tells about entries of a file that are skipped and computed again, if there are any.
pub fn report_damaged(path: &Path, number: usize, entry: &str) {
    match number {
        0 => {}
        1 => report_damage(path, &format!("1 damaged {entry} skipped; its result is computed again")),
        _ => report_damage(
            path,
            &format!("{number} damaged {entry}s skipped; their results are computed again"),
        ),
    }
}
