//! What a critic is asked: the problem and the steps with their 0-based indices (`assets/prompts/critic.txt`).

use std::sync::OnceLock;

use gradus_core::contracts::Message;
use gradus_template::{SyntaxConfig, Template, context, environment};

const TEMPLATE: &str = include_str!("../../../../assets/prompts/critic.txt");

/// The conversation that a critic answers.
pub fn prompt(problem: &str, steps: &[String]) -> Vec<Message> {
    static COMPILED: OnceLock<Template> = OnceLock::new();
    let template = COMPILED.get_or_init(|| {
        Template::new(environment(), SyntaxConfig::default(), TEMPLATE)
            .expect("the shipped template is right")
    });
    let text = template.render(context! { problem, steps => steps.to_vec() });
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
