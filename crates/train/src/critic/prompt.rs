//! What a critic is asked: the problem and the steps with their 0-based indices (`assets/prompts/critic.txt`).

use gradus_core::contracts::Message;
use minijinja::{Environment, context};

const TEMPLATE: &str = include_str!("../../../../assets/prompts/critic.txt");

/// The conversation that a critic answers.
pub fn prompt(problem: &str, steps: &[String]) -> Vec<Message> {
    // A string without a file name is not escaped: problems reach the model as they are.
    let text = Environment::new().render_str(TEMPLATE, context! { problem, steps => steps.to_vec() });
    vec![Message::new("user", text.expect("the shipped template renders with any text"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_and_steps_in_tags() {
        let steps = ["2 < 3 & {{ x }}".to_owned(), "So the answer is\n5.".to_owned()];
        let messages = prompt("What is 2 + 3?", &steps);
        assert_eq!(messages[0].role, "user");
        insta::assert_snapshot!(messages[0].content);
    }
}
