//! Group relative policy optimisation of critics, plain and with its variants: Dr.GRPO, perplexity-aware, class-level.
//!
//! Each step draws a group of critiques for every solution of the batch, rewards them by rule, and moves the policy
//! towards those that are better than their group. The critiques of one solution share its prompt in training, too.

use std::ops::Range;

use candle_core::{DType, Tensor};
use gradus_core::contracts::{GenerateRequest, Prompt, Sampling};
use gradus_core::metrics::bias::{Judgement, bias, by_generator};

use crate::critic::{self, CriticExample, Parsed, Verdict};
use crate::data::LeftOut;
use crate::example::{Example, Packed, pack};
use crate::losses::{self, GrpoSample, GrpoSettings, Judged, LengthNormalisation};
use crate::parameters::Gradients;
use crate::readout::{scatter, select};
use crate::run::order;
use crate::run::recipe::{Grpo, LengthWeight};
use crate::session::{Numbers, Session};
use crate::trainee::Trainee;
use crate::{Error, Result};
use rand::Rng as _;

/// Sequences that are generated at once: on a GPU a token of many takes hardly longer than one of few.
fn width(trainee: &Trainee) -> Result<usize> {
    Ok(if trainee.device()?.is_cpu() { 64 } else { 512 })
}

/// A critique that was drawn, and what it is worth.
struct Critique {
    tokens: Vec<u32>,
    parsed: Parsed,
    reward: critic::Reward,
    advantage: f64,
}

/// All critiques of one solution.
struct Group<'a> {
    about: &'a CriticExample,
    prompt: Vec<u32>,
    critiques: Vec<Critique>,
    flat: bool,
}

/// Trains until the recipe's last step.
pub fn train(session: &mut Session<'_>, settings: &Grpo) -> Result<()> {
    let data = session.recipe.data.clone();
    let train = read(session, &data.train, data.limit, settings)?;
    let held_out =
        if data.eval.is_empty() { Default::default() } else { read(session, &data.eval, None, settings)? };
    session.begin(&train, &held_out)?;
    let ((examples, _), (held_out, _)) = (train, held_out);
    let reference = (settings.kl > 0.0).then(|| session.trainee.starting_values().to_vec());
    while let Some(chosen) = session.next_batch() {
        let chosen: Vec<&CriticExample> = chosen.into_iter().map(|index| &examples[index]).collect();
        let mut groups = draw(session, settings, &chosen)?;
        weigh(&mut groups, settings);
        let mut numbers = rewards(&groups);
        let rollouts = Rollouts::new(&groups, settings, session.recipe.batch.tokens);
        let needs_old = settings.inner_epochs > 1 || settings.kl > 0.0;
        let old = if needs_old { rollouts.logprobs(&session.trainee)? } else { Vec::new() };
        let anchor = match &reference {
            Some(start) => {
                let now = session.trainee.replace_values(start)?;
                let logprobs = rollouts.logprobs(&session.trainee)?;
                session.trainee.replace_values(&now)?;
                logprobs
            }
            None => Vec::new(),
        };
        for epoch in 0..settings.inner_epochs {
            let now = if epoch == 0 { old.clone() } else { rollouts.logprobs(&session.trainee)? };
            let loss = losses::grpo(&rollouts.samples(&now, &old, &anchor), &rollouts.settings);
            let gradients = rollouts.backward(session, &loss.gradients, epoch)?;
            if epoch == 0 {
                numbers
                    .splice(0..0, [("loss", loss.value), ("kl", loss.kl), ("clip_share", loss.clip_share)]);
            }
            if epoch + 1 < settings.inner_epochs {
                session.update_within(gradients, epoch)?;
            } else {
                session.update(gradients, std::mem::take(&mut numbers))?;
            }
        }
        if session.should_evaluate() {
            let numbers = evaluate(session, settings, &held_out)?;
            session.record_evaluation(&numbers)?;
        }
        session.save_if_due()?;
    }
    Ok(())
}

