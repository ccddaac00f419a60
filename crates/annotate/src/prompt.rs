//! Prompts as files: Jinja templates that ship, or a user's own.
//!
//! | template | variables |
//! |---|---|
//! | `solve` | `problem` |
//! | `continue` | `problem`, `solution_prefix` (the steps so far; `begun` in templates of version 0.1) |
//! | `judge/…` | `problem`, `tagged` (the steps, each in `<paragraph_N>`), `steps` |

use std::path::Path;

use gradus_core::contracts::{Message, Prompt};
use gradus_core::select::search::Ask;
use gradus_template::{SyntaxConfig, UndefinedBehavior, Value, context};

use crate::error::{Error, Result};

/// One template.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    text: String,
    compiled: gradus_template::Template,
}

impl Template {
    /// Asks for a whole solution; `train sft` and `train orpo` ask the same.
    pub fn solve() -> Self {
        Self::built_in("solve", include_str!("../../../assets/prompts/solve.md"))
    }

    /// Asks a chat server to continue a solution.
    pub fn go_on() -> Self {
        Self::built_in("continue", include_str!("../prompts/continue.md"))
    }

    /// A user-supplied template.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        Self::new(&path.display().to_string(), &text)
    }

    pub(crate) fn built_in(name: &str, text: &str) -> Self {
        Self::new(name, text).expect("the templates that ship are right")
    }

    fn new(name: &str, text: &str) -> Result<Self> {
        let text = text.trim_end().to_owned();
        let mut environment = gradus_template::environment();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let compiled = gradus_template::Template::new(environment, SyntaxConfig::default(), &text)
            .map_err(|error| Error::Prompt { file: name.to_owned(), message: sentence(&error) })?;
        Ok(Self { name: name.to_owned(), text, compiled })
    }

    /// The template's text, which is part of what determines labels.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Renders it.
    pub fn render(&self, values: Value) -> Result<String> {
        self.compiled
            .render(values)
            .map_err(|error| Error::Prompt { file: self.name.clone(), message: sentence(&error) })
    }
}

/// minijinja names the template, which has no name that a user gave it.
fn sentence(error: &gradus_template::Error) -> String {
    let line = error.line().map_or_else(String::new, |line| format!(" in line {line}"));
    format!("{}{line}", error.detail().map_or_else(|| error.kind().to_string(), str::to_owned))
}

/// Prompts for a chat server: a whole solution, or the continuation of a started one, as a turn that the server continues
/// where it can, or else in words.
#[derive(Debug, Clone)]
pub struct Conversation {
    /// A system message.
    pub system: Option<String>,
    /// Asks for a whole solution.
    pub solve: Template,
    /// Asks for a continuation.
    pub go_on: Template,
    /// Whether the server continues a turn of the assistant's that has begun.
    pub continues_turns: bool,
}

impl Conversation {
    /// A conversation that asks with these templates, once they are known to work.
    pub fn new(system: Option<String>, solve: Template, go_on: Template) -> Result<Self> {
        solve.render(context! { problem => "1 + 1?" })?;
        go_on.render(go_on_variables("1 + 1?", "1 + 1 = 2"))?;
        Ok(Self { system, solve, go_on, continues_turns: false })
    }
}

fn go_on_variables(problem: &str, prefix: &str) -> Value {
    context! { problem, solution_prefix => prefix, begun => prefix }
}

impl Ask for Conversation {
    fn prompt(&self, question: &str, begun: &str) -> Prompt {
        let is_new = begun.trim().is_empty();
        let said = if is_new || self.continues_turns {
            self.solve.render(context! { problem => question })
        } else {
            self.go_on.render(go_on_variables(question, begun.trim_end()))
        };
        let system = self.system.iter().map(|system| Message::new("system", system));
        let said = said.expect("a template that works for one problem works for another");
        let turn = (self.continues_turns && !is_new).then(|| Message::new("assistant", begun));
        Prompt::Chat(system.chain([Message::new("user", said)]).chain(turn).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_mistakes_are_sentences() {
        let wrong = Template::new("mine.md", "Solve {{ problem").unwrap_err().to_string();
        assert!(wrong.starts_with("mine.md: ") && wrong.ends_with("in line 1"), "{wrong}");
        let unknown = Template::new("mine.md", "Solve\n{{ question }}").unwrap();
        let error = Conversation::new(None, unknown, Template::go_on()).unwrap_err().to_string();
        assert!(error.contains("mine.md: ") && error.contains("line 2"), "{error}");
    }

    #[test]
    fn templates_with_the_old_name_of_the_solution_prefix_work() {
        for text in ["{{ problem }} {{ begun }}", "{{ problem }} {{ solution_prefix }}"] {
            let mine = Template::new("mine.md", text).unwrap();
            let ask = Conversation::new(None, Template::solve(), mine).unwrap();
            let Prompt::Chat(on) = ask.prompt("1 + 1?", "Add.") else { panic!("it is a conversation") };
            assert_eq!(on[0].content, "1 + 1? Add.");
        }
    }

    #[test]
    fn a_conversation_begins_and_goes_on() {
        let ask = Conversation::new(Some("Be brief.".into()), Template::solve(), Template::go_on()).unwrap();
        let Prompt::Chat(begin) = ask.prompt("What is 7 + 8?", "") else { panic!("it is a conversation") };
        assert_eq!((begin.len(), &*begin[0].content), (2, "Be brief."));
        assert!(begin[1].content.contains("What is 7 + 8?"));
        let Prompt::Chat(on) = ask.prompt("What is 7 + 8?", "Add them.\n\n") else { panic!("it is one") };
        assert!(on[1].content.contains("Add them.") && on[1].content.contains("What is 7 + 8?"));
        let ask = Conversation { continues_turns: true, ..ask };
        let Prompt::Chat(on) = ask.prompt("What is 7 + 8?", "Add them.\n\n") else { panic!("it is one") };
        assert_eq!(on[..2], begin);
        assert_eq!(on[2], Message::new("assistant", "Add them.\n\n"));
    }
}
