//! Plain files: what may be read, written and removed in a folder that came from elsewhere.
//!
//! A pool, a run or a model may have been made by anybody, so the names in it and the things under those names are data.
//! A name must not lead out of its folder (`../x`, `/etc/passwd`), a symbolic link is not followed, and what is opened is
//! a regular file: nobody writes into a pipe, which would be waited for without end.
//!
//! A name that a user typed is another matter: [`crate::replace_file`] follows the user's own links.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// True for the name of something directly in a folder: no separator, no `..`, no control character.
///
/// ```
/// use gradus_durable::is_plain_name;
/// assert!(is_plain_name("steps.2.f32"));
/// assert!(["../x", "/etc/passwd", "a/b", "..", "", "a\nb", "a\0b"].iter().all(|name| !is_plain_name(name)));
/// ```
pub fn is_plain_name(name: &str) -> bool {
    (1..=255).contains(&name.len())
        && ![".", ".."].contains(&name)
        && !name.contains(['/', '\\'])
        && !name.contains(char::is_control)
}

/// The path of `name` in `folder`. Any other than a plain name is refused.
pub fn plain_path(folder: &Path, name: &str) -> Result<PathBuf> {
    match is_plain_name(name) {
        true => Ok(folder.join(name)),
        false => Err(Error::said(folder, format!("{name:?} is not the name of a file in this folder"))),
    }
}

/// Opens a regular file to read it. A symbolic link, a folder, a pipe or a device is refused.
pub fn open_plain(path: &Path) -> Result<File> {
    open_with(File::options().read(true), path)
}

/// The content of a regular file of at most `limit` bytes.
pub fn read_plain(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = open_plain(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(Error::at(path))?;
    match bytes.len() as u64 > limit {
        true => Err(Error::said(path, format!("has more than {limit} bytes, too many for such a file"))),
        false => Ok(bytes),
    }
}

/// Removes a file or a symbolic link, never what the link leads to. True when it was there; a folder is refused.
pub fn remove_plain(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::at(path)(error)),
    }
}

/// Refuses a folder in which one of `files` is no regular file, or one of `folders` no folder. What is missing is fine.
pub fn check_plain(folder: &Path, files: &[&str], folders: &[&str]) -> Result<()> {
    let kinds = files.iter().map(|name| (name, false)).chain(folders.iter().map(|name| (name, true)));
    for (name, is_folder) in kinds {
        let path = plain_path(folder, name)?;
        let kind = match path.symlink_metadata() {
            Ok(about) => about.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::at(&path)(error)),
        };
        if (is_folder && !kind.is_dir()) || (!is_folder && !kind.is_file()) {
            return Err(wrong_kind(&path, kind, if is_folder { "folder" } else { "file" }));
        }
    }
    Ok(())
}

/// Opens a regular file with these options.
pub(crate) fn open_with(options: &mut OpenOptions, path: &Path) -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let link = || path.symlink_metadata().ok().map(|about| about.file_type()).filter(FileType::is_symlink);
    if !cfg!(unix)
        && let Some(kind) = link()
    {
        return Err(wrong_kind(path, kind, "file"));
    }
    let file = options.open(path).map_err(|error| match link() {
        Some(kind) => wrong_kind(path, kind, "file"),
        None => Error::at(path)(error),
    })?;
    let kind = file.metadata().map_err(Error::at(path))?.file_type();
    if kind.is_file() { Ok(file) } else { Err(wrong_kind(path, kind, "file")) }
}

fn wrong_kind(path: &Path, kind: FileType, expected: &str) -> Error {
    let found = match () {
        () if kind.is_symlink() => "a symbolic link, which is not followed here",
        () if kind.is_dir() => "a folder",
        () if kind.is_file() => "a file",
        () => "a pipe, socket or device",
    };
    Error::said(path, format!("is {found}: expected a {expected}"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;
    use crate::{AppendFile, PendingFile, replace_file, replace_plain_file};

    fn pipe(path: &Path) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn only_a_regular_file_in_the_folder_is_opened() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("foreign");
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(root.path().join("secret"), "secret").unwrap();
        fs::write(folder.join("file"), "12345").unwrap();
        symlink("../secret", folder.join("link")).unwrap();
        symlink("inner", folder.join("linked")).unwrap();
        symlink("/nowhere/at/all", folder.join("dangling")).unwrap();
        pipe(&folder.join("pipe"));
        for name in ["../secret", "/etc/hostname", "inner/x", ".", "..", "", "a\nb", "a\0b", "a\\b"] {
            let message = plain_path(&folder, name).unwrap_err().to_string();
            assert!(message.contains("is not the name of a file") && !message.contains('\n'), "{message}");
        }
        let said = |name: &str| {
            let opened = open_plain(&plain_path(&folder, name).unwrap());
            let appended = AppendFile::open(&folder.join(name)).err().unwrap().to_string();
            let message = opened.unwrap_err().to_string();
            assert!(name == "inner" || message == appended, "{appended}");
            message.split_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(said("link"), "is a symbolic link, which is not followed here: expected a file");
        assert_eq!(said("dangling"), said("link"));
        assert_eq!(said("inner"), "is a folder: expected a file");
        assert_eq!(said("pipe"), "is a pipe, socket or device: expected a file");
        assert_eq!(read_plain(&folder.join("file"), 5).unwrap(), b"12345");
        assert!(read_plain(&folder.join("file"), 4).unwrap_err().to_string().contains("more than 4 bytes"));
        check_plain(&folder, &["file", "absent"], &["inner"]).unwrap();
        for (files, folders) in [(["link"], ["inner"]), (["inner"], ["inner"]), (["pipe"], ["inner"])] {
            check_plain(&folder, &files, &folders).unwrap_err();
        }
        let message = check_plain(&folder, &[], &["linked"]).unwrap_err().to_string();
        assert!(message.ends_with("is a symbolic link, which is not followed here: expected a folder"));
        assert!(
            check_plain(&folder, &[], &["file"]).unwrap_err().to_string().contains("is a file: expected")
        );
    }

    #[test]
    fn what_a_link_leads_to_is_neither_replaced_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        let (secret, link) = (root.path().join("secret"), root.path().join("link"));
        fs::write(&secret, "secret").unwrap();
        symlink(&secret, &link).unwrap();
        replace_plain_file(&link, b"new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_file());
        assert_eq!(
            (fs::read(&secret).unwrap(), fs::read(&link).unwrap()),
            (b"secret".to_vec(), b"new".to_vec())
        );
        fs::remove_file(&link).unwrap();
        symlink(&secret, &link).unwrap();
        assert!(remove_plain(&link).unwrap() && !remove_plain(&link).unwrap() && secret.exists());
        pipe(&link);
        replace_plain_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"new");
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(remove_plain(&folder).is_err() && replace_plain_file(&folder, b"").is_err());
    }

    /// A temporary name that is a pipe was opened to be locked, and waited for without end.
    #[test]
    fn leftovers_are_not_waited_for_nor_followed() {
        let root = tempfile::tempdir().unwrap();
        let (folder, secret) = (root.path().join("foreign"), root.path().join("secret"));
        fs::create_dir(&folder).unwrap();
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("kept"), "1").unwrap();
        pipe(&folder.join(".gradus-unfinished-x-a1B2c3"));
        symlink(&secret, folder.join(".gradus-unfinished-x-d1B2c3")).unwrap();
        replace_file(&folder.join("x"), b"1").unwrap();
        drop(PendingFile::create_plain(&folder.join("x")).unwrap());
        assert!(secret.join("kept").exists());
    }
}
