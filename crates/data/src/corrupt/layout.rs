//! A reference solution written as language models write: longer steps, headings, formulas set apart, a first sentence
//! that says what will be done and a last one that gives the answer. What is said stays the same.

use rand::RngExt;
use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use super::Solution;
use super::text::result;
use crate::paragraphs::CHARACTERS;
use gradus_core::{Annotation, LabelSource, Problem};

/// One way to write solutions down, drawn at random.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    opening: Option<(&'static str, bool)>,
    closing: Option<(&'static str, bool)>,
    /// Sentences are joined up to about so many characters, for one step after another.
    characters: [usize; 8],
    between: &'static str,
    formulas: Formulas,
    heading: Heading,
    /// After which step its result is said again, and how.
    recall: Option<(usize, &'static str)>,
    /// What is put before steps, as steps of their own that say nothing.
    asides: [Option<&'static str>; 8],
}

/// How formulas are set apart from words.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Formulas {
    AsTheyAre,
    /// `12 × 5 = 60`
    Spaced,
    /// `\(12 \times 5 = 60\)`
    Brackets,
    /// The same on a line of its own.
    Displayed,
}

/// What a step begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Heading {
    None,
    Number(&'static str, &'static str),
    Connective,
}

const OPENINGS: [&str; 10] = [
    "To solve this problem, we need to follow these steps.",
    "Let's solve this problem step by step.",
    "To find the answer, we need to work through the information given.",
    "To solve the problem, let's break it down into smaller parts.",
    "Let's break this down step by step.",
    "We are given the following information and need to find the required value.",
    "To determine the required value, we will go through the problem carefully.",
    "First, let's understand what the problem is asking.",
    "To tackle this problem, we start from what is given.",
    "We need to find the value that the question asks for.",
];

const CLOSINGS: [&str; 10] = [
    "Therefore, the final answer is $\\boxed{{}}$.",
    "Therefore, the answer is \\(\\boxed{{}}\\).",
    "So, the final answer is \\boxed{{}}.",
    "Thus, the answer is:\n\\[\n\\boxed{{}}\n\\]",
    "The final answer is: $\\boxed{{}}$. I hope it is correct.",
    "Hence, the answer is **{}**.",
    "The answer is: {}",
    "Therefore, the required value is \\[\\boxed{{}}\\]",
    "### Conclusion\nThe answer is $\\boxed{{}}$.",
    "So the answer is {}.",
];

/// How a result is said again. Right and wrong solutions have these sentences alike: only the number tells.
pub(super) const RECALLS: [&str; 6] = [
    "As found above, this is {}.",
    "Recall that the previous step gave {}.",
    "So what we have so far is {}.",
    "Hence we continue with the value {}.",
    "From the last step we know that it equals {}.",
    "This means the result up to here is {}.",
];

/// Steps that say nothing, as language models write them.
const ASIDES: [&str; 16] = [
    "Let's continue.",
    "Now, let's do the calculation.",
    "### Calculation",
    "Next, we look at the following part.",
    "**Next step:**",
    "Let's go through this carefully.",
    "Now we can work out the next quantity:",
    "### Next step",
    "We proceed as follows.",
    "Let's simplify this.",
    "#### Work",
    "We now use what is given.",
    "Now, let's put this together.",
    "We need one more quantity.",
    "Let's write this down:",
    "**Solution:**",
];

const HEADINGS: [Heading; 10] = [
    Heading::None,
    Heading::None,
    Heading::None,
    Heading::None,
    Heading::Number("Step ", ": "),
    Heading::Number("**Step ", ":** "),
    Heading::Number("### Step ", "\n"),
    Heading::Number("", ". "),
    Heading::Connective,
    Heading::Connective,
];

