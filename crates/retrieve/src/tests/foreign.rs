//! Pools from elsewhere: what a hostile one could make this program read, write, remove, wait for or skip.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::fake::{Words, records};
use super::pool::{build, contents, encoder, names, settings};
use crate::pool::{self, Pool, PoolManifest, Settings};

/// A pool of a few questions, and a file outside of it that must stay as it is.
struct World {
    root: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        build(&world.pool(), records(0..6), &Words::default()).await.unwrap();
        fs::write(world.victim(), "years of work").unwrap();
        world
    }

    fn pool(&self) -> PathBuf {
        self.root.path().join("p")
    }

    fn victim(&self) -> PathBuf {
        self.root.path().join("victim")
    }

    /// Changes the manifest, checksum included.
    fn forge(&self, change: impl FnOnce(&mut PoolManifest)) {
        let mut manifest = PoolManifest::read(&self.pool()).unwrap();
        change(&mut manifest);
        manifest.write(&self.pool()).unwrap();
    }

    /// Opening and adding are refused in one line, and nothing has happened to the other file.
    async fn refuses(&self, what: &str) -> String {
        let before = names(&self.pool());
        let opened = Pool::open_any(&self.pool()).expect_err(what).to_string();
        let model = Words::default();
        let added = pool::add(&self.pool(), records(6..8), &encoder(&model), &settings(), |_| true).await;
        let added = added.expect_err(what).to_string();
        assert!(!opened.contains('\n') && !added.contains('\n'), "{what}: {opened}: {added}");
        assert_eq!(fs::read_to_string(self.victim()).unwrap(), "years of work", "{what}");
        assert_eq!((names(&self.pool()), names(self.root.path()).len()), (before, 2), "{what}");
        opened
    }
}

#[tokio::test]
async fn a_manifest_names_the_files_of_its_pool_and_no_others() {
    let world = World::new().await;
    let sound = fs::read(world.pool().join("manifest.json")).unwrap();
    let absolute = world.victim().display().to_string();
    let others = [
        absolute.as_str(),
        "../victim",
        "steps.f32/../../victim",
        "./steps.f32",
        "",
        "..",
        "manifest.json",
        "questions.f32",
        "steps.2.f32",
        "steps.01.f32",
        "steps.1.f32",
        "steps.99999999999999999999.f32",
        "steps\0.f32",
        "steps.f32\n",
    ];
    for name in others {
        world.forge(|manifest| manifest.files.get_mut("steps").unwrap().name = name.to_owned());
        let message = world.refuses(name).await;
        assert!(message.contains("as the file for \"steps\", which no pool has"), "{name}: {message}");
        fs::write(world.pool().join("manifest.json"), &sound).unwrap();
    }
    // A name that nothing reads was removed all the same, and its size kept the others from being verified.
    let mut steps = fs::read(world.pool().join("steps.f32")).unwrap();
    steps[5] ^= 1;
    fs::write(world.pool().join("steps.f32"), &steps).unwrap();
    world.forge(|manifest| {
        let mut entry = manifest.files["steps"].clone();
        (entry.name, entry.bytes) = ("../victim".to_owned(), 2 << 30);
        manifest.files.insert("more".to_owned(), entry);
    });
    let message = world.refuses("another file").await;
    assert!(message.contains("names \"../victim\" as the file for \"more\""), "{message}");
}

#[tokio::test]
async fn checksums_are_compared_whatever_size_is_claimed() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    let (model, large) = (Words::default(), Settings { graph_from: 20, ..settings() });
    pool::build(&path, records(0..30), &encoder(&model), &large, None, |_| true).await.unwrap();
    let mut steps = fs::read(path.join("steps.f32")).unwrap();
    steps[5] ^= 1;
    fs::write(path.join("steps.f32"), &steps).unwrap();
    let mut manifest = PoolManifest::read(&path).unwrap();
    manifest.files.get_mut("graph").unwrap().bytes = 2 << 30;
    manifest.write(&path).unwrap();
    let message = Pool::open_any(&path).unwrap_err().to_string();
    assert!(message.contains("steps.f32: is damaged"), "{message}");
}

