//! Odds ratio preference optimization (ORPO): chosen over rejected solutions, without a reference model.

use std::ops::Range;

use gradus_engine::text::Tokenizer;

use super::exact_match::ExactMatch;
use crate::Result;
use crate::data::{Conversation, Examples, Pair, SolvePrompt, pairs};
use crate::example::{Example, Packed, pack};
use crate::losses::{self, OrpoBatch, OrpoConfig, OrpoLoss, OrpoPair};
use crate::observer::{MetricValues, TrainingEnd, TrainingObserver};
use crate::parameters::Gradients;
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::readout::{scatter, select};
use crate::session::Session;

/// A pair as the model reads it: the prompt once, then both answers. The first reads are the chosen answer's.
pub(crate) struct PairExample {
    pub(crate) example: Example<u32>,
    /// Tokens of the chosen answer.
    pub(crate) chosen: usize,
}

/// Trains until the recipe's last step.
pub(crate) fn train(
    prepared: PreparedRecipe,
    folder: RunFolder,
    config: &OrpoConfig,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let prompt = SolvePrompt::find(&config.prompt)?;
    let examples = read(&prepared, config, &prompt)?;
    let mut session = Session::start(prepared, folder, &examples, observer)?;
    let (problems, tokens) = (config.answer_problems, config.answer_tokens);
    let exact_match = ExactMatch::new(&session.recipe.data, problems, tokens, &prompt)?;
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&PairExample> = chosen.into_iter().map(|index| &examples.train[index]).collect();
        let batch = totals(&chosen);
        let chosen_examples: Vec<&Example<u32>> = chosen.iter().map(|pair| &pair.example).collect();
        let mut gradients = Gradients::new(&session.trainable.parameters);
        let mut sums = OrpoSums::default();
        let mut done = 0;
        for (number, pass) in pack(&chosen_examples, session.recipe.batch.tokens).iter().enumerate() {
            let members = &chosen[done..done + pass.examples.len()];
            done += members.len();
            let tape = session.trainable.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let logprobs = session.trainable.token_logprobs(&hidden, &pass.targets, true)?;
            session.check_finite(pass, &logprobs.values)?;
            let spans = spans(pass, members);
            let loss = losses::orpo(&of(&logprobs.values, &spans), config.lambda, batch);
            sums.add(&loss);
            let both =
                loss.gradients.into_iter().flat_map(|pair| pair.chosen.into_iter().chain(pair.rejected));
            let gradient: Vec<f32> = both.collect();
            let d_rows =
                session.trainable.token_logprobs_backward(&hidden, logprobs, &gradient, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainable.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        session.update(gradients, sums.metrics())?;
        if session.should_evaluate() {
            let mut metrics = evaluate(&session, &examples.held_out, config.lambda)?;
            if let Some(exact_match) = &exact_match {
                metrics.push(("exact_match", exact_match.evaluate(&session.trainable)?));
            }
            session.record_evaluation(&metrics)?;
        }
        session.save_if_due()?;
    }
    session.finish()
}

/// Reads the pairs.
pub(crate) fn read(
    prepared: &PreparedRecipe,
    config: &OrpoConfig,
    prompt: &SolvePrompt,
) -> Result<ExampleSets<PairExample>> {
    let (tokenizer, max_tokens) = (prepared.trainable.model.tokenizer(), prepared.max_tokens());
    let (labels, most) = (prepared.recipe.data.step_labels(), config.max_pairs_per_problem);
    prepared.read_examples(|set| {
        let found = set.examples(|records| Ok(pairs(records, config.pairs, labels, most, prompt)))?;
        tokenize(found, tokenizer, max_tokens)
    })
}

/// Parts of the loss, added up over passes.
#[derive(Default)]
struct OrpoSums([f64; 6]);

impl OrpoSums {
    fn add(&mut self, loss: &OrpoLoss) {
        let OrpoLoss { value, nll, odds_ratio, chosen_log_odds, rejected_log_odds, chosen_above, .. } = loss;
        let parts = [value, nll, odds_ratio, chosen_log_odds, rejected_log_odds, chosen_above];
        self.0.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }

    fn metrics(&self) -> MetricValues {
        let names =
            ["loss", "nll", "odds_ratio_loss", "chosen_log_odds", "rejected_log_odds", "preference_accuracy"];
        names.into_iter().zip(self.0).collect()
    }
}

/// Pairs as examples; those that are too long are left out.
fn tokenize(
    (pairs, mut left_out): Examples<Pair>,
    tokenizer: &Tokenizer,
    max_tokens: usize,
) -> Result<Examples<PairExample>> {
    let mut found = Vec::with_capacity(pairs.len());
    for Pair { chosen, rejected } in &pairs {
        let (prompt, better) = chosen.tokens(tokenizer)?;
        let (_, worse) = Conversation { answer: rejected.clone(), ..chosen.clone() }.tokens(tokenizer)?;
        let length = better.len();
        if prompt.len() + length.max(worse.len()) > max_tokens {
            left_out.add("prompt and answer longer than data.max_tokens");
            continue;
        }
        let (example, _) = Example::continuations(chosen.id.as_str(), &prompt, &[better, worse]);
        found.push(PairExample { example, chosen: length });
    }
    Ok((found, left_out))
}

fn totals(pairs: &[&PairExample]) -> OrpoBatch {
    OrpoBatch { pairs: pairs.len(), chosen_tokens: pairs.iter().map(|pair| pair.chosen).sum() }
}

/// The ranges of a pass's reads that the two answers of each pair have.
fn spans(pass: &Packed<'_, u32>, members: &[&PairExample]) -> Vec<(Range<usize>, Range<usize>)> {
    let mut start = 0;
    let mut spans = Vec::with_capacity(members.len());
    for (example, pair) in pass.examples.iter().zip(members) {
        let (middle, end) = (start + pair.chosen, start + example.reads.len());
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
fn evaluate(session: &Session<'_>, held_out: &[PairExample], lambda: f64) -> Result<MetricValues> {
    let all: Vec<&PairExample> = held_out.iter().collect();
    let batch = totals(&all);
    let examples: Vec<&Example<u32>> = held_out.iter().map(|pair| &pair.example).collect();
    let mut sums = OrpoSums::default();
    let mut done = 0;
    for pass in pack(&examples, session.recipe.batch.tokens) {
        let members = &all[done..done + pass.examples.len()];
        done += members.len();
        let hidden = select(&session.trainable.hidden(&pass.batch)?, &pass.rows)?;
        let logprobs = session.trainable.token_logprobs(&hidden, &pass.targets, false)?;
        sums.add(&losses::orpo(&of(&logprobs.values, &spans(&pass, members)), lambda, batch));
    }
    Ok(sums.metrics())
}
