//! A generator with the prompts of `gradus sample` and `gradus annotate`: how it is asked about a problem, from its
//! beginning or from a step on.

use anyhow::Result;
use gradus_annotate::prompt::{Conversation, Template};
use gradus_backend::{Generator, GeneratorIdentity, GeneratorSettings};
use gradus_core::Problem;
use gradus_core::select::search::Ask;

use crate::cost;

/// A generator and its prompt templates.
pub(crate) struct PromptedGenerator {
    pub(crate) model: Generator,
    system: Option<String>,
    solve: Template,
    go_on: Template,
}

impl PromptedGenerator {
    /// Loads the model, or prepares connections; nothing is asked yet.
    pub(crate) fn open(settings: &GeneratorSettings, solve: Template, go_on: Template) -> Result<Self> {
        let model = Generator::open(settings)?;
        // Templates that do not work are found before anything is paid for.
        Conversation::new(None, solve.clone(), go_on.clone())?;
        cost::announce(&model.spending);
        Ok(Self { model, system: settings.system.clone(), solve, go_on })
    }

    /// How the model is asked about a problem.
    pub(crate) fn ask(&self, problem: &Problem) -> Result<Box<dyn Ask>> {
        let user = self.solve.render(minijinja::context! { problem => problem.question() })?;
        let conversation = Conversation::new(self.system.clone(), self.solve.clone(), self.go_on.clone())?;
        Ok(self.model.prompt(&self.model.messages(user), || Box::new(conversation))?)
    }

    /// What determines the answers.
    pub(crate) fn identity(&self) -> GeneratorIdentity<'_> {
        self.model.identity_with(vec![self.solve.text(), self.go_on.text()])
    }
}
