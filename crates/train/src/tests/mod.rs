//! Losses and gradients against PyTorch, adapters exchanged with PEFT, the recipes that ship, and the speed of training.
//!
//! Values of PyTorch and PEFT are in `tests/reference/`, beside the Python that made them.

mod gradients;
mod interchange;
mod losses;
mod recipes;
mod speed;
