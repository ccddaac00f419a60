//! Dataset formats: a file for each, with one raw record at its top.
//!
//! A reader turns one upstream record into one [`Record`]; a writer turns a record back into upstream records.
//! Reading and then writing the same format gives back what the format can express. To add a format: write its
//! file, add it to [`Format`] and to the `match` in `Format::dataset`, and give `tests/formats/` records of it.

mod argilla;
mod best_of_n;
mod bigbench_mistake;
mod candidate_outcomes;
mod choices;
mod eic;
mod fields;
mod first_error;
mod gradus;
mod gsm8k;
mod gsm8k_solutions;
mod label_studio;
mod many_models;
mod math;
mod math_shepherd;
mod mr_ben;
mod mr_gsm8k;
mod musique;
mod numbered;
mod omitted;
mod openrlhf;
mod outputs;
mod paddlenlp;
mod parc;
mod prm800k;
mod prm800k_prefixes;
mod prm800k_ratings;
mod prmbench;
mod problems;
mod processbench;
mod reasoneval;
mod rlhflow;
mod row;
mod spatial;
mod step_answers;
mod stepverify;
mod tagged;
mod trl;
mod verdicts;
mod worked;

use serde_json::Value;

pub(crate) use choices::NAMES as CHOICES;
use fields::Fields;
pub(crate) use gradus::{own_columns, own_example};
use gradus_core::{Fault, Metadata, Record};
pub use outputs::FieldMap;
pub(crate) use outputs::{is_text_field, is_usual_field, suggested_map};
use row::Row;

/// What a reader returns.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The record.
    pub record: Record,
    /// What the source says that cannot be right; see [`super::files::Item::issues`].
    pub issues: Vec<Fault>,
    /// How a field was read that could have been read otherwise, and how to say so.
    pub note: Option<String>,
}

/// The note of a list of problems with a field `solution`.
const SOLUTION_IS_REFERENCE: &str =
    "`solution` is read as the reference solution (--map solution=solution: as a generated one)";

impl From<Record> for Parsed {
    fn from(record: Record) -> Self {
        Self { record, issues: Vec::new(), note: None }
    }
}

/// What a writer returns: rows, and what it had to leave out.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Records of the format.
    pub rows: Vec<Value>,
    /// One reason for each solution or problem that the format cannot express.
    pub dropped: Vec<&'static str>,
    /// Solutions whose steps after the first error were left out, because the format wants a label for every step.
    pub cut: usize,
    /// Parts of the written problems and solutions that the format has no place for, such as step scores, and how many.
    pub lost: Vec<(&'static str, usize)>,
}

impl Written {
    /// All that is left out: solutions and problems by reason, and parts of those that are written.
    pub fn omitted(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.dropped.iter().map(|reason| (*reason, 1)).chain(self.lost.iter().copied())
    }
}

/// One dataset format: how to recognise, read and write it.
pub(crate) struct Dataset {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// True for a record of this format, judged by its fields alone.
    pub(crate) recognizes: fn(&Metadata) -> bool,
    pub(crate) read: fn(Fields) -> Result<Parsed, Fault>,
    pub(crate) write: fn(&Record) -> Written,
}

/// The formats Gradus reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each is described by `Format::about`")]
pub enum Format {
    Gradus,
    Trl,
    Prm800k,
    Prm800kRatings,
    Prm800kPrefixes,
    MathShepherd,
    OpenRlhf,
    PaddleNlp,
    RlhFlow,
    ProcessBench,
    FirstError,
    PrmBench,
    MrBen,
    MrGsm8k,
    ReasonEval,
    StepVerify,
    Eic,
    Parc,
    BigBenchMistake,
    LabelStudio,
    Argilla,
    BestOfN,
    CandidateOutcomes,
    ManyModels,
    Gsm8kSolutions,
    Musique,
    Spatial,
    Outputs,
    Gsm8k,
    Math,
    Problems,
}

impl Format {
    /// Every format, in the order in which they are tried on a record: the most specific first.
    pub const ALL: [Self; 31] = [
        Self::Gradus,
        Self::Trl,
        Self::Prm800k,
        Self::Prm800kRatings,
        Self::Prm800kPrefixes,
        Self::MathShepherd,
        Self::OpenRlhf,
        Self::PaddleNlp,
        Self::RlhFlow,
        Self::ProcessBench,
        Self::FirstError,
        Self::PrmBench,
        Self::MrBen,
        Self::MrGsm8k,
        Self::ReasonEval,
        Self::StepVerify,
        Self::Eic,
        Self::Parc,
        Self::BigBenchMistake,
        Self::LabelStudio,
        Self::Argilla,
        Self::BestOfN,
        Self::CandidateOutcomes,
        Self::ManyModels,
        Self::Gsm8kSolutions,
        Self::Musique,
        Self::Spatial,
        Self::Outputs,
        Self::Gsm8k,
        Self::Math,
        Self::Problems,
    ];

