//! Fields of the source that the data model has no name for, as JSON that opens on demand.

use gradus_core::Metadata;
use gradus_plot::escaped;

/// Characters of metadata that are shown.
const LONGEST: usize = 4000;
/// Fields that are shown elsewhere.
const SHOWN_ELSEWHERE: [&str; 4] = ["chosen", "retrieval", "rollouts", "strategy"];

/// The fields that nothing else shows; empty where there are none.
pub(crate) fn metadata(fields: &Metadata) -> String {
    let rest: Metadata = fields
        .iter()
        .filter(|(name, _)| !SHOWN_ELSEWHERE.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if rest.is_empty() {
        return String::new();
    }
    let json = serde_json::to_string_pretty(&rest).unwrap_or_default();
    let mut shown: String = json.chars().take(LONGEST).collect();
    if shown.len() < json.len() {
        shown += "\n… (cut)";
    }
    format!(
        "<details class=\"aside\"><summary>Metadata</summary><pre tabindex=\"0\">{}</pre></details>",
        escaped(&shown)
    )
}
