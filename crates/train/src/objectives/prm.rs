//! Process reward models: whether each step is right, read where the profile says.

use gradus_core::metrics::process::{Located, first_error, scores};
use gradus_engine::profile::{Assembler, Profile};

use super::verdict::Verdict;
use crate::Result;
use crate::data::{LeftOut, labelled_steps, records};
use crate::example::{Example, pack};
use crate::heads;
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::run::recipe::{Loss, Neutral, Prm};
use crate::session::{Numbers, Session};
use crate::trainee::Trainee;

/// A step below this score is taken for wrong when first errors are compared.
const THRESHOLD: f64 = 0.5;

/// Trains until the recipe's last step.
pub fn train(session: &mut Session<'_>, settings: &Prm) -> Result<()> {
    let assembler = Assembler::new(Profile::find(&settings.profile)?, session.trainee.model.tokenizer())?;
    let verdict = Verdict::new(&assembler, settings.head, settings.readout, settings.loss)?
        .weighing(settings.wrong_weight);
    heads::prepare(&mut session.trainee, settings.head)?;
    let data = session.recipe.data.clone();
    let read = |paths: &[_], limit, by_problem, trainee: &Trainee| -> Result<(Vec<Example<f32>>, LeftOut)> {
        labelled_steps(
            &records(paths, data.reader()?, limit)?,
            &assembler,
            trainee.model.tokenizer(),
            data.max_tokens.min(trainee.model.context()),
            data.neutral.unwrap_or(Neutral::Correct),
            settings.loss == Loss::SquaredError,
            by_problem,
        )
    };
    let train = read(&data.train, data.limit, settings.by_problem, &session.trainee)?;
    let held_out = if data.eval.is_empty() {
        Default::default()
    } else {
        read(&data.eval, None, false, &session.trainee)?
    };
    session.begin(&train, &held_out)?;
    let ((examples, _), (held_out, _)) = (train, held_out);
    train_on(session, verdict, &examples, &held_out, true)
}

/// The loop, shared with outcome reward models, which differ in what they read only.
pub(super) fn train_on(
    session: &mut Session<'_>,
    verdict: Verdict,
    examples: &[Example<f32>],
    held_out: &[Example<f32>],
    by_step: bool,
) -> Result<()> {
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&Example<f32>> = chosen.into_iter().map(|index| &examples[index]).collect();
        let total: usize = chosen.iter().map(|example| example.reads.len()).sum();
        let mut gradients = Gradients::new(&session.trainee.parameters);
        let (mut loss, mut right) = (0.0, 0);
        for (number, pass) in pack(&chosen, session.recipe.batch.tokens).iter().enumerate() {
            let tape = session.trainee.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let judged = verdict.judge(&session.trainee, &hidden, &pass.targets)?;
            let weight = pass.rows.len() as f64 / total as f64;
            loss += judged.value * weight;
            right += agreeing(&judged.scores, &pass.targets);
            session.check_finite(pass, &judged.scores)?;
            let d_rows = verdict.backward(&mut session.trainee, &hidden, judged, weight, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainee.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        let accuracy = right as f64 / total as f64;
        session.update(gradients, vec![("loss", loss), ("step_accuracy", accuracy)])?;
        if session.should_evaluate() {
            let numbers = evaluate(session, verdict, held_out, by_step)?;
            session.record_evaluation(&numbers)?;
        }
        session.save_if_due()?;
    }
    Ok(())
}

/// Loss and accuracy of verdicts on examples that were not trained on; with `by_step`, how well first errors are found.
fn evaluate(
    session: &Session<'_>,
    verdict: Verdict,
    examples: &[Example<f32>],
    by_step: bool,
) -> Result<Numbers> {
    let all: Vec<&Example<f32>> = examples.iter().collect();
    let total: usize = all.iter().map(|example| example.reads.len()).sum();
    let (mut loss, mut right) = (0.0, 0);
    let mut located = Vec::new();
    for pass in pack(&all, session.recipe.batch.tokens) {
        let hidden = select(&session.trainee.hidden(&pass.batch)?, &pass.rows)?;
        let judged = verdict.judge(&session.trainee, &hidden, &pass.targets)?;
        loss += judged.value * pass.rows.len() as f64 / total as f64;
        right += agreeing(&judged.scores, &pass.targets);
        let mut rest = &judged.scores[..];
        for example in &pass.examples {
            let (own, others) = rest.split_at(example.reads.len());
            located.push(locate(example, own));
            rest = others;
        }
    }
    let mut numbers = vec![("loss", loss), ("step_accuracy", right as f64 / total as f64)];
    if by_step {
        let found = scores(&located);
        let named = [("f1", found.f1), ("acc_err", found.acc_err), ("acc_cor", found.acc_cor)];
        numbers.extend(named.into_iter().filter_map(|(name, value)| Some((name, value?))));
    }
    Ok(numbers)
}

/// The first error that scores point at, and the true one; an example's reads are in the order of its steps.
fn locate(example: &Example<f32>, scores: &[f64]) -> Located {
    let truth = example.reads.iter().position(|(_, target)| *target < 0.5);
    Located { predicted: Some(first_error(scores, THRESHOLD)), truth }
}

fn agreeing(scores: &[f64], targets: &[f32]) -> usize {
    scores.iter().zip(targets).filter(|(score, target)| (**score >= THRESHOLD) == (**target >= 0.5)).count()
}
