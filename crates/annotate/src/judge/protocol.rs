//! Judge protocols: a prompt, how it numbers the paragraphs, and how its answer is read.
//!
//! | protocol | paragraphs | answer | from |
//! |---|---|---|---|
//! | `gradus` | from 0 | the first wrong paragraph's index in `\boxed{}`, −1 for none | our own wording |
//! | `processbench` | from 0 | the same | ProcessBench's critique template (Zheng et al., 2024) |
//! | `qwen` | from 1 | an analysis of each paragraph up to the first wrong one, then `<conclusion>` | Lessons of developing PRMs (Zhang et al., 2025) |
//!
//! The texts of the last two are those of the publications, word for word.

use std::path::Path;

use gradus_core::FirstError;
use gradus_core::contracts::{Message, Sampling};
use gradus_grade::{Found, extract};
use gradus_template::context;

use crate::error::Result;
use crate::prompt::Template;

/// What an answer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Where the first error is; unknown where the solution is said to be wrong without a place.
    pub first_error: FirstError,
    /// The reasons.
    pub critique: String,
}

/// Reads an answer about a solution of so many steps; the error is the reason, in few words.
pub type Reader = fn(text: &str, steps: usize) -> std::result::Result<Reading, &'static str>;

/// A judge protocol.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// Its name.
    pub name: &'static str,
    /// Maximum tokens per answer, as published.
    pub max_tokens: usize,
    /// Sampling parameters of several votes, as published; a single vote is greedy.
    pub voting: Sampling,
    prompt: Template,
    /// The number of the first paragraph.
    first: usize,
    reader: Reader,
}

impl Protocol {
    /// An index in `\boxed{}`, asked for in our own words and read leniently.
    pub fn gradus() -> Self {
        Self::new("gradus", include_str!("../../prompts/judge/gradus.md"), 2048, boxed)
    }

    /// ProcessBench's critique template and its majority voting.
    pub fn processbench() -> Self {
        let text = include_str!("../../prompts/judge/processbench.md");
        let voting = Sampling { temperature: 1.0, top_p: 0.9, ..Sampling::default() };
        Self { voting, ..Self::new("processbench", text, 8192, last_box) }
    }

    /// Qwen's judge that reviews step by step.
    pub fn qwen() -> Self {
        let text = include_str!("../../prompts/judge/qwen.md");
        Self { first: 1, ..Self::new("qwen", text, 8192, conclusion) }
    }

    /// A protocol whose prompt ships with the program.
    ///
    /// # Panics
    /// If the prompt needs other variables than `problem`, `tagged` and `steps`.
    pub fn new(name: &'static str, prompt: &str, max_tokens: usize, reader: Reader) -> Self {
        let prompt = Template::built_in(name, prompt);
        let voting = Sampling { temperature: 0.7, ..Sampling::default() };
        let protocol = Self { name, max_tokens, voting, prompt, first: 0, reader };
        protocol.check().expect("the prompts that ship are right");
        protocol
    }

    /// With a user's own prompt, whose answers are read as before.
    pub fn with_prompt(mut self, path: &Path) -> Result<Self> {
        self.prompt = Template::read(path)?;
        self.check()?;
        Ok(self)
    }

    /// The prompt's text, which is part of what determines labels.
    pub fn text(&self) -> &str {
        self.prompt.text()
    }

    /// Refuses a prompt that asks for something else than a problem and its steps.
    fn check(&self) -> Result<()> {
        self.prompt("1 + 1?", &["1 + 1 = 2".to_owned()]).map(drop)
    }

    fn prompt(&self, problem: &str, steps: &[String]) -> Result<String> {
        let tagged = paragraphs(steps, self.first);
        self.prompt.render(context! { problem, tagged, steps => steps.to_vec() })
    }

    /// What a model is asked about a solution.
    pub fn messages(&self, system: Option<&str>, problem: &str, steps: &[String]) -> Result<Vec<Message>> {
        let asked = Message::new("user", self.prompt(problem, steps)?);
        let system = system.map(|system| Message::new("system", system));
        Ok(system.into_iter().chain([asked]).collect())
    }

