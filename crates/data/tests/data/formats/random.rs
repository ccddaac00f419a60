//! Random values that records are made of: texts, steps, labels, any JSON.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Free text: any characters, and many of those that formats give a meaning.
pub(super) fn text() -> BoxedStrategy<String> {
    prop_oneof![
        2 => "\\PC{0,12}",
        2 => "[ab \n\t?.:+\\-$\\\\{}]{0,12}",
        1 => any::<String>().prop_map(|text| text.chars().take(8).collect()),
    ]
    .prop_filter("holds a mark of a format", |text| !text.contains("ки") && !text.contains("####"))
    .boxed()
}

pub(super) fn texts() -> BoxedStrategy<Vec<String>> {
    vec(text(), 0..4).boxed()
}

/// Any JSON.
pub(super) fn json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// An object of the fields that must be there, some of those that need not (or are null), and unknown ones.
pub(super) fn record(
    must: impl Strategy<Value = Value> + 'static,
    may: Vec<(&'static str, BoxedStrategy<Value>)>,
) -> BoxedStrategy<Value> {
    let may: Vec<_> = may
        .into_iter()
        .map(|(key, value)| option::of(option::weighted(0.7, value)).prop_map(move |value| (key, value)))
        .collect();
    (must, may, btree_map("x_[a-z]{1,3}|joined|spacing|rated|separator", json(), 0..3))
        .prop_map(|(must, may, unknown): (Value, _, BTreeMap<String, Value>)| {
            let mut fields: Map<String, Value> = must.as_object().expect("an object").clone();
            for (key, value) in may {
                if let Some(value) = value {
                    fields.entry(key).or_insert(value.unwrap_or(Value::Null));
                }
            }
            fields.extend(unknown);
            Value::Object(fields)
        })
        .boxed()
}

pub(super) fn string() -> BoxedStrategy<Value> {
    text().prop_map(Value::from).boxed()
}

pub(super) fn flag() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

pub(super) fn number() -> BoxedStrategy<Value> {
    prop_oneof![any::<i32>().prop_map(Value::from), (-1e6..1e6).prop_map(Value::from)].boxed()
}

pub(super) fn id() -> BoxedStrategy<Value> {
    prop_oneof!["[a-z#/é]{1,8}".prop_map(Value::from), any::<u32>().prop_map(Value::from)].boxed()
}

pub(super) fn one_of(values: Vec<Value>) -> BoxedStrategy<Value> {
    prop::sample::select(values).boxed()
}

pub(super) fn rating() -> BoxedStrategy<Value> {
    one_of(vec![json!(1), json!(0), json!(-1)])
}

/// A step label of a training format.
pub(super) fn label() -> BoxedStrategy<Value> {
    let hard = vec![json!(true), json!(false), json!("+"), json!("-"), json!(0), json!(1), json!(1.0)];
    prop_oneof![one_of(hard), (0.0..=1.0).prop_map(Value::from)].boxed()
}

/// Steps with something for each, as two lists.
pub(super) fn steps_with(each: BoxedStrategy<Value>) -> BoxedStrategy<(Vec<String>, Vec<Value>)> {
    vec((text(), each), 0..4).prop_map(|pairs| pairs.into_iter().unzip()).boxed()
}

/// Steps and the index of one of them, or none.
pub(super) fn steps_with_index() -> BoxedStrategy<(Vec<String>, Option<usize>)> {
    texts()
        .prop_flat_map(|steps| {
            let count = steps.len();
            (Just(steps), option::of(0..count.max(1)).prop_map(move |index| index.filter(|_| count > 0)))
        })
        .boxed()
}

/// Steps that often, but not always, begin with a number.
pub(super) fn numbered_steps() -> BoxedStrategy<Vec<String>> {
    let step = (option::weighted(0.8, 0..5u8), text()).prop_map(|(number, text)| match number {
        Some(number) => format!("Step {number}{text}"),
        None => text,
    });
    vec(step, 0..4).boxed()
}

/// A text with `n` tags, `n` from 1 on: the pieces before the tags, and the tail.
pub(super) fn tagged() -> BoxedStrategy<(Vec<String>, String)> {
    let first = (text(), prop::sample::select(vec!["", " Step 1: ", "? ", "\n\n", "Step 1"]), text())
        .prop_map(|(question, end, step)| format!("{question}{end}{step}"));
    (first, texts(), text())
        .prop_map(|(first, later, tail)| (std::iter::once(first).chain(later).collect(), tail))
        .prop_filter("makes a tag", |(pieces, tail): &(Vec<String>, String)| {
            pieces.iter().chain([tail]).all(|piece| !piece.contains('к') && !piece.contains('и'))
        })
        .boxed()
}

/// Lines, often with `mark` before the last of them.
pub(super) fn worked(mark: &'static str) -> BoxedStrategy<String> {
    (texts(), option::of(text()))
        .prop_map(move |(lines, last)| {
            let last = last.map(|last| format!("{mark}{last}"));
            lines.into_iter().chain(last).collect::<Vec<_>>().join("\n")
        })
        .boxed()
}
