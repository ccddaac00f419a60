//! The rule by which step scores become a first error, where the profile's own is not meant.

use anyhow::{Result, bail};
use clap::Args;
use gradus_core::select::{DecisionChoice, DecisionRule, RuleKind};

use super::values::{finite, positive};
use crate::exit::Usage;

#[derive(Debug, Clone, Args)]
pub(crate) struct DecisionOptions {
    /// Rule of the first error: threshold (the first step below it) or posterior (the most probable first error)
    /// (default: the profile's)
    #[arg(long)]
    rule: Option<RuleKind>,
    /// Score threshold; the first step below it is the suspected first error (default: the profile's, or 0.5)
    #[arg(long, value_parser = finite)]
    threshold: Option<f64>,
    /// With the posterior, factor on the odds of an error; below 1 for data with fewer errors (default: the profile's, or 1)
    #[arg(long, value_parser = positive)]
    prior: Option<f64>,
}

impl DecisionOptions {
    fn choice(&self) -> DecisionChoice {
        DecisionChoice { rule: self.rule, threshold: self.threshold, prior: self.prior }
    }

    /// Refuses options that contradict each other, before a model is loaded.
    pub(crate) fn check(&self) -> Result<()> {
        self.over(DecisionRule::default()).map(drop)
    }

    /// The rule that is meant, where `own` is the profile's.
    pub(crate) fn over(&self, own: DecisionRule) -> Result<DecisionRule> {
        let refused = || {
            Usage(
                "--threshold is for --rule threshold and --prior for --rule posterior: use one of the two"
                    .to_owned(),
            )
        };
        Ok(self.choice().over(own).map_err(|_| refused())?)
    }

    /// Refuses all of them, where nothing would come of them.
    pub(crate) fn refuse(&self, reason: &str) -> Result<()> {
        if self.choice().is_given() {
            bail!(Usage(format!("{reason}: omit --rule, --threshold and --prior")));
        }
        Ok(())
    }

    /// The threshold of single steps, where each is judged on its own and none is the first error.
    pub(crate) fn of_steps(&self, own: DecisionRule) -> Result<f64> {
        if self.rule == Some(RuleKind::Posterior) || self.prior.is_some() {
            bail!(Usage(
                "--rule posterior and --prior look for a first error, and here each step is judged on its own: use \
                 --threshold"
                    .to_owned()
            ));
        }
        Ok(self.over(own)?.step_threshold())
    }
}
