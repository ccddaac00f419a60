//! The metrics as a TensorBoard event file: `events.out.tfevents.SECONDS.gradus`.
//!
//! A file is a row of records (`TFRecord`): length, its checksum, the bytes, their checksum, with masked CRC-32C sums.
//! The bytes are an `Event` in Protocol Buffers, of which scalars need few fields:
//!
//! ```text
//! Event          { 1: wall_time double, 2: step int64, 3: file_version string, 5: summary Summary }
//! Summary        { 1: repeated Summary.Value }
//! Summary.Value  { 1: tag string, 2: simple_value float }
//! ```

use super::metrics::MetricsLine;

/// The name of an event file that begins with this line.
pub(crate) fn file_name(first: Option<&MetricsLine>) -> String {
    format!("events.out.tfevents.{:010}.gradus", first.map_or(0, |line| line.time as u64))
}

/// A whole event file with these lines; tags are `split/name`.
pub(crate) fn events(lines: &[MetricsLine]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut version = Vec::new();
    double(&mut version, 1, lines.first().map_or(0.0, |line| line.time));
    bytes(&mut version, 3, b"brain.Event:2");
    record(&mut file, &version);
    for line in lines {
        let mut summary = Vec::new();
        for (name, value) in &line.values {
            let mut scalar = Vec::new();
            bytes(&mut scalar, 1, format!("{}/{name}", line.split).as_bytes());
            tag(&mut scalar, 2, 5);
            scalar.extend((*value as f32).to_le_bytes());
            bytes(&mut summary, 1, &scalar);
        }
        let mut event = Vec::new();
        double(&mut event, 1, line.time);
        tag(&mut event, 2, 0);
        varint(&mut event, line.step);
        bytes(&mut event, 5, &summary);
        record(&mut file, &event);
    }
    file
}

fn record(file: &mut Vec<u8>, data: &[u8]) {
    let length = (data.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(masked(&length).to_le_bytes());
    file.extend(data);
    file.extend(masked(data).to_le_bytes());
}

fn masked(data: &[u8]) -> u32 {
    crc32c::crc32c(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn tag(out: &mut Vec<u8>, field: u64, wire: u64) {
    varint(out, field << 3 | wire);
}

fn double(out: &mut Vec<u8>, field: u64, value: f64) {
    tag(out, field, 1);
    out.extend(value.to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    tag(out, field, 2);
    varint(out, value.len() as u64);
    out.extend(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a file that TensorBoard has read back:
    ///
    /// ```python
    /// from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    /// events = EventAccumulator("events.out.tfevents.1772366400.gradus")
    /// events.Reload()
    /// print({tag: [(e.wall_time, e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]})
    /// ```
    #[test]
    fn the_file_that_tensorboard_read() {
        let line = |step, split: &str, loss| MetricsLine {
            time: 1_772_366_400.25,
            ..MetricsLine::now(step, split, [("loss", loss), ("f1", 0.5)])
        };
        let lines = [line(1, "train", 0.75), line(300, "eval", f64::NAN)];
        let file = events(&lines);
        if let Some(folder) = std::env::var_os("GRADUS_KEEP_EVENTS") {
            std::fs::write(std::path::Path::new(&folder).join(file_name(lines.first())), &file).unwrap();
        }
        assert_eq!(file_name(lines.first()), "events.out.tfevents.1772366400.gradus");
        insta::assert_snapshot!(blake3::hash(&file).to_hex().as_str(), @"c98e870a807e9c6e24cda49782279d3448f4aac91c15f2649e4e59189b64356d");
    }
}
