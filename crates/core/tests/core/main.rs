//! Guided search over a synthetic world, and cutting text into steps.

mod search;
mod steps;