#[cfg(unix)]
#[tokio::test]
async fn links_folders_and_pipes_in_the_place_of_files_are_refused() {
    let world = World::new().await;
    for name in names(&world.pool()) {
        let (path, aside) = (world.pool().join(&name), world.root.path().join("aside"));
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let refused = |what: &str| {
            let message = Pool::open_any(&world.pool()).expect_err(what).to_string();
            assert!(message.contains(&name) && message.contains(what), "{message}");
        };
        fs::write(&aside, &content).unwrap();
        std::os::unix::fs::symlink(&aside, &path).unwrap();
        refused("is a symbolic link");
        fs::remove_file(&path).unwrap();
        fs::remove_file(&aside).unwrap();
        fs::create_dir(&path).unwrap();
        refused("is a folder");
        fs::remove_dir(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        refused("is a pipe");
        fs::remove_file(&path).unwrap();
        fs::write(&path, content).unwrap();
    }
    Pool::open_any(&world.pool()).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn adding_writes_and_removes_in_the_folder_only() {
    use std::os::unix::fs::symlink;
    let world = World::new().await;
    let at = |name: &str| world.pool().join(name);
    let secret = world.root.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("kept"), "1").unwrap();
    for name in ["steps.2.f32", "layout.2.u32", "guard.7.u64"] {
        symlink(world.victim(), at(name)).unwrap();
    }
    symlink(&secret, at("texts.9.u64")).unwrap();
    // What a killed addition left is removed; what has no name of a pool's file is not.
    fs::write(at("pca.5.f32"), "half").unwrap();
    for name in ["notes.txt", "steps.x.f32", "steps.03.f32", "steps.3.f64"] {
        fs::write(at(name), "mine").unwrap();
    }
    fs::create_dir(at("layout.9.u32")).unwrap();
    let model = Words::default();
    pool::add(&world.pool(), records(4..9), &encoder(&model), &settings(), |_| true).await.unwrap();
    assert_eq!(fs::read_to_string(world.victim()).unwrap(), "years of work");
    assert!(secret.join("kept").exists());
    let mut expected =
        vec!["layout.9.u32", "manifest.json", "notes.txt", "steps.03.f32", "steps.3.f64", "steps.x.f32"];
    expected.extend([
        "guard.2.u64",
        "layout.2.u32",
        "questions.2.f32",
        "steps.2.f32",
        "texts.2.u64",
        "texts.2.utf8",
    ]);
    expected.sort_unstable();
    assert_eq!(names(&world.pool()), expected);
    assert!(at("steps.2.f32").symlink_metadata().unwrap().is_file());
    let whole = world.root.path().join("whole");
    build(&whole, records(0..9), &model).await.unwrap();
    let open = |path: &Path| contents(&Pool::open_any(path).unwrap());
    assert_eq!(open(&world.pool()), open(&whole));
}

#[tokio::test]
async fn absurd_numbers_are_refused() {
    let world = World::new().await;
    let sound = fs::read(world.pool().join("manifest.json")).unwrap();
    let changes: [fn(&mut PoolManifest); 9] = [
        |manifest| manifest.counts.questions = usize::MAX,
        |manifest| manifest.counts.solutions = usize::MAX / 2,
        |manifest| manifest.counts.steps = 1 << 40,
        |manifest| manifest.counts.guard_keys = usize::MAX / 12 + 1,
        |manifest| manifest.dimension = 0,
        |manifest| manifest.kept = 0,
        |manifest| (manifest.dimension, manifest.kept) = (1 << 60, 1 << 60),
        |manifest| manifest.kept += 1,
        |manifest| manifest.guard.shingle = 0,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        world.forge(change);
        world.refuses(&format!("change {index}")).await;
        fs::write(world.pool().join("manifest.json"), &sound).unwrap();
    }
    Pool::open_any(&world.pool()).unwrap();
    fs::write(world.pool().join("manifest.json"), vec![b' '; 2 << 20]).unwrap();
    assert!(world.refuses("a large manifest").await.contains("has more than 1048576 bytes"));
}

/// A question without a solution has nothing to show: searching would come upon it.
#[tokio::test]
async fn every_question_of_a_pool_has_a_solution() {
    let world = World::new().await;
    let manifest = PoolManifest::read(&world.pool()).unwrap();
    let path = world.pool().join(&manifest.files["layout"].name);
    let mut layout = fs::read(&path).unwrap();
    layout[4..8].copy_from_slice(&0_u32.to_le_bytes());
    fs::write(&path, &layout).unwrap();
    world.forge(|manifest| {
        manifest.files.get_mut("layout").unwrap().blake3 = blake3::hash(&layout).to_hex().to_string();
    });
    let message = world.refuses("no solution").await;
    assert!(message.ends_with("is damaged: its entries make no sense"), "{message}");
}
