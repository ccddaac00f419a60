//! Supervised fine-tuning: the next token of given answers.

use gradus_engine::text::Tokenizer;

use super::answers::Quiz;
use crate::Result;
use crate::data::{Conversation, LeftOut, read_conversations};
use crate::example::{Example, pack};
use crate::losses::{Loss, negative_log_likelihood};
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::run::recipe::Sft;
use crate::session::{Numbers, Session};

/// Trains until the recipe's last step.
pub fn train(session: &mut Session<'_>, settings: &Sft) -> Result<()> {
    let data = session.recipe.data.clone();
    let tokenizer = session.trainee.model.tokenizer().clone();
    let most = data.max_tokens.min(session.trainee.model.context());
    let read = |paths: &[_], limit| -> Result<(Vec<Example<u32>>, LeftOut)> {
        let (found, left_out) = read_conversations(paths, data.reader()?, limit)?;
        examples(&found, &tokenizer, most, settings.answer_only, left_out)
    };
    let train = read(&data.train, data.limit)?;
    let held_out = if data.eval.is_empty() { Default::default() } else { read(&data.eval, None)? };
    session.begin(&train, &held_out)?;
    let ((examples, _), (held_out, _)) = (train, held_out);
    let quiz = Quiz::new(session, settings.answer_problems, settings.answer_tokens)?;
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&Example<u32>> = chosen.into_iter().map(|index| &examples[index]).collect();
        let total: usize = chosen.iter().map(|example| example.reads.len()).sum();
        let mut gradients = Gradients::new(&session.trainee.parameters);
        let mut sum = 0.0;
        for (number, pass) in pack(&chosen, session.recipe.batch.tokens).iter().enumerate() {
            let tape = session.trainee.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let logprobs = session.trainee.token_logprobs(&hidden, &pass.targets, true)?;
            let Loss { value, mut gradient } =
                negative_log_likelihood(&logprobs.values, &vec![1.0; pass.rows.len()]);
            let weight = pass.rows.len() as f64 / total as f64;
            sum += value * weight;
            session.check_finite(pass, &logprobs.values)?;
            gradient.iter_mut().for_each(|slope| *slope *= weight as f32);
            let d_rows =
                session.trainee.token_logprobs_backward(&hidden, logprobs, &gradient, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainee.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        session.update(gradients, vec![("loss", sum)])?;
        if session.should_evaluate() {
            let mut numbers = evaluate(session, &held_out)?;
            if let Some(quiz) = &quiz {
                numbers.push(("exact_match", quiz.exact_match(session)?));
            }
            session.record_evaluation(&numbers)?;
        }
        session.save_if_due()?;
    }
    Ok(())
}

fn examples(
    conversations: &[Conversation],
    tokenizer: &Tokenizer,
    most: usize,
    answer_only: bool,
    mut left_out: LeftOut,
) -> Result<(Vec<Example<u32>>, LeftOut)> {
    let mut examples = Vec::with_capacity(conversations.len());
    for conversation in conversations {
        let example = conversation.example(tokenizer, answer_only)?;
        if example.forest.tokens() > most {
            left_out.add("longer than data.max_tokens");
        } else {
            examples.push(example);
        }
    }
    Ok((examples, left_out))
}

/// Loss and perplexity on examples that were not trained on.
fn evaluate(session: &Session<'_>, examples: &[Example<u32>]) -> Result<Numbers> {
    let all: Vec<&Example<u32>> = examples.iter().collect();
    let (mut sum, mut count) = (0.0, 0);
    for pass in pack(&all, session.recipe.batch.tokens) {
        let hidden = select(&session.trainee.hidden(&pass.batch)?, &pass.rows)?;
        let logprobs = session.trainee.token_logprobs(&hidden, &pass.targets, false)?;
        sum -= logprobs.values.iter().map(|value| f64::from(*value)).sum::<f64>();
        count += logprobs.values.len();
    }
    let loss = sum / count as f64;
    Ok(vec![("loss", loss), ("perplexity", loss.exp())])
}
