//! Which columns JSON rows need, and the rows shredded into them.
//!
//! Every column is optional, so a null or missing field is a null. A value becomes definition and repetition levels as in
//! Dremel: a list adds one repetition level and two definition levels (there is a list, it has an item).
//!
//! Whole numbers are 64-bit integers, other numbers doubles, and a column with both holds doubles. A column that is null in
//! all rows that were looked at stays null. Scalars of different types make no column.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::schema::types::Type;
use serde_json::{Map, Value};

/// A column, or a tree of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Column {
    /// Null in every row so far.
    Null,
    Bool,
    Integer,
    Double,
    Text,
    /// Scalars that have no type in common: the first that was seen.
    Mixed,
    List(Box<Column>),
    Struct(Vec<(String, Column)>),
}

/// The values of one leaf column, with their levels.
pub(super) struct Leaf {
    pub(super) values: Values,
    pub(super) definition: Vec<i16>,
    pub(super) repetition: Vec<i16>,
    bytes_of_values: usize,
}

pub(super) enum Values {
    Null,
    Bool(Vec<bool>),
    Integer(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// Where in a record a value does not fit, outermost field first, and why.
pub(super) struct Misfit {
    fields: Vec<String>,
    reason: String,
}

impl Misfit {
    fn new(reason: String) -> Self {
        Self { fields: Vec::new(), reason }
    }

    fn inside(mut self, field: &str) -> Self {
        self.fields.insert(0, field.to_owned());
        self
    }
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.fields.is_empty() {
            write!(f, "field `{}`: ", self.fields.join("."))?;
        }
        write!(
            f,
            "Parquet needs the same columns and types in every row ({}): write JSONL instead",
            self.reason
        )
    }
}

impl Column {
    /// The column that holds what `self` holds and `value` as well.
    pub(super) fn widened(self, value: &Value) -> std::result::Result<Self, Misfit> {
        let misfit = |expected: &str| Err(Misfit::new(format!("expected {expected} got {}", shown(value))));
        Ok(match (self, value) {
            (column, Value::Null) => column,
            (Self::Null | Self::Bool, Value::Bool(_)) => Self::Bool,
            (Self::Null | Self::Text, Value::String(_)) => Self::Text,
            (Self::Null | Self::Integer, Value::Number(number)) if number.is_i64() => Self::Integer,
            (Self::Null | Self::Integer | Self::Double, Value::Number(_)) => Self::Double,
            (Self::Null, Value::Array(items)) => Self::List(Box::new(Self::Null.widened_by(items)?)),
            (Self::List(item), Value::Array(items)) => Self::List(Box::new(item.widened_by(items)?)),
            (Self::Null, Value::Object(fields)) => Self::Struct(Vec::new()).with_fields(fields)?,
            (column @ Self::Struct(_), Value::Object(fields)) => column.with_fields(fields)?,
            (Self::List(_), _) => return misfit("a list"),
            (Self::Struct(_), _) => return misfit("an object"),
            (_, Value::Array(_) | Value::Object(_)) => return misfit("a scalar"),
            (Self::Bool | Self::Integer | Self::Double | Self::Text | Self::Mixed, _) => Self::Mixed,
        })
    }

    fn widened_by(self, items: &[Value]) -> std::result::Result<Self, Misfit> {
        items.iter().try_fold(self, Self::widened)
    }

    fn with_fields(self, fields: &Map<String, Value>) -> std::result::Result<Self, Misfit> {
        let Self::Struct(mut columns) = self else { unreachable!("only a struct has fields") };
        for (name, value) in fields {
            let place = columns.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                columns.push((name.clone(), Self::Null));
                columns.len() - 1
            });
            let column = std::mem::replace(&mut columns[place].1, Self::Null);
            columns[place].1 = column.widened(value).map_err(|misfit| misfit.inside(name))?;
        }
        Ok(Self::Struct(columns))
    }

    /// Parquet's type of this column.
    pub(super) fn parquet(&self, name: &str) -> parquet::errors::Result<Type> {
        let leaf = |physical, logical| {
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build()
        };
        match self {
            Self::Null => leaf(Physical::INT32, Some(LogicalType::Unknown)),
            Self::Bool => leaf(Physical::BOOLEAN, None),
            Self::Integer => leaf(Physical::INT64, None),
            Self::Double => leaf(Physical::DOUBLE, None),
            Self::Text | Self::Mixed => leaf(Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Self::List(item) => {
                let items = Type::group_type_builder("list")
                    .with_repetition(Repetition::REPEATED)
                    .with_fields(vec![Arc::new(item.parquet("element")?)])
                    .build()?;
                Type::group_type_builder(name)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_logical_type(Some(LogicalType::List))
                    .with_fields(vec![Arc::new(items)])
                    .build()
            }
            Self::Struct(fields) => Type::group_type_builder(name)
                .with_repetition(Repetition::OPTIONAL)
                .with_fields(parquet_fields(fields)?)
                .build(),
        }
    }

    /// An object without fields has no leaf that could say that it is there.
    pub(super) fn check(&self) -> std::result::Result<(), Misfit> {
        match self {
            Self::Struct(fields) if fields.is_empty() => {
                Err(Misfit::new("an object has no fields in any row".to_owned()))
            }
            Self::Struct(fields) => fields
                .iter()
                .try_for_each(|(name, column)| column.check().map_err(|misfit| misfit.inside(name))),
            Self::List(item) => item.check(),
            _ => Ok(()),
        }
    }

    /// Empty leaves, in the order of Parquet's columns.
    pub(super) fn leaves(&self, into: &mut Vec<Leaf>) {
        let values = match self {
            Self::List(item) => return item.leaves(into),
            Self::Struct(fields) => return fields.iter().for_each(|(_, column)| column.leaves(into)),
            Self::Null => Values::Null,
            Self::Bool => Values::Bool(Vec::new()),
            Self::Integer => Values::Integer(Vec::new()),
            Self::Double => Values::Double(Vec::new()),
            Self::Text | Self::Mixed => Values::Text(Vec::new()),
        };
        into.push(Leaf { values, definition: Vec::new(), repetition: Vec::new(), bytes_of_values: 0 });
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Integer => "integer",
            Self::Double => "number",
            Self::Text | Self::Mixed => "string",
            Self::List(_) => "list",
            Self::Struct(_) => "object",
        }
    }

    fn number_of_leaves(&self) -> usize {
        match self {
            Self::List(item) => item.number_of_leaves(),
            Self::Struct(fields) => fields.iter().map(|(_, column)| column.number_of_leaves()).sum(),
            _ => 1,
        }
    }
}