impl Layout {
    /// A layout; the same seed and number give the same one for a problem.
    pub fn draw(problem: &Problem, number: usize, seed: u64) -> Self {
        let hash = blake3::hash(format!("layout\0{seed}\0{number}\0{}", problem.id).as_bytes());
        let mut random = ChaCha8Rng::from_seed(*hash.as_bytes());
        let mut sentence = |all: &[&'static str], often: f64| {
            let chosen = all.choose(&mut random).copied().map(|text| (text, random.random_bool(0.6)));
            chosen.filter(|_| random.random_bool(often))
        };
        let opening = sentence(&OPENINGS, 0.55);
        let closing = sentence(&CLOSINGS, 0.75);
        let sizes = if random.random_bool(0.2) { &[0][..] } else { &CHARACTERS[..] };
        let characters = std::array::from_fn(|_| *sizes.choose(&mut random).expect("there are some"));
        let between = if random.random_bool(0.75) { " " } else { "\n" };
        let formulas = [Formulas::AsTheyAre, Formulas::Spaced, Formulas::Brackets, Formulas::Displayed];
        let formulas = *formulas.choose(&mut random).expect("there are some");
        let heading = *HEADINGS.choose(&mut random).expect("there are some");
        let recall = RECALLS.choose(&mut random).map(|text| (random.random_range(0..8), *text));
        let recall = recall.filter(|_| random.random_bool(0.4));
        let often = *[0.0, 0.15, 0.4].choose(&mut random).expect("there are some");
        let asides = std::array::from_fn(|_| {
            let aside = ASIDES.choose(&mut random).copied();
            aside.filter(|_| random.random_bool(often))
        });
        Self { opening, closing, characters, between, formulas, heading, recall, asides }
    }

    /// The right solution in this layout, but for its headings.
    pub fn arrange(&self, problem: &Problem, right: &Solution, number: usize) -> Solution {
        let mut steps: Vec<String> = Vec::new();
        for step in &right.steps {
            let step = self.formulas.set(step);
            let most = self.characters[steps.len().saturating_sub(1) % self.characters.len()];
            match steps.last_mut() {
                Some(last) if last.len() + step.len() <= most => {
                    last.push_str(self.between);
                    last.push_str(&step);
                }
                _ => steps.push(step),
            }
        }
        if let Some((place, text)) = self.recall {
            let place = place % steps.len().max(1);
            let found = steps.get(place).and_then(|step| Some(text.replace("{}", &step[result(step, "")?])));
            if let Some(said) = found {
                steps.insert(place + 1, said);
            }
        }
        for place in (0..steps.len()).rev() {
            if let Some(aside) = self.asides[place % self.asides.len()] {
                steps.insert(place, aside.to_owned());
            }
        }
        if let (Some((text, apart)), Some(first)) = (self.opening, steps.first_mut()) {
            if apart {
                steps.insert(0, text.to_owned());
            } else {
                *first = format!("{text} {first}");
            }
        }
        if let (Some((text, apart)), Some(answer)) = (self.closing, problem.answer.as_deref()) {
            let text = text.replace("{}", answer);
            match steps.last_mut() {
                Some(last) if !apart && !last.contains("boxed") => *last = format!("{last} {text}"),
                _ => steps.push(text),
            }
        }
        let annotations = vec![Annotation::from_first_error(steps.len(), None, &LabelSource::Injected)];
        let id = format!("{}/right-{number}", problem.id);
        let generator = Some("rewritten reference".to_owned());
        Solution { id, generator, steps, annotations, ..right.clone() }
    }

    /// Puts the headings before a solution's steps, after its error was put in: a missing step leaves no gap in them.
    pub fn head(&self, solution: &mut Solution) {
        let count = solution.steps.len();
        for (number, step) in solution.steps.iter_mut().enumerate() {
            *step = match self.heading {
                Heading::None => continue,
                Heading::Number(before, after) => format!("{before}{}{after}{step}", number + 1),
                Heading::Connective => {
                    let word = match number {
                        0 => "First",
                        last if last + 1 == count => "Finally",
                        odd if odd % 2 == 1 => "Next",
                        _ => "Then",
                    };
                    format!("{word}, {}", uncapitalised(step))
                }
            };
        }
    }
}

/// Small words that begin sentences, in small letters; names and formulas stay as they are.
fn uncapitalised(sentence: &str) -> String {
    const SMALL: [&str; 20] = [
        "The", "We", "So", "In", "This", "Since", "If", "To", "Each", "There", "He", "She", "They", "It",
        "His", "Her", "For", "That", "Let", "By",
    ];
    let word = sentence.split(' ').next().unwrap_or_default();
    if SMALL.contains(&word) {
        format!("{}{}", word.to_lowercase(), &sentence[word.len()..])
    } else {
        sentence.to_owned()
    }
}

impl Formulas {
    fn set(self, step: &str) -> String {
        match self {
            Self::AsTheyAre => step.to_owned(),
            _ if step.contains('\\') => self.delimited(step),
            _ => self.arithmetic(step),
        }
    }

