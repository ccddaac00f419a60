//! Process reward models: whether each step is right, read where the profile says.

use gradus_core::metrics::process::{Located, first_error, scores};
use gradus_engine::profile::{Assembler, Profile};

use super::verdict::{PrmConfig, Verdict};
use crate::data::{SolutionPrompts, labeled_steps};
use crate::example::{Example, Packed, pack};
use crate::heads;
use crate::observer::{MetricValues, TrainingEnd, TrainingObserver};
use crate::parameters::Gradients;
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::readout::{scatter, select};
use crate::run::best::BestMetric;
use crate::session::Session;
use crate::{Error, Result};

/// A step below this score is predicted to be wrong when first errors are compared.
const THRESHOLD: f64 = 0.5;

/// Trains until the recipe's last step.
pub(crate) fn train(
    mut prepared: PreparedRecipe,
    folder: RunFolder,
    config: &PrmConfig,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let (verdict, examples) = prepare(&mut prepared, config)?;
    train_on(
        prepared,
        folder,
        verdict,
        &examples,
        StepsRead::All { pair_weight: config.pair_weight },
        observer,
    )
}

/// Adds the head to what is trained, and reads the examples.
pub(crate) fn prepare(
    prepared: &mut PreparedRecipe,
    config: &PrmConfig,
) -> Result<(Verdict, ExampleSets<Example<f32>>)> {
    let tokenizer = prepared.trainable.model.tokenizer().clone();
    let assembler = Assembler::new(Profile::find(&config.profile)?, &tokenizer)?;
    let verdict =
        Verdict::new(&assembler, config.head, config.readout, config.loss)?.weighted(config.wrong_weight);
    heads::prepare(&mut prepared.trainable, config.head)?;
    let labels = prepared.recipe.data.step_labels();
    let soft = config.loss.is_soft();
    let max_tokens = prepared.max_tokens();
    let examples = prepared.read_examples(|set| {
        let prompts = SolutionPrompts {
            assembler: &assembler,
            tokenizer: &tokenizer,
            max_tokens,
            by_problem: set.training && config.by_problem,
        };
        set.examples(|records| labeled_steps(records, &prompts, labels, soft))
    })?;
    check_best(prepared.recipe.steps.best.as_ref(), &examples.held_out)?;
    Ok((verdict, examples))
}

/// Refuses a metric of the best checkpoint that needs solutions which the evaluation set does not have.
fn check_best(best: Option<&BestMetric>, held_out: &[Example<f32>]) -> Result<()> {
    let Some(BestMetric { metric, .. }) = best else { return Ok(()) };
    let wrong = held_out.iter().filter(|example| true_first_error(example).is_some()).count();
    let (needs_wrong, needs_right) = match metric.as_str() {
        "f1" => (true, true),
        "acc_err" => (true, false),
        "acc_cor" => (false, true),
        _ => return Ok(()),
    };
    let missing = match (wrong == 0, wrong == held_out.len()) {
        (true, _) if needs_wrong => "solutions with an error",
        (_, true) if needs_right => "solutions without an error",
        _ => return Ok(()),
    };
    Err(Error::Data(format!(
        "`best` in [steps] names the metric `{metric}`, which needs {missing}, and `eval` in [data] has none: add \
         some, or name another metric, such as `loss`"
    )))
}

/// Which steps of a solution are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum StepsRead {
    /// Those with labels.
    All {
        /// Weight of the ranking loss between right and wrong continuations of the same steps.
        pair_weight: f64,
    },
    /// The last one.
    Last,
}

