//! Colors on a terminal; plain text elsewhere and with `NO_COLOR`. `CLICOLOR_FORCE` forces colors.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// Whether colors are used.
pub(crate) fn on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        !set("NO_COLOR") && (set("CLICOLOR_FORCE") || std::io::stdout().is_terminal())
    })
}

fn paint(code: &str, text: &str) -> String {
    if on() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

pub(crate) fn bold(text: &str) -> String {
    paint("1", text)
}

pub(crate) fn dim(text: &str) -> String {
    paint("2", text)
}

pub(crate) fn red(text: &str) -> String {
    paint("1;31", text)
}

pub(crate) fn green(text: &str) -> String {
    paint("32", text)
}

/// A score in [0, 1] with three digits, from red over yellow to green.
pub(crate) fn score(score: f64) -> String {
    let (red, green) = if score < 0.5 { (220.0, 440.0 * score) } else { (440.0 * (1.0 - score), 200.0) };
    paint(&format!("38;2;{red:.0};{green:.0};60"), &format!("{score:.3}"))
}
