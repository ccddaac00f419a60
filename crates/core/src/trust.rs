//! Which of several annotations of a solution counts: one rule for training, export, pools, critics and display. The
//! order is documented with [`LabelChoice`].

use serde::{Deserialize, Serialize};

use crate::{Annotation, LabelSource, Mark, Solution, StepLabel};

/// Whose labels are used. The most trusted annotation wins, the earliest among equals:
///
/// 1. a person's labels
/// 2. errors that a program put there
/// 3. a dataset's that does not say who labeled it
/// 4. consensus and ensembles of annotators
/// 5. a model that compared the solution with a reference (SPARE)
/// 6. a model that judged it
/// 7. Monte Carlo
/// 8. a reward model at a threshold
///
/// Exact checks of arithmetic count only where they are asked for by name: what they say is proved, but they label a few
/// steps that are wrong and say nothing of all others ([partial](LabelSource::is_partial)).
///
/// The first three are [truth](LabelSource::is_truth), the others opinions. An annotation whose labels come from
/// several sources is trusted like the least trusted of them.
///
/// ```
/// use gradus_core::{Annotation, LabelChoice, LabelSource, Solution};
/// let judge = LabelSource::Judge { model: "m".into(), agreeing: 1, votes: 1 };
/// let by = |source| Annotation::from_first_error(1, None, source);
/// let solution = Solution {
///     annotations: vec![by(&judge), by(&LabelSource::Human)],
///     ..Solution::default()
/// };
/// let used = |choice: LabelChoice| solution.labels(&choice).map(Annotation::source_name);
/// assert_eq!(used(LabelChoice::MostTrusted).as_deref(), Some("human"));
/// assert_eq!(used(LabelChoice::Annotator("judge".into())).as_deref(), Some("judge m"));
/// assert_eq!(used(LabelChoice::Annotator("judge other".into())), None);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelChoice {
    /// The most trusted annotation that is not partial.
    #[default]
    MostTrusted,
    /// The most trusted annotation, if it is truth.
    Truth,
    /// Those of one annotator: its name, such as `judge Qwen2.5-72B`, or its kind, such as `judge`.
    Annotator(String),
}

impl LabelChoice {
    /// The annotator of that name, or else the most trusted.
    pub fn of(annotator: Option<&str>) -> Self {
        annotator.map_or(Self::MostTrusted, |name| Self::Annotator(name.to_owned()))
    }
}

impl LabelSource {
    /// What kind of annotator it is: `human`, `judge`, …; the first word of its [name](Self::name).
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Unstated => "unstated",
            Self::Human | Self::Person { .. } => "human",
            Self::Injected => "injected",
            Self::MonteCarlo { .. } => "monte-carlo",
            Self::Judge { .. } => "judge",
            Self::Reference { .. } => "reference",
            Self::Prm { .. } => "prm",
            Self::Exact => "exact",
            Self::Consensus { .. } => "consensus",
        }
    }

    /// The name of the annotator, such as `human`, `human Ann` or `judge Qwen2.5-72B`.
    pub fn name(&self) -> String {
        match self {
            Self::MonteCarlo { model, .. } if model.is_empty() => self.kind().to_owned(),
            Self::MonteCarlo { model, .. }
            | Self::Judge { model, .. }
            | Self::Reference { model }
            | Self::Prm { model }
            | Self::Person { name: model } => format!("{} {model}", self.kind()),
            Self::Consensus { of } => format!("consensus of {}", of.join(", ")),
            other => other.kind().to_owned(),
        }
    }

    /// Its place in the order of trust; 0 is the most trusted.
    fn rank(&self) -> usize {
        match self {
            Self::Human | Self::Person { .. } => 0,
            Self::Injected => 1,
            Self::Unstated => 2,
            Self::Consensus { .. } => 3,
            Self::Reference { .. } => 4,
            Self::Judge { .. } => 5,
            Self::MonteCarlo { .. } => 6,
            Self::Prm { .. } => 7,
            Self::Exact => 8,
        }
    }
}

impl Annotation {
    /// Who labeled: the least trusted of its labels' sources.
    fn source(&self) -> &LabelSource {
        let sources = self.labels.iter().flatten().map(|label| &label.source);
        sources.max_by_key(|source| source.rank()).unwrap_or(&LabelSource::Unstated)
    }

    /// The name of who labeled, such as `human` or `monte-carlo Qwen2.5-7B`.
    pub fn source_name(&self) -> String {
        self.source().name()
    }

    /// What kind of annotator labeled: `human`, `judge`, …
    pub fn source_kind(&self) -> &'static str {
        self.source().kind()
    }

    /// Whether an annotator of this name or kind labeled.
    pub fn is_by(&self, name: &str) -> bool {
        self.source_kind() == name || self.source_name() == name
    }

    /// Whether the labels are to be believed.
    pub fn is_truth(&self) -> bool {
        self.source().is_truth()
    }
}

impl Solution {
    /// The annotations, the most trusted first.
    pub fn by_trust(&self) -> Vec<&Annotation> {
        let mut annotations: Vec<&Annotation> = self.annotations.iter().collect();
        annotations.sort_by_key(|annotation| annotation.source().rank());
        annotations
    }

    /// The most trusted annotation that is not partial: of those with labels to train on, or else of all.
    pub fn most_trusted(&self) -> Option<&Annotation> {
        let whole = || self.by_trust().into_iter().find(|annotation| !annotation.is_partial());
        self.labels(&LabelChoice::MostTrusted).or_else(whole)
    }

