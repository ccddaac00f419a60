//! Templates that would hang or fill the memory, and ordinary ones that must not notice.

use std::time::{Duration, Instant};

use super::*;

fn template(source: &str) -> Result<Template, Error> {
    Template::new(environment(), SyntaxConfig::default(), source)
}

fn render(source: &str) -> Result<String, String> {
    let values = context! { list => vec![1, 2, 3], text => "abc", role => "user" };
    template(source).and_then(|template| template.render(values)).map_err(|error| error.to_string())
}

#[test]
fn ordinary_templates_render_as_before() {
    for (source, expected) in [
        ("{{ 'a' * 3 }}{{ 2 * 3 * 4 }}{{ 1.5 * 2 }}{{ [1] * 2 }}", "aaa243.0[1, 1]"),
        ("{{ text[1:] }}{{ text[::-1] }}{{ text[-2:-1] }}{{ list[:2] }}{{ list[5:] }}", "bccbab[1, 2][]"),
        (
            "{% for x in list %}{{ loop.index }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
            "11,22,33",
        ),
        (
            "{% set ns = namespace(n=0) %}{% for x in list %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
            "6",
        ),
        ("{% macro f(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}", "[12][13]"),
        ("{% set x %}a{{ text }}{% endset %}{{ x|upper }}", "AABC"),
        ("{{ text.replace('b', 'xx') ~ text.split('b')[1] ~ text.upper() }}", "axxccABC"),
        ("{{ list|map('string')|join('-') }} {{ list|join }} {{ ['b', 'a']|sort|first }}", "1-2-3 123 a"),
        ("{{ 1 < 2 < 3 }} {{ 'a' in text }} {{ role == 'user' and role is defined }}", "True True True"),
        ("{{ '%s is %03d'|format('a', 7) }} {{ '{} {:>4}'.format('b', 1) }}", "a is 007 b    1"),
        ("{% for x in [[1, [2]]] recursive %}{{ x if x is number else loop(x) }}{% endfor %}", "12"),
        ("{{ {'a': [1, 2]}|tojson(indent=1)|replace('\\n', '') }}", "{ \"a\": [  1,  2 ]}"),
        ("{% if missing is not defined or missing.x %}no{% endif %}", "no"),
        ("{% macro f(*a) %}{% endmacro %}", ""),
    ] {
        match render(source) {
            Ok(text) => assert_eq!(text, expected, "{source}"),
            // The last one is no Jinja here, and never was.
            Err(error) => assert!(expected.is_empty(), "{source}: {error}"),
        }
    }
    let variables = template("{{ a }}{% set b = 1 %}{{ b * c }}").unwrap().variables();
    assert!(variables.contains("a") && variables.contains("c") && variables.len() == 2, "{variables:?}");
}

