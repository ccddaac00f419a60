//! The exact checks of arithmetic inside steps: a table of cases, and laws.
mod cases;
mod laws;
