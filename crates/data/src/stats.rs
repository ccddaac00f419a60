//! What a dataset holds, counted in one pass.
//!
//! ```no_run
//! use gradus_data::files;
//! use gradus_data::stats::Stats;
//! let mut stats = Stats::default();
//! for item in files::open(&["data.jsonl".into()], None)? {
//!     stats.add(&item?);
//! }
//! println!("{} solutions", stats.finish().solutions);
//! # Ok::<(), gradus_data::Error>(())
//! ```
//!
//! Memory holds counters, a 64-bit hash of every id, and the issues, each of which is reported. Where several
//! annotators speak about one solution, the most trusted that knows decides whether it is erroneous, and solutions about
//! which they disagree are counted. Partial annotations (exact checks) have their labels counted and decide nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::files::Item;
use gradus_core::{Annotation, Domain, Fault, FirstError, Mark, Outcome, Problem, Solution};

/// Version of [`Summary`].
const SCHEMA: u32 = 1;

/// Lower bounds of the bins; the last bin is open.
const STEPS: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 21, 31, 51, 101];
const CHARS: &[usize] = &[0, 1, 20, 50, 100, 200, 400, 800, 1600, 3200];
const ERRORS: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50];
const CANDIDATES: &[usize] = &[0, 1, 2, 3, 5, 9, 17, 33, 65, 129];

/// What a dataset holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Version of this summary's form.
    pub schema: u32,
    /// Records read.
    pub records: u64,
    /// Records by the format they were read as.
    pub formats: BTreeMap<&'static str, u64>,
    /// Records by domain.
    pub domains: BTreeMap<&'static str, u64>,
    /// Records with a gold answer.
    pub with_answer: u64,
    /// Records with a reference solution.
    pub with_reference: u64,
    /// Records with context.
    pub with_context: u64,
    /// Distinct problem ids.
    pub problems: u64,
    /// Records whose problem id an earlier record has.
    pub duplicate_problem_ids: u64,
    /// Solutions.
    pub solutions: u64,
    /// Solutions whose id an earlier solution has.
    pub duplicate_solution_ids: u64,
    /// Solutions to a problem.
    pub candidates: Spread,
    /// Steps of all solutions.
    pub steps: u64,
    /// Steps of a solution.
    pub steps_per_solution: Vec<Bin>,
    /// Characters of a step.
    pub step_chars: Vec<Bin>,
    /// Whether final answers are right.
    pub outcomes: Outcomes,
    /// Annotations of all solutions.
    pub annotations: u64,
    /// Step labels of all annotations.
    pub labels: Labels,
    /// Whether solutions are right all the way.
    pub errors: Errors,
    /// The same by who wrote the solutions.
    pub generators: Vec<Generator>,
    /// Solutions with a correct answer whose process is wrong, by file.
    pub wrong_processes: Vec<WrongProcesses>,
    /// Score columns by name.
    pub scores: BTreeMap<String, Scores>,
    /// Everything that was odd about a record.
    pub issues: Vec<Issue>,
}

/// One bin of a histogram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The least value.
    pub from: usize,
    /// The greatest value; none for the last bin.
    pub to: Option<usize>,
    /// How many values.
    pub count: u64,
}

/// How a count is spread.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The greatest.
    pub max: u64,
    /// The histogram.
    pub histogram: Vec<Bin>,
}

/// Solutions by outcome.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// The final answer is right.
    pub correct: u64,
    /// The final answer is wrong.
    pub wrong: u64,
    /// Nobody has said.
    pub unknown: u64,
}

/// Step labels by mark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Labels {
    /// Right.
    pub correct: u64,
    /// Wrong.
    pub incorrect: u64,
    /// Neither.
    pub neutral: u64,
    /// Steps that an annotation leaves open.
    pub unknown: u64,
    /// Labels with a soft value, of any mark.
    pub soft: u64,
}

/// Solutions by their first error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// Solutions with a first error.
    pub erroneous: u64,
    /// Solutions without an error.
    pub error_free: u64,
    /// Solutions of which it is not known.
    pub unknown: u64,
    /// Solutions about whose first error two annotations differ.
    pub disagreeing: u64,
    /// The first error's 0-based step.
    pub position: Vec<Bin>,
    /// The first error's place in the solution, in tenths: step j of n is in tenth ⌊10·j/n⌋.
    pub decile: [u64; 10],
}

/// What one generator wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Generator {
    /// Its name; none where the source does not say.
    pub name: Option<String>,
    /// Solutions.
    pub solutions: u64,
    /// Solutions with a first error.
    pub erroneous: u64,
    /// Solutions without an error.
    pub error_free: u64,
    /// Solutions whose final answer is right.
    pub outcome_correct: u64,
}

