//! A chat model as a judge: prompted for a critique with a verdict, which is parsed leniently.

use gradus_bench::judge::{Judged, Opinion};
use gradus_core::contracts::{FinishReason, Generate, GenerateRequest, Prompt, Sampling, ScoreRequest};
use gradus_train::critic::{self, Problem, Verdict};

/// One opinion per request, greedy decoding, all requests concurrent.
pub(super) async fn judge(
    model: &dyn Generate,
    requests: Vec<ScoreRequest>,
    max_tokens: usize,
) -> Vec<Judged> {
    let asked: Vec<_> = requests
        .iter()
        .map(|request| {
            let messages = critic::prompt(&request.problem, &request.steps);
            let mut generate = GenerateRequest::new(Prompt::Chat(messages), max_tokens);
            generate.sampling = Sampling { temperature: 0.0, ..Sampling::default() };
            model.generate(generate)
        })
        .collect();
    let mut judged = Vec::with_capacity(asked.len());
    for (request, answer) in requests.iter().zip(asked) {
        judged.push(match answer.await {
            Ok(generated) => match generated.choices.first() {
                Some(choice) => {
                    let truncated = choice.finish == FinishReason::Length;
                    let opinion = opinion(&choice.text, request.steps.len(), truncated);
                    Judged { usage: generated.usage, truncated, ..Judged::free(opinion) }
                }
                None => Judged::free(Opinion::Undecided { reason: "nothing was written".to_owned() }),
            },
            Err(error) => Judged::failed(&error),
        });
    }
    judged
}

fn opinion(text: &str, steps: usize, truncated: bool) -> Opinion {
    let parsed = critic::parse(text, steps);
    match parsed.verdict {
        Some(verdict) => Opinion::Verdict {
            correct: verdict == Verdict::Correct,
            step: parsed.step,
            critique: parsed.critique,
        },
        None => {
            let reason = match parsed.problem {
                _ if truncated => "cut off before a verdict",
                Some(Problem::ManyVerdicts) => "verdicts that contradict each other",
                _ => "no verdict",
            };
            Opinion::Undecided { reason: reason.to_owned() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_becomes_an_opinion() {
        let wrong = opinion("<critique>No.</critique>\n<verdict>wrong</verdict>\n<step>1</step>", 3, false);
        assert_eq!(wrong.first_error(0.5), Some(Some(1)));
        let nowhere = opinion("<verdict>wrong</verdict>", 3, false);
        assert_eq!((nowhere.first_error(0.5), nowhere.is_correct(0.5)), (None, Some(false)));
        let cut = opinion("<critique>The first step", 3, true);
        assert_eq!(cut, Opinion::Undecided { reason: "cut off before a verdict".to_owned() });
    }
}
