//! Odds ratio preference optimisation: right solutions over wrong ones, without a reference model.

use std::ops::Range;

use gradus_engine::text::Tokenizer;

use super::answers::Quiz;
use crate::Result;
use crate::data::{Conversation, LeftOut, Pair, pairs, records};
use crate::example::{Example, Packed, pack};
use crate::losses::{self, OrpoBatch, OrpoPair};
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::run::recipe::{Neutral, Orpo};
use crate::session::{Numbers, Session};

/// A pair as the model sees it: the question once, then both answers. The first reads are the better answer's.
struct Sides {
    example: Example<u32>,
    chosen: usize,
}

/// Trains until the recipe's last step.
pub fn train(session: &mut Session<'_>, settings: &Orpo) -> Result<()> {
    let data = session.recipe.data.clone();
    let tokenizer = session.trainee.model.tokenizer().clone();
    let neutral = data.neutral.unwrap_or(Neutral::Correct);
    let most = data.max_tokens.min(session.trainee.model.context());
    let read = |paths: &[_], limit| -> Result<(Vec<Sides>, LeftOut)> {
        let records = records(paths, data.reader()?, limit)?;
        let (found, left_out) = pairs(&records, settings.pairs, neutral, settings.max_pairs_per_problem);
        sides(&found, &tokenizer, most, left_out)
    };
    let train = read(&data.train, data.limit)?;
    let held_out = if data.eval.is_empty() { Default::default() } else { read(&data.eval, None)? };
    session.begin(&train, &held_out)?;
    let ((all, _), (held_out, _)) = (train, held_out);
    let quiz = Quiz::new(session, settings.answer_problems, settings.answer_tokens)?;
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&Sides> = chosen.into_iter().map(|index| &all[index]).collect();
        let batch = totals(&chosen);
        let examples: Vec<&Example<u32>> = chosen.iter().map(|sides| &sides.example).collect();
        let mut gradients = Gradients::new(&session.trainee.parameters);
        let mut sums = Sums::default();
        let mut done = 0;
        for (number, pass) in pack(&examples, session.recipe.batch.tokens).iter().enumerate() {
            let members = &chosen[done..done + pass.examples.len()];
            done += members.len();
            let tape = session.trainee.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let logprobs = session.trainee.token_logprobs(&hidden, &pass.targets, true)?;
            session.check_finite(pass, &logprobs.values)?;
            let spans = spans(pass, members);
            let loss = losses::orpo_part(&of(&logprobs.values, &spans), settings.lambda, batch);
            sums.add(&loss);
            let both =
                loss.gradients.into_iter().flat_map(|pair| pair.chosen.into_iter().chain(pair.rejected));
            let slopes: Vec<f32> = both.collect();
            let d_rows =
                session.trainee.token_logprobs_backward(&hidden, logprobs, &slopes, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainee.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        session.update(gradients, sums.numbers())?;
        if session.should_evaluate() {
            let mut numbers = evaluate(session, &held_out, settings.lambda)?;
            if let Some(quiz) = &quiz {
                numbers.push(("exact_match", quiz.exact_match(session)?));
            }
            session.record_evaluation(&numbers)?;
        }
        session.save_if_due()?;
    }
    Ok(())
}

/// Parts of the loss, added up over passes.
#[derive(Default)]
struct Sums([f64; 6]);

impl Sums {
    fn add(&mut self, loss: &losses::Orpo) {
        let losses::Orpo { value, nll, odds_ratio, chosen_log_odds, rejected_log_odds, chosen_above, .. } =
            loss;
        let parts = [value, nll, odds_ratio, chosen_log_odds, rejected_log_odds, chosen_above];
        self.0.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }

    fn numbers(&self) -> Numbers {
        let names =
            ["loss", "nll", "odds_ratio_loss", "chosen_log_odds", "rejected_log_odds", "preference_accuracy"];
        names.into_iter().zip(self.0).collect()
    }
}

fn sides(
    pairs: &[Pair],
    tokenizer: &Tokenizer,
    most: usize,
    mut left_out: LeftOut,
) -> Result<(Vec<Sides>, LeftOut)> {
    let mut found = Vec::with_capacity(pairs.len());
    for Pair { chosen, rejected } in pairs {
        let (prompt, better) = chosen.tokens(tokenizer)?;
        let (_, worse) = Conversation { answer: rejected.clone(), ..chosen.clone() }.tokens(tokenizer)?;
        let length = better.len();
        let (example, _) = Example::continuations(chosen.id.as_str(), &prompt, &[better, worse]);
        if example.forest.tokens() > most {
            left_out.add("longer than data.max_tokens");
        } else {
            found.push(Sides { example, chosen: length });
        }
    }
    Ok((found, left_out))
}

fn totals(sides: &[&Sides]) -> OrpoBatch {
    OrpoBatch { pairs: sides.len(), chosen_tokens: sides.iter().map(|sides| sides.chosen).sum() }
}

/// Where the two answers of each pair are among a pass's reads.
fn spans(pass: &Packed<'_, u32>, members: &[&Sides]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut start = 0;
    let mut spans = Vec::with_capacity(members.len());
    for (example, sides) in pass.examples.iter().zip(members) {
        let (middle, end) = (start + sides.chosen, start + example.reads.len());
        spans.push((start..middle, middle..end));
        start = end;
    }
    spans
}

fn of<'a>(logprobs: &'a [f32], spans: &[(Range<usize>, Range<usize>)]) -> Vec<OrpoPair<'a>> {
    let pair = |(chosen, rejected): &(Range<usize>, Range<usize>)| OrpoPair {
        chosen: &logprobs[chosen.clone()],
        rejected: &logprobs[rejected.clone()],
    };
    spans.iter().map(pair).collect()
}

/// The loss and its parts on pairs that were not trained on.
fn evaluate(session: &Session<'_>, held_out: &[Sides], lambda: f64) -> Result<Numbers> {
    let all: Vec<&Sides> = held_out.iter().collect();
    let batch = totals(&all);
    let examples: Vec<&Example<u32>> = held_out.iter().map(|sides| &sides.example).collect();
    let mut sums = Sums::default();
    let mut done = 0;
    for pass in pack(&examples, session.recipe.batch.tokens) {
        let members = &all[done..done + pass.examples.len()];
        done += members.len();
        let hidden = select(&session.trainee.hidden(&pass.batch)?, &pass.rows)?;
        let logprobs = session.trainee.token_logprobs(&hidden, &pass.targets, false)?;
        sums.add(&losses::orpo_part(&of(&logprobs.values, &spans(&pass, members)), lambda, batch));
    }
    Ok(sums.numbers())
}
