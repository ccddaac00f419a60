//! What a model is asked to solve a problem: in training, in its evaluation, and by `gradus sample`.

use std::path::Path;

use gradus_core::Problem;
use gradus_core::contracts::Message;
use gradus_template::{SyntaxConfig, Template, UndefinedBehavior, context, environment};

use crate::error::io;
use crate::{Error, Result};

/// The default of `prompt` in `[sft]` and `[orpo]`.
pub(crate) const SOLVE: &str = "solve";
/// The problem's text alone.
const QUESTION: &str = "question";

/// A named prompt: `solve`, which `gradus sample` asks, `question`, the problem alone, or a template file with the
/// variable `problem`.
pub(crate) struct SolvePrompt(Template);

impl SolvePrompt {
    /// The prompt of that name.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let text = match name {
            SOLVE => include_str!("../../../../assets/prompts/solve.md").to_owned(),
            QUESTION => "{{ problem }}".to_owned(),
            file => std::fs::read_to_string(file).map_err(io(Path::new(file)))?,
        };
        let mut environment = environment();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        let prompt = Template::new(environment, SyntaxConfig::default(), text.trim_end()).map(Self);
        let tried = prompt.and_then(|prompt| prompt.render("1 + 1?").map(|_| prompt));
        tried
            .map_err(|error| Error::Data(format!("prompt `{name}`: {error}; its only variable is `problem`")))
    }

    /// Whether a name is that of a template file.
    pub(crate) fn is_file(name: &str) -> bool {
        ![SOLVE, QUESTION].contains(&name)
    }

    /// The conversation that asks for a solution.
    pub(crate) fn messages(&self, problem: &Problem) -> Vec<Message> {
        let said = self.render(&problem.question());
        vec![Message::new("user", said.expect("a template that works for one problem works for another"))]
    }

    fn render(&self, problem: &str) -> std::result::Result<String, gradus_template::Error> {
        self.0.render(context! { problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_prompts_and_files() {
        let problem = Problem { text: "What is 7 + 8?".to_owned(), ..Problem::default() };
        let asked = |name: &str| SolvePrompt::find(name).unwrap().messages(&problem)[0].content.clone();
        assert_eq!(asked("question"), problem.text);
        let solve = asked("solve");
        assert!(solve.ends_with("\n\nWhat is 7 + 8?") && solve.contains("\\boxed{}"), "{solve}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.md");
        std::fs::write(&path, "Q: {{ problem }}\n").unwrap();
        assert_eq!(asked(&path.display().to_string()), "Q: What is 7 + 8?");
        std::fs::write(&path, "Q: {{ question }}").unwrap();
        let refused = SolvePrompt::find(&path.display().to_string()).err().unwrap().to_string();
        assert!(refused.contains("its only variable is `problem`"), "{refused}");
    }
}
