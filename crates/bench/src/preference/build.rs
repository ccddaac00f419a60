//! Makes a preference benchmark from several models' solutions to the same problems.
//!
//! 1. A solution is a candidate when its text has steps and its outcome is sure: what the data says and what the grader
//!    says of its answer agree. What a model wrapped into JSON (`{"reasoning": …, "answer": …}`) is unwrapped.
//! 2. A unit is a problem and one final answer that every chosen family gives; 'same answer' is the grader's. A problem
//!    gives at most one correct and one wrong unit.
//! 3. The families are those asked for, or the ones that have the most units together.
//! 4. As many correct units as wrong ones are kept, correct units of problems that also have a wrong one first, so that
//!    difficulty is matched; the rest by a hash of the seed.
//! 5. Of each family one solution stands in a unit, from the model that has been used least.
//!
//! With a reward model's scores in the data, a correct solution in which they see an error and a wrong one without
//! are left out: outcome and process must agree. Everything left out is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gradus_core::select::{DecisionRule, vote};
use gradus_core::steps;
use gradus_core::{Annotation, FirstError, Outcome, Record, Solution};
use gradus_grade::{Verdict, compare, extract};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Result};

const FAMILIES: &str = include_str!("../../../../assets/families.toml");
/// Families that are looked at when they are chosen by count; more would take too long to combine.
const MOST_FAMILIES: usize = 16;

/// What to build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreferencePlan {
    /// Number of families.
    pub count: usize,
    /// The families; empty selects those with the most units.
    pub families: Vec<String>,
    /// Maximum number of correct units, and of wrong ones.
    pub limit: Option<usize>,
    /// A reward model whose recorded scores must agree with the outcome.
    pub prm: Option<String>,
    /// By which its scores become a first error.
    pub decision: DecisionRule,
    /// Random seed.
    pub seed: u64,
}

impl Default for PreferencePlan {
    fn default() -> Self {
        Self {
            count: 3,
            families: Vec::new(),
            limit: None,
            prm: None,
            decision: DecisionRule::default(),
            seed: 0,
        }
    }
}

/// A benchmark and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PreferenceBenchmark {
    /// One record per unit, one solution per family.
    #[serde(skip)]
    pub records: Vec<Record>,
    /// The families.
    pub families: Vec<String>,
    /// Different problems.
    pub problems: usize,
    /// Correct units, and as many wrong ones.
    pub per_class: usize,
    /// Units there were before balancing.
    pub correct_units: usize,
    /// Units there were before balancing.
    pub wrong_units: usize,
    /// Solutions by model.
    pub models: BTreeMap<String, usize>,
    /// Solutions that were no candidates, by reason.
    pub dropped: BTreeMap<&'static str, usize>,
}

/// Builds a benchmark from records with solutions of many generators.
pub fn build(records: &[Record], plan: &PreferencePlan) -> Result<PreferenceBenchmark> {
    let patterns = family_patterns();
    let mut dropped = BTreeMap::new();
    let units: Vec<Unit> = records
        .iter()
        .enumerate()
        .flat_map(|(index, record)| units_of(index, record, plan, &patterns, &mut dropped))
        .collect();
    let families = match plan.families.is_empty() {
        false => plan.families.clone(),
        true => choose_families(&units, plan.count)?,
    };
    let mut units: Vec<Unit> = units.into_iter().filter(|unit| unit.has(&families)).collect();
    // One unit per problem and outcome: the answer that most solutions share, then the earlier one.
    units.sort_by_key(|unit| (unit.record, unit.correct, std::cmp::Reverse(unit.size())));
    units.dedup_by_key(|unit| (unit.record, unit.correct));
    let (mut correct, mut wrong): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| unit.correct);
    let (correct_units, wrong_units) = (correct.len(), wrong.len());
    let per_class = correct_units.min(wrong_units).min(plan.limit.unwrap_or(usize::MAX));
    if per_class == 0 {
        return Err(Error::Data(format!(
            "the families {} never give the same wrong answer and the same right one to any problem: ask for fewer \
             families, or bring more solutions ({correct_units} problems with a common right answer, {wrong_units} with a common wrong one)",
            families.join(", ")
        )));
    }
    let order = |unit: &Unit| {
        blake3::hash(format!("{} {}", plan.seed, records[unit.record].problem.id).as_bytes())
            .to_hex()
            .to_string()
    };
    wrong.sort_by_cached_key(order);
    wrong.truncate(per_class);
    let matched: BTreeSet<usize> = wrong.iter().map(|unit| unit.record).collect();
    correct.sort_by_cached_key(|unit| (!matched.contains(&unit.record), order(unit)));
    correct.truncate(per_class);
    let mut chosen: Vec<Unit> = wrong.into_iter().chain(correct).collect();
    chosen.sort_by_key(|unit| (unit.record, !unit.correct));
    let problems = chosen.iter().map(|unit| unit.record).collect::<BTreeSet<_>>().len();
    let mut used: HashMap<String, usize> = HashMap::new();
    let built: Vec<Record> =
        chosen.iter().map(|unit| unit.record(&records[unit.record], &families, &mut used)).collect();
    Ok(PreferenceBenchmark {
        records: built,
        families,
        problems,
        per_class,
        correct_units,
        wrong_units,
        models: used.into_iter().collect(),
        dropped,
    })
}

