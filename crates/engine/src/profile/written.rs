//! Solutions as text, for a model whose tokenizer is not here: a server cuts the text into tokens itself.
//!
//! Only profiles whose tokens a server finds as we would can go this way. A tag such as `<extra_0>` is a special token that
//! never merges with its neighbors; a tag such as a line break may. [`Templates::needs_tokenizer`] tells them apart, and
//! [`super::Assembler`] writes the tokens of the others.

use gradus_core::contracts::{Message, ScoreRequest};

use super::assemble::check;
use super::templates::{Head, TaggedTexts};
use super::{Input, Tagged, Templates};
use crate::{Error, Result};

/// One prompt of a solution, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Plain text with a tag after each step.
    Text(String),
    /// A conversation that is complete, with a tag after each step.
    Chat(Vec<Message>),
    /// A conversation whose answer is predicted: the score of one step is read at its end.
    Question(Vec<Message>),
}

impl Templates {
    /// Why this profile takes the model's tokenizer; nothing where text is enough.
    ///
    /// ```
    /// use gradus_engine::profile::{Profile, Templates};
    /// let needs = |name| Ok::<_, gradus_engine::Error>(Templates::new(Profile::find(name)?)?.needs_tokenizer());
    /// assert_eq!(needs("qwen2.5-math-prm")?, None);
    /// assert!(needs("math-shepherd")?.is_some());
    /// # Ok::<(), gradus_engine::Error>(())
    /// ```
    pub fn needs_tokenizer(&self) -> Option<&'static str> {
        match &self.profile().input {
            Input::Turns { .. } => Some("it reads where each turn of a conversation is answered"),
            Input::Prompted { .. } => None,
            Input::Tagged(tagged) if !is_special(&tagged.tag) => {
                Some("its tag is ordinary text, which may merge with its neighbors into other tokens")
            }
            Input::Tagged(tagged) if tagged.separate || tagged.cut_at_tag => {
                Some("it cuts parts of its text into tokens one by one")
            }
            Input::Tagged(_) if self.uses("bos") => Some("it writes the token that begins every text"),
            Input::Tagged(_) => None,
        }
    }

    /// A solution's prompts as text: one with a tag for each step, or one [`Written::Question`] per step.
    pub fn written(&self, request: &ScoreRequest) -> Result<Vec<Written>> {
        let at = |message: String| Error::request(format!("solution `{}`: {message}", request.id));
        if let Some(reason) = self.needs_tokenizer() {
            let name = &self.profile().name;
            return Err(Error::request(format!("profile `{name}` needs the model's tokenizer: {reason}")));
        }
        check(request).map_err(at)?;
        match &self.profile().input {
            Input::Tagged(tagged) => self
                .in_one(tagged, request)
                .map(|written| vec![written])
                .map_err(|error| at(error.to_string())),
            _ => Ok(self.messages(request)?.into_iter().map(Written::Question).collect()),
        }
    }

    fn in_one(&self, tagged: &Tagged, request: &ScoreRequest) -> Result<Written> {
        let tag = &tagged.tag;
        let TaggedTexts { head, steps } = self.tagged(tagged, request, "")?;
        if let Some(step) = steps.iter().position(|step| step.contains(tag)) {
            return Err(Error::request(format!("step {step} holds the step tag {tag}")));
        }
        let steps = steps.iter().map(|step| format!("{step}{tag}")).collect::<Vec<_>>().join(&tagged.after);
        let holds = |text: &str| {
            text.contains(tag).then(|| Error::request(format!("the problem holds the step tag {tag}")))
        };
        match head {
            Head::Text(before) => {
                holds(&before).map_or_else(|| Ok(Written::Text(format!("{before}{steps}"))), Err)
            }
            Head::Chat(mut messages) => {
                if let Some(error) = messages.iter().find_map(|message| holds(&message.content)) {
                    return Err(error);
                }
                let turn = format!("{}{steps}{}", tagged.opening, tagged.closing);
                messages.push(Message::new(&tagged.role, turn));
                Ok(Written::Chat(messages))
            }
        }
    }
}

/// Whether a tag is spelled as a special token, which tokenizers cut out of a text before anything else.
fn is_special(tag: &str) -> bool {
    tag.len() > 2 && tag.starts_with('<') && tag.ends_with('>') && !tag.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::super::Profile;
    use super::*;

    fn request() -> ScoreRequest {
        ScoreRequest {
            id: "s".to_owned(),
            problem: "What is 1 + 1?".to_owned(),
            steps: vec!["1 + 1 = 2".to_owned(), "So 2.".to_owned()],
            ..ScoreRequest::default()
        }
    }

    fn templates(name: &str) -> Templates {
        Templates::new(Profile::find(name).unwrap()).unwrap()
    }

    #[test]
    fn text_is_enough_for_special_tags_and_questions() {
        let enough = |profile: &Profile| Templates::new(profile.clone()).unwrap().needs_tokenizer().is_none();
        let names: Vec<String> = Profile::built_in()
            .iter()
            .filter(|profile| enough(profile))
            .map(|profile| profile.name.clone())
            .collect();
        assert_eq!(names, ["gradus", "plain", "retrieval-prm", "qwen2.5-math-prm"]);
        let error = templates("trl").written(&request()).unwrap_err().to_string();
        assert!(error.contains("profile `trl` needs the model's tokenizer: its tag"), "{error}");
    }

    #[test]
    fn the_texts_of_both_kinds_of_tags() {
        let text = "What is 1 + 1?\n\n1 + 1 = 2<file_sep>\nSo 2.<file_sep>";
        assert_eq!(templates("gradus").written(&request()).unwrap(), [Written::Text(text.to_owned())]);
        let Written::Chat(messages) = &templates("qwen2.5-math-prm").written(&request()).unwrap()[0] else {
            panic!("it is a conversation")
        };
        assert_eq!(messages[1], Message::new("user", "What is 1 + 1?"));
        assert_eq!(messages[2], Message::new("assistant", "1 + 1 = 2<extra_0>So 2.<extra_0>"));
        assert_eq!(templates("plain").written(&request()).unwrap().len(), 2);
    }

    #[test]
    fn a_tag_in_the_text_is_refused() {
        let mut in_step = request();
        in_step.steps[1] = "b<extra_0>c".to_owned();
        let mut in_problem = request();
        in_problem.problem = "<extra_0>?".to_owned();
        let error = |request| templates("qwen2.5-math-prm").written(&request).unwrap_err().to_string();
        assert_eq!(error(in_step), "solution `s`: step 1 holds the step tag <extra_0>");
        assert_eq!(error(in_problem), "solution `s`: the problem holds the step tag <extra_0>");
        assert_eq!(
            error(ScoreRequest { steps: Vec::new(), ..request() }),
            "solution `s`: it has no steps: its text is empty, or was not split (gradus steps)"
        );
    }
}
