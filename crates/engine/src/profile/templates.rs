//! A profile's templates, compiled.

use std::collections::BTreeMap;

use gradus_core::contracts::{Message, ScoreRequest};
use gradus_core::steps;
use gradus_core::{Mark, ReferenceProblem};
use gradus_template::{SyntaxConfig, Template, Value, context};

use super::{Input, Profile, Tagged};
use crate::{Error, Result};

/// Writes solutions out as text, for one profile.
pub struct Templates {
    profile: Profile,
    compiled: BTreeMap<&'static str, Template>,
}

/// The texts of a tagged solution.
pub(super) struct TaggedTexts {
    /// What stands before the steps.
    pub(super) head: Head,
    /// The steps, without their tags.
    pub(super) steps: Vec<String>,
}

/// What stands before the steps of a tagged solution.
pub(super) enum Head {
    /// Turns of a conversation; the turn with the steps follows.
    Chat(Vec<Message>),
    /// Plain text.
    Text(String),
}

impl Templates {
    /// Compiles a profile's templates.
    pub fn new(profile: Profile) -> Result<Self> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).keep_trailing_newline(true).build();
        let syntax = syntax.expect("the usual delimiters are valid");
        let environment = gradus_template::environment();
        let texts: Vec<(&'static str, &str)> = match &profile.input {
            Input::Tagged(Tagged { system, user, before, step, .. }) => {
                vec![("system", system), ("user", user), ("before", before), ("step", step)]
            }
            Input::Turns { first, next, .. } => vec![("first", first), ("next", next)],
            Input::Prompted { system, user } => vec![("system", system), ("user", user)],
        };
        let compile = |(name, text): (&'static str, &str)| {
            let compiled = Template::new(environment.clone(), syntax.clone(), text);
            let refused =
                |error| Error::request(format!("profile `{}`, template `{name}`: {error}", profile.name));
            Ok((name, compiled.map_err(refused)?))
        };
        let compiled = texts.into_iter().map(compile).collect::<Result<_>>()?;
        Ok(Self { profile, compiled })
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether reference questions, and whether reference steps, are part of what the model sees.
    ///
    /// ```
    /// use gradus_engine::profile::{Profile, Templates};
    /// let sees = |name| Ok::<_, gradus_engine::Error>(Templates::new(Profile::find(name)?)?.sees());
    /// assert_eq!((sees("retrieval-prm")?, sees("plain")?), ((true, true), (false, false)));
    /// # Ok::<(), gradus_engine::Error>(())
    /// ```
    pub fn sees(&self) -> (bool, bool) {
        if let Input::Turns { .. } = self.profile.input {
            return (false, false);
        }
        (self.uses("references"), self.uses("step_references"))
    }

    /// Whether a template has this variable.
    pub(super) fn uses(&self, name: &str) -> bool {
        self.compiled.values().any(|template| template.variables().contains(name))
    }

    /// What a model that is asked about one step at a time is told: the messages of each step's prompt. Other profiles
    /// have no such prompts.
    pub fn messages(&self, request: &ScoreRequest) -> Result<Vec<Vec<Message>>> {
        let Input::Prompted { .. } = self.profile.input else {
            let name = &self.profile.name;
            return Err(Error::request(format!("profile `{name}` does not ask about one step at a time")));
        };
        let references = references(request);
        let prompts = request.steps.iter().enumerate().map(|(index, step)| {
            let values = context! {
                problem => request.problem.as_str(),
                references => references.clone(),
                earlier => request.steps[..index].to_vec(),
                step_references => step_references(request, index),
                step,
                number => index + 1,
            };
            let mut messages = Vec::new();
            let system = self.render("system", values.clone())?;
            if !system.is_empty() {
                messages.push(Message::new("system", system));
            }
            messages.push(Message::new("user", self.render("user", values)?));
            Ok(messages)
        });
        prompts.collect()
    }

    /// The texts of a tagged solution; `bos` is the text of the token that begins every text.
    pub(super) fn tagged(&self, tagged: &Tagged, request: &ScoreRequest, bos: &str) -> Result<TaggedTexts> {
        let values = context! {
            problem => request.problem.as_str(),
            sentences => sentences(&request.problem).into_iter().map(str::to_owned).collect::<Vec<_>>(),
            bos,
            references => references(request),
        };
        let steps = request.steps.iter().enumerate().map(|(index, step)| {
            let values = context! {
                step,
                number => index + 1,
                problem => request.problem.as_str(),
                step_references => step_references(request, index),
            };
            self.render("step", values)
        });
        let steps: Vec<String> = steps.collect::<Result<_>>()?;
        let head = if tagged.chat {
            let mut messages = Vec::new();
            if !tagged.system.is_empty() {
                messages.push(Message::new("system", self.render("system", values.clone())?));
            }
            messages.push(Message::new("user", self.render("user", values)?));
            Head::Chat(messages)
        } else {
            Head::Text(self.render("before", values)?)
        };
        Ok(TaggedTexts { head, steps })
    }

    pub(super) fn render(&self, name: &str, values: Value) -> Result<String> {
        let template = self.compiled.get(name).expect("compiled when the profile was loaded");
        template.render(values).map_err(|error| {
            Error::request(format!("profile `{}`, template `{name}`: {error}", self.profile.name))
        })
    }
}

