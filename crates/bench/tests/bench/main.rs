//! Benchmarks against reference values, and runs that resume.

mod best_of_n;
mod coverage;
mod prmbench;
mod processbench;
mod run;
