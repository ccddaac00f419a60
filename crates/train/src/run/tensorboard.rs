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

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use gradus_durable::replace_plain_file;

use super::metrics::MetricsLine;
use crate::Result;
use crate::error::io;

/// How the names of event files begin and end.
const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".gradus";

/// An event file that grows with its run, so that TensorBoard shows it while it trains.
#[derive(Debug)]
pub(super) struct EventFile {
    folder: PathBuf,
    /// Open from the first line on, whose time is in its name.
    open: Option<(PathBuf, File)>,
}

impl EventFile {
    /// Begins with the lines that a run has so far. Event files from before, which may have more, are removed.
    pub(super) fn begin(folder: &Path, lines: &[MetricsLine]) -> Result<Self> {
        for entry in fs::read_dir(folder).map_err(io(folder))? {
            let entry = entry.map_err(io(folder))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
                fs::remove_file(entry.path()).map_err(io(&entry.path()))?;
            }
        }
        let mut events = Self { folder: folder.to_owned(), open: None };
        if !lines.is_empty() {
            events.create(lines)?;
        }
        Ok(events)
    }

    /// Adds a line.
    pub(super) fn append(&mut self, line: &MetricsLine) -> Result<()> {
        match &mut self.open {
            None => self.create(std::slice::from_ref(line)),
            Some((path, file)) => file.write_all(&event(line)).map_err(io(path)),
        }
    }

    fn create(&mut self, lines: &[MetricsLine]) -> Result<()> {
        let path = self.folder.join(file_name(lines.first()));
        replace_plain_file(&path, &events(lines))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(io(&path))?;
        self.open = Some((path, file));
        Ok(())
    }
}

/// The name of an event file that begins with this line.
fn file_name(first: Option<&MetricsLine>) -> String {
    format!("{PREFIX}{:010}{SUFFIX}", first.map_or(0, |line| line.time as u64))
}

/// A whole event file with these lines.
fn events(lines: &[MetricsLine]) -> Vec<u8> {
    let mut version = Vec::new();
    double(&mut version, 1, lines.first().map_or(0.0, |line| line.time));
    bytes(&mut version, 3, b"brain.Event:2");
    let mut file = Vec::new();
    record(&mut file, &version);
    lines.iter().for_each(|line| file.extend(event(line)));
    file
}

/// One line as a record; tags are `split/name`.
fn event(line: &MetricsLine) -> Vec<u8> {
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
    let mut framed = Vec::new();
    record(&mut framed, &event);
    framed
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

    #[test]
    fn a_file_that_grows_and_begins_again_is_as_if_written_at_once() {
        let root = tempfile::tempdir().unwrap();
        let line = |step: u64| MetricsLine {
            time: 100.0 + step as f64,
            ..MetricsLine::now(step, "train", [("loss", 1.0 / step as f64)])
        };
        let lines = [line(1), line(2), line(3)];
        let path = root.path().join("events.out.tfevents.0000000101.gradus");
        let mut growing = EventFile::begin(root.path(), &[]).unwrap();
        for (count, line) in lines.iter().enumerate() {
            growing.append(line).unwrap();
            assert_eq!(fs::read(&path).unwrap(), events(&lines[..=count]));
        }
        // Resumed from step 1, and later without any checkpoint.
        let mut resumed = EventFile::begin(root.path(), &lines[..1]).unwrap();
        resumed.append(&lines[1]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), events(&lines[..2]));
        EventFile::begin(root.path(), &[]).unwrap().append(&line(7)).unwrap();
        let names: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["events.out.tfevents.0000000107.gradus"]);
    }

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
