//! What the fields of a row of model outputs are: by their usual names, or as a user says with `--map`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::outcome::is_outcome;
use gradus_core::Metadata;

/// What a field can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The question.
    Problem,
    /// One generated solution, or a list of them.
    Solution,
    /// The steps of one generated solution.
    Steps,
    /// The right final answer.
    Answer,
    /// A reference solution.
    Reference,
    /// The row's id.
    Id,
    /// Who generated the solution.
    Generator,
    /// Whether the final answer is right.
    Outcome,
}

impl Role {
    const ALL: [Self; 8] = [
        Self::Problem,
        Self::Solution,
        Self::Steps,
        Self::Answer,
        Self::Reference,
        Self::Id,
        Self::Generator,
        Self::Outcome,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Solution => "solution",
            Self::Steps => "steps",
            Self::Answer => "answer",
            Self::Reference => "reference",
            Self::Id => "id",
            Self::Generator => "generator",
            Self::Outcome => "correct",
        }
    }

    /// Usual names of fields with this role, the surest first. Compared without regard to case.
    fn usual_names(self) -> &'static [&'static str] {
        match self {
            Self::Problem => &["problem", "question", "query", "instruction", "prompt", "input"],
            Self::Solution => &[
                "response",
                "responses",
                "completion",
                "completions",
                "generation",
                "generations",
                "generated_solution",
                "generated_solutions",
                "generated_text",
                "generated_texts",
                "model_solution",
                "model_response",
                "model_output",
                "model_outputs",
                "model_completion",
                "output",
                "outputs",
                "prediction",
                "predictions",
                "candidates",
                "samples",
                "solutions",
                AMBIGUOUS,
            ],
            Self::Steps => &["steps", "solution_steps", "reasoning_steps"],
            Self::Answer => &[
                "gold",
                "gold_answer",
                "ground_truth",
                "ground_truth_answer",
                "gt_answer",
                "gts",
                "target",
                "reference_answer",
                "expected_answer",
                "correct_answer",
                "answer",
                "final_answer",
            ],
            Self::Reference => {
                &["reference_solution", "ground_truth_solution", "gold_solution", "gt_solution", "reference"]
            }
            Self::Id => &["id", "problem_id", "question_id", "unique_id", "uid", "idx", "index", "doc_id"],
            Self::Generator => &["generator", "model", "model_name", "model_id"],
            Self::Outcome => &["correct", "is_correct", "passed"],
        }
    }

    /// Parts of names that hint at this role where no usual name is there.
    fn hints(self) -> &'static [&'static str] {
        match self {
            Self::Problem => &["question", "problem", "prompt", "query", "instruct", "task", "input", "q"],
            Self::Solution => &[
                "resp", "complet", "generat", "solution", "output", "predict", "reason", "rationale", "cot",
                "thought", "reply", "text", "answer",
            ],
            Self::Answer => &["gold", "truth", "target", "expected", "answer"],
            Self::Outcome => &["correct", "verdict", "passed"],
            _ => &[],
        }
    }
}

/// A field that is a reference solution in some datasets and a generated one in others.
pub(crate) const AMBIGUOUS: &str = "solution";

/// Which field has which role, as a user says. Roles that are not named are found by their usual names.
///
/// ```
/// use gradus_data::readers::FieldMap;
/// let map: FieldMap = "problem=question,solution=output.text".parse()?;
/// assert_eq!(map.to_string(), "problem=question,solution=output.text");
/// assert!("solution".parse::<FieldMap>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldMap(Vec<(Role, String)>);

impl FieldMap {
    /// The field that the user gave this role; a path with dots leads into objects and lists.
    pub(crate) fn named(&self, role: Role) -> Option<&str> {
        self.0.iter().find(|(named, _)| *named == role).map(|(_, field)| field.as_str())
    }

    /// True when the user gave `field` some role.
    fn uses(&self, field: &str) -> bool {
        self.0.iter().any(|(_, path)| path.split('.').next() == Some(field))
    }

