//! Supervised fine-tuning (SFT): next-token prediction on given answers.

use gradus_engine::text::Tokenizer;

use super::exact_match::ExactMatch;
use crate::Result;
use crate::data::{Conversation, Examples, SolvePrompt, read_conversations};
use crate::example::{Example, pack};
use crate::losses::{Loss, SftConfig, negative_log_likelihood};
use crate::observer::{MetricValues, TrainingEnd, TrainingObserver};
use crate::parameters::Gradients;
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::readout::{scatter, select};
use crate::session::Session;

/// Trains until the recipe's last step.
pub(crate) fn train(
    prepared: PreparedRecipe,
    folder: RunFolder,
    config: &SftConfig,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let prompt = SolvePrompt::find(&config.prompt)?;
    let examples = read(&prepared, config, &prompt)?;
    let mut session = Session::start(prepared, folder, &examples, observer)?;
    let (problems, tokens) = (config.answer_problems, config.answer_tokens);
    let exact_match = ExactMatch::new(&session.recipe.data, problems, tokens, &prompt)?;
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&Example<u32>> = chosen.into_iter().map(|index| &examples.train[index]).collect();
        let total: usize = chosen.iter().map(|example| example.reads.len()).sum();
        let mut gradients = Gradients::new(&session.trainable.parameters);
        let mut sum = 0.0;
        for (number, pass) in pack(&chosen, session.recipe.batch.tokens).iter().enumerate() {
            let tape = session.trainable.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let logprobs = session.trainable.token_logprobs(&hidden, &pass.targets, true)?;
            let Loss { value, mut gradient } =
                negative_log_likelihood(&logprobs.values, &vec![1.0; pass.rows.len()]);
            let weight = pass.rows.len() as f64 / total as f64;
            sum += value * weight;
            session.check_finite(pass, &logprobs.values)?;
            gradient.iter_mut().for_each(|d| *d *= weight as f32);
            let d_rows =
                session.trainable.token_logprobs_backward(&hidden, logprobs, &gradient, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainable.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        session.update(gradients, vec![("loss", sum)])?;
        if session.should_evaluate() {
            let mut metrics = evaluate(&session, &examples.held_out)?;
            if let Some(exact_match) = &exact_match {
                metrics.push(("exact_match", exact_match.evaluate(&session.trainable)?));
            }
            session.record_evaluation(&metrics)?;
        }
        session.save_if_due()?;
    }
    session.finish()
}

/// Reads the examples.
pub(crate) fn read(
    prepared: &PreparedRecipe,
    config: &SftConfig,
    prompt: &SolvePrompt,
) -> Result<ExampleSets<Example<u32>>> {
    let (tokenizer, max_tokens) = (prepared.trainable.model.tokenizer(), prepared.max_tokens());
    prepared.read_examples(|set| {
        tokenize(read_conversations(set, prompt)?, tokenizer, max_tokens, config.answer_only)
    })
}

/// Conversations as examples; those that are too long are left out.
fn tokenize(
    (conversations, mut left_out): Examples<Conversation>,
    tokenizer: &Tokenizer,
    max_tokens: usize,
    answer_only: bool,
) -> Result<Examples<Example<u32>>> {
    let mut examples = Vec::with_capacity(conversations.len());
    for conversation in conversations {
        let example = conversation.example(tokenizer, answer_only)?;
        if example.forest.tokens() > max_tokens {
            left_out.add("longer than data.max_tokens");
        } else {
            examples.push(example);
        }
    }
    Ok((examples, left_out))
}

/// Loss and perplexity on examples that were not trained on.
fn evaluate(session: &Session<'_>, examples: &[Example<u32>]) -> Result<MetricValues> {
    let all: Vec<&Example<u32>> = examples.iter().collect();
    let (mut sum, mut count) = (0.0, 0);
    for pass in pack(&all, session.recipe.batch.tokens) {
        let hidden = select(&session.trainable.hidden(&pass.batch)?, &pass.rows)?;
        let logprobs = session.trainable.token_logprobs(&hidden, &pass.targets, false)?;
        sum -= logprobs.values.iter().map(|value| f64::from(*value)).sum::<f64>();
        count += logprobs.values.len();
    }
    let loss = sum / count as f64;
    Ok(vec![("loss", loss), ("perplexity", loss.exp())])
}