/// The candidates alone, with steps, so that a reward model can score them before a benchmark is built from them.
pub fn candidates(records: &[Record]) -> (Vec<Record>, BTreeMap<&'static str, usize>) {
    let mut dropped = BTreeMap::new();
    let clean = |record: &Record| {
        let keep = |solution: &Solution| match candidate(record, solution) {
            Ok(candidate) => Some(candidate),
            Err(reason) => {
                *dropped.entry(reason).or_default() += 1;
                None
            }
        };
        Record::new(record.problem.clone(), record.solutions.iter().filter_map(keep).collect())
    };
    let records = records.iter().map(clean).collect();
    (records, dropped)
}

/// A problem and one answer that several families give.
struct Unit {
    record: usize,
    correct: bool,
    by_family: BTreeMap<String, Vec<Solution>>,
}

impl Unit {
    fn has(&self, families: &[String]) -> bool {
        families.iter().all(|family| self.by_family.contains_key(family))
    }

    fn size(&self) -> usize {
        self.by_family.values().map(Vec::len).sum()
    }

    /// The unit as a record: one solution per family.
    fn record(&self, source: &Record, families: &[String], used: &mut HashMap<String, usize>) -> Record {
        let kind = if self.correct { "correct" } else { "wrong" };
        let mut problem = source.problem.clone();
        problem.id = format!("{}/{kind}", problem.id);
        let solutions = families.iter().filter_map(|family| {
            let count = |solution: &&Solution| used.get(model_of(solution)).copied().unwrap_or_default();
            let chosen = self.by_family.get(family)?.iter().min_by_key(count)?;
            *used.entry(model_of(chosen).to_owned()).or_default() += 1;
            let mut solution = chosen.clone();
            solution.metadata.insert("model".to_owned(), json!(model_of(chosen)));
            solution.id = format!("{}/{family}", problem.id);
            solution.problem_id.clone_from(&problem.id);
            solution.generator = Some(family.clone());
            Some(solution)
        });
        let solutions = solutions.collect();
        Record::new(problem.clone(), solutions)
    }
}

fn model_of(solution: &Solution) -> &str {
    solution.generator.as_deref().unwrap_or("unnamed")
}

fn units_of(
    index: usize,
    record: &Record,
    plan: &PreferencePlan,
    patterns: &[(String, String)],
    dropped: &mut BTreeMap<&'static str, usize>,
) -> Vec<Unit> {
    let mut sure: Vec<Solution> = Vec::new();
    for solution in &record.solutions {
        match candidate(record, solution).and_then(|candidate| agrees(candidate, plan)) {
            Ok(candidate) => sure.push(candidate),
            Err(reason) => *dropped.entry(reason).or_default() += 1,
        }
    }
    let mut units = Vec::new();
    for correct in [true, false] {
        let own: Vec<&Solution> =
            sure.iter().filter(|solution| solution.outcome.is_correct() == Some(correct)).collect();
        let answers: Vec<Option<&str>> = own.iter().map(|solution| solution.answer.as_deref()).collect();
        let mut groups: BTreeMap<usize, Unit> = BTreeMap::new();
        for (solution, group) in own.iter().zip(vote::groups(&answers)) {
            let Some(group) = group else { continue };
            let unit = groups.entry(group).or_insert_with(|| Unit {
                record: index,
                correct,
                by_family: BTreeMap::new(),
            });
            let family = family(model_of(solution), patterns);
            unit.by_family.entry(family).or_default().push((*solution).clone());
        }
        units.extend(groups.into_values());
    }
    units
}