pub(super) fn parquet_fields(fields: &[(String, Column)]) -> parquet::errors::Result<Vec<Arc<Type>>> {
    fields.iter().map(|(name, column)| column.parquet(name).map(Arc::new)).collect()
}

/// The levels that a value starts with.
#[derive(Clone, Copy)]
struct Levels {
    definition: i16,
    repetition: i16,
    /// How many lists the value is inside of.
    depth: i16,
}

/// Appends a row to the leaves of `fields`.
pub(super) fn shred(
    fields: &[(String, Column)],
    row: &Value,
    leaves: &mut [Leaf],
) -> std::result::Result<(), Misfit> {
    let Value::Object(object) = row else {
        return Err(Misfit::new(format!("expected an object got {}", shown(row))));
    };
    shred_fields(fields, object, leaves, Levels { definition: 0, repetition: 0, depth: 0 })
}

fn shred_fields(
    fields: &[(String, Column)],
    object: &Map<String, Value>,
    mut leaves: &mut [Leaf],
    levels: Levels,
) -> std::result::Result<(), Misfit> {
    if let Some(name) = object.keys().find(|name| fields.iter().all(|(known, _)| known != *name)) {
        return Err(Misfit::new(format!("column '{name}' is missing from the rows before")));
    }
    for (name, column) in fields {
        let (own, rest) = leaves.split_at_mut(column.number_of_leaves());
        let value = object.get(name).unwrap_or(&Value::Null);
        shred_value(column, value, own, levels).map_err(|misfit| misfit.inside(name))?;
        leaves = rest;
    }
    Ok(())
}

fn shred_value(
    column: &Column,
    value: &Value,
    leaves: &mut [Leaf],
    levels: Levels,
) -> std::result::Result<(), Misfit> {
    if value.is_null() {
        mark(leaves, levels);
        return Ok(());
    }
    let present = Levels { definition: levels.definition + 1, ..levels };
    match (column, value) {
        (Column::Struct(fields), Value::Object(object)) => shred_fields(fields, object, leaves, present),
        (Column::List(_), Value::Array(items)) if items.is_empty() => {
            mark(leaves, present);
            Ok(())
        }
        (Column::List(item), Value::Array(items)) => {
            let depth = levels.depth + 1;
            for (index, value) in items.iter().enumerate() {
                let repetition = if index == 0 { levels.repetition } else { depth };
                let inside = Levels { definition: present.definition + 1, repetition, depth };
                shred_value(item, value, leaves, inside)?;
            }
            Ok(())
        }
        (Column::List(_) | Column::Struct(_), _) => {
            Err(Misfit::new(format!("expected {} got {}", column.name(), shown(value))))
        }
        _ => {
            leaves[0].values.push(column, value)?;
            leaves[0].bytes_of_values += value.as_str().map_or(8, |text| 32 + text.len());
            mark(leaves, present);
            Ok(())
        }
    }
}

/// Writes the levels of one value, or of one null for every leaf below it.
fn mark(leaves: &mut [Leaf], levels: Levels) {
    for leaf in leaves {
        leaf.definition.push(levels.definition);
        leaf.repetition.push(levels.repetition);
    }
}

impl Leaf {
    /// About how many bytes it keeps.
    pub(super) fn bytes(&self) -> usize {
        4 * self.definition.len() + self.bytes_of_values
    }
}

impl Values {
    fn push(&mut self, column: &Column, value: &Value) -> std::result::Result<(), Misfit> {
        match (self, value) {
            (Self::Bool(values), Value::Bool(value)) => values.push(*value),
            (Self::Text(values), Value::String(value)) => values.push(value.as_str().into()),
            (Self::Integer(values), Value::Number(number)) if number.is_i64() => {
                values.extend(number.as_i64());
            }
            (Self::Double(values), Value::Number(number)) => values.extend(number.as_f64()),
            _ => return Err(Misfit::new(format!("expected {} got {}", column.name(), shown(value)))),
        }
        Ok(())
    }
}

/// A value in an error: its beginning.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
