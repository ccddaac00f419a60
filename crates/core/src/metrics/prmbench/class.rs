//! The classes of PRMBench: what was done to a right solution, and which property of a scorer that tests.

use serde::{Deserialize, Serialize};

/// What was done to a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// A superfluous step was put in.
    #[serde(rename = "NR")]
    NonRedundancy,
    /// A circle of reasons was put in.
    #[serde(rename = "NCL")]
    NonCircularLogic,
    /// A step contradicts known facts.
    #[serde(rename = "ES")]
    EmpiricalSoundness,
    /// A step contradicts another.
    #[serde(rename = "SC")]
    StepConsistency,
    /// A step uses what holds elsewhere only.
    #[serde(rename = "DC")]
    DomainConsistency,
    /// A wrong step is stated with confidence.
    #[serde(rename = "CI")]
    ConfidenceInvariance,
    /// A condition of the problem is missing.
    #[serde(rename = "PS")]
    PrerequisiteSensitivity,
    /// A wrong step looks right.
    #[serde(rename = "DR")]
    DeceptionResistance,
    /// Nothing is wrong: another way to solve the problem.
    #[serde(rename = "MS")]
    MultiSolution,
    /// Nothing: the original solution.
    #[serde(rename = "correct")]
    Correct,
}

/// Classes that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// NR, NCL.
    #[serde(rename = "S1")]
    Simplicity,
    /// ES, SC, DC, CI.
    #[serde(rename = "S2")]
    Soundness,
    /// PS, DR, MS.
    #[serde(rename = "S3")]
    Sensitivity,
}

impl Class {
    /// The nine that are tested, in the order of the paper.
    pub const TESTED: [Self; 9] = [
        Self::NonRedundancy,
        Self::NonCircularLogic,
        Self::EmpiricalSoundness,
        Self::StepConsistency,
        Self::DomainConsistency,
        Self::ConfidenceInvariance,
        Self::PrerequisiteSensitivity,
        Self::DeceptionResistance,
        Self::MultiSolution,
    ];

    /// Its short name in the paper, its name in the dataset, and its group.
    fn row(self) -> (&'static str, &'static str, Option<Group>) {
        match self {
            // The dataset spells it so.
            Self::NonRedundancy => ("NR", "redundency", Some(Group::Simplicity)),
            Self::NonCircularLogic => ("NCL", "circular", Some(Group::Simplicity)),
            Self::EmpiricalSoundness => ("ES", "counterfactual", Some(Group::Soundness)),
            Self::StepConsistency => ("SC", "step_contradiction", Some(Group::Soundness)),
            Self::DomainConsistency => ("DC", "domain_inconsistency", Some(Group::Soundness)),
            Self::ConfidenceInvariance => ("CI", "confidence", Some(Group::Soundness)),
            Self::PrerequisiteSensitivity => ("PS", "missing_condition", Some(Group::Sensitivity)),
            Self::DeceptionResistance => ("DR", "deception", Some(Group::Sensitivity)),
            Self::MultiSolution => ("MS", "multi_solutions", Some(Group::Sensitivity)),
            Self::Correct => ("correct", "correct", None),
        }
    }

    /// Its short name: `NR` … `MS`, `correct`.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Its name in the dataset's `classification`.
    pub fn dataset_name(self) -> &'static str {
        self.row().1
    }

    /// Its group; none for originals.
    pub fn group(self) -> Option<Group> {
        self.row().2
    }

    /// The class with this name in the dataset.
    ///
    /// ```
    /// use gradus_core::metrics::prmbench::Class;
    /// assert_eq!(Class::from_dataset("redundency").map(Class::name), Some("NR"));
    /// assert_eq!(Class::from_dataset("redundancy"), None);
    /// ```
    pub fn from_dataset(name: &str) -> Option<Self> {
        Self::TESTED.into_iter().chain([Self::Correct]).find(|class| class.dataset_name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_names_and_groups() {
        let names: Vec<&str> = Class::TESTED.iter().map(|class| class.name()).collect();
        assert_eq!(names, ["NR", "NCL", "ES", "SC", "DC", "CI", "PS", "DR", "MS"]);
        for class in Class::TESTED {
            assert_eq!(Class::from_dataset(class.dataset_name()), Some(class));
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
            assert!(class.group().is_some());
        }
        assert_eq!(Class::from_dataset("correct").and_then(Class::group), None);
    }
}