/// The loop, shared with outcome reward models, which differ only in the steps that they read.
pub(super) fn train_on(
    prepared: PreparedRecipe,
    folder: RunFolder,
    verdict: Verdict,
    examples: &ExampleSets<Example<f32>>,
    steps: StepsRead,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let mut session = Session::start(prepared, folder, examples, observer)?;
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&Example<f32>> = chosen.into_iter().map(|index| &examples.train[index]).collect();
        let total: usize = chosen.iter().map(|example| example.reads.len()).sum();
        let mut gradients = Gradients::new(&session.trainable.parameters);
        let (mut loss, mut right) = (0.0, 0);
        let passes = pack(&chosen, session.recipe.batch.tokens);
        let pairs: Vec<Vec<(usize, usize)>> = match steps {
            StepsRead::All { pair_weight } if pair_weight > 0.0 => passes.iter().map(Packed::pairs).collect(),
            _ => vec![Vec::new(); passes.len()],
        };
        let all_pairs = pairs.iter().map(Vec::len).sum::<usize>().max(1) as f64;
        let mut pair_loss = 0.0;
        for (number, (pass, pairs)) in passes.iter().zip(&pairs).enumerate() {
            let tape = session.trainable.forward(&pass.batch, Some(session.dropout_seed(number)))?;
            let hidden = select(&tape.hidden, &pass.rows)?;
            let mut judged = verdict.judge(&session.trainable, &hidden, &pass.targets)?;
            let weight = pass.rows.len() as f64 / total as f64;
            loss += judged.value * weight;
            right += agreeing(&judged.scores, &pass.targets);
            if let (StepsRead::All { pair_weight }, false) = (steps, pairs.is_empty()) {
                let share = pairs.len() as f64 / all_pairs;
                pair_loss += verdict.rank(&mut judged, pairs, pair_weight * share / weight) * share;
            }
            session.check_finite(pass, &judged.scores)?;
            let d_rows = verdict.backward(&mut session.trainable, &hidden, judged, weight, &mut gradients)?;
            let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
            session.trainable.backward(tape, &d_hidden, &mut gradients)?;
            session.count_tokens(pass.batch.len());
        }
        let accuracy = right as f64 / total as f64;
        let mut metrics = vec![("loss", loss), ("step_accuracy", accuracy)];
        if matches!(steps, StepsRead::All { pair_weight } if pair_weight > 0.0) {
            metrics.push(("pair_loss", pair_loss));
        }
        session.update(gradients, metrics)?;
        if session.should_evaluate() {
            let metrics = evaluate(&session, verdict, &examples.held_out, steps != StepsRead::Last)?;
            session.record_evaluation(&metrics)?;
        }
        session.save_if_due()?;
    }
    session.finish()
}

/// Loss and accuracy of verdicts on examples that were not trained on; with `by_step`, how well first errors are found.
fn evaluate(
    session: &Session<'_>,
    verdict: Verdict,
    examples: &[Example<f32>],
    by_step: bool,
) -> Result<MetricValues> {
    let all: Vec<&Example<f32>> = examples.iter().collect();
    let total: usize = all.iter().map(|example| example.reads.len()).sum();
    let (mut loss, mut right) = (0.0, 0);
    let mut located = Vec::new();
    for pass in pack(&all, session.recipe.batch.tokens) {
        let hidden = select(&session.trainable.hidden(&pass.batch)?, &pass.rows)?;
        let judged = verdict.judge(&session.trainable, &hidden, &pass.targets)?;
        loss += judged.value * pass.rows.len() as f64 / total as f64;
        right += agreeing(&judged.scores, &pass.targets);
        let mut rest = &judged.scores[..];
        for example in &pass.examples {
            let (own, others) = rest.split_at(example.reads.len());
            located.push(locate(example, own));
            rest = others;
        }
    }
    let mut metrics = vec![("loss", loss), ("step_accuracy", right as f64 / total as f64)];
    if by_step {
        let found = scores(&located);
        let named = [("f1", found.f1), ("acc_err", found.acc_err), ("acc_cor", found.acc_cor)];
        metrics.extend(named.into_iter().filter_map(|(name, value)| Some((name, value?))));
    }
    Ok(metrics)
}

/// The first error that scores point at, and the true one; an example's reads are in the order of its steps.
fn locate(example: &Example<f32>, scores: &[f64]) -> Located {
    Located { predicted: Some(first_error(scores, THRESHOLD)), truth: true_first_error(example) }
}

fn true_first_error(example: &Example<f32>) -> Option<usize> {
    example.reads.iter().position(|(_, target)| *target < 0.5)
}

fn agreeing(scores: &[f64], targets: &[f32]) -> usize {
    scores.iter().zip(targets).filter(|(score, target)| (**score >= THRESHOLD) == (**target >= 0.5)).count()
}