/// How many solutions of one file reach the correct answer by a wrong process (Zhang et al., 2025).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WrongProcesses {
    /// The file.
    pub file: String,
    /// Solutions with a correct answer of which it is known whether they have an error.
    pub correct_answers: u64,
    /// Those of them with an error.
    pub with_error: u64,
}

/// One score column.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Scores {
    /// Solutions that have it.
    pub solutions: u64,
    /// Scores that are finite numbers.
    pub values: u64,
    /// The least of them; none without values.
    pub min: Option<f64>,
    /// Their mean.
    pub mean: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// Scores that are not finite numbers.
    pub not_finite: u64,
    /// Solutions with more or fewer scores than steps.
    pub length_mismatches: u64,
}

/// Something odd about a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// The file.
    pub file: String,
    /// The line on which the record starts, from 1.
    pub line: u64,
    /// The problem's id.
    pub problem: String,
    /// The solution's id, where the issue is about one.
    pub solution: Option<String>,
    /// The field.
    pub field: String,
    /// What is odd.
    pub message: String,
}

/// Counts items as they pass.
#[derive(Debug, Default)]
pub struct Stats {
    records: u64,
    formats: BTreeMap<&'static str, u64>,
    domains: BTreeMap<&'static str, u64>,
    with_answer: u64,
    with_reference: u64,
    with_context: u64,
    /// Solutions by the hash of the problem's id.
    problems: HashMap<u64, u64>,
    duplicate_problem_ids: u64,
    solutions: u64,
    solution_ids: HashSet<u64>,
    steps: u64,
    steps_per_solution: Histogram,
    step_chars: Histogram,
    outcomes: Outcomes,
    annotations: u64,
    labels: Labels,
    errors: Errors,
    positions: Histogram,
    generators: BTreeMap<Option<String>, Generator>,
    /// In the order of the files.
    wrong_processes: Vec<WrongProcesses>,
    scores: BTreeMap<String, Scores>,
    issues: Vec<Issue>,
}

impl Stats {
    /// Counts one item.
    pub fn add(&mut self, item: &Item) {
        let Problem { id, domain, answer, reference, context, .. } = &item.record.problem;
        self.records += 1;
        *self.formats.entry(item.format.name()).or_default() += 1;
        *self.domains.entry(domain_name(*domain)).or_default() += 1;
        self.with_answer += u64::from(answer.is_some());
        self.with_reference += u64::from(!reference.is_empty());
        self.with_context += u64::from(!context.is_empty());
        let solutions = &item.record.solutions;
        self.duplicate_problem_ids += u64::from(self.problems.contains_key(&hash(id)));
        *self.problems.entry(hash(id)).or_default() += solutions.len() as u64;
        for solution in solutions {
            let error = self.add_solution(solution);
            if solution.outcome == Outcome::Correct && error != FirstError::Unknown {
                self.add_process(item, error);
            }
        }
        self.issues.extend(item.issues.iter().map(|fault| issue(item, fault)));
    }

    /// Counts a solution with a correct answer.
    fn add_process(&mut self, item: &Item, error: FirstError) {
        let file = item.place.path.display().to_string();
        if self.wrong_processes.last().is_none_or(|last| last.file != file) {
            self.wrong_processes.push(WrongProcesses { file, ..WrongProcesses::default() });
        }
        if let Some(counts) = self.wrong_processes.last_mut() {
            counts.correct_answers += 1;
            counts.with_error += u64::from(error != FirstError::None);
        }
    }

    /// Counts one solution; returns its first error.
    fn add_solution(&mut self, solution: &Solution) -> FirstError {
        self.solutions += 1;
        self.solution_ids.insert(hash(&solution.id));
        self.steps += solution.steps.len() as u64;
        self.steps_per_solution.add(STEPS, solution.steps.len());
        for step in &solution.steps {
            self.step_chars.add(CHARS, step.chars().count());
        }
        for annotation in &solution.annotations {
            self.add_labels(annotation);
        }
        for (name, scores) in &solution.scores {
            self.scores.entry(name.clone()).or_default().add(scores, solution.steps.len());
        }
        let known = || {
            let whole = solution.by_trust().into_iter().filter(|annotation| !annotation.is_partial());
            whole.map(|annotation| annotation.first_error).filter(|error| *error != FirstError::Unknown)
        };
        let error = known().next().unwrap_or_default();
        self.errors.disagreeing += u64::from(known().any(|other| other != error));
        let generator = self.generators.entry(solution.generator.clone()).or_default();
        generator.solutions += 1;
        match solution.outcome {
            Outcome::Correct => {
                self.outcomes.correct += 1;
                generator.outcome_correct += 1;
            }
            Outcome::Wrong => self.outcomes.wrong += 1,
            Outcome::Unknown => self.outcomes.unknown += 1,
        }
        match error {
            FirstError::At(step) => {
                self.errors.erroneous += 1;
                generator.erroneous += 1;
                self.positions.add(ERRORS, step);
                // A step past the last one is refused by `Record::validate`; counted as last where it was not asked.
                self.errors.decile[(step * 10 / solution.steps.len().max(1)).min(9)] += 1;
            }
            FirstError::None => {
                self.errors.error_free += 1;
                generator.error_free += 1;
            }
            FirstError::Unknown => self.errors.unknown += 1,
        }
        error
    }

