//! The objective of a recipe: only the section of the chosen one may be in it.

use crate::data::PairRule;
use crate::losses::{GrpoConfig, OrpoConfig, SftConfig};
use crate::objectives::{OrmConfig, PrmConfig};
use crate::run::best::{BestMetric, BestValue};

/// What is trained.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Objective {
    /// Supervised fine-tuning on given answers.
    Sft(SftConfig),
    /// A process reward model: is each step right?
    Prm(PrmConfig),
    /// An outcome reward model: is the whole solution right?
    Orm(OrmConfig),
    /// Odds ratio preference optimization, without a reference model.
    Orpo(OrpoConfig),
    /// A critic, by group relative policy optimization.
    Grpo(GrpoConfig),
}

impl Objective {
    /// Its name, as in `gradus train NAME`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Sft(_) => "sft",
            Self::Prm(_) => "prm",
            Self::Orm(_) => "orm",
            Self::Orpo(_) => "orpo",
            Self::Grpo(_) => "grpo",
        }
    }

    /// Whether step labels are used, and so whether `neutral` in `[data]` has an effect.
    pub(super) fn uses_step_labels(&self) -> bool {
        match self {
            Self::Prm(_) => true,
            Self::Orpo(orpo) => orpo.pairs == PairRule::OutcomeAndSteps,
            Self::Sft(_) | Self::Orm(_) | Self::Grpo(_) => false,
        }
    }

    /// Which checkpoint is the best unless the recipe says otherwise.
    pub(super) fn default_best(&self) -> BestMetric {
        let (metric, is) = match self {
            Self::Sft(_) | Self::Prm(_) | Self::Orm(_) | Self::Orpo(_) => ("loss", BestValue::Lowest),
            Self::Grpo(_) => ("reward", BestValue::Highest),
        };
        BestMetric { metric: metric.to_owned(), is }
    }

    /// The metrics that an evaluation may have, one of which decides which checkpoint is the best.
    pub(super) fn evaluation_metrics(&self) -> &'static [&'static str] {
        match self {
            Self::Sft(_) => &["loss", "perplexity", "exact_match"],
            Self::Prm(_) => &["loss", "step_accuracy", "f1", "acc_err", "acc_cor"],
            Self::Orm(_) => &["loss", "step_accuracy"],
            Self::Orpo(_) => &[
                "loss",
                "nll",
                "odds_ratio_loss",
                "chosen_log_odds",
                "rejected_log_odds",
                "preference_accuracy",
                "exact_match",
            ],
            Self::Grpo(_) => &[
                "reward",
                "accuracy",
                "fpr",
                "fnr",
                "abs_bias",
                "mean_abs_bias",
                "first_error_accuracy",
                "undecided_share",
            ],
        }
    }

    /// Optimizer updates in each step.
    pub(crate) fn updates_per_step(&self) -> usize {
        match self {
            Self::Grpo(grpo) => grpo.inner_epochs,
            Self::Sft(_) | Self::Prm(_) | Self::Orm(_) | Self::Orpo(_) => 1,
        }
    }

    /// Whether the loss has a KL divergence from the policy before training.
    pub(crate) fn needs_reference_policy(&self) -> bool {
        matches!(self, Self::Grpo(grpo) if grpo.kl > 0.0)
    }

    /// Whether training samples from the model.
    pub(crate) fn samples(&self) -> bool {
        matches!(self, Self::Grpo(_))
    }

    /// The prompt that asks for a solution, where one is asked for.
    pub(crate) fn prompt(&self) -> Option<&str> {
        match self {
            Self::Sft(sft) => Some(&sft.prompt),
            Self::Orpo(orpo) => Some(&orpo.prompt),
            Self::Prm(_) | Self::Orm(_) | Self::Grpo(_) => None,
        }
    }

    /// The profile by which a reward model reads solutions, and its head.
    pub(crate) fn reward_model(&self) -> Option<(&str, crate::heads::HeadKind)> {
        match self {
            Self::Prm(prm) => Some((&prm.profile, prm.head)),
            Self::Orm(orm) => Some((&orm.profile, orm.head)),
            Self::Sft(_) | Self::Orpo(_) | Self::Grpo(_) => None,
        }
    }
}
