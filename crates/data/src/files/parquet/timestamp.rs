//! Points in time as text: `2020-01-31T12:00:00.000Z`, or without `Z` where the column holds local time.
//!
//! Parquet's record interface writes milliseconds and microseconds, always as UTC, and hands out nanoseconds as whole
//! numbers. The column's logical type knows the unit, and whether it is UTC; a column without one holds UTC.

use parquet::basic::{LogicalType, TimeUnit};
use parquet::record::Field;
use parquet::schema::types::Type;

/// A point in time or a time of day as text; none for a field that is neither.
pub(super) fn text(field: &Field, column: Option<&Type>) -> Option<String> {
    let logical = column.and_then(|column| column.get_basic_info().logical_type_ref());
    match (field, logical) {
        (Field::Long(value), Some(LogicalType::Timestamp(kind))) => {
            let text = match kind.unit {
                TimeUnit::MILLIS => written(&Field::TimestampMillis(*value)),
                TimeUnit::MICROS => written(&Field::TimestampMicros(*value)),
                TimeUnit::NANOS => {
                    with_nanoseconds(*value, |millis| written(&Field::TimestampMillis(millis)))
                }
            };
            Some(zoned(text, kind.is_adjusted_to_u_t_c))
        }
        (Field::Long(value), Some(LogicalType::Time(kind))) if kind.unit == TimeUnit::NANOS => {
            Some(with_nanoseconds(*value, |millis| Field::TimeMillis(millis as i32).to_string()))
        }
        (Field::TimestampMillis(_) | Field::TimestampMicros(_), logical) => {
            let local = matches!(logical, Some(LogicalType::Timestamp(kind)) if !kind.is_adjusted_to_u_t_c);
            Some(zoned(written(field), !local))
        }
        _ => None,
    }
}

/// `2020-01-31T12:00:00.000`, of what the record interface writes as `2020-01-31 12:00:00.000 +00:00`.
fn written(field: &Field) -> String {
    field.to_string().trim_end_matches(" +00:00").replacen(' ', "T", 1)
}

fn zoned(text: String, utc: bool) -> String {
    if utc { text + "Z" } else { text }
}

/// The text of the milliseconds, its fraction of a second in nanoseconds.
fn with_nanoseconds(nanoseconds: i64, text: impl FnOnce(i64) -> String) -> String {
    let text = text(nanoseconds.div_euclid(1_000_000));
    let seconds = text.rsplit_once('.').map_or(text.as_str(), |(seconds, _)| seconds);
    format!("{seconds}.{:09}", nanoseconds.rem_euclid(1_000_000_000))
}