    fn add_labels(&mut self, annotation: &Annotation) {
        self.annotations += 1;
        for label in &annotation.labels {
            match label.as_ref().map(|label| label.mark) {
                Some(Mark::Correct) => self.labels.correct += 1,
                Some(Mark::Incorrect) => self.labels.incorrect += 1,
                Some(Mark::Neutral) => self.labels.neutral += 1,
                None => self.labels.unknown += 1,
            }
            self.labels.soft += u64::from(label.as_ref().is_some_and(|label| label.value.is_some()));
        }
    }

    /// The summary of all items so far.
    pub fn finish(self) -> Summary {
        let mut candidates = Histogram::default();
        for count in self.problems.values() {
            candidates.add(CANDIDATES, usize::try_from(*count).unwrap_or(usize::MAX));
        }
        let problems = self.problems.len() as u64;
        let candidates = Spread {
            min: self.problems.values().copied().min().unwrap_or(0),
            mean: if problems == 0 { 0.0 } else { self.solutions as f64 / problems as f64 },
            max: self.problems.values().copied().max().unwrap_or(0),
            histogram: candidates.bins(CANDIDATES),
        };
        let generators = self.generators.into_iter().map(|(name, row)| Generator { name, ..row }).collect();
        Summary {
            schema: SCHEMA,
            records: self.records,
            formats: self.formats,
            domains: self.domains,
            with_answer: self.with_answer,
            with_reference: self.with_reference,
            with_context: self.with_context,
            problems,
            duplicate_problem_ids: self.duplicate_problem_ids,
            solutions: self.solutions,
            duplicate_solution_ids: self.solutions - self.solution_ids.len() as u64,
            candidates,
            steps: self.steps,
            steps_per_solution: self.steps_per_solution.bins(STEPS),
            step_chars: self.step_chars.bins(CHARS),
            outcomes: self.outcomes,
            annotations: self.annotations,
            labels: self.labels,
            errors: Errors { position: self.positions.bins(ERRORS), ..self.errors },
            generators,
            wrong_processes: self.wrong_processes,
            scores: self.scores,
            issues: self.issues,
        }
    }
}

impl Scores {
    fn add(&mut self, scores: &[f64], steps: usize) {
        self.solutions += 1;
        self.length_mismatches += u64::from(scores.len() != steps);
        for &score in scores {
            if !score.is_finite() {
                self.not_finite += 1;
                continue;
            }
            self.values += 1;
            self.min = Some(self.min.map_or(score, |min| min.min(score)));
            self.max = Some(self.max.map_or(score, |max| max.max(score)));
            let mean = self.mean.unwrap_or(0.0);
            self.mean = Some(mean + (score - mean) / self.values as f64);
        }
    }
}

/// Counts by bin; the bounds are the caller's.
#[derive(Debug, Default)]
struct Histogram(Vec<u64>);

impl Histogram {
    fn add(&mut self, bounds: &[usize], value: usize) {
        self.0.resize(bounds.len(), 0);
        self.0[bounds.partition_point(|&bound| bound <= value) - 1] += 1;
    }

    /// The bins up to the last one that holds anything.
    fn bins(&self, bounds: &[usize]) -> Vec<Bin> {
        let used = self.0.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let ends = bounds.iter().skip(1).map(|next| Some(next - 1)).chain([None]);
        let bins = self.0.iter().zip(bounds.iter().zip(ends)).take(used);
        bins.map(|(&count, (&from, to))| Bin { from, to, count }).collect()
    }
}

fn hash(id: &str) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(bytes)
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Math => "math",
        Domain::Qa => "qa",
        Domain::Spatial => "spatial",
        Domain::Other => "other",
    }
}

fn issue(item: &Item, fault: &Fault) -> Issue {
    let solutions = &item.record.solutions;
    let solution = match solutions.as_slice() {
        [only] => Some(only),
        _ => solution_index(&fault.field).and_then(|index| solutions.get(index)),
    };
    Issue {
        file: item.place.path.display().to_string(),
        line: item.place.line,
        problem: item.record.problem.id.clone(),
        solution: solution.map(|solution| solution.id.clone()),
        field: fault.field.clone(),
        message: fault.message.clone(),
    }
}

/// The 3 of `solutions[3].scores` or `candidates[3].steps`.
fn solution_index(field: &str) -> Option<usize> {
    let rest = field.strip_prefix("solutions[").or_else(|| field.strip_prefix("candidates["))?;
    rest.split(']').next()?.parse().ok()
}
