//! The terminal: printing, progress bars, colors and Ctrl-C.

pub(crate) mod interrupt;
pub(crate) mod paint;
pub(crate) mod printer;
pub(crate) mod progress;
pub(crate) mod progress_log;
pub(crate) mod visible;
