//! Whose step labels a command uses: `--annotator`, by one rule everywhere ([`LabelChoice`]).

use clap::Args;
use gradus_core::LabelChoice;

/// The annotator to use.
#[derive(Debug, Args)]
pub(crate) struct AnnotatorOption {
    /// Use only labels of this annotator: a name, as `annotate report` prints it, or a kind: human, injected, unstated,
    /// consensus, reference, judge, monte-carlo, prm (default: the first of these that a solution has) or exact
    #[arg(long, value_name = "NAME")]
    pub(crate) annotator: Option<String>,
}

impl AnnotatorOption {
    /// Whose labels are used.
    pub(crate) fn choice(&self) -> LabelChoice {
        LabelChoice::of(self.annotator.as_deref())
    }

    /// Whose labels are used where those of models count only if that is asked for.
    pub(crate) fn choice_or_truth(&self, any_labels: bool) -> LabelChoice {
        match self.choice() {
            LabelChoice::MostTrusted if !any_labels => LabelChoice::Truth,
            choice => choice,
        }
    }
}
