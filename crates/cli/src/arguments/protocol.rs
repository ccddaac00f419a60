//! How a chat model judges solutions: the same protocols in `annotate judge` and in the critics of `bench`.

use clap::{Args, ValueEnum};
use gradus_annotate::judge::{JudgeConfig, Protocol, Reading};
use gradus_core::FirstError;
use gradus_train::critic::{self, Problem, Verdict};

use crate::arguments::values::{at_least_one, count, temperature};

/// Judge protocols: a prompt and how its answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JudgeProtocol {
    /// Index of the first wrong paragraph in \boxed{}, -1 for none; our own wording
    Gradus,
    /// ProcessBench's critique template as published: index from 0 in \boxed{}, -1 for none
    #[value(name = "processbench")]
    ProcessBench,
    /// Qwen's step-by-step judge as published: an analysis per paragraph, then a conclusion
    Qwen,
    /// Critique, verdict and step in tags: what gradus train grpo trains critics to write
    Critic,
}

impl JudgeProtocol {
    fn open(self) -> Protocol {
        match self {
            Self::Gradus => Protocol::gradus(),
            Self::ProcessBench => Protocol::processbench(),
            Self::Qwen => Protocol::qwen(),
            Self::Critic => {
                let prompt = include_str!("../../../../assets/prompts/critic.txt");
                Protocol::new("critic", prompt, 512, read_critique)
            }
        }
    }
}

/// How a chat model is asked to judge.
#[derive(Debug, Args)]
pub(crate) struct ProtocolOptions {
    /// Judge protocol: prompt and parser (default: gradus in annotate, critic in bench)
    #[arg(long, value_enum, value_name = "NAME")]
    protocol: Option<JudgeProtocol>,
    /// Judgments per solution; the majority verdict counts
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = count)]
    votes: usize,
    /// Maximum tokens per judgment (default: 2048; critic 512; processbench and qwen 8192)
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    max_tokens: Option<usize>,
    /// Sampling temperature of a judgment (default: 0; with several votes 0.7, or 1 and top-p 0.9 for processbench)
    #[arg(short, long, value_parser = temperature)]
    temperature: Option<f32>,
}

impl ProtocolOptions {
    /// The protocol and its settings, `usual` where none is named.
    pub(crate) fn open(&self, usual: JudgeProtocol) -> (Protocol, JudgeConfig) {
        let protocol = self.protocol.unwrap_or(usual).open();
        let mut config = JudgeConfig::of(&protocol, self.votes);
        config.max_tokens = self.max_tokens.unwrap_or(config.max_tokens);
        config.sampling.temperature = self.temperature.unwrap_or(config.sampling.temperature);
        (protocol, config)
    }

    /// The first option that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--protocol", self.protocol.is_some()),
            ("--votes", self.votes > 1),
            ("--max-tokens", self.max_tokens.is_some()),
            ("--temperature", self.temperature.is_some()),
        ];
        options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// What a critic's tags say.
fn read_critique(text: &str, steps: usize) -> Result<Reading, &'static str> {
    let parsed = critic::parse(text, steps);
    let first_error = match (parsed.verdict, parsed.step) {
        (Some(Verdict::Correct), _) => FirstError::None,
        (Some(Verdict::Wrong), Some(step)) => FirstError::At(step),
        (Some(Verdict::Wrong), None) => FirstError::Unknown,
        (None, _) if parsed.problem == Some(Problem::ManyVerdicts) => {
            return Err("verdicts that contradict each other");
        }
        (None, _) => return Err("no verdict"),
    };
    Ok(Reading { first_error, critique: parsed.critique })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_critic_is_asked_as_it_is_trained() {
        let steps = ["2 < 3 & {{ x }}".to_owned(), "So it is\n5.".to_owned()];
        let asked = JudgeProtocol::Critic.open().messages(None, "What is 2 + 3?", &steps).unwrap();
        assert_eq!(asked, critic::prompt("What is 2 + 3?", &steps));
    }

    #[test]
    fn a_critique_is_read() {
        let read = |text: &str, cut| JudgeProtocol::Critic.open().read(text, 3, cut);
        let wrong =
            read("<critique>No.</critique>\n<verdict>wrong</verdict>\n<step>1</step>", false).unwrap();
        assert_eq!((wrong.first_error, wrong.critique.as_str()), (FirstError::At(1), "No."));
        let nowhere = read("<verdict>wrong</verdict>", false).unwrap();
        assert_eq!(nowhere.first_error, FirstError::Unknown);
        let right = read("<verdict>correct</verdict>", true).unwrap();
        assert_eq!(right.first_error, FirstError::None);
        assert_eq!(read("<critique>The first step", true), Err("cut off before a verdict"));
        let both = "<verdict>correct</verdict><verdict>wrong</verdict>";
        assert_eq!(read(both, false), Err("verdicts that contradict each other"));
    }
}