    /// The labels that count by the order of trust that [`LabelChoice`] has; none where none of them is a training
    /// target.
    pub fn labels(&self, choice: &LabelChoice) -> Option<&Annotation> {
        self.all_labels(choice).into_iter().next()
    }

    /// All labels that a choice admits, the most trusted first.
    pub fn all_labels(&self, choice: &LabelChoice) -> Vec<&Annotation> {
        let admitted = |annotation: &&Annotation| match choice {
            LabelChoice::MostTrusted => !annotation.is_partial(),
            LabelChoice::Truth => annotation.is_truth(),
            LabelChoice::Annotator(name) => annotation.is_by(name),
        };
        let usable = |annotation: &&Annotation| annotation.targets().next().is_some();
        self.by_trust().into_iter().filter(usable).filter(admitted).collect()
    }

    /// The first step with an error that an exact check proves, by the annotations.
    pub fn proven_error(&self) -> Option<usize> {
        let is_proof =
            |label: &StepLabel| label.source == LabelSource::Exact && label.mark == Mark::Incorrect;
        let first = |annotation: &Annotation| {
            annotation.labels.iter().position(|label| label.as_ref().is_some_and(is_proof))
        };
        self.annotations.iter().filter_map(first).min()
    }

    /// The most trusted annotation with labels that are to be believed.
    pub fn truth(&self) -> Option<&Annotation> {
        let labeled = |annotation: &&Annotation| annotation.labels.iter().any(Option::is_some);
        self.by_trust().into_iter().filter(labeled).find(|annotation| annotation.is_truth())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_trust_does_not_depend_on_the_order_of_files() {
        let model = || "m".to_owned();
        let ordered = [
            LabelSource::Human,
            LabelSource::Injected,
            LabelSource::Unstated,
            LabelSource::Consensus { of: vec![model()] },
            LabelSource::Reference { model: model() },
            LabelSource::Judge { model: model(), agreeing: 1, votes: 1 },
            LabelSource::MonteCarlo { model: model(), successes: 1, samples: 2 },
            LabelSource::Prm { model: model() },
            LabelSource::Exact,
        ];
        for best in 0..ordered.len() {
            let annotations = ordered[best..].iter().rev();
            let annotations =
                annotations.map(|source| Annotation::from_first_error(2, Some(0), source)).collect();
            let solution = Solution { annotations, ..Solution::default() };
            let chosen = |choice| solution.labels(&choice).map(Annotation::source_name);
            assert_eq!(chosen(LabelChoice::MostTrusted), (best < 8).then(|| ordered[best].name()));
            assert_eq!(solution.most_trusted().is_some(), best < 8);
            assert_eq!(chosen(LabelChoice::Truth).is_some(), best < 3);
            assert_eq!(solution.truth().is_some(), best < 3);
            let prm = (best < 8).then(|| "prm m".to_owned());
            assert_eq!(chosen(LabelChoice::Annotator("prm".to_owned())), prm);
            assert_eq!(chosen(LabelChoice::Annotator("exact".to_owned())).as_deref(), Some("exact"));
        }
    }

    #[test]
    fn monte_carlo_is_named_by_its_model_where_that_is_known() {
        let read = |text: &str| serde_json::from_str::<LabelSource>(text).unwrap();
        let (old, new) = (
            r#"{"monte_carlo":{"successes":1,"samples":2}}"#,
            r#"{"monte_carlo":{"model":"m","successes":1,"samples":2}}"#,
        );
        assert_eq!((read(old).name(), read(new).name()), ("monte-carlo".into(), "monte-carlo m".into()));
        for text in [old, new] {
            assert_eq!(read(text).kind(), "monte-carlo");
            assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
        }
    }

    #[test]
    fn a_person_is_a_human_with_a_name() {
        let read = |text: &str| serde_json::from_str::<LabelSource>(text).unwrap();
        for (text, name) in [(r#""human""#, "human"), (r#"{"person":{"name":"Ann"}}"#, "human Ann")] {
            assert_eq!((read(text).name().as_str(), read(text).kind()), (name, "human"));
            assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
            assert!(read(text).is_truth());
        }
        let by = |name: &str| {
            Annotation::from_first_error(1, None, &LabelSource::Person { name: name.to_owned() })
        };
        let judge = LabelSource::Judge { model: "m".to_owned(), agreeing: 1, votes: 1 };
        let annotations = vec![Annotation::from_first_error(1, Some(0), &judge), by("Ann"), by("Bo")];
        let solution = Solution { annotations, ..Solution::default() };
        let named = |choice| solution.labels(&choice).map(Annotation::source_name);
        assert_eq!(named(LabelChoice::Truth).as_deref(), Some("human Ann"));
        assert_eq!(named(LabelChoice::Annotator("human Bo".to_owned())).as_deref(), Some("human Bo"));
        assert_eq!(solution.all_labels(&LabelChoice::Annotator("human".to_owned())).len(), 2);
    }

    #[test]
    fn labels_of_several_sources_are_trusted_like_the_least_trusted() {
        let label = |source| Some(StepLabel::hard(Mark::Correct, source));
        let mixed = Annotation::from_labels(vec![
            label(LabelSource::Human),
            label(LabelSource::Prm { model: "m".to_owned() }),
        ]);
        assert_eq!((mixed.source_name().as_str(), mixed.is_truth()), ("prm m", false));
        let nothing = Annotation::from_labels(vec![None]);
        let solution = Solution { annotations: vec![nothing, mixed], ..Solution::default() };
        assert!(solution.truth().is_none());
        assert!(solution.labels(&LabelChoice::MostTrusted).is_some());
    }
}
