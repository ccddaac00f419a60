//! A generator with the prompts of `gradus sample` and `gradus annotate`: how it is asked about a problem, from its
//! beginning or from a step on.

use anyhow::Result;
use gradus_annotate::prompt::{Conversation, Template};
use gradus_backend::{Continuation, Generator, GeneratorIdentity, GeneratorSettings};
use gradus_core::Problem;
use gradus_core::select::search::Ask;

use crate::cost;
use crate::terminal::printer;

/// A generator and its prompt templates.
pub(crate) struct PromptedGenerator {
    pub(crate) model: Generator,
    system: Option<String>,
    solve: Template,
    go_on: Template,
    /// How solutions that have begun are continued, once that is known.
    pub(crate) continuation: Option<Continuation>,
}

impl PromptedGenerator {
    /// Loads the model, or prepares connections; nothing is asked yet.
    pub(crate) fn open(settings: &GeneratorSettings, solve: Template, go_on: Template) -> Result<Self> {
        let model = Generator::open(settings)?;
        // Templates that do not work are found before anything is paid for.
        Conversation::new(None, solve.clone(), go_on.clone())?;
        cost::announce(&model.spending);
        Ok(Self { model, system: settings.system.clone(), solve, go_on, continuation: None })
    }

    /// Finds out how solutions that have begun are continued; says so where a server can only be asked to in words.
    pub(crate) fn find_continuation(&mut self, quiet: bool) -> Result<()> {
        let found = self.model.continuation()?;
        if let (Continuation::Asked(why), false) = (found, quiet) {
            printer::note(format!(
                "{} {why}: it is asked in words to continue solutions (--template MODEL continues them exactly)",
                self.model.name
            ));
        }
        self.continuation = Some(found);
        Ok(())
    }

    /// How the model is asked about a problem.
    pub(crate) fn ask(&self, problem: &Problem) -> Result<Box<dyn Ask>> {
        let user = self.solve.render(gradus_template::context! { problem => problem.question() })?;
        let mut conversation =
            Conversation::new(self.system.clone(), self.solve.clone(), self.go_on.clone())?;
        conversation.continues_turns = self.continuation == Some(Continuation::Turn);
        Ok(self.model.prompt(&self.model.messages(user), || Box::new(conversation))?)
    }

    /// What determines the answers.
    pub(crate) fn identity(&self) -> GeneratorIdentity<'_> {
        let go_on = match self.continuation {
            Some(Continuation::Turn) => "the server continues the turn",
            _ => self.go_on.text(),
        };
        self.model.identity_with(vec![self.solve.text(), go_on])
    }
}