    /// Reads an answer about a solution of so many steps; `cut` is whether it ended at the token limit.
    pub fn read(&self, text: &str, steps: usize, cut: bool) -> std::result::Result<Reading, &'static str> {
        (self.reader)(text, steps).map_err(|reason| if cut { "cut off before a verdict" } else { reason })
    }
}

/// `<paragraph_0>` …, with a blank line between two.
fn paragraphs(steps: &[String], first: usize) -> String {
    let paragraphs = steps
        .iter()
        .zip(first..)
        .map(|(step, number)| format!("<paragraph_{number}>\n{step}\n</paragraph_{number}>"));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// The index in the last box, such as `\boxed{paragraph_2}`.
fn boxed(text: &str, steps: usize) -> std::result::Result<Reading, &'static str> {
    let found = extract(text).filter(|found| found.found == Found::Boxed).ok_or(NO_BOX)?;
    let inside = found.answer.trim().trim_start_matches("paragraph_").trim_start_matches("paragraph\\_");
    index(inside, text, steps)
}

/// ProcessBench's own reading: what stands between the last `\boxed{` and the next `}`.
fn last_box(text: &str, steps: usize) -> std::result::Result<Reading, &'static str> {
    const OPEN: &str = "\\boxed{";
    let whole = |at: &(usize, &str)| text[at.0..].contains('}');
    let (at, _) = text.rmatch_indices(OPEN).find(whole).ok_or(NO_BOX)?;
    let inside = text[at + OPEN.len()..].split('}').next().unwrap_or_default();
    index(inside, text, steps)
}

const NO_BOX: &str = "no index in \\boxed{}";

/// An index from 0 on, or −1.
fn index(inside: &str, text: &str, steps: usize) -> std::result::Result<Reading, &'static str> {
    let first_error = match inside.trim().replace('−', "-").parse::<i64>() {
        Ok(-1) => FirstError::None,
        Ok(index) if (0..steps as i64).contains(&index) => FirstError::At(index as usize),
        Ok(_) => return Err("an index that no paragraph has"),
        Err(_) => return Err("no number in \\boxed{}"),
    };
    Ok(Reading { first_error, critique: text.trim().to_owned() })
}

/// Qwen's: the conclusion, and where it is 'Incorrect' the last paragraph that was analyzed, since the judge stops there.
fn conclusion(text: &str, steps: usize) -> std::result::Result<Reading, &'static str> {
    let open = text.rfind("<conclusion>").ok_or("no <conclusion>")?;
    let said = text[open + "<conclusion>".len()..].split("</conclusion>").next().unwrap_or_default();
    let said = said.trim().trim_matches(|c: char| !c.is_alphabetic()).to_ascii_lowercase();
    let first_error = match said.as_str() {
        "correct" => FirstError::None,
        "incorrect" => {
            match last_analysis(&text[..open]).ok_or("no <analysis_N> before an incorrect conclusion")? {
                number if (1..=steps).contains(&number) => FirstError::At(number - 1),
                _ => return Err("an analysis of a paragraph that does not exist"),
            }
        }
        _ => return Err("a conclusion other than Correct and Incorrect"),
    };
    Ok(Reading { first_error, critique: text[..open].trim().to_owned() })
}

