//! The crate from outside: losses and gradients against PyTorch, adapters exchanged with PEFT, recipes that ship.

mod gradients;
mod interchange;
mod losses;
mod recipes;
