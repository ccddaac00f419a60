//! The engine from outside: bad input, and real models against independent programs.

mod faults;
mod real_models;