/// The number in the last `<analysis_N>`.
fn last_analysis(text: &str) -> Option<usize> {
    let mut numbers = text.rmatch_indices("<analysis_").filter_map(|(at, open)| {
        let number = text[at + open.len()..].split('>').next()?;
        number.trim().parse().ok()
    });
    numbers.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Vec<String> {
        ["1 + 2 = 3", "3 + 3 = 7", "So it is 7."].map(str::to_owned).to_vec()
    }

    fn read(protocol: &Protocol, text: &str) -> std::result::Result<FirstError, &'static str> {
        protocol.read(text, 3, false).map(|reading| reading.first_error)
    }

    #[test]
    fn prompts_are_those_that_were_published() {
        for protocol in [Protocol::gradus(), Protocol::processbench(), Protocol::qwen()] {
            let messages = protocol.messages(None, "What is 1 + 2 + 3?", &steps()).unwrap();
            assert_eq!((messages.len(), messages[0].role.as_str()), (1, "user"));
            insta::assert_snapshot!(format!("prompt_{}", protocol.name), messages[0].content);
        }
        let with = Protocol::qwen().messages(Some("Be brief."), "1 + 1?", &steps()).unwrap();
        assert_eq!((with.len(), with[0].content.as_str()), (2, "Be brief."));
    }

    #[test]
    fn our_indices_are_read_leniently_but_not_guessed() {
        let read = |text: &str| read(&Protocol::gradus(), text);
        assert_eq!(read("Paragraph 2 adds wrongly. \\boxed{2}"), Ok(FirstError::At(2)));
        assert_eq!(read("All is well: \\boxed{-1}"), Ok(FirstError::None));
        assert_eq!(read("\\boxed{\u{2212}1}"), Ok(FirstError::None));
        assert_eq!(read("so $\\boxed{paragraph_1}$"), Ok(FirstError::At(1)));
        assert_eq!(read("first \\boxed{0}, no: \\boxed{2}"), Ok(FirstError::At(2)));
        assert_eq!(read("\\boxed{7}"), Err("an index that no paragraph has"));
        assert_eq!(read("\\boxed{-2}"), Err("an index that no paragraph has"));
        assert_eq!(read("The error is in paragraph 1."), Err("no index in \\boxed{}"));
        assert_eq!(read("\\boxed{none}"), Err("no number in \\boxed{}"));
        let cut = Protocol::gradus().read("Paragraph 0 is", 3, true);
        assert_eq!(cut, Err("cut off before a verdict"));
    }

    #[test]
    fn processbench_reads_the_last_box_and_nothing_else() {
        let read = |text: &str| read(&Protocol::processbench(), text);
        assert_eq!(read("So \\boxed{0}. Or rather \\boxed{ 1 }."), Ok(FirstError::At(1)));
        assert_eq!(read("\\boxed{-1}"), Ok(FirstError::None));
        assert_eq!(read("\\boxed{1} and then \\boxed{"), Ok(FirstError::At(1)));
        assert_eq!(read("\\boxed{paragraph_1}"), Err("no number in \\boxed{}"));
        assert_eq!(read("\\boxed{3}"), Err("an index that no paragraph has"));
        assert_eq!(read("1"), Err("no index in \\boxed{}"));
    }

    #[test]
    fn qwens_judge_stops_at_the_first_error() {
        let read = |text: &str| read(&Protocol::qwen(), text);
        let one = "<analysis_1>\nFine.\n</analysis_1>\n\n";
        let two = format!("{one}<analysis_2>\n3 + 3 is 6.\n</analysis_2>\n\n");
        assert_eq!(read(&format!("{two}<conclusion>\nIncorrect\n</conclusion>")), Ok(FirstError::At(1)));
        assert_eq!(read(&format!("{two}<conclusion>Correct</conclusion>")), Ok(FirstError::None));
        assert_eq!(read(&format!("{one}<conclusion>**Incorrect.**</conclusion>")), Ok(FirstError::At(0)));
        // The answer may show the format first, and stop before the closing tag.
        let shown = format!("<conclusion>Correct/Incorrect</conclusion>\n{two}<conclusion>\nIncorrect");
        assert_eq!(read(&shown), Ok(FirstError::At(1)));
        let nowhere = read("<conclusion>Incorrect</conclusion>");
        assert_eq!(nowhere, Err("no <analysis_N> before an incorrect conclusion"));
        let beyond = read("<analysis_4>?</analysis_4><conclusion>Incorrect</conclusion>");
        assert_eq!(beyond, Err("an analysis of a paragraph that does not exist"));
        assert_eq!(read(&two), Err("no <conclusion>"));
        let unsure = read(&format!("{two}<conclusion>Unsure</conclusion>"));
        assert_eq!(unsure, Err("a conclusion other than Correct and Incorrect"));
        let critique = Protocol::qwen().read(&format!("{one}<conclusion>Correct</conclusion>"), 3, false);
        assert_eq!(critique.unwrap().critique, one.trim());
    }
}
