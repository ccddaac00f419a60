//! Every recipe that ships can be read, and every profile beside them.

use std::path::{Path, PathBuf};

use gradus_engine::profile::Profile;

use crate::run::Recipe;

fn toml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            toml_files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn all_of_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    let mut found = Vec::new();
    toml_files(&root, &mut found);
    let (profiles, recipes): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|path| path.parent().is_some_and(|folder| folder.ends_with("profiles")));
    assert!(recipes.len() >= 14 && !profiles.is_empty());
    for path in recipes {
        let recipe = Recipe::read(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Recipe::parse(&recipe.to_toml(), "again", &[]).unwrap(), recipe, "{}", path.display());
    }
    for path in profiles {
        Profile::find(&path.display().to_string()).unwrap_or_else(|error| panic!("{error}"));
    }
}
