//! Inspect's `.eval` logs: a zip archive with one JSON file for each sample.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use gradus_core::limits::Limit;
use gradus_core::{Fault, json};
use serde_json::Value;
use zip::ZipArchive;

use crate::{Error, Result, SourceLocation};

/// Iterates over the samples of an archive, in the order of their names.
pub(super) struct ArchivedSamples {
    archive: ZipArchive<BufReader<File>>,
    names: std::vec::IntoIter<String>,
    path: Arc<Path>,
    read: u64,
}

impl ArchivedSamples {
    pub(super) fn open(file: File, path: Arc<Path>) -> Result<Self> {
        let broken = |message: String| Error::Broken {
            place: SourceLocation { path: path.clone(), line: 1 },
            message,
        };
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| broken(format!("the zip archive is damaged ({error}): get the file again")))?;
        let is_sample = |name: &String| name.starts_with("samples/") && name.ends_with(".json");
        let names = archive.file_names().filter_map(|name| Some(name.ok()?.into_owned()));
        let mut names: Vec<String> = names.filter(is_sample).collect();
        if names.is_empty() {
            let message =
                "the zip archive has no samples/*.json: expected an Inspect log (.eval), or unpack it";
            return Err(broken(message.to_owned()));
        }
        // Names are `samples/ID_epoch_N.json`: shorter numbers come first.
        names.sort_by_key(|name| (name.len(), name.clone()));
        Ok(Self { archive, names: names.into_iter(), path, read: 0 })
    }
}

impl Iterator for ArchivedSamples {
    type Item = Result<(u64, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.names.next()?;
        self.read += 1;
        let place = SourceLocation { path: self.path.clone(), line: self.read };
        let sample = sample(&mut self.archive, &name);
        Some(sample.map(|sample| (self.read, sample)).map_err(|reason| {
            let message = format!("{name} in the archive {reason}");
            Error::Record { place, fault: Fault::new("", message) }
        }))
    }
}

/// One file of the archive, within limits: the sizes that the archive states may be wrong.
fn sample(archive: &mut ZipArchive<BufReader<File>>, name: &str) -> std::result::Result<Value, String> {
    let damaged = |reason: &dyn Display| format!("cannot be read ({reason}): get the file again");
    let file = archive.by_name(name).map_err(|error| damaged(&error))?;
    let most = Limit::RecordBytes.value();
    let mut text = Vec::new();
    file.take(most + 1).read_to_end(&mut text).map_err(|error| damaged(&error))?;
    if text.len() as u64 > most {
        return Err(format!("has {}", Limit::RecordBytes.exceeded()));
    }
    json::check_values(&text).map_err(|limit| format!("has {limit}"))?;
    serde_json::from_slice(&text).map_err(|error| damaged(&error))
}