/// Critics' training examples whose prompt and critique fit.
fn read(
    session: &Session<'_>,
    paths: &[std::path::PathBuf],
    limit: Option<usize>,
    settings: &Grpo,
) -> Result<(Vec<CriticExample>, LeftOut)> {
    let (mut found, mut left_out) = (Vec::new(), LeftOut::default());
    let most = session.recipe.data.max_tokens.min(session.trainee.model.context());
    for path in paths {
        for example in critic::read(path)? {
            if limit.is_some_and(|limit| found.len() >= limit) {
                break;
            }
            let prompt = prompt(session, &example)?;
            if prompt.len() + settings.max_new_tokens > most {
                left_out.add("prompt and critique longer than data.max_tokens");
                continue;
            }
            if settings.perplexity_aware && example.perplexity.is_none() {
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

fn prompt(session: &Session<'_>, example: &CriticExample) -> Result<Vec<u32>> {
    let messages = critic::prompt(&example.problem, &example.steps);
    Ok(session.trainee.model.tokenizer().encode_chat(&messages, true)?)
}

/// Draws a group of critiques for each solution, and rewards them.
fn draw<'a>(
    session: &mut Session<'_>,
    settings: &Grpo,
    about: &[&'a CriticExample],
) -> Result<Vec<Group<'a>>> {
    let mut seeds = order::stream(session.recipe.seed, "rollouts", session.step());
    let requests = about.iter().map(|example| GenerateRequest {
        n: settings.group,
        sampling: Sampling { temperature: settings.temperature as f32, ..Sampling::default() },
        seed: seeds.next_u64(),
        ..GenerateRequest::new(
            Prompt::Chat(critic::prompt(&example.problem, &example.steps)),
            settings.max_new_tokens,
        )
    });
    let requests = requests.collect();
    let generated = session.trainee.model.generate_all(requests, width(&session.trainee)?)?;
    let mut groups = Vec::with_capacity(about.len());
    for (example, generated) in about.iter().zip(generated) {
        let prompt = prompt(session, example)?;
        session.count_tokens(
            prompt.len() + generated.choices.iter().map(|choice| choice.tokens.len()).sum::<usize>(),
        );
        let critiques: Vec<Critique> = generated
            .choices
            .into_iter()
            .map(|choice| {
                let parsed = critic::parse(&choice.text, example.steps.len());
                let reward = critic::reward(&parsed, example.truth, &example.steps);
                Critique { tokens: choice.tokens, parsed, reward, advantage: 0.0 }
            })
            .collect();
        groups.push(Group { about: example, prompt, critiques, flat: false });
    }
    Ok(groups)
}

/// Advantages within each group, weighted by perplexity over the whole batch when the recipe says so.
fn weigh(groups: &mut [Group<'_>], settings: &Grpo) {
    let judged: Vec<Judged> = groups
        .iter()
        .flat_map(|group| {
            group.critiques.iter().map(|critique| Judged {
                truth: Verdict::from_first_error(group.about.truth),
                predicted: critique.parsed.verdict,
                perplexity: group.about.perplexity.unwrap_or(1.0),
            })
        })
        .collect();
    let weights =
        if settings.perplexity_aware { losses::perplexity_weights(&judged) } else { vec![1.0; judged.len()] };
    let mut weights = weights.into_iter();
    for group in groups {
        let rewards: Vec<f64> = group.critiques.iter().map(|critique| critique.reward.total).collect();
        let advantages = losses::advantages(&rewards, settings.advantage_std);
        group.flat = advantages.zero_variance;
        for ((critique, advantage), weight) in
            group.critiques.iter_mut().zip(advantages.values).zip(weights.by_ref())
        {
            critique.advantage = advantage * weight;
        }
    }
}

/// What a batch of critiques was like: rewards by part, verdicts by perplexity, bias.
fn rewards(groups: &[Group<'_>]) -> Numbers {
    let all: Vec<(&Group<'_>, &Critique)> = groups
        .iter()
        .flat_map(|group| group.critiques.iter().map(move |critique| (group, critique)))
        .collect();
    let mean = |value: &dyn Fn(&(&Group<'_>, &Critique)) -> f64| {
        all.iter().map(value).sum::<f64>() / all.len() as f64
    };
    let is = |condition: bool| f64::from(u8::from(condition));
    let flat = groups.iter().filter(|group| group.flat).count() as f64 / groups.len() as f64;
    let judgements: Vec<Judgement> =
        all.iter().map(|(group, critique)| judgement(group.about, &critique.parsed)).collect();
    let bias = bias(&judgements);
    let mut numbers = vec![
        ("reward", mean(&|(_, critique)| critique.reward.total)),
        ("reward_format", mean(&|(_, critique)| critique.reward.format)),
        ("reward_answer", mean(&|(_, critique)| critique.reward.answer)),
        ("verdict_accuracy", bias.accuracy.unwrap_or(f64::NAN)),
        ("abs_bias", bias.bi.map_or(f64::NAN, f64::abs)),
        ("undecided_share", mean(&|(_, critique)| is(critique.parsed.verdict.is_none()))),
        ("zero_variance_share", flat),
        ("critique_tokens", mean(&|(_, critique)| critique.tokens.len() as f64)),
    ];
    // How often a critic says "correct" about familiar, middling and surprising solutions.
    let mut by_perplexity: Vec<(f64, bool)> = all
        .iter()
        .filter_map(|(group, critique)| {
            Some((group.about.perplexity?, critique.parsed.verdict? == Verdict::Correct))
        })
        .collect();
    by_perplexity.sort_by(|a, b| a.0.total_cmp(&b.0));
    if by_perplexity.len() >= 3 {
        let third = by_perplexity.len().div_ceil(3);
        let names = ["says_correct_low_ppl", "says_correct_mid_ppl", "says_correct_high_ppl"];
        for (name, part) in names.into_iter().zip(by_perplexity.chunks(third)) {
            let share = part.iter().filter(|(_, correct)| *correct).count() as f64 / part.len() as f64;
            numbers.push((name, share));
        }
    }
    numbers
}

/// Critiques as the model is trained on them.
struct Rollouts {
    examples: Vec<Example<u32>>,
    /// For each example, the reads of each of its critiques.
    spans: Vec<Vec<Range<usize>>>,
    advantages: Vec<f64>,
    lengths: Vec<usize>,
    truths: Vec<Verdict>,
    settings: GrpoSettings,
    /// What critiques were drawn at: the policy is softmax(logits / this).
    temperature: f64,
    /// Most tokens of a pass.
    most_tokens: usize,
    /// Whether log-probabilities are needed before the gradient: otherwise the policy is the one that drew.
    on_policy: bool,
    zeros: Vec<f32>,
}

impl Rollouts {
    fn new(groups: &[Group<'_>], settings: &Grpo, most_tokens: usize) -> Self {
        let (mut examples, mut spans) = (Vec::new(), Vec::new());
        let (mut advantages, mut lengths, mut truths) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            let mut rest: Vec<Vec<u32>> = Vec::new();
            let mut close = |rest: &mut Vec<Vec<u32>>| {
                let (example, own) =
                    Example::continuations(group.about.solution_id.as_str(), &group.prompt, rest);
                examples.push(example);
                spans.push(own);
                rest.clear();
            };
            for critique in &group.critiques {
                advantages.push(critique.advantage);
                lengths.push(critique.tokens.len());
                truths.push(Verdict::from_first_error(group.about.truth));
                // A group that is too long for one pass is trained in parts.
                let tokens =
                    group.prompt.len() + rest.iter().map(Vec::len).sum::<usize>() + critique.tokens.len();
                if tokens > most_tokens && !rest.is_empty() {
                    close(&mut rest);
                }
                rest.push(critique.tokens.clone());
            }
            close(&mut rest);
        }
        let length = match settings.length {
            LengthWeight::PerSample => LengthNormalisation::PerSample,
            LengthWeight::Constant => LengthNormalisation::Constant(settings.max_new_tokens),
            LengthWeight::PerToken => LengthNormalisation::PerBatchToken,
        };
        let loss = GrpoSettings {
            clip_low: settings.clip_low,
            clip_high: settings.clip_high,
            kl: settings.kl,
            length,
            class_level: settings.class_level,
        };
        let on_policy = settings.inner_epochs == 1 && settings.kl == 0.0;
        let zeros = vec![0.0; lengths.iter().copied().max().unwrap_or(0)];
        Self {
            examples,
            spans,
            advantages,
            lengths,
            truths,
            settings: loss,
            temperature: settings.temperature,
            most_tokens,
            on_policy,
            zeros,
        }
    }

    /// Log-probabilities of every critique's tokens under the policy as it is.
    fn logprobs(&self, trainee: &Trainee) -> Result<Vec<Vec<f32>>> {
        let all: Vec<&Example<u32>> = self.examples.iter().collect();
        let mut values = Vec::new();
        for pass in pack(&all, self.most_tokens) {
            let hidden = self.cooled(select(&trainee.hidden(&pass.batch)?, &pass.rows)?)?;
            values.extend(trainee.token_logprobs(&hidden, &pass.targets, false)?.values);
        }
        let mut rest = &values[..];
        let mut apart = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let (own, others) = rest.split_at(*length);
            apart.push(own.to_vec());
            rest = others;
        }
        Ok(apart)
    }

    /// What the loss sees. On policy the ratio is 1 whatever the probabilities are, so zeros stand for them.
    fn samples<'a>(
        &'a self,
        now: &'a [Vec<f32>],
        old: &'a [Vec<f32>],
        reference: &'a [Vec<f32>],
    ) -> Vec<GrpoSample<'a>> {
        let of = |values: &'a [Vec<f32>], index: usize| -> &'a [f32] {
            if self.on_policy { &self.zeros[..self.lengths[index]] } else { &values[index] }
        };
        let sample = |index: usize| GrpoSample {
            now: of(now, index),
            old: of(old, index),
            reference: reference.get(index).map(Vec::as_slice),
            advantage: self.advantages[index],
            truth: self.truths[index],
        };
        (0..self.lengths.len()).map(sample).collect()
    }

    /// The gradient of the policy, given that of every critique's tokens. Groups without one are not computed.
    fn backward(&self, session: &mut Session<'_>, slopes: &[Vec<f32>], epoch: usize) -> Result<Gradients> {
        let mut gradients = Gradients::new(&session.trainee.parameters);
        let mut taught: Vec<(&Example<u32>, Vec<f32>)> = Vec::new();
        let mut start = 0;
        for (example, spans) in self.examples.iter().zip(&self.spans) {
            let own: Vec<f32> = slopes[start..start + spans.len()].concat();
            start += spans.len();
            if own.iter().any(|slope| *slope != 0.0) {
                taught.push((example, own));
            }
        }
        let examples: Vec<&Example<u32>> = taught.iter().map(|(example, _)| *example).collect();
        let mut slopes = taught.iter().map(|(_, slopes)| slopes);
        for (number, pass) in pack(&examples, self.most_tokens).iter().enumerate() {
            let own: Vec<f32> = slopes.by_ref().take(pass.examples.len()).flatten().copied().collect();
            let seed = session.dropout_seed(number + (epoch << 16));
            let logprobs = self.backward_pass(&mut session.trainee, pass, &own, seed, &mut gradients)?;
            session.check_finite(pass, &logprobs)?;
            session.count_tokens(pass.batch.len());
        }
        Ok(gradients)
    }

    /// Adds the gradients of one pass, and returns the log-probabilities of its tokens.
    fn backward_pass(
        &self,
        trainee: &mut Trainee,
        pass: &Packed<'_, u32>,
        slopes: &[f32],
        seed: u64,
        gradients: &mut Gradients,
    ) -> Result<Vec<f32>> {
        let tape = trainee.forward(&pass.batch, Some(seed))?;
        let hidden = self.cooled(select(&tape.hidden, &pass.rows)?)?;
        let logprobs = trainee.token_logprobs(&hidden, &pass.targets, true)?;
        let values = logprobs.values.clone();
        let d_rows = self.cooled(trainee.token_logprobs_backward(&hidden, logprobs, slopes, gradients)?)?;
        let d_hidden = scatter(&tape.hidden, &pass.rows, &d_rows)?;
        trainee.backward(tape, &d_hidden, gradients)?;
        Ok(values)
    }

    /// Hidden states divided by the temperature, and so their logits, which are linear in them; the gradient of hidden
    /// states on the way back.
    fn cooled(&self, rows: Tensor) -> Result<Tensor> {
        if self.temperature == 1.0 {
            return Ok(rows);
        }
        // In f32, because bf16 would round the temperature.
        let cooled = (rows.to_dtype(DType::F32)? / self.temperature)?;
        Ok(cooled.to_dtype(rows.dtype())?)
    }
}

/// Greedy critiques of solutions that were not trained on: reward, accuracy, bias over all and by generator.
fn evaluate(session: &Session<'_>, settings: &Grpo, examples: &[CriticExample]) -> Result<Numbers> {
    let requests = examples.iter().map(|example| GenerateRequest {
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        ..GenerateRequest::new(
            Prompt::Chat(critic::prompt(&example.problem, &example.steps)),
            settings.max_new_tokens,
        )
    });
    let generated = session.trainee.model.generate_all(requests.collect(), width(&session.trainee)?)?;
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

fn judgement(about: &CriticExample, parsed: &Parsed) -> Judgement {
    Judgement {
        correct: about.truth.is_none(),
        judged: parsed.verdict.map(|verdict| verdict == Verdict::Correct),
    }
}

#[cfg(test)]
mod tests;
