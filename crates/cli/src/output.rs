//! Where a command's output goes: a file of this machine, or an address such as `s3://bucket/key`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use gradus_engine::models::Store as Home;
use gradus_remote::{Address, Expected};

/// Writes a file in one piece, here or elsewhere.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let Some(address) = Address::of(path) else { return Ok(gradus_durable::replace_file(path, bytes)?) };
    let folder = std::env::temp_dir();
    let file = folder.join(format!("gradus-{}-{}", std::process::id(), address.file_name()));
    gradus_durable::replace_file(&file, bytes)?;
    let expected = Expected::now(&address)?;
    gradus_remote::put(&address, &file, &expected)
        .with_context(|| format!("the output is kept in {}", file.display()))?;
    std::fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))
}

/// An output's name for messages and lists: addresses may have what is secret in them.
pub(crate) fn shown(path: &Path) -> Cow<'_, Path> {
    match Address::of(path) {
        Some(address) => Cow::Owned(PathBuf::from(address.to_string())),
        None => Cow::Borrowed(path),
    }
}

/// The folder of this machine in which a command works until its output is whole.
pub(crate) fn working_folder(output: &Path) -> PathBuf {
    match Address::of(output) {
        Some(_) => std::env::temp_dir(),
        None => match output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => folder.to_owned(),
            None => PathBuf::from("."),
        },
    }
}

/// The path to which an output's own files, such as its journal, add their endings: the output's, or one in our own folder.
pub(crate) fn local_name(output: &Path) -> Result<PathBuf> {
    let Some(address) = Address::of(output) else { return Ok(output.to_owned()) };
    let name = gradus_durable::journal_key(&address.to_string());
    let folder = Home::from_env()?.home.join("outputs");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    Ok(folder.join(format!("{}-{}", &name[..name.len().min(16)], address.file_name())))
}

/// A folder that a command works in, which must be on this machine.
pub(crate) fn local_folder(text: &str) -> std::result::Result<PathBuf, String> {
    match Address::parse(text) {
        Some(_) => {
            Err("the program works in this folder: name one of this machine, and send it with gradus push"
                .to_owned())
        }
        None => Ok(PathBuf::from(text)),
    }
}
