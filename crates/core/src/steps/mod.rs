//! Cut a free-form solution into steps, and put it back together.
//!
//! A [`Split`] is a list of spans over the text it came from. Between two spans there is white space only, so
//! nothing a model wrote is ever lost, and [`Split::join`] gives the text back byte for byte. Code, formulas,
//! tables and figures are never cut; text before, between and after the items of a list is cut at
//! blank lines. What is left out: a step's marker (`2.`, `## Step 2`) stays in its body, and text wrapped in JSON
//! is not unwrapped. The work is linear in the length of the text.
//!
//! ```
//! use gradus_core::steps::{SplitConfig, Strategy, split};
//! let text = "We add.\n\n1. First 2 + 3 = 5.\n2. Then 5 + 4 = 9.\n\nSo it is 9.\n";
//! let cut = split(text, &SplitConfig::default());
//! let steps: Vec<_> = cut.steps().collect();
//! assert_eq!(steps, ["We add.", "1. First 2 + 3 = 5.", "2. Then 5 + 4 = 9.", "So it is 9."]);
//! assert_eq!(cut.strategy(), Strategy::Numbered);
//! assert_eq!(cut.join(), text);
//! ```

mod layout;
mod lists;
mod protect;
mod sentences;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use layout::{Cuts, Layout};

/// Where to cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "each is described by `Strategy::about`")]
pub enum Strategy {
    #[default]
    Auto,
    BlankLines,
    Numbered,
    StepMarkers,
    Lines,
    Sentences,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::BlankLines, Self::Numbered, Self::StepMarkers, Self::Lines, Self::Sentences];

    /// The name used on the command line and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::BlankLines => "blank_lines",
            Self::Numbered => "numbered",
            Self::StepMarkers => "step_markers",
            Self::Lines => "lines",
            Self::Sentences => "sentences",
        }
    }

    /// One line about the strategy.
    pub fn about(self) -> &'static str {
        match self {
            Self::Auto => {
                "the first of step_markers, numbered, blank_lines, lines that applies, or else sentences"
            }
            Self::BlankLines => "at blank lines; a formula of its own stays with the text before it",
            Self::Numbered => "at the items of the outermost numbered list that counts up from 1",
            Self::StepMarkers => "at lines such as `Step 2:`, `## Step 2` or `**Step 2**`",
            Self::Lines => "at line breaks; a formula of its own stays with the text before it",
            Self::Sentences => "at the ends of sentences",
        }
    }

    /// The strategy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name)
    }
}

/// How to cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SplitConfig {
    /// Where to cut.
    pub strategy: Strategy,
    /// A step of fewer characters joins the step after it; the last one joins the step before it.
    pub min_chars: usize,
}

/// A text and where its steps are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split<'a> {
    text: &'a str,
    strategy: Strategy,
    spans: Vec<Range<usize>>,
}

impl<'a> Split<'a> {
    /// The steps, without the white space around them. None is empty.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &'a str> {
        self.spans.iter().map(|span| &self.text[span.clone()])
    }

    /// The white space before each step, and after the last: one more than there are steps.
    pub fn separators(&self) -> impl Iterator<Item = &'a str> {
        let starts = std::iter::once(0).chain(self.spans.iter().map(|span| span.end));
        let ends = self.spans.iter().map(|span| span.start).chain([self.text.len()]);
        starts.zip(ends).map(|(start, end)| &self.text[start..end])
    }

    /// The byte ranges of the steps in the text.
    pub fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// Where the text was cut: never [`Strategy::Auto`], but what it chose.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// The text, byte for byte.
    pub fn join(&self) -> String {
        let mut joined = String::with_capacity(self.text.len());
        let mut steps = self.steps();
        for separator in self.separators() {
            joined.push_str(separator);
            joined.push_str(steps.next().unwrap_or(""));
        }
        joined
    }
}

/// Cuts `text` into steps. Blank text has none.
pub fn split<'a>(text: &'a str, config: &SplitConfig) -> Split<'a> {
    let layout = Layout::new(text);
    let (strategy, mut spans) = match config.strategy {
        Strategy::Auto => auto(&layout),
        strategy => (strategy, layout.tidy(&cut(&layout, strategy))),
    };
    if config.min_chars > 1 {
        spans = join_short(text, spans, config.min_chars);
    }
    Split { text, strategy, spans }
}

fn cut(layout: &Layout<'_>, strategy: Strategy) -> Cuts {
    match strategy {
        Strategy::Auto => unreachable!("auto is resolved before a text is cut"),
        Strategy::StepMarkers => lists::step_markers(layout),
        Strategy::Numbered => lists::numbered(layout),
        Strategy::BlankLines => layout.paragraphs().into(),
        Strategy::Lines => layout.line_starts().into(),
        Strategy::Sentences => sentences::cuts(layout).into(),
    }
}

fn auto(layout: &Layout<'_>) -> (Strategy, Vec<Range<usize>>) {
    for strategy in [Strategy::StepMarkers, Strategy::Numbered] {
        let cuts = cut(layout, strategy);
        if cuts.items.len() >= 2 {
            return (strategy, layout.tidy(&cuts));
        }
    }
    for strategy in [Strategy::BlankLines, Strategy::Lines] {
        let spans = layout.tidy(&cut(layout, strategy));
        if spans.len() >= 2 {
            return (strategy, spans);
        }
    }
    (Strategy::Sentences, layout.tidy(&cut(layout, Strategy::Sentences)))
}

fn join_short(text: &str, spans: Vec<Range<usize>>, min_chars: usize) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    let mut length = usize::MAX;
    for span in spans {
        let chars = text[span.clone()].chars().count();
        match joined.last_mut() {
            Some(last) if length < min_chars => {
                last.end = span.end;
                length += chars;
            }
            _ => {
                joined.push(span);
                length = chars;
            }
        }
    }
    if length < min_chars
        && joined.len() > 1
        && let Some(short) = joined.pop()
        && let Some(last) = joined.last_mut()
    {
        last.end = short.end;
    }
    joined
}
