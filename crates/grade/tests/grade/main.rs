//! The grader from the outside: tables of answers and laws, hard pairs, and pairs of answers that SymPy has decided.

mod answers;
mod metamorphic;
mod pairs;
mod sympy;
