//! Files of model outputs, whatever program wrote them: a problem and what a model answered.
//!
//! ```json
//! {"question": "What is 2 + 3?", "response": "Add them.\n\nIt is 5.", "answer": "5"}
//! {"prompt": "What is 2 + 3?", "completions": ["It is 5.", "It is 6."], "model": "some-model"}
//! {"input": "What is 2 + 3?", "output": "It is 5.", "gts": "5", "score": 1.0, "step": 10}
//! {"problem": "What is 2 + 3?", "steps": ["Add them.", "It is 5."], "labels": [true, true]}
//! {"messages": [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "It is 5."}]}
//! ```
//!
//! Fields are told by their usual names (`roles.rs`), labels beside steps (`steps.rs`), conversations by their turns (`turns.rs`), logs of
//! lm-evaluation-harness and Inspect by their form (`logs.rs`). A [`FieldMap`] says what the names do not.
//! A solution is a text, a list of texts or objects, or a list of steps; a text stays whole here, and is cut into steps
//! by whoever needs them. `solution` may be a reference or generated: it is taken as generated, unless the row looks like a
//! list of problems (`math.rs`, `problems.rs`), and the record says which in its note.
//!
//! Written, a solution is a row of `problem`, `response` (or `steps` and `labels`), `answer`, `id`, `generator` and `correct`, and what
//! its source said beyond that. The names and forms of other programs are not written back.

mod logs;
mod outcome;
mod roles;
mod steps;
mod turns;

use serde_json::Value;

pub use roles::FieldMap;

use super::choices::{self, Choices};
use super::fields::expected;
use super::gsm8k::GOLD;
use super::verdicts::{Spelling, spell};
use super::worked::{lines, paragraphs};
use super::{Dataset, Fields, Format, Parsed, Row, Written};
use gradus_core::{Fault, Metadata, Problem, Record, Solution, StepLabel, id};
pub(crate) use logs::inspect_samples;
use roles::{AMBIGUOUS, Role, at_path};
pub(crate) use roles::{is_text_field, is_usual_field, suggested_map};

const NAME: &str = "outputs";

pub(super) const DATASET: Dataset = Dataset {
    name: NAME,
    about: "files of model outputs: a problem and one or more responses",
    recognizes,
    read: |fields| read(fields.rest(), &FieldMap::default()),
    write,
};

fn recognizes(row: &Metadata) -> bool {
    if logs::is_harness(row) || logs::is_inspect(row) || turns::field(row).is_some() {
        return true;
    }
    let map = FieldMap::default();
    if map.find(row, Role::Problem).is_none() {
        return false;
    }
    if map.find(row, Role::Steps).is_some_and(|field| steps::is_steps(&row[&field])) {
        return true;
    }
    match map.find(row, Role::Solution) {
        Some(field) if field != AMBIGUOUS => may_be_solution(&field, &row[&field]),
        Some(_) => {
            map.find(row, Role::Generator).is_some()
                || map.find(row, Role::Reference).is_some()
                || ![Format::Math, Format::Problems].iter().any(|format| (format.dataset().recognizes)(row))
        }
        // The next row may have the solution that this one has not.
        None => roles::lacks_solution(row),
    }
}

/// True for what the value of a field of solutions may be. The number of `samples` says how many there are.
fn may_be_solution(field: &str, value: &Value) -> bool {
    match value {
        Value::Number(_) => !field.ends_with(['s', 'S']),
        Value::Bool(_) => false,
        _ => true,
    }
}

