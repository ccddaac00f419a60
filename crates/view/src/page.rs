//! Records with a table of contents and a filter, as a fragment or as one file that needs no network.
//!
//! The file's content security policy allows its own script and style sheet, by their hashes, and nothing else.

use std::fmt::Write as _;

use gradus_core::Record;
use gradus_core::count::{counted, grouped};
use gradus_core::select::DecisionRule;
use gradus_plot::{escaped, prose_excerpt};
use sha2::{Digest as _, Sha256};

use crate::shell::{RECORDS_SCRIPT, filled, style};
use crate::{LeftOut, ViewOptions, excerpt, record};

/// Characters of a problem in the table of contents.
const CONTENTS_WIDTH: usize = 72;

/// Records as a fragment: contents, filter, and an article each.
pub fn records(records: &[Record], left_out: &LeftOut, options: &ViewOptions) -> String {
    let mut contents = String::new();
    let mut articles = String::new();
    for (number, one) in (1..).zip(records) {
        let _ = writeln!(
            contents,
            "<li><a href=\"#record-{number}\"><b>{}</b> {}</a></li>",
            escaped(&excerpt(&one.problem.id, 40)),
            prose_excerpt(&one.problem.text, CONTENTS_WIDTH)
        );
        articles += &record(number, one, options);
    }
    if records.is_empty() {
        articles += "<p>There are no records.</p>\n";
    }
    let note = left_out_note(records.len(), left_out);
    // One record needs no contents beside it.
    if records.len() < 2 {
        return format!(
            "<div class=\"browser alone\">\n{note}<div class=\"list\">\n{articles}</div>\n</div>\n"
        );
    }
    let count = counted(records.len(), "record");
    format!(
        "<div class=\"browser\">\n<nav class=\"contents\" aria-label=\"Records\">\n<details open=\"open\"><summary>{count}</summary>\n\
         {note}<div class=\"filters\" hidden=\"hidden\">\n\
         <input type=\"search\" aria-label=\"Filter by text\" placeholder=\"Filter\"/>\n\
         <select aria-label=\"Show\"><option value=\"\">all</option><option value=\"wrong\">with a wrong answer</option>\
         <option value=\"error\">with an error</option><option value=\"disagreement\">with a disagreement</option></select>\n\
         <output></output>\n</div>\n<ol>\n{contents}</ol>\n</details>\n</nav>\n<div class=\"list\">\n{articles}</div>\n</div>\n"
    )
}

fn left_out_note(shown: usize, left_out: &LeftOut) -> String {
    let LeftOut { records, invalid } = *left_out;
    let mut said = Vec::new();
    if records > 0 {
        said.push(format!(
            "The first {} of {} records are shown.",
            grouped(shown),
            grouped(shown as u64 + records)
        ));
    }
    if invalid > 0 {
        said.push(format!("{} skipped (invalid).", counted(invalid, "record")));
    }
    if said.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>\n", said.join(" ")) }
}

/// One HTML file of records; `title` names where they are from.
pub fn page(title: &str, records: &[Record], left_out: &LeftOut, options: &ViewOptions) -> String {
    // What stands between the tags is hashed, line breaks included.
    let (style, script) = (format!("\n{}\n", style()), format!("\n{RECORDS_SCRIPT}\n"));
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        source_hash(&style),
        source_hash(&script)
    );
    let rules = match (options.decision, options.decisions.is_empty()) {
        (DecisionRule::Threshold { threshold }, true) => {
            format!("Steps with a score below {threshold} are suspected errors.")
        }
        (DecisionRule::Posterior { prior }, true) => {
            format!("A suspected error is the most probable first one by the scores (prior {prior}).")
        }
        (_, false) => "Each model's own rule says which step is its first suspected error.".to_owned(),
    };
    let subtitle = format!("{rules} Steps are counted from 0. Keys: press ?");
    filled(include_str!("../page/page.html"), |name| match name {
        "policy" => policy.clone(),
        "title" => escaped(title),
        "subtitle" => escaped(&subtitle),
        "style" => style.clone(),
        "script" => script.clone(),
        "records" => self::records(records, left_out, options),
        "help" => crate::shell::HELP.to_owned(),
        other => unreachable!("the template has no place {other}"),
    })
}

/// A script or style sheet as a source in a content security policy.
fn source_hash(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let hash = Sha256::digest(text.as_bytes());
    let mut base64 = String::from("sha256-");
    for three in hash.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for index in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * index)) as usize & 63];
            base64.push(if index <= three.len() { letter as char } else { '=' });
        }
    }
    base64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf '' | openssl dgst -sha256 -binary | base64`
    #[test]
    fn hashes_are_those_of_browsers() {
        assert_eq!(source_hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