    /// LaTeX between dollars goes between brackets. Money, in a text with an odd number of dollars, stays.
    fn delimited(self, step: &str) -> String {
        let parts: Vec<&str> = step.split('$').collect();
        if self == Self::Spaced
            || parts.len().is_multiple_of(2)
            || step.contains("\\$")
            || step.contains("$$")
        {
            return step.to_owned();
        }
        let (open, close) = if self == Self::Displayed { ("\\( ", " \\)") } else { ("\\(", "\\)") };
        let set = |(number, part): (usize, &&str)| {
            if number % 2 == 1 { format!("{open}{part}{close}") } else { (*part).to_owned() }
        };
        parts.iter().enumerate().map(set).collect()
    }

    /// Runs of numbers and operators with an equals sign are formulas.
    fn arithmetic(self, step: &str) -> String {
        let part = |c: char| c.is_ascii_digit() || " .,+-*/=()$%".contains(c);
        let mut found = String::with_capacity(step.len() + 16);
        let mut rest = step;
        while let Some(start) = rest.find(part) {
            let run = &rest[start..];
            let run = &run[..run.find(|c| !part(c)).unwrap_or(run.len())];
            let formula = run.trim_matches([' ', '.', ',']);
            let offset = run.find(formula).unwrap_or(0);
            found.push_str(&rest[..start + offset]);
            if formula.contains('=') && formula.starts_with(|c: char| c.is_ascii_digit() || "($".contains(c))
            {
                found.push_str(&self.formula(formula));
            } else {
                found.push_str(formula);
            }
            rest = &rest[start + offset + formula.len()..];
            if formula.is_empty() {
                let space = rest.find(|c| !part(c)).unwrap_or(rest.len());
                found.push_str(&rest[..space]);
                rest = &rest[space..];
            }
        }
        found + rest
    }

    fn formula(self, formula: &str) -> String {
        let latex = matches!(self, Self::Brackets | Self::Displayed);
        let mut set = String::with_capacity(2 * formula.len());
        for c in formula.chars() {
            match c {
                ' ' => {}
                '*' => set.push_str(if latex { " \\times " } else { " × " }),
                '/' => set.push_str(if latex { " \\div " } else { " ÷ " }),
                '+' | '-' | '=' => set.extend([' ', c, ' ']),
                '$' | '%' if latex => set.extend(['\\', c]),
                _ => set.push(c),
            }
        }
        match self {
            Self::Brackets => format!("\\({set}\\)"),
            Self::Displayed => format!("\n\\[\n{set}\n\\]\n"),
            _ => set,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_are_set_apart() {
        let step = "Ann earns 12*5=$60, in 5 days.";
        assert_eq!(Formulas::Spaced.set(step), "Ann earns 12 × 5 = $60, in 5 days.");
        assert_eq!(Formulas::Brackets.set(step), "Ann earns \\(12 \\times 5 = \\$60\\), in 5 days.");
        assert_eq!(Formulas::Displayed.set("So 6/2 = 3."), "So \n\\[\n6 \\div 2 = 3\n\\]\n.");
        assert_eq!(
            Formulas::Brackets.set("We know $x = \\frac{1}{2}$ now."),
            "We know \\(x = \\frac{1}{2}\\) now."
        );
        assert_eq!(Formulas::Brackets.set("\\$5 and $x$"), "\\$5 and $x$");
    }

    #[test]
    fn headings_count_the_steps() {
        let layout =
            Layout { heading: Heading::Number("Step ", ": "), ..Layout::draw(&Problem::default(), 0, 0) };
        let mut solution = Solution { steps: vec!["Add.".into(), "Halve.".into()], ..Solution::default() };
        layout.head(&mut solution);
        assert_eq!(solution.steps, ["Step 1: Add.", "Step 2: Halve."]);
        assert_eq!(
            (uncapitalised("The sum"), uncapitalised("Ann has")),
            ("the sum".into(), "Ann has".into())
        );
    }

    proptest! {
        #[test]
        fn words_and_numbers_stay(steps in proptest::collection::vec("[a-z0-9 =+*/$.,-]{1,60}", 1..6), seed: u64) {
            let problem = Problem { answer: Some("7".into()), ..Problem::default() };
            let right = Solution { steps, ..Solution::default() };
            let layout = Layout { opening: None, closing: None, recall: None, asides: [None; 8], ..Layout::draw(&problem, 1, seed) };
            let arranged = layout.arrange(&problem, &right, 1);
            prop_assert_eq!(arranged.steps.len(), arranged.annotations[0].labels.len());
            let kept = |steps: &[String]| -> String {
                let text = steps.concat().replace("\\times", "").replace("\\div", "");
                text.chars().filter(|c| c.is_alphanumeric() || *c == '=').collect()
            };
            prop_assert_eq!(kept(&arranged.steps), kept(&right.steps));
        }
    }
}