    /// The field with this role: the user's, or else one of a usual name.
    pub(crate) fn find(&self, row: &Metadata, role: Role) -> Option<String> {
        if let Some(field) = self.named(role) {
            return Some(field.to_owned());
        }
        let is_free = |field: &str| !self.uses(field) && row.get(field).is_some_and(|found| !found.is_null());
        let names = role.usual_names().iter();
        // Where the generated solution is missing, `solution` is none in its place.
        let is_reference = role == Role::Solution && lacks_solution(row);
        names
            .filter(|name| !is_reference || **name != AMBIGUOUS)
            .find_map(|name| row.keys().find(|key| key.eq_ignore_ascii_case(name) && is_free(key)))
            .cloned()
    }
}

/// True where a field for generated solutions is null.
pub(crate) fn lacks_solution(row: &Metadata) -> bool {
    let names = || Role::Solution.usual_names().iter().filter(|name| **name != AMBIGUOUS);
    row.iter().any(|(field, value)| value.is_null() && names().any(|name| field.eq_ignore_ascii_case(name)))
}

impl FromStr for FieldMap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for part in text.split(',') {
            let known = || Role::ALL.map(Role::name).join(", ");
            let (name, field) = part
                .split_once('=')
                .map(|(name, field)| (name.trim(), field.trim()))
                .filter(|(_, field)| !field.is_empty())
                .ok_or_else(|| format!("`{part}` is not ROLE=FIELD, with ROLE one of {}", known()))?;
            let role = Role::ALL
                .into_iter()
                .find(|role| role.name() == name)
                .ok_or_else(|| format!("`{name}` is not one of {}", known()))?;
            if map.named(role).is_some() {
                return Err(format!("`{name}` is mapped twice"));
            }
            map.0.push((role, field.to_owned()));
        }
        Ok(map)
    }
}

impl fmt::Display for FieldMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.0.iter().map(|(role, field)| format!("{}={field}", role.name())).collect();
        f.write_str(&parts.join(","))
    }
}

/// True for a usual name of a field, as the first line of a table may have it.
pub(crate) fn is_usual_field(name: &str) -> bool {
    Role::ALL.iter().flat_map(|role| role.usual_names()).any(|usual| usual.eq_ignore_ascii_case(name))
}

/// True for a usual name of a field whose value is a text, even one that reads as a number. `samples` and other plurals
/// may be how many there are.
pub(crate) fn is_text_field(name: &str) -> bool {
    let roles = [Role::Problem, Role::Answer, Role::Reference, Role::Id, Role::Generator];
    let solutions = Role::Solution.usual_names().iter().filter(|name| !name.ends_with('s'));
    let mut names = roles.iter().flat_map(|role| role.usual_names()).chain(solutions).chain(&["text"]);
    names.any(|usual| usual.eq_ignore_ascii_case(name))
}

