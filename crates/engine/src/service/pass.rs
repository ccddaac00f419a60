//! What goes through the model at once: units of one kind, with those that begin alike joined.

use std::mem::Discriminant;

use gradus_core::contracts::TokenLogProbs;

use super::ReplySender;
use super::read::ReadRequest;
use crate::batch::Forest;
use crate::join::{Joined, Place};
use crate::score::Tree;

/// A piece of work that is not divided further.
pub(super) enum Unit {
    Tree { call: u64, tree: Tree },
    Continuation { reply: ReplySender<TokenLogProbs>, tokens: Vec<u32>, first: usize },
    Text { call: u64, number: usize, tokens: Vec<u32> },
    Read { call: u64, number: usize, request: ReadRequest },
}

/// A unit in the queue.
pub(super) struct Waiting {
    pub(super) unit: Unit,
    /// What it begins with: units with the same number share tokens in a pass.
    pub(super) beginning: Option<u64>,
}

/// Units of one kind that go through the model at once.
#[derive(Default)]
pub(super) struct Pass {
    pub(super) units: Vec<(Unit, Place)>,
    pub(super) joined: Joined,
}

impl Waiting {
    pub(super) fn kind(&self) -> Discriminant<Unit> {
        std::mem::discriminant(&self.unit)
    }
}

impl Pass {
    pub(super) fn is_of(&self, kind: Discriminant<Unit>) -> bool {
        self.units.first().is_none_or(|(first, _)| std::mem::discriminant(first) == kind)
    }

    /// Takes a unit in, or hands it back where it makes the pass longer than `budget`.
    pub(super) fn add(&mut self, mut waiting: Waiting, budget: usize) -> Result<(), Waiting> {
        let forest = match &mut waiting.unit {
            Unit::Tree { tree, .. } => std::mem::take(&mut tree.forest),
            Unit::Continuation { tokens, .. } | Unit::Text { tokens, .. } => Forest::sequence(tokens.clone()),
            Unit::Read { request, .. } => Forest::sequence(request.tokens.clone()),
        };
        match self.joined.add(forest, waiting.beginning, budget) {
            Ok(place) => self.units.push((waiting.unit, place)),
            Err(forest) => {
                if let Unit::Tree { tree, .. } = &mut waiting.unit {
                    tree.forest = forest;
                }
                return Err(waiting);
            }
        }
        Ok(())
    }
}
