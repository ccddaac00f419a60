//! Chat templates: the Jinja that comes with a model, rendered as `transformers.apply_chat_template` renders it.
//!
//! That is: blocks trimmed, Python's methods on strings and dictionaries, `tojson` as `json.dumps(ensure_ascii=False)`
//! writes it, `True` and `None` spelled as in Python, `raise_exception`, `strftime_now`, and `{% generation %}` as a
//! mark without effect. Tools and documents are `none`. `strftime_now` tells the time in UTC. It runs within the limits of
//! `gradus_template`, as it comes from whoever made the model.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use gradus_core::contracts::Message;
use gradus_template::{
    Error as Jinja, ErrorKind, Kwargs, Serde, SyntaxConfig, Template, Value, ValueKind, context,
    escape_formatter, spend,
};
use serde::Serialize;

use super::tokenizer::Variables;
use crate::error::{Error, Result};

/// A parsed template with the special tokens that it may name.
pub(super) struct ChatTemplate {
    template: Template,
    named: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// `named`: `bos_token` and the like.
    pub(super) fn parse(source: &str, named: BTreeMap<String, String>) -> std::result::Result<Self, String> {
        let mut environment = gradus_template::environment();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        let syntax = syntax.map_err(|why| why.to_string())?;
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::Bool if value.is_true() => Ok(out.write_str("True")?),
            ValueKind::Bool => Ok(out.write_str("False")?),
            ValueKind::None => Ok(out.write_str("None")?),
            _ => escape_formatter(out, state, value),
        });
        environment.add_filter("tojson", |value: &Value, options: Kwargs| tojson(value, &options));
        environment.add_function("raise_exception", |message: String| -> std::result::Result<Value, Jinja> {
            Err(Jinja::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            strftime(&format, since.as_secs())
        });
        let template = Template::new(environment, syntax, &without_generation_tags(source));
        Ok(Self { template: template.map_err(|why| said(&why))?, named })
    }

    pub(super) fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        variables: &Variables,
    ) -> Result<String> {
        let all = context! {
            messages => Serde(messages), add_generation_prompt, tools => (), documents => (),
            ..context! { ..Value::from(Serde(variables)), ..Value::from(Serde(&self.named)) }
        };
        let refused =
            |why: Jinja| Error::request(format!("the model's chat template refuses: {}", said(&why)));
        self.template.render(all).map_err(refused)
    }
}

/// Characters of a refusal that are shown.
const LONGEST_REFUSAL: usize = 1_000;

/// The innermost cause in one line: what `raise_exception` was given, or what is wrong with the template.
fn said(error: &Jinja) -> String {
    let line = error.line().map(|line| format!(" (line {line} of the template)")).unwrap_or_default();
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    // A template chooses what `raise_exception` says, and how much.
    let what: String = what.chars().take(LONGEST_REFUSAL).collect();
    format!("{what}{line}")
}

/// `{% generation %}` marks what the assistant says, for training masks; the tags become ones without effect, which
/// keep their control of white space.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(len) = rest[start + 2..].find("%}") else { break };
        let tag = &rest[start..start + len + 4];
        out.push_str(&rest[..start]);
        match tag[2..len + 2].trim_matches(['-', '+', ' ', '\n']) {
            "generation" => out.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => out.push_str(&tag.replace("endgeneration", "endif")),
            _ => out.push_str(tag),
        }
        rest = &rest[start + len + 4..];
    }
    out + rest
}

/// Bytes that are charged to the rendering before they are kept.
struct Charged(Vec<u8>);