/// The problem's sentences.
fn sentences(text: &str) -> Vec<&str> {
    let config = steps::SplitConfig { strategy: steps::Strategy::Sentences, ..steps::SplitConfig::default() };
    steps::split(text, &config).steps().collect()
}

/// Reference questions as templates see them.
fn references(request: &ScoreRequest) -> Vec<Value> {
    let reference = |reference: &ReferenceProblem| {
        let steps: Vec<_> = reference.steps.iter().map(|(text, mark)| marked(text, *mark)).collect();
        context! { question => reference.question.as_str(), steps }
    };
    request.references.iter().map(reference).collect()
}

/// Reference steps of one step as templates see them.
fn step_references(request: &ScoreRequest, index: usize) -> Vec<Value> {
    let similar = request.step_references.get(index).map_or(&[][..], Vec::as_slice);
    similar.iter().map(|step| marked(&step.text, step.mark)).collect()
}

fn marked(text: &str, mark: Mark) -> Value {
    context! { text, mark => if mark == Mark::Incorrect { "-" } else { "+" } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gradus_core::ReferenceStep;

    /// Written by hand from the strings that RetrievalPRM's checkpoint was tuned on.
    const PUBLISHED: &str = "Reference Question 1:
What is 4 + 5?
Process:
4 + 5 = 9 (+)
Reference Question 2:
What is 7 - 2?
Process:
7 - 2 = 4 (-)
Target Question:
What is 2 + 3 + 4?
Process:
Step 1 : 2 + 3 = 5
Reference Step 1:
5 + 4 = 9 This reference step is correct.
Reference Step 2:
5 + 5 = 11 This reference step is incorrect.
Target Step 2 :
5 + 4 = 10
Is the Step Correct? You should ONLY tell me + or -.";

    fn request() -> ScoreRequest {
        let step = |text: &str, mark| ReferenceStep { text: text.to_owned(), mark };
        let solved = |question: &str, text: &str, mark| ReferenceProblem {
            question: question.to_owned(),
            steps: vec![(text.to_owned(), mark)],
        };
        ScoreRequest {
            id: "s".to_owned(),
            problem: "What is 2 + 3 + 4?".to_owned(),
            steps: vec!["2 + 3 = 5".to_owned(), "5 + 4 = 10".to_owned()],
            references: vec![
                solved("What is 4 + 5?", "4 + 5 = 9", Mark::Correct),
                solved("What is 7 - 2?", "7 - 2 = 4", Mark::Incorrect),
            ],
            step_references: vec![
                vec![step("1 + 1 = 2", Mark::Neutral)],
                vec![step("5 + 4 = 9", Mark::Correct), step("5 + 5 = 11", Mark::Incorrect)],
            ],
        }
    }

    #[test]
    fn the_retrieval_prompt_is_the_published_one_to_the_character() {
        let templates = Templates::new(Profile::find("retrieval-prm").unwrap()).unwrap();
        let prompts = templates.messages(&request()).unwrap();
        let system = "I want you to act as a math teacher. I will provide a mathematical question and several solution \
                      steps, and it will be your job to judge whether these steps are correct or not. First I will give \
                      you some similar questions and their steps for reference. For each step, if the step is correct, \
                      the step is labeled as +. If the step is wrong, the step is labeled as -. If there is no relevant \
                      or helpful information in the provided questions and steps, try to answer yourself.";
        assert_eq!(prompts[1], [Message::new("system", system), Message::new("user", PUBLISHED)]);
        // A first step has no step before it, and a neutral reference counts as right.
        let first = prompts[0][1].content.split_once("Target Question:\n").unwrap().1;
        let expected = "What is 2 + 3 + 4?\nProcess:\nReference Step 1:\n1 + 1 = 2 This reference step is correct.\n\
                        Target Step 1 :\n2 + 3 = 5\nIs the Step Correct? You should ONLY tell me + or -.";
        assert_eq!(first, expected);
    }

    #[test]
    fn the_plain_prompt_is_the_published_one_to_the_character() {
        let templates = Templates::new(Profile::find("plain").unwrap()).unwrap();
        let system = "I want you to act as a math teacher. I will provide a mathematical question and several solution \
                      steps, and it will be your job to judge whether these steps are correct or not.";
        let user = "Question:\nWhat is 2 + 3 + 4?\nProcess:\nStep 1 : 2 + 3 = 5\nStep 2 : 5 + 4 = 10\n\
                    Is that Step Correct? You should ONLY tell me + or -.";
        let prompts = templates.messages(&request()).unwrap();
        assert_eq!(prompts[1], [Message::new("system", system), Message::new("user", user)]);
    }

    #[test]
    fn a_profile_without_prompts_has_no_messages() {
        let templates = Templates::new(Profile::find("math-shepherd").unwrap()).unwrap();
        assert!(templates.messages(&request()).unwrap_err().to_string().contains("one step at a time"));
    }
}
