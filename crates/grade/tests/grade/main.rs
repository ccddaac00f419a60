//! The grader from the outside: tables of answers and laws, and pairs of answers that SymPy has decided.

mod answers;
mod sympy;
