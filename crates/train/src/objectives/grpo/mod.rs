//! Group relative policy optimization (GRPO) of critics, and its variants: Dr.GRPO, perplexity-aware, class-level.
//!
//! Each step samples a group of critiques for every solution of the batch, rewards them by rule, and moves the policy
//! towards those that are better than their group. The loss itself is in `losses/grpo.rs`.

mod group;
mod rollouts;

use candle_core::Tensor;
use gradus_core::contracts::{GenerateRequest, Prompt, Sampling};
use gradus_core::metrics::bias::{bias, by_generator};

use crate::critic::{self, CriticExample};
use crate::data::{DataSource, Examples, LeftOut};
use crate::losses::{self, GrpoConfig};
use crate::observer::{MetricValues, TrainingEnd, TrainingObserver};
use crate::prepared::{ExampleSets, PreparedRecipe, RunFolder};
use crate::session::Session;
use crate::trainable::TrainableModel;
use crate::{Error, Result};
use group::{judgement, prompt, rewards, sample, weigh, width};
use rollouts::Rollouts;

/// Trains until the recipe's last step.
pub(crate) fn train(
    prepared: PreparedRecipe,
    folder: RunFolder,
    config: &GrpoConfig,
    observer: &mut dyn TrainingObserver,
) -> Result<TrainingEnd> {
    let examples = read(&prepared, config)?;
    let mut session = Session::start(prepared, folder, &examples, observer)?;
    let reference = (config.kl > 0.0).then(|| session.trainable.starting_values().to_vec());
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&CriticExample> = chosen.into_iter().map(|index| &examples.train[index]).collect();
        let mut groups = sample(&mut session, config, &chosen)?;
        weigh(&mut groups, config);
        let rollouts = Rollouts::new(&groups, config, session.recipe.batch.tokens);
        learn(&mut session, config, &rollouts, reference.as_deref(), rewards(&groups))?;
        if session.should_evaluate() {
            let metrics = evaluate(&session.trainable, config, &examples.held_out)?;
            session.record_evaluation(&metrics)?;
        }
        session.save_if_due()?;
    }
    session.finish()
}

/// The optimizer steps on one batch of critiques, one per inner epoch. Loss, KL term and clipped share are measured at
/// each of them and logged as their means: in the first epoch the policy is the one that sampled, and nothing is
/// clipped.
fn learn(
    session: &mut Session<'_>,
    config: &GrpoConfig,
    rollouts: &Rollouts,
    reference: Option<&[Tensor]>,
    rewards: MetricValues,
) -> Result<()> {
    let needs_old = config.inner_epochs > 1 || config.kl > 0.0;
    let old = if needs_old { rollouts.logprobs(&session.trainable)? } else { Vec::new() };
    let reference_logprobs = match reference {
        Some(start) => {
            let now = session.trainable.replace_values(start)?;
            let logprobs = rollouts.logprobs(&session.trainable)?;
            session.trainable.replace_values(&now)?;
            logprobs
        }
        None => Vec::new(),
    };
    let mut means = [("loss", 0.0), ("kl", 0.0), ("clip_share", 0.0)];
    for epoch in 0..config.inner_epochs {
        let now = if epoch == 0 { old.clone() } else { rollouts.logprobs(&session.trainable)? };
        let loss = losses::grpo(&rollouts.samples(&now, &old, &reference_logprobs), &rollouts.loss);
        for ((_, mean), value) in means.iter_mut().zip([loss.value, loss.kl, loss.clip_share]) {
            *mean += value / config.inner_epochs as f64;
        }
        let gradients = rollouts.backward(session, &loss.gradients, epoch)?;
        if epoch + 1 == config.inner_epochs {
            return session.update(gradients, means.into_iter().chain(rewards).collect());
        }
        session.update_within(gradients, epoch)?;
    }
    Ok(())
}

/// Reads the examples.
pub(crate) fn read(prepared: &PreparedRecipe, config: &GrpoConfig) -> Result<ExampleSets<CriticExample>> {
    let max_tokens = prepared.max_tokens();
    prepared.read_examples(|set| fitting(set, &prepared.trainable, max_tokens, config))
}

/// Critics' training examples whose prompt and critique fit.
fn fitting(
    set: &DataSource<'_>,
    trainable: &TrainableModel,
    max_tokens: usize,
    config: &GrpoConfig,
) -> Result<Examples<CriticExample>> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    for path in set.paths {
        for example in critic::read(path)? {
            if set.limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
            let prompt = prompt(trainable, &example)?;
            if prompt.len() + config.max_new_tokens > max_tokens {
                left_out.add("prompt and critique longer than data.max_tokens");
                continue;
            }
            if config.perplexity_aware && example.perplexity.is_none() {
                return Err(Error::Data(format!(
                    "{}: example `{}` has no perplexity, which perplexity_aware needs: build the set with gradus train critic-data",
                    path.display(),
                    example.solution_id
                )));
            }
            found.push(example);
        }
    }
    Ok((found, left_out))
}

/// Greedy critiques of solutions that were not trained on: reward, accuracy, bias over all and by generator.
fn evaluate(
    trainable: &TrainableModel,
    config: &GrpoConfig,
    examples: &[CriticExample],
) -> Result<MetricValues> {
    let requests = examples.iter().map(|example| GenerateRequest {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        ..GenerateRequest::new(
            Prompt::Chat(critic::prompt(&example.problem, &example.steps)),
            config.max_new_tokens,
        )
    });
    let generated = trainable.model.generate_all(requests.collect(), width(trainable)?)?;
    let mut judged = Vec::new();
    let (mut reward, mut located, mut wrong, mut undecided) = (0.0, 0, 0usize, 0);
    for (example, generated) in examples.iter().zip(generated) {
        let parsed = critic::parse(&generated.choices[0].text, example.steps.len());
        reward += critic::reward(&parsed, example.truth, &example.steps).total / examples.len() as f64;
        if let Some(first) = example.truth {
            wrong += 1;
            located += usize::from(parsed.step == Some(first));
        }
        undecided += usize::from(parsed.verdict.is_none());
        judged.push((example.generator.as_deref().unwrap_or_default(), judgement(example, &parsed)));
    }
    let all = bias(&judged.iter().map(|(_, judgement)| *judgement).collect::<Vec<_>>());
    let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
    Ok(vec![
        ("reward", reward),
        ("accuracy", number(all.accuracy)),
        ("fpr", number(all.fpr)),
        ("fnr", number(all.fnr)),
        ("abs_bias", number(all.bi.map(f64::abs))),
        ("mean_abs_bias", number(by_generator(judged).mean_absolute_bi)),
        ("first_error_accuracy", located as f64 / wrong.max(1) as f64),
        ("undecided_share", undecided as f64 / examples.len() as f64),
    ])
}

#[cfg(test)]
mod tests;
