//! Several processes at one pool: one writes, the others read or are refused; and vectors that are not their texts'.

use std::path::Path;

use super::fake::{Words, records};
use super::pool::{build, contents, encoder, names, settings};
use crate::pool::{self, Pool, PoolManifest, VectorSample, verify_vectors};
use crate::{Error, Result};

/// Runs a future on a thread of its own, from the middle of another.
fn elsewhere<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> T {
    let run = || tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work());
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

async fn add(path: &Path, from: usize, to: usize) -> Result<pool::PoolBuildSummary> {
    let model = Words::default();
    pool::add(path, records(from..to), &encoder(&model), &settings(), |_| true).await
}

/// Of two additions at once the one that ended first was lost.
#[tokio::test]
async fn of_two_additions_at_once_the_second_is_refused_and_nothing_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    let model = Words::default();
    build(&path, records(0..10), &model).await.unwrap();
    let mut said = Vec::new();
    let link = root.path().join("link");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let watch = |_| {
        if said.is_empty() {
            // Under another name, too.
            for path in [&path, &link] {
                let error = elsewhere(|| add(path, 20, 30)).unwrap_err();
                assert!(matches!(error, Error::Pool { .. }));
                said.push(error.to_string());
            }
            // Readers go on.
            assert_eq!(Pool::open_any(&path).unwrap().manifest().counts.questions, 10);
        }
        true
    };
    pool::add(&path, records(10..20), &encoder(&model), &settings(), watch).await.unwrap();
    assert_eq!(said.len(), 2);
    for message in said {
        assert!(message.contains("p: is in use by another process: wait until"), "{message}");
    }
    assert_eq!(add(&path, 20, 30).await.unwrap().counts.questions, 30);
    assert_eq!(names(root.path()), ["link", "p"]);
}

/// Two builds took each other's vectors for their own.
#[tokio::test]
async fn of_two_builds_into_one_name_the_second_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    let (model, other) = (Words::default(), Words::default());
    let mut said = Vec::new();
    let watch = |_| {
        if said.len() < 2 {
            said.push(elsewhere(|| build(&path, records(20..40), &other)).unwrap_err().to_string());
        }
        true
    };
    pool::build(&path, records(0..20), &encoder(&model), &settings(), None, watch).await.unwrap();
    assert!(said.len() == 2 && said.iter().all(|message| message.contains("is in use by another process")));
    let pool = Pool::open_any(&path).unwrap();
    verify_vectors(&pool, &encoder(&model), VectorSample::All, |_, _| true).await.unwrap();
    assert_eq!(names(root.path()), ["p"]);
    let late = build(&path, records(20..40), &other).await.unwrap_err().to_string();
    assert!(late.ends_with("is there already: add to it, or remove it first"), "{late}");
}

/// A build that is killed when its pool is in place leaves its journal; the next one takes it away. That of an addition
/// stays: its vectors were paid for.
#[tokio::test]
async fn a_journal_whose_vectors_are_in_the_pool_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let (path, journal, kept) =
        (root.path().join("p"), root.path().join("p.embedded"), root.path().join("kept"));
    let keep = |_| std::fs::copy(&journal, &kept).is_ok();
    pool::build(&path, records(0..20), &encoder(&Words::default()), &settings(), None, keep).await.unwrap();
    std::fs::rename(&kept, &journal).unwrap();
    let late = build(&path, records(20..40), &Words::default()).await.unwrap_err().to_string();
    assert!(late.ends_with("is there already: add to it, or remove it first"), "{late}");
    assert_eq!(names(root.path()), ["p"]);
    let stop = |progress: pool::Progress| progress.done < 4;
    pool::add(&path, records(20..40), &encoder(&Words::default()), &settings(), stop).await.unwrap_err();
    build(&path, records(20..40), &Words::default()).await.unwrap_err();
    assert_eq!(names(root.path()), ["p", "p.embedded"]);
}

#[tokio::test]
async fn a_reader_that_has_the_old_manifest_reads_the_new_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    build(&path, records(0..10), &Words::default()).await.unwrap();
    let (open, old) = (Pool::open_any(&path).unwrap(), PoolManifest::read(&path).unwrap());
    let before = contents(&open);
    add(&path, 10, 20).await.unwrap();
    add(&path, 20, 30).await.unwrap();
    assert_eq!(contents(&open), before, "what is open stays");
    assert_eq!(Pool::open_from(&path, old).unwrap().manifest().counts.questions, 30);
    // A file that is gone for another reason is said to be.
    std::fs::remove_file(path.join("steps.3.f32")).unwrap();
    let message = Pool::open_any(&path).unwrap_err().to_string();
    assert!(message.ends_with("steps.3.f32: is missing; build the pool again"), "{message}");
}

/// Checksums cannot tell: the files are as they were written.
#[tokio::test]
async fn vectors_of_other_texts_are_found() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("p");
    let model = Words::default();
    build(&path, records(0..30), &model).await.unwrap();
    let sample = VectorSample::Some { count: 8, seed: 0 };
    let verify = async |sample| {
        let pool = Pool::open_any(&path).unwrap();
        verify_vectors(&pool, &encoder(&model), sample, |_, _| true).await
    };
    let check = verify(VectorSample::All).await.unwrap();
    assert!(check.checked == check.total && check.total > 60 && check.largest_distance < 1e-5, "{check:?}");
    assert_eq!(verify(sample).await.unwrap().checked, 8);
    let forge = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = std::fs::read(path.join(format!("{name}.f32"))).unwrap();
        change(&mut bytes);
        std::fs::write(path.join(format!("{name}.f32")), &bytes).unwrap();
        let mut manifest = PoolManifest::read(&path).unwrap();
        manifest.files.get_mut(name).unwrap().blake3 = blake3::hash(&bytes).to_hex().to_string();
        manifest.write(&path).unwrap();
    };
    let width = super::fake::DIMENSION * 4;
    // The third and the fourth question's.
    forge("questions", &|bytes| bytes[2 * width..4 * width].rotate_left(width));
    let message = verify(VectorSample::All).await.unwrap_err().to_string();
    let expected = format!(
        "2 of {} vectors are not those of their texts, first that of question 3 (\"p2\"): build the pool again",
        check.total
    );
    assert!(message.ends_with(&expected), "{message}");
    forge("questions", &|bytes| bytes[2 * width..4 * width].rotate_left(width));
    verify(VectorSample::All).await.unwrap();
    // As two builds mixed them: every step has another's.
    forge("steps", &|bytes| bytes.rotate_left(width));
    let message = verify(sample).await.unwrap_err().to_string();
    assert!(message.contains(" of 8 vectors are not those") && message.contains("step text"), "{message}");
    forge("steps", &|bytes| bytes.rotate_right(width));
    forge("steps", &|bytes| bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes()));
    let message = verify(VectorSample::All).await.unwrap_err().to_string();
    assert!(message.contains("step text 1"), "{message}");
}