/// Reads a row whose fields are what `map` and their names say.
pub(crate) fn read(row: Metadata, map: &FieldMap) -> Result<Parsed, Fault> {
    let mut row = Fields::new(row)?.rest();
    let mut draft = Draft::default();
    if map.named(Role::Solution).is_none() && map.named(Role::Steps).is_none() {
        let logged = match &row {
            row if logs::is_harness(row) => Some(logs::harness(row)?),
            row if logs::is_inspect(row) => Some(logs::inspect(row)?),
            _ => None,
        };
        if let Some(logged) = logged {
            for field in logged.taken {
                row.shift_remove(*field);
            }
            draft.solutions = logged.solutions;
            draft.gold = logged.target;
            draft.id = logged.id;
            if !logs::has_problem(&logged.row) {
                draft.problem = logged.prompt;
            }
            // The dataset's own fields say what the problem is; the log's row says the rest.
            let log = std::mem::replace(&mut row, logged.row);
            row.extend(log.into_iter().filter(|(name, _)| name != "metadata"));
        } else if let Some((field, (problem, text))) =
            turns::field(&row).and_then(|field| Some((field, turns::split(&row[field])?)))
        {
            row.shift_remove(field);
            draft.problem = Some(problem);
            draft.solutions = vec![Solution { text: Some(text), ..Solution::default() }];
        }
    }
    draft.take_fields(&mut row, map)?;
    draft.finish(row)
}

/// A record under construction.
#[derive(Default)]
struct Draft {
    problem: Option<String>,
    solutions: Vec<Solution>,
    gold: Option<Value>,
    reference: Vec<String>,
    id: Option<Value>,
    choices: Option<Choices>,
    note: Option<String>,
}

impl Draft {
    /// Takes what has not been found yet out of the row's fields.
    fn take_fields(&mut self, row: &mut Metadata, map: &FieldMap) -> Result<(), Fault> {
        if self.problem.is_none() || map.named(Role::Problem).is_some() {
            self.problem = Some(take_problem(row, map)?);
        }
        self.choices = choices::take(row)?;
        if self.solutions.is_empty() {
            self.take_solutions(row, map)?;
        }
        if let Some(value) = take(row, map, Role::Reference)? {
            let text = text_of(&value).ok_or_else(|| {
                Fault::new(map.named(Role::Reference).unwrap_or("reference"), expected("a text", &value))
            })?;
            self.reference = paragraphs(&text);
        }
        if self.gold.is_none() {
            self.gold = take(row, map, Role::Answer)?;
        }
        if self.id.is_none() {
            self.id = take(row, map, Role::Id)?;
        }
        let generator = take(row, map, Role::Generator)?;
        let generator = generator.as_ref().and_then(Value::as_str).map(str::to_owned);
        for solution in &mut self.solutions {
            solution.generator = solution.generator.take().or_else(|| generator.clone());
        }
        outcome::take(row, map, &mut self.solutions)
    }