    fn dataset(self) -> &'static Dataset {
        match self {
            Self::Gradus => &gradus::DATASET,
            Self::Trl => &trl::DATASET,
            Self::Prm800k => &prm800k::DATASET,
            Self::Prm800kRatings => &prm800k_ratings::DATASET,
            Self::MathShepherd => &math_shepherd::DATASET,
            Self::OpenRlhf => &openrlhf::DATASET,
            Self::PaddleNlp => &paddlenlp::DATASET,
            Self::RlhFlow => &rlhflow::DATASET,
            Self::ProcessBench => &processbench::DATASET,
            Self::PrmBench => &prmbench::DATASET,
            Self::MrBen => &mr_ben::DATASET,
            Self::MrGsm8k => &mr_gsm8k::DATASET,
            Self::ReasonEval => &reasoneval::DATASET,
            Self::StepVerify => &stepverify::DATASET,
            Self::BigBenchMistake => &bigbench_mistake::DATASET,
            Self::LabelStudio => &label_studio::DATASET,
            Self::Argilla => &argilla::DATASET,
            Self::BestOfN => &best_of_n::DATASET,
            Self::CandidateOutcomes => &candidate_outcomes::DATASET,
            Self::ManyModels => &many_models::DATASET,
            Self::Gsm8kSolutions => &gsm8k_solutions::DATASET,
            Self::Gsm8k => &gsm8k::DATASET,
            Self::Musique => &musique::DATASET,
            Self::Outputs => &outputs::DATASET,
            Self::Math => &math::DATASET,
            Self::Prm800kPrefixes => &prm800k_prefixes::DATASET,
            Self::FirstError => &first_error::DATASET,
            Self::Eic => &eic::DATASET,
            Self::Parc => &parc::DATASET,
            Self::Spatial => &spatial::DATASET,
            Self::Problems => &problems::DATASET,
        }
    }

    /// The name used on the command line and as a record's source.
    pub fn name(self) -> &'static str {
        self.dataset().name
    }

    /// One line about the format.
    pub fn about(self) -> &'static str {
        self.dataset().about
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a record, judged by its fields.
    pub fn detect(record: &Metadata) -> Option<Self> {
        Self::ALL.into_iter().find(|format| (format.dataset().recognizes)(record))
    }

    /// Reads one upstream record.
    ///
    /// ```
    /// use gradus_data::readers::Format;
    /// let row = serde_json::json!({"prompt": "1 + 1?", "completions": ["2"], "labels": [true]});
    /// let format = Format::detect(row.as_object().unwrap()).unwrap();
    /// let parsed = format.read(row.as_object().unwrap().clone())?;
    /// assert_eq!(parsed.record.problem.text, "1 + 1?");
    /// assert_eq!(format.write(&parsed.record).rows, [row]);
    /// # Ok::<(), gradus_core::Fault>(())
    /// ```
    pub fn read(self, record: Metadata) -> Result<Parsed, Fault> {
        let parsed = (self.dataset().read)(Fields::new(record)?)?;
        parsed.record.validate()?;
        Ok(parsed)
    }

    /// Reads one row of model outputs, whose fields are what `map` says.
    pub(crate) fn read_mapped(row: Metadata, map: &FieldMap) -> Result<Parsed, Fault> {
        let parsed = outputs::read(row, map)?;
        parsed.record.validate()?;
        Ok(parsed)
    }

    /// Writes one record in this format.
    pub fn write(self, record: &Record) -> Written {
        let mut written = (self.dataset().write)(record);
        written.lost = omitted::parts(self, record, &written.rows);
        written
    }
}

/// The rows in an object that holds several: a log of Inspect, stories with several questions. None where it is one row.
pub(crate) fn unpack(object: &mut Metadata) -> Option<Vec<Value>> {
    outputs::inspect_samples(object).or_else(|| spatial::unpack(object))
}

/// True when `record` has all of `keys`.
fn has(record: &Metadata, keys: &[&str]) -> bool {
    keys.iter().all(|key| record.contains_key(*key))
}