impl std::io::Write for Charged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        spend(bytes.len()).map_err(std::io::Error::other)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=indent)`.
fn tojson(value: &Value, options: &Kwargs) -> std::result::Result<Value, Jinja> {
    struct Spaced;
    impl serde_json::ser::Formatter for Spaced {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            out: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            out: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { out.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
            out.write_all(b": ")
        }
    }
    let indent: Option<usize> = options.get("indent")?;
    // Templates written for other libraries pass these; they change nothing here.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let _: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let mut out = Charged(Vec::new());
    let written = match indent {
        Some(width) => {
            spend(width)?;
            let spaces = vec![b' '; width];
            let pretty = serde_json::ser::PrettyFormatter::with_indent(&spaces);
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, pretty))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Spaced)),
    };
    written.map_err(|why| Jinja::new(ErrorKind::InvalidOperation, format!("tojson: {why}")))?;
    Ok(Value::from_safe_string(String::from_utf8(out.0).expect("JSON is UTF-8")))
}

/// The parts of `strftime` that dates and times need, for seconds since 1970 in UTC.
fn strftime(format: &str, seconds: u64) -> std::result::Result<String, Jinja> {
    const MONTHS: [&str; 12] = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
        "November", "December",
    ];
    const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let ordinal = day + 1;
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    let weekday = DAYS[(days % 7) as usize];
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('Y') => out += &year.to_string(),
            Some('y') => out += &format!("{:02}", year % 100),
            Some('m') => out += &format!("{:02}", month + 1),
            Some('d') => out += &format!("{:02}", day + 1),
            Some('j') => out += &format!("{ordinal:03}"),
            Some('B') => out += MONTHS[month],
            Some('b') => out += &MONTHS[month][..3],
            Some('A') => out += weekday,
            Some('a') => out += &weekday[..3],
            Some('H') => out += &format!("{hour:02}"),
            Some('I') => out += &format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => out += if hour < 12 { "AM" } else { "PM" },
            Some('M') => out += &format!("{minute:02}"),
            Some('S') => out += &format!("{:02}", second % 60),
            Some('F') => out += &format!("{year}-{:02}-{:02}", month + 1, day + 1),
            Some('T') => out += &format!("{hour:02}:{minute:02}:{:02}", second % 60),
            Some('%') => out.push('%'),
            other => {
                let unknown: String = other.into_iter().collect();
                return Err(Jinja::new(
                    ErrorKind::InvalidOperation,
                    format!("strftime_now: no %{unknown} here"),
                ));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn named() -> BTreeMap<String, String> {
        BTreeMap::from([("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())])
    }

    /// `tests/text/make_templates.py` has transformers render these.
    #[test]
    fn renders_as_transformers_does() {
        #[derive(Deserialize)]
        struct Case {
            name: String,
            template: String,
            messages: Vec<Message>,
            add: bool,
            rendered: String,
        }
        let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/text/templates.json")).unwrap();
        assert!(cases.len() > 20);
        for Case { name, template, messages, add, rendered } in cases {
            let template = ChatTemplate::parse(&template, named()).unwrap();
            assert_eq!(template.render(&messages, add, &Variables::new()).unwrap(), rendered, "{name}");
        }
    }

    #[test]
    fn variables_reach_the_template() {
        let template =
            ChatTemplate::parse("{{ bos_token }}{{ date_string }}{{ add_generation_prompt }}", named());
        let variables =
            serde_json::json!({"date_string": "26 Jul 2024", "add_generation_prompt": 5, "bos_token": "!"});
        let rendered = template.unwrap().render(&[], true, variables.as_object().unwrap());
        assert_eq!(rendered.unwrap(), "!26 Jul 2024True");
    }

    #[test]
    fn refusals_are_said() {
        let template =
            ChatTemplate::parse("a\n{{ raise_exception('roles must alternate') }}", named()).unwrap();
        let said = template.render(&[], true, &Variables::new()).unwrap_err().to_string();
        assert_eq!(said, "the model's chat template refuses: roles must alternate (line 2 of the template)");
        // The second was found by fuzzing: a tag that closes with the sign that opens it.
        for source in ["{% if %}", "{%}", "{%}{% endif %}"] {
            let said = ChatTemplate::parse(source, named()).err().unwrap();
            assert!(said.ends_with("(line 1 of the template)"), "{said}");
        }
    }

    #[test]
    fn a_hostile_template_ends_at_a_limit() {
        let refusal = |source: &str| {
            let template = ChatTemplate::parse(source, named()).unwrap();
            let messages = [Message::new("user", "Hi")];
            template.render(&messages, true, &Variables::new()).unwrap_err().to_string()
        };
        let doubling = format!("{{% set s = 'xx' %}}{}", "{% set s = s ~ s %}".repeat(60));
        for (source, limit) in [
            (
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                "5000000 instructions",
            ),
            (&doubling, "256 MiB of values"),
            ("{{ messages|tojson(indent=10**12) }}", "256 MiB of values"),
            ("{% for m in range(99999) %}{{ 'x' * 9999 }}{% endfor %}", "32 MiB of text"),
        ] {
            let said = refusal(source);
            assert!(
                said.starts_with("the model's chat template refuses: the template's limit of "),
                "{said}"
            );
            assert!(said.contains(limit), "{said}");
        }
        let said = refusal("{{ raise_exception('x' * 99999) }}");
        assert!(said.len() < 1_200, "{}", said.len());
    }

    #[test]
    fn dates() {
        let date = |seconds| strftime("%d %b %Y|%A %B %-", seconds).unwrap_err().to_string();
        assert!(date(0).contains("no %- here"));
        let all = "%d %b %Y %a %A %B %m %y %j %H:%M:%S %I%p %F %T %%";
        // What Python's strftime says of these moments in UTC.
        let expected = [
            (0, "01 Jan 1970 Thu Thursday January 01 70 001 00:00:00 12AM 1970-01-01 00:00:00 %"),
            (951_868_799, "29 Feb 2000 Tue Tuesday February 02 00 060 23:59:59 11PM 2000-02-29 23:59:59 %"),
            (1_721_995_200, "26 Jul 2024 Fri Friday July 07 24 208 12:00:00 12PM 2024-07-26 12:00:00 %"),
            (4_107_542_399, "28 Feb 2100 Sun Sunday February 02 00 059 23:59:59 11PM 2100-02-28 23:59:59 %"),
        ];
        for (seconds, text) in expected {
            assert_eq!(strftime(all, seconds).unwrap(), text);
        }
    }
}