/// The value at a path with dots, such as `choices.0.text`.
pub(crate) fn at_path<'a>(row: &'a Metadata, path: &str) -> Option<&'a Value> {
    if let Some(value) = row.get(path) {
        return Some(value);
    }
    let mut parts = path.split('.');
    let mut value = row.get(parts.next()?)?;
    for part in parts {
        value = match value {
            Value::Object(object) => object.get(part)?,
            Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// The `--map` that the names of a row's fields suggest, as a shell takes it; `FIELD` stands for what they do not tell.
pub(crate) fn suggested_map(row: &Metadata) -> String {
    let fields = fields_of(row);
    let mut map: Vec<(Role, &str)> = Vec::new();
    let mut suggest = |role: Role, fits: fn(&Value) -> bool| {
        let is_free = |name: &str| map.iter().all(|(_, taken)| *taken != name);
        let free =
            || fields.iter().filter(|(name, value)| is_free(name) && fits(value)).map(|(name, _)| name);
        if let Some(field) = hinted(free, role) {
            map.push((role, field));
        }
    };
    suggest(Role::Problem, is_text);
    suggest(Role::Outcome, is_outcome);
    suggest(Role::Solution, is_text);
    suggest(Role::Answer, |value| is_text(value) || value.is_number());
    let field = |role: Role| map.iter().find(|(named, _)| *named == role).map(|(_, field)| *field);
    let is_sure = field(Role::Problem).is_some() && field(Role::Solution).is_some();
    let wanted = [Role::Problem, Role::Solution].map(|role| (role, Some(field(role).unwrap_or("FIELD"))));
    let more = [Role::Answer, Role::Outcome].map(|role| (role, field(role).filter(|_| is_sure)));
    let named = wanted.into_iter().chain(more).filter_map(|(role, field)| Some((role, field?.to_owned())));
    let map = shell_word(&FieldMap(named.collect()).to_string());
    format!("{}--map {map}", if is_sure { "probably " } else { "" })
}

/// The field whose name is usual for the role, or hints at it.
fn hinted<'a, I: Iterator<Item = &'a String>>(fields: impl Fn() -> I, role: Role) -> Option<&'a str> {
    let is_word = |name: &str, hint: &str| {
        name.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == hint)
    };
    let hints = |name: &str, hint: &str| match hint.len() {
        1 => is_word(&name.to_lowercase(), hint),
        _ => name.to_lowercase().contains(hint),
    };
    let usual =
        role.usual_names().iter().find_map(|usual| fields().find(|name| name.eq_ignore_ascii_case(usual)));
    let found =
        usual.or_else(|| role.hints().iter().find_map(|hint| fields().find(|name| hints(name, hint))));
    found.map(String::as_str)
}

/// The fields, and those directly inside an object. A name with a comma cannot be mapped, and an id is no text.
fn fields_of(row: &Metadata) -> Vec<(String, &Value)> {
    let mut fields = Vec::new();
    for (name, value) in row {
        match value {
            Value::Object(inner) => {
                fields.extend(inner.iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => fields.push((name.clone(), value)),
        }
    }
    fields.retain(|(name, _)| {
        let lower = name.to_lowercase();
        !name.contains(',')
            && name.trim() == name
            && !["_id", ".id", " id"].iter().any(|end| lower.ends_with(end))
    });
    fields
}

/// A text or a list of texts.
fn is_text(value: &Value) -> bool {
    match value {
        Value::String(_) => true,
        Value::Array(items) => items.iter().all(Value::is_string),
        _ => false,
    }
}

/// A word that a shell takes as it is, in quotes where it would not.
fn shell_word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.,=/:@%+".contains(letter);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_names_tell_is_suggested() {
        let body = json!({"choices": []});
        for (row, expected) in [
            (
                json!({"ID": 1, "Question Text": "2+3?", "Model Answer": "5", "Expected": 5, "Correct?": "yes"}),
                "probably --map 'problem=Question Text,solution=Model Answer,answer=Expected,correct=Correct?'",
            ),
            (
                json!({"q.text": "2+3?", "resp.out": "It is 5.", "gold, final": 5}),
                "probably --map problem=q.text,solution=resp.out",
            ),
            (
                json!({"id": "b", "custom_id": "q", "response": {"status_code": 200, "request_id": "r", "body": body},
                    "error": null}),
                "--map problem=FIELD,solution=FIELD",
            ),
            (
                json!({"prompt": "2+3?", "chosen": "It is 5.", "rejected": "It is more than 6."}),
                "--map problem=prompt,solution=FIELD",
            ),
            (
                json!({"task's text": "2+3?", "reply": {"text": "5"}}),
                r"probably --map 'problem=task'\''s text,solution=reply.text'",
            ),
            (json!({"height": 1, "width": "2"}), "--map problem=FIELD,solution=FIELD"),
        ] {
            assert_eq!(suggested_map(row.as_object().unwrap()), expected);
        }
    }
}
