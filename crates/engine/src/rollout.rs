//! Samples from a model that its owner holds, without a service around it: what training draws between updates.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use gradus_core::contracts::{GenerateRequest, Generated};

use crate::generate::{Generator, Listener, Piece, Prepared, prepare};
use crate::model::Model;
use crate::{Error, Result};

/// Where the answer to one request arrives.
type Slot = Arc<Mutex<Option<Result<Generated>>>>;

struct Keep(Slot);

impl Listener for Keep {
    fn piece(&mut self, _: Piece) {}

    fn finish(self: Box<Self>, outcome: Result<Generated>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    fn is_gone(&self) -> bool {
        false
    }
}

impl Model {
    /// Draws the samples of all requests, at most `width` sequences at a time. On a CPU each depends on its own request
    /// only, not on its neighbors.
    pub fn generate_all(&self, requests: Vec<GenerateRequest>, width: usize) -> Result<Vec<Generated>> {
        let mut slots: Vec<Slot> = Vec::with_capacity(requests.len());
        let mut waiting: VecDeque<Prepared> = VecDeque::new();
        for request in requests {
            let slot = Slot::default();
            waiting.extend(prepare(self, request, Box::new(Keep(Arc::clone(&slot)))));
            slots.push(slot);
        }
        let mut generator = Generator::new(self, width)?;
        while !waiting.is_empty() || !generator.is_empty() {
            let mut admitted: Vec<Prepared> = Vec::new();
            let mut sequences = generator.len();
            while let Some(next) = waiting.front() {
                if sequences > 0 && sequences + next.samples() > width {
                    break;
                }
                sequences += next.samples();
                admitted.extend(waiting.pop_front());
            }
            if !admitted.is_empty() {
                generator.admit(self, admitted)?;
            }
            generator.step(self)?;
        }
        let taken = slots.into_iter().map(|slot| {
            let outcome = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            outcome.unwrap_or_else(|| Err(Error::request("a request ended without an answer")))
        });
        taken.collect()
    }
}
