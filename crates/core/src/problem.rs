//! A problem to be solved, with whatever its source knows about the right answer.

use serde::{Deserialize, Serialize};

use crate::{Metadata, Outcome, Solution};
use gradus_grade::{Extracted, Verdict, compare, extract, qa};

/// What a problem is about; prompts and exemplars are chosen by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Domain {
    /// Mathematics.
    #[default]
    Math,
    /// Questions over context sentences.
    Qa,
    /// Where things are in relation to each other.
    Spatial,
    /// Anything else.
    Other,
}

/// A problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Unique within a dataset; a content hash where the source has none.
    pub id: String,
    /// The question as it is put to a model.
    pub text: String,
    /// Sentences or paragraphs the answer must come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
    /// A reference solution, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference: Vec<String>,
    /// The right final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Other ways to write the right answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What the problem is about.
    #[serde(default)]
    pub domain: Domain,
    /// The format or program it comes from; its metadata travels back to that format only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Fields of the source that the model has no name for.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    pub metadata: Metadata,
}

/// What is known of a solution's final answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalAnswer {
    /// The answer.
    pub answer: Option<String>,
    /// Whether it is right.
    pub outcome: Outcome,
    /// The answer was found in the text.
    pub extracted: bool,
    /// The outcome is the grader's.
    pub graded: bool,
}

impl Problem {
    /// All that a model must be given: the question, after those sentences of the context that it does not itself quote.
    ///
    /// ```
    /// use gradus_core::Problem;
    /// let context = vec!["Ann lives in Rome.".to_owned(), "Rome is in Italy.".to_owned()];
    /// let mut problem = Problem { text: "Where does Ann live?".to_owned(), context, ..Problem::default() };
    /// assert_eq!(problem.question(), "Ann lives in Rome.\nRome is in Italy.\n\nWhere does Ann live?");
    /// problem.text = "Ann lives in Rome. Rome is in Italy. Where does Ann live?".to_owned();
    /// assert_eq!(problem.question(), problem.text);
    /// ```
    pub fn question(&self) -> String {
        let missing = self.context.iter().filter(|sentence| !self.text.contains(sentence.as_str()));
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        if missing.is_empty() {
            return self.text.clone();
        }
        format!("{}\n\n{}", missing.join("\n"), self.text)
    }

    /// The reference solution for readers: without GSM8K's `<<48/2=24>>`, which are for a calculator.
    ///
    /// ```
    /// use gradus_core::Problem;
    /// let problem = Problem { reference: vec!["She sold 48/2 = <<48/2=24>>24 clips.".to_owned()], ..Problem::default() };
    /// assert_eq!(problem.readable_reference(), ["She sold 48/2 = 24 clips."]);
    /// ```
    pub fn readable_reference(&self) -> Vec<String> {
        self.reference.iter().map(|step| without_calculator(step)).collect()
    }

    /// Whether an answer is the right one, or one of its other spellings; none where that is not known. In question answering
    /// and spatial reasoning that is an exact match of words.
    ///
    /// ```
    /// use gradus_core::Problem;
    /// let problem = Problem { answer: Some("1/2".to_owned()), ..Problem::default() };
    /// assert_eq!((problem.accepts("0.5"), problem.accepts("2")), (Some(true), Some(false)));
    /// assert_eq!(Problem::default().accepts("2"), None);
    /// ```
    pub fn accepts(&self, answer: &str) -> Option<bool> {
        let gold = self.answer.as_deref()?;
        let mut spellings = self.spellings();
        if self.is_answered_in_words() {
            return Some(spellings.any(|spelling| qa::exact_match(spelling, answer)));
        }
        if spellings.any(|spelling| compare(spelling, answer) == Verdict::Equal) {
            return Some(true);
        }
        (compare(gold, answer) == Verdict::Different).then_some(false)
    }

    /// The best F1 of an answer's words with those of a right one; none where that is not known, and in mathematics.
    ///
    /// ```
    /// use gradus_core::{Domain, Problem};
    /// let problem = Problem { answer: Some("City of York".to_owned()), domain: Domain::Qa, ..Problem::default() };
    /// assert_eq!(problem.f1("York"), Some(0.5));
    /// ```
    pub fn f1(&self, answer: &str) -> Option<f64> {
        let known = self.is_answered_in_words().then(|| self.spellings());
        known?.map(|spelling| qa::f1(spelling, answer)).max_by(f64::total_cmp)
    }

    /// The final answer of a solution: words where the problem asks for them, else a value.
    pub fn final_answer(&self, solution: &str) -> Option<Extracted> {
        if self.is_answered_in_words() { qa::extract(solution) } else { extract(solution) }
    }

    /// A solution's final answer and outcome: its own, else what its text states and the grader says.
    ///
    /// ```
    /// use gradus_core::{Outcome, Problem, Solution};
    /// let problem = Problem { answer: Some("1/2".to_owned()), ..Problem::default() };
    /// let solution = Solution { steps: vec!["The answer is 0.5.".to_owned()], ..Solution::default() };
    /// let found = problem.final_answer_of(&solution);
    /// assert_eq!((found.answer.as_deref(), found.outcome), (Some("0.5"), Outcome::Correct));
    /// assert!(found.extracted && found.graded);
    /// ```
    pub fn final_answer_of(&self, solution: &Solution) -> FinalAnswer {
        let own = solution.answer.clone().filter(|answer| !answer.trim().is_empty());
        let lacks_answer = own.is_none();
        let answer = own.or_else(|| self.final_answer(&solution.full_text()).map(|found| found.answer));
        let graded = (solution.outcome == Outcome::Unknown)
            .then(|| self.accepts(answer.as_deref()?))
            .flatten()
            .map(Outcome::from_correct);
        FinalAnswer {
            extracted: lacks_answer && answer.is_some(),
            graded: graded.is_some(),
            outcome: graded.unwrap_or(solution.outcome),
            answer,
        }
    }

    /// The right answer, then its other spellings.
    fn spellings(&self) -> impl Iterator<Item = &str> {
        self.answer.iter().chain(&self.aliases).map(String::as_str)
    }

    fn is_answered_in_words(&self) -> bool {
        matches!(self.domain, Domain::Qa | Domain::Spatial)
    }
}

/// A text without GSM8K's calculator marks, such as `<<48/2=24>>`.
pub fn without_calculator(text: &str) -> String {
    let mut rest = text;
    let mut clean = String::with_capacity(text.len());
    while let Some((before, after)) = rest.split_once("<<") {
        clean.push_str(before);
        match after.split_once(">>") {
            Some((_, after)) => rest = after,
            None => {
                clean.push_str("<<");
                rest = after;
            }
        }
    }
    clean + rest
}