    fn take_solutions(&mut self, row: &mut Metadata, map: &FieldMap) -> Result<(), Fault> {
        let cut = map.find(row, Role::Steps).filter(|field| {
            map.named(Role::Steps).is_some() || at_path(row, field).is_some_and(steps::is_steps)
        });
        let wants_text = map.named(Role::Solution).is_some() && map.named(Role::Steps).is_none();
        if let Some(field) = cut.filter(|_| !wants_text) {
            let mut solution = steps::read(&required(row, &field)?, &field)?;
            steps::take_labels(row, &mut solution)?;
            let text = map.find(row, Role::Solution);
            let text =
                text.filter(|field| field != AMBIGUOUS && row.get(field).is_some_and(Value::is_string));
            solution.text = text.and_then(|field| text_of(&row.shift_remove(&field)?));
            self.solutions = vec![solution];
            return Ok(());
        }
        let Some(field) = map.find(row, Role::Solution) else {
            // A map may name a problem or a reference alone.
            if *map != FieldMap::default() {
                return Ok(());
            }
            if roles::lacks_solution(row) {
                self.note = Some("rows whose solution is null are read as problems without one".to_owned());
                return Ok(());
            }
            return Err(Fault::new("", format!("no generated solution among the fields {}", names(row))));
        };
        if field == AMBIGUOUS && map.named(Role::Solution).is_none() {
            self.note = Some(
                "`solution` is read as a generated solution (--map reference=solution: as the reference)"
                    .to_owned(),
            );
        }
        let value = required(row, &field)?;
        self.solutions = match value {
            // A list of messages is one reply, not several solutions.
            Value::Array(items) if turns::reply(&Value::Array(items.clone())).is_none() => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| solution_of(item, &format!("{field}[{index}]")))
                .collect::<Result<_, _>>()?,
            other => vec![solution_of(other, &field)?],
        };
        Ok(())
    }

    fn finish(self, rest: Metadata) -> Result<Parsed, Fault> {
        let mut text = self.problem.unwrap_or_default();
        let mut gold = gold_of(self.gold.as_ref());
        if let Some(choices) = &self.choices {
            text += &choices.text();
            if let Some(named) = self.gold.as_ref().and_then(|value| choices.gold(value)) {
                gold = Gold { answer: Some(named.letter), aliases: vec![named.text], ..gold };
            }
        }
        let problem_id = match self.id {
            Some(Value::String(id)) if !id.is_empty() => id,
            Some(Value::Number(number)) => number.to_string(),
            _ => id::problem(&text),
        };
        let mut problem = Problem {
            id: problem_id,
            text,
            reference: if self.reference.is_empty() { gold.reference } else { self.reference },
            answer: gold.answer,
            aliases: gold.aliases,
            source: NAME.into(),
            ..Problem::default()
        };
        let mut solutions = self.solutions;
        let alone = solutions.len() == 1;
        for (index, solution) in solutions.iter_mut().enumerate() {
            let content = [solution.full_text()];
            solution.id = match alone {
                true => id::solution(&problem.id, solution.generator.as_deref(), &content),
                false => format!("{}/{index}", problem.id),
            };
            solution.problem_id = problem.id.clone();
        }
        // What is said beside one solution is about it; beside several, about the problem.
        match solutions.as_mut_slice() {
            [only] => only.metadata.extend(rest),
            _ => problem.metadata = rest,
        }
        Ok(Parsed { note: self.note, ..Record::new(problem, solutions).into() })
    }
}

/// Takes the field with this role, if there is one. One that the user named must be there.
fn take(row: &mut Metadata, map: &FieldMap, role: Role) -> Result<Option<Value>, Fault> {
    let Some(field) = map.find(row, role) else { return Ok(None) };
    required(row, &field).map(Some)
}

/// Takes a field, or looks at what a path leads to.
fn required(row: &mut Metadata, field: &str) -> Result<Value, Fault> {
    let found = row.shift_remove(field).or_else(|| at_path(row, field).cloned());
    found
        .filter(|value| !value.is_null())
        .ok_or_else(|| Fault::new(field, format!("is missing or null: the record has {}", names(row))))
}