/// The solution with its reasoning cut into steps and a sure outcome, or why it cannot be used.
fn candidate(record: &Record, solution: &Solution) -> std::result::Result<Solution, &'static str> {
    let mut solution = solution.clone();
    if solution.generator.is_none() {
        return Err("it has no generator");
    }
    if solution.steps.is_empty() {
        let text = solution.text.take().unwrap_or_default();
        let text = unwrapped(&text).ok_or("its JSON has no reasoning")?;
        solution.steps =
            steps::split(&text, &steps::SplitConfig::default()).steps().map(str::to_owned).collect();
        solution.answer = solution.answer.or_else(|| extract(&text).map(|found| found.answer));
        solution.text = Some(text);
    }
    if solution.steps.is_empty() {
        return Err("it has no steps");
    }
    let answer =
        solution.answer.as_deref().filter(|answer| !answer.trim().is_empty()).ok_or("it has no answer")?;
    let gold = record.problem.answer.as_deref().ok_or("its problem has no answer")?;
    let graded = match compare(gold, answer) {
        Verdict::Equal => true,
        Verdict::Different => false,
        _ => return Err("the grader cannot decide about its answer"),
    };
    match solution.outcome.is_correct() {
        Some(said) if said != graded => Err("the data and the grader disagree about its answer"),
        _ => {
            solution.outcome = Outcome::from_correct(graded);
            Ok(solution)
        }
    }
}

/// Whether outcome and process agree, by recorded scores or by labels.
fn agrees(solution: Solution, plan: &PreferencePlan) -> std::result::Result<Solution, &'static str> {
    let correct = solution.outcome.is_correct() == Some(true);
    if let Some(prm) = &plan.prm {
        let scores = solution.scores.get(prm).ok_or("it has no scores of the reward model")?;
        if plan.decision.first_error(scores).is_none() != correct {
            return Err("outcome and reward model disagree");
        }
    }
    let disagrees = |labels: &Annotation| match correct {
        true => labels.has_error(),
        false => labels.first_error == FirstError::None,
    };
    if solution.annotations.iter().any(disagrees) {
        return Err("outcome and step labels disagree");
    }
    Ok(solution)
}

/// The reasoning inside a JSON answer, fenced or not; any other text as it is. None for JSON without a whole reasoning.
fn unwrapped(text: &str) -> Option<String> {
    let bare = text.trim();
    let inner = bare.strip_prefix("```json").or_else(|| bare.strip_prefix("```")).unwrap_or(bare).trim();
    if !inner.starts_with('{') {
        return Some(bare.to_owned());
    }
    let first = serde_json::Deserializer::from_str(inner).into_iter::<Value>().next();
    let reasoning = match first {
        Some(Ok(value)) => value.get("reasoning").and_then(Value::as_str).map(str::to_owned),
        _ => broken_reasoning(inner),
    };
    reasoning.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The reasoning of what was meant to be JSON: models write line breaks and LaTeX into strings as they are. It ends
/// where the answer begins; an answer that never comes means that the text was cut off.
fn broken_reasoning(json: &str) -> Option<String> {
    let (_, rest) = json.split_once("\"reasoning\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let before_answer = rest.match_indices("\"answer\"").find_map(|(at, _)| {
        let before = rest[..at].trim_end();
        before.strip_suffix(',').unwrap_or(before).trim_end().strip_suffix('"')
    })?;
    let mut text = String::with_capacity(before_answer.len());
    let mut letters = before_answer.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek().copied()) {
            ('\\', Some(escaped @ ('"' | '\\'))) => {
                text.push(escaped);
                letters.next();
            }
            ('\\', Some('n')) if !is_command(letters.clone()) => {
                text.push('\n');
                letters.next();
            }
            _ => text.push(letter),
        }
    }
    Some(text)
}

/// Whether these letters are a LaTeX command that begins with n, and no line break.
fn is_command(letters: impl Iterator<Item = char>) -> bool {
    let word: String = letters.take_while(char::is_ascii_alphabetic).collect();
    const COMMANDS: [&str; 10] = ["ne", "neq", "neg", "nu", "nabla", "not", "notin", "nmid", "nleq", "ngeq"];
    COMMANDS.contains(&word.as_str())
}