#[test]
fn hostile_templates_end_at_a_limit_that_is_named() {
    let doubled = |start: &str, twice: &str, end: &str| {
        format!("{{% set s = {start} %}}{}{end}", format!("{{% set s = {twice} %}}").repeat(64))
    };
    let values = "256 MiB of values";
    let cases = [
        (doubled("'xxxxxxxx'", "s ~ s", ""), values),
        (doubled("'xxxxxxxx'", "s + s", ""), values),
        (doubled("[1]", "s + s", ""), values),
        (doubled("[1]", "s * 2", ""), values),
        (doubled("[1]", "[s, s]", "{{ s }}"), "limit of"),
        (doubled("{}", "{'a': s, 'b': s}", "{{ s }}"), "limit of"),
        (doubled("'ab'", "s.replace('', s)", ""), values),
        (doubled("'ab'", "s|replace('a', s)", ""), values),
        (doubled("'ab'", "s|join(s)", ""), values),
        (doubled("'ab'", "s|list|join(s)", ""), values),
        (doubled("'%s'", "'%s%s'|format(s, s)", ""), values),
        (doubled("'a'", "'{0}{0}'.format(s)", ""), values),
        ("{{ 'x' * 10 ** 10 }}".into(), values),
        ("{{ ['x'] * 10 ** 10 }}".into(), values),
        ("{{ (1,) * 100000000 }}".into(), values),
        ("{{ ('x' * 99999999 ~ 'y') * 99999999 }}".into(), values),
        ("{{ [1]|tojson(indent=10**12) }}".into(), "64 spaces of indentation"),
        ("{{ [1]|map('tojson', 10**12)|list }}".into(), "64 spaces of indentation"),
        ("{{ 'a\\nb'|indent(10**12) }}".into(), values),
        ("{{ 'a\\nb'|indent(width=10**12) }}".into(), values),
        ("{{ '%1000000000000d'|format(1) }}".into(), values),
        ("{{ '%*d'|format(1000000000000, 1) }}".into(), values),
        ("{{ '{:>1000000000000}'.format(1) }}".into(), values),
        ("{{ '{:>{}}'.format(1, 1000000000000) }}".into(), values),
        ("{{ [1]|batch(1000000000000, 0) }}".into(), values),
        ("{{ [1]|slice(1000000000000) }}".into(), values),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}".into(), "instructions"),
        ("{% for i in range(99999) %}{{ range(99999)|sum }}{% endfor %}".into(), values),
        ("{% for i in range(99999) %}{% if range(99999)|list == range(99999)|list %}{% endif %}{% endfor %}".into(), values),
        ("{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}".into(), "32 MiB of text"),
        (format!("{{% for i in range(99999) %}}{}{{% endfor %}}", "y".repeat(9999)), "32 MiB of text"),
        ("{% set s %}{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}{% endset %}".into(), "32 MiB of text"),
        ("{% set ns = namespace(a=[]) %}{% for i in range(99999) %}{% set ns.a = [ns.a] %}{% endfor %}".into(), "32 nested values"),
        ("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}".into(), "32 nested values"),
        (
            "{% set ns = namespace() %}{% for i in range(99999) %}{% set n = namespace() %}{% set n.a = ns.a %}\
             {% set ns.a = n %}{% endfor %}"
                .into(),
            "128 namespaces",
        ),
        ("{% set ns = namespace(a=[1]) %}{% for i in range(99999) %}{% set ns.a = ns.a[0:] %}{% endfor %}x".into(), ""),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into(), "recursion limit"),
        (format!("{{{{ {}1 }}}}", "1 + ".repeat(100_000)), "1,000 tokens in one tag"),
        (format!("{{{{ '{}' }}}}", "x".repeat(70_000)), "64 KiB of literals"),
        ("x".repeat(2 << 20), "1 MiB of source"),
        (format!("{{{{ {}1{} }}}}", "[".repeat(400), "]".repeat(400)), ""),
        ("{{ debug() }}".into(), "unknown"),
        ("{{ text|nosuch }}".into(), "filter nosuch is unknown"),
    ];
    for (source, limit) in cases {
        let started = Instant::now();
        let outcome = render(&source);
        let shown: String = source.chars().take(120).collect();
        // A build without optimization is some thirty times slower than the one that users run.
        assert!(started.elapsed() < Duration::from_secs(30), "{shown}: {:?}", started.elapsed());
        match outcome {
            Err(error) => assert!(error.contains(limit), "{shown}: {error}"),
            Ok(text) => assert!(limit.is_empty() && text.len() < 100, "{shown}: {} bytes", text.len()),
        }
    }
}

#[test]
fn limits_grow_with_the_input() {
    let long = "word ".repeat(10 << 20);
    let template = template("{{ text }}{{ text.strip() }}{% if 'zzz' in text %}{% endif %}").unwrap();
    assert_eq!(template.render(context! { text => long.as_str() }).unwrap().len(), 2 * long.len() - 1);
}

#[test]
fn a_template_is_kept_once() {
    assert!(std::ptr::eq(keep("the same text"), keep(&["the same", " text"].concat())));
}