fn names(row: &Metadata) -> String {
    row.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// The problem's text. `instruction` and `input` of instruction data belong together.
fn take_problem(row: &mut Metadata, map: &FieldMap) -> Result<String, Fault> {
    let Some(field) = map.find(row, Role::Problem) else {
        return Err(Fault::new("", format!("no problem among the fields {}", names(row))));
    };
    let value = required(row, &field)?;
    let text = turns::prompt(&value).or_else(|| text_of(&value));
    let text = text.ok_or_else(|| Fault::new(&field, expected("a text or a list of messages", &value)))?;
    if field.eq_ignore_ascii_case("instruction")
        && let Some(Value::String(input)) = row.get("input")
    {
        let whole = if input.trim().is_empty() { text } else { format!("{text}\n\n{input}") };
        row.shift_remove("input");
        return Ok(whole);
    }
    Ok(turns::without_template(&text).to_owned())
}

/// A text, or a number as one.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// One solution: a text, a message of the assistant, or an object with a text or steps.
fn solution_of(value: Value, path: &str) -> Result<Solution, Fault> {
    if let Some(text) = text_of(&value).or_else(|| turns::reply(&value)) {
        return Ok(Solution { text: Some(text), ..Solution::default() });
    }
    let wanted = "a text, a message of the assistant, or an object with a text or steps";
    let refused = Fault::new(path, expected(wanted, &value));
    let Value::Object(mut object) = value else { return Err(refused) };
    let solution = match object.shift_remove("steps") {
        Some(steps) => steps::read(&steps, &format!("{path}.steps"))?,
        None => Solution::default(),
    };
    let map = FieldMap::default();
    let text = ["text", "content", "message"].into_iter().find(|key| object.contains_key(*key));
    let text = text.map(str::to_owned).or_else(|| map.find(&object, Role::Solution));
    let text = text.and_then(|key| {
        let found = object.shift_remove(&key)?;
        text_of(&found).or_else(|| turns::reply(&found))
    });
    if text.is_none() && solution.steps.is_empty() {
        return Err(refused);
    }
    let generator = take(&mut object, &map, Role::Generator)?;
    let outcome = outcome::take_own(&mut object);
    Ok(Solution {
        generator: generator.as_ref().and_then(Value::as_str).map(str::to_owned),
        text,
        answer: object.shift_remove("answer").as_ref().and_then(text_of),
        outcome: outcome.unwrap_or_default(),
        metadata: object,
        ..solution
    })
}

/// The right answer, as a source of outputs states it.
#[derive(Default)]
struct Gold {
    answer: Option<String>,
    aliases: Vec<String>,
    reference: Vec<String>,
}

/// A gold answer: a text, a number, or a list of right answers. GSM8K's has the worked solution before it.
fn gold_of(value: Option<&Value>) -> Gold {
    let gold = |answer: String| Gold { answer: Some(answer), ..Gold::default() };
    match value {
        None | Some(Value::Null) => Gold::default(),
        Some(Value::String(text)) => match text.rsplit_once(GOLD) {
            Some((worked, answer)) => Gold { reference: lines(worked), ..gold(answer.trim().to_owned()) },
            None => gold(text.clone()),
        },
        Some(Value::Number(number)) => {
            let text = number.to_string();
            gold(text.strip_suffix(".0").unwrap_or(&text).to_owned())
        }
        Some(Value::Array(answers)) => {
            let mut answers = answers.iter().filter_map(text_of);
            match answers.next() {
                Some(answer) => Gold { aliases: answers.collect(), ..gold(answer) },
                None => Gold::default(),
            }
        }
        Some(Value::Object(object)) => gold_of(object.get("ground_truth").or_else(|| object.get("value"))),
        Some(other @ Value::Bool(_)) => gold(other.to_string()),
    }
}

fn write(record: &Record) -> Written {
    let mut written = Written::default();
    let problem = &record.problem;
    if record.solutions.is_empty() {
        written.dropped.push("the record has no solution");
    }
    for solution in &record.solutions {
        let row = Row::default()
            .with_problem_id("id", problem, NAME)
            .with("problem", problem.question())
            .with_some("answer", problem.answer.as_deref())
            .with_some("generator", solution.generator.as_deref())
            .with_some("correct", solution.outcome.is_correct());
        let labels = labels_of(solution, problem);
        let is_text = solution.text.is_some() || solution.steps.is_empty();
        let row = if is_text { row.with("response", solution.full_text()) } else { row };
        let has_steps = !is_text || labels.is_some();
        let row = row
            .with_some("steps", has_steps.then_some(solution.steps.as_slice()))
            .with_some("labels", labels);
        let row = row.with_metadata(&problem.metadata, problem, NAME).with_metadata(
            &solution.metadata,
            problem,
            NAME,
        );
        written.rows.push(row.done());
    }
    written
}

/// The labels of the steps of a solution that was read here; null for a step without one.
fn labels_of(solution: &Solution, problem: &Problem) -> Option<Vec<Value>> {
    let annotation = solution.most_trusted().filter(|_| problem.source == NAME)?;
    let spelled = |label: &Option<StepLabel>| label.as_ref().map(|label| spell(label, Spelling::Bool)).into();
    annotation.labels.iter().any(Option::is_some).then(|| annotation.labels.iter().map(spelled).collect())
}