/// Patterns in lower case and the family they stand for.
fn family_patterns() -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct File {
        family: Vec<Family>,
    }
    #[derive(Deserialize)]
    struct Family {
        name: String,
        patterns: Vec<String>,
    }
    let file: File = toml::from_str(FAMILIES).expect("a test reads the families");
    file.family
        .into_iter()
        .flat_map(|family| family.patterns.into_iter().map(move |pattern| (pattern, family.name.clone())))
        .collect()
}

fn family(model: &str, patterns: &[(String, String)]) -> String {
    let name = model.to_lowercase();
    let known = patterns.iter().find(|(pattern, _)| name.contains(pattern.as_str()));
    let first_word = || {
        let bare = name.rsplit('/').next().unwrap_or(&name);
        bare.split(['-', '_', ' ']).next().unwrap_or(bare).to_owned()
    };
    known.map_or_else(first_word, |(_, family)| family.clone())
}

/// The families that have the most balanced units together.
fn choose_families(units: &[Unit], count: usize) -> Result<Vec<String>> {
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for unit in units {
        for family in unit.by_family.keys() {
            *sizes.entry(family).or_default() += usize::from(!unit.correct);
        }
    }
    let mut names: Vec<&str> = sizes.keys().copied().collect();
    if count == 0 || names.len() < count {
        return Err(Error::Data(format!(
            "{count} families were asked for and there are {}: {}",
            names.len(),
            names.join(", ")
        )));
    }
    names.sort_by_key(|name| std::cmp::Reverse(sizes[name]));
    names.truncate(MOST_FAMILIES);
    // Which families give each answer, as bits.
    let bit = |family: &str| names.iter().position(|name| *name == family).map_or(0, |index| 1u32 << index);
    let mut masks: [BTreeMap<usize, Vec<u32>>; 2] = Default::default();
    for unit in units {
        let mask = unit.by_family.keys().fold(0, |mask, family| mask | bit(family));
        masks[usize::from(unit.correct)].entry(unit.record).or_default().push(mask);
    }
    let supported = |set: u32, correct: bool| {
        masks[usize::from(correct)]
            .values()
            .filter(|masks| masks.iter().any(|mask| mask & set == set))
            .count()
    };
    let sets = (0u32..1 << names.len()).filter(|set| set.count_ones() as usize == count);
    let best = sets.rev().max_by_key(|set| supported(*set, true).min(supported(*set, false)));
    let best = best.unwrap_or_default();
    let mut chosen: Vec<String> =
        names.iter().filter(|name| best & bit(name) != 0).map(|name| (*name).to_owned()).collect();
    chosen.sort_unstable();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::Problem;

    fn solution(problem: &str, index: usize, model: &str, answer: &str, correct: bool) -> Solution {
        Solution {
            id: format!("{problem}/{index}"),
            problem_id: problem.to_owned(),
            generator: Some(model.to_owned()),
            text: Some(format!("I add.\nThe answer is {answer}.")),
            answer: Some(answer.to_owned()),
            outcome: Outcome::from_correct(correct),
            ..Solution::default()
        }
    }

    fn record(id: &str, answers: &[(&str, &str)]) -> Record {
        let problem = Problem {
            id: id.to_owned(),
            text: "?".to_owned(),
            answer: Some("0.5".to_owned()),
            ..Problem::default()
        };
        let solutions = answers.iter().enumerate().map(|(index, (model, answer))| {
            solution(id, index, model, answer, matches!(*answer, "0.5" | "1/2"))
        });
        Record::new(problem, solutions.collect())
    }

    fn plan(count: usize) -> PreferencePlan {
        PreferencePlan { count, ..PreferencePlan::default() }
    }

    #[test]
    fn one_answer_of_every_family_and_as_many_right_as_wrong() {
        let records = [
            record("a", &[("Llama-3-8B", "1/2"), ("Qwen2-7B", "0.5"), ("gpt-4o", "7")]),
            record("b", &[("Llama-3-8B", "8"), ("Qwen2-7B", "8.0"), ("gpt-4o", "0.5")]),
            record("c", &[("Llama-3-70B", "0.5"), ("Qwen2-7B", "0.5"), ("gpt-4o", "0.5")]),
        ];
        let built = build(&records, &plan(2)).unwrap();
        assert_eq!(built.families, ["llama", "qwen"]);
        assert_eq!((built.per_class, built.correct_units, built.wrong_units, built.problems), (1, 2, 1, 2));
        for record in &built.records {
            let generators: Vec<_> = record.solutions.iter().filter_map(|s| s.generator.as_deref()).collect();
            assert_eq!(generators, ["llama", "qwen"]);
            assert_eq!(record.solutions[0].outcome, record.solutions[1].outcome);
            assert!(record.validate().is_ok());
            assert_eq!(record.solutions[0].steps.len(), 2);
        }
        assert_eq!(built.records.iter().flat_map(|record| &record.solutions).count(), 4);
    }

    #[test]
    fn right_units_of_the_same_problem_come_first() {
        let both = [("llama-a", "8"), ("qwen-a", "8"), ("llama-b", "0.5"), ("qwen-b", "1/2")];
        let right = [("llama-a", "0.5"), ("qwen-a", "0.5")];
        let records = [record("z", &both), record("y", &right), record("x", &right)];
        for seed in 0..8 {
            let built = build(&records, &PreferencePlan { seed, ..plan(2) }).unwrap();
            assert_eq!((built.problems, built.per_class), (1, 1));
        }
    }

    #[test]
    fn what_is_not_sure_is_counted() {
        let mut records = [record("a", &[("llama", "8"), ("qwen", "8"), ("llama", "0.5"), ("qwen", "0.5")])];
        records[0].solutions[0].outcome = Outcome::Correct;
        records[0].solutions[1].text = Some("{\"answer\": \"8\"}".to_owned());
        let error = build(&records, &plan(2)).unwrap_err().to_string();
        assert!(error.contains("never give the same wrong answer"), "{error}");
        let (left, dropped) = candidates(&records);
        assert_eq!(left[0].solutions.len(), 2);
        assert_eq!(dropped["the data and the grader disagree about its answer"], 1);
        assert_eq!(dropped["its JSON has no reasoning"], 1);
    }

    #[test]
    fn a_reward_model_must_agree() {
        let mut records = [record("a", &[("llama", "8"), ("qwen", "8"), ("llama", "0.5"), ("qwen", "0.5")])];
        for (solution, scores) in
            records[0].solutions.iter_mut().zip([[0.9, 0.1], [0.8, 0.2], [0.9, 0.9], [0.9, 0.3]])
        {
            solution.scores.insert("prm".to_owned(), scores.to_vec());
        }
        let with = |threshold| PreferencePlan {
            prm: Some("prm".to_owned()),
            decision: DecisionRule::Threshold { threshold },
            ..plan(2)
        };
        assert!(build(&records, &with(0.25)).is_ok());
        assert!(build(&records, &with(0.5)).is_err());
    }

    #[test]
    fn json_is_unwrapped() {
        assert_eq!(
            unwrapped("```json\n{\"reasoning\": \"So 2.\", \"answer\": \"2\"}\n```").as_deref(),
            Some("So 2.")
        );
        assert_eq!(unwrapped(" So {2}. ").as_deref(), Some("So {2}."));
        assert_eq!(unwrapped("{\"reasoning\": \"cut"), None);
        assert_eq!(unwrapped("{\"answer\": \"2\"}"), None);
    }

    #[test]
    fn what_was_meant_to_be_json_is_read() {
        let latex = r#"{"reasoning": "So \( x \neq 2 \)\nand \"x\" = \frac{1}{2}.", "answer": "1/2"}"#;
        assert_eq!(unwrapped(latex).as_deref(), Some("So \\( x \\neq 2 \\)\nand \"x\" = \\frac{1}{2}."));
        let lines = "{\"reasoning\": \"One.\nTwo.\"\n \"answer\": \"2\"} And more.";
        assert_eq!(unwrapped(lines).as_deref(), Some("One.\nTwo."));
    }

    #[test]
    fn families_by_pattern_or_first_word() {
        let patterns = family_patterns();
        for (model, expected) in [
            ("Meta-Llama-3.1-8B", "llama"),
            ("Athene-70B", "llama"),
            ("o1-mini-2024", "gpt"),
            ("org/grok-2-1212", "grok"),
            ("Yi-1.5-9B-Chat", "yi"),
        ] {
            assert_eq!(family(model, &patterns), expected, "{model}");
        }
    }
}
