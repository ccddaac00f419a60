//! Benchmarks of step scorers.
