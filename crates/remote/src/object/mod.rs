//! Object stores: finds, reads and writes objects.

mod credentials;
mod fault;
mod store;

use std::io::Read;
use std::path::Path as LocalPath;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Error as StoreError, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion, WriteMultipart,
};

use crate::address::ObjectAddress;
use crate::resume::{self, Piece, Refusal, Resumable, pause, wait};
use crate::{Address, Error, Expected, Found, RemoteFile, Result, Version, glob};
use fault::{explain, is_expired, is_wordless_refusal, will_pass};

type Store = Box<dyn ObjectStore>;
/// What a store answers.
type Answer<T> = std::result::Result<T, StoreError>;

/// Files up to this size are sent in one request, which the store can make depend on what is there.
const ONE_REQUEST: u64 = 64 << 20;
/// Parts of larger files; stores take at most 10,000 of them.
const PART: u64 = 16 << 20;
const PARTS: u64 = 9_000;
/// Parts that are sent at the same time.
const AT_ONCE: usize = 4;
/// Attempts with credentials that may be renewed meanwhile, and with those of which a store does not say why it refuses
/// them, as in answers without a body.
const ATTEMPTS: u32 = 6;
const WORDLESS: u32 = 3;

/// The object, or those below it.
pub(crate) fn find(place: &ObjectAddress) -> Result<Found> {
    let key = place.key.as_str();
    if glob::is_pattern(key) {
        let mut files = list(&place.at(glob::fixed_folder(key)))?;
        files
            .retain(|file| matches!(&file.address, Address::Object(found) if glob::matches(key, &found.key)));
        return match files.is_empty() {
            true => Err(Error::new(place, "no object matches this pattern")),
            false => Ok(Found::Folder(files)),
        };
    }
    if !key.is_empty()
        && !key.ends_with('/')
        && let Some(file) = look(place)?
    {
        return Ok(Found::File(file));
    }
    let files = list(place)?;
    match files.is_empty() {
        true => Err(Error::missing(place, "there is no such object, and none below it")),
        false => Ok(Found::Folder(files)),
    }
}

fn list(place: &ObjectAddress) -> Result<Vec<RemoteFile>> {
    let folder = path_of(&place.at(place.key.trim_end_matches('/')))?;
    wait(|| async {
        let store = store::open(place)?;
        let list = async || Ok(store.list(Some(&folder)).try_collect().await);
        let mut found: Vec<ObjectMeta> =
            patiently(is_expired, list).await?.map_err(|error| explain(place, &error))?;
        found.sort_by(|one, other| one.location.cmp(&other.location));
        Ok(found.into_iter().map(|about| file_of(place, about)).collect())
    })
}

/// The object, where there is one.
pub(crate) fn look(place: &ObjectAddress) -> Result<Option<RemoteFile>> {
    let path = path_of(place)?;
    wait(|| async {
        let store = store::open(place)?;
        head(&*store, place, &path).await
    })
}

async fn head(store: &dyn ObjectStore, place: &ObjectAddress, path: &Path) -> Result<Option<RemoteFile>> {
    match patiently(is_expired, async || Ok(store.head(path).await)).await? {
        Ok(about) => Ok(Some(file_of(place, about))),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(explain(place, &error)),
    }
}

/// Asks again after errors that may pass; among them are credentials that were good once, since those of a file may be
/// renewed meanwhile.
async fn patiently<T>(
    may_pass: fn(&StoreError) -> bool,
    ask: impl AsyncFn() -> Result<Answer<T>>,
) -> Result<Answer<T>> {
    let mut attempt = 0;
    loop {
        match ask().await? {
            Err(error) if attempt < ATTEMPTS && may_pass(&error) => attempt += 1,
            Err(error) if attempt < WORDLESS && is_wordless_refusal(&error) => attempt += 1,
            answer => return Ok(answer),
        }
        pause(attempt).await;
    }
}

fn file_of(place: &ObjectAddress, about: ObjectMeta) -> RemoteFile {
    let address = Address::Object(place.at(about.location.as_ref()));
    let version = Version { etag: about.e_tag, generation: about.version };
    RemoteFile { address, size: Some(about.size), version: Some(version) }
}

fn path_of(place: &ObjectAddress) -> Result<Path> {
    if place.bucket.is_empty() {
        let name = place.scheme.name();
        return Err(Error::new(place, format!("names no bucket: {name}://BUCKET/KEY")));
    }
    Path::parse(&place.key)
        .map_err(|_| Error::new(place, "is no key of an object: it has empty or relative parts"))
}

/// The object's bytes.
pub(crate) fn open(place: &ObjectAddress, file: &RemoteFile) -> Result<Box<dyn Read + Send>> {
    let path = path_of(place)?;
    let (place, version) = (place.clone(), file.version.clone().unwrap_or_default());
    Ok(resume::read(place.to_string(), file.size, async move || {
        let store = store::open(&place)?;
        Ok(Box::new(Download { store, place, path, version }) as Box<dyn Resumable>)
    }))
}

struct Download {
    store: Store,
    place: ObjectAddress,
    path: Path,
    version: Version,
}

#[async_trait::async_trait]
impl Resumable for Download {
    async fn from(&mut self, at: u64) -> std::result::Result<Piece, Refusal> {
        let mut options = GetOptions::new().with_if_match(self.version.etag.clone());
        if at > 0 {
            options = options.with_range(Some(GetRange::Offset(at)));
        }
        match self.store.get_opts(&self.path, options).await {
            Ok(found) => {
                let size = Some(found.meta.size);
                let place = self.place.clone();
                let stream = found.into_stream().map_err(move |error| fault::reason(&place, &error));
                Ok(Piece { stream: Box::pin(stream), size })
            }
            Err(StoreError::Precondition { .. } | StoreError::NotModified { .. }) => {
                let message = "it has changed while it was read: run the command again";
                Err(Refusal::Final(Error::new(&self.place, message)))
            }
            Err(error) if will_pass(&error) => Err(Refusal::Passing(fault::reason(&self.place, &error))),
            Err(error) => Err(Refusal::Final(explain(&self.place, &error))),
        }
    }
}

/// Sends a local file. Where the store can compare versions, only over what is expected.
pub(crate) fn put(place: &ObjectAddress, from: &LocalPath, expected: &Expected) -> Result<Option<Version>> {
    let path = path_of(place)?;
    let size = std::fs::metadata(from).map_err(|error| Error::local(from, error))?.len();
    wait(|| async {
        let store = store::open(place)?;
        let send = async || match size <= ONE_REQUEST {
            true => put_at_once(&*store, place, &path, from, expected).await,
            false => put_in_parts(&*store, place, &path, (from, size), expected).await,
        };
        // The client itself does not send again what depends on what is there.
        match patiently(will_pass, send).await? {
            Ok(version) => Ok(Some(version)),
            Err(StoreError::Precondition { .. } | StoreError::AlreadyExists { .. }) => {
                // An answer that got lost is asked for again, and then it is our own file that is there already.
                match same_content(&*store, place, &path, from, size).await? {
                    Some(version) => Ok(Some(version)),
                    None => Err(Error::changed(place)),
                }
            }
            Err(error) => Err(explain(place, &error)),
        }
    })
}

async fn put_at_once(
    store: &dyn ObjectStore,
    place: &ObjectAddress,
    path: &Path,
    from: &LocalPath,
    expected: &Expected,
) -> Result<Answer<Version>> {
    let bytes = std::fs::read(from).map_err(|error| Error::local(from, error))?;
    let mode = match expected {
        Expected::Nothing => PutMode::Create,
        Expected::Anything => PutMode::Overwrite,
        Expected::Version(Version { etag, generation }) => {
            PutMode::Update(UpdateVersion { e_tag: etag.clone(), version: generation.clone() })
        }
    };
    let payload = PutPayload::from_bytes(Bytes::from(bytes));
    let options = PutOptions { mode, ..PutOptions::default() };
    match store.put_opts(path, payload.clone(), options).await {
        // Some stores that speak S3's protocol compare no versions in one request.
        Err(StoreError::NotImplemented { .. } | StoreError::NotSupported { .. }) => {
            if !is_expected(store, place, path, expected).await? {
                return Err(Error::changed(place));
            }
            Ok(store.put(path, payload).await.map(version_of))
        }
        sent => Ok(sent.map(version_of)),
    }
}

/// Parts appear as an object when the last one is there. Stores do not compare versions then, so that is done just
/// before.
async fn put_in_parts(
    store: &dyn ObjectStore,
    place: &ObjectAddress,
    path: &Path,
    (from, size): (&LocalPath, u64),
    expected: &Expected,
) -> Result<Answer<Version>> {
    let part = PART.max(size.div_ceil(PARTS));
    let local = |error| Error::local(from, error);
    let mut input = std::fs::File::open(from).map_err(local)?;
    let upload = match store.put_multipart(path).await {
        Ok(upload) => upload,
        Err(error) => return Ok(Err(error)),
    };
    let mut writer = WriteMultipart::new_with_chunk_size(upload, part as usize);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = input.read(&mut buffer).map_err(local)?;
        if read == 0 {
            break;
        }
        if let Err(error) = writer.wait_for_capacity(AT_ONCE).await {
            let _ = writer.abort().await;
            return Ok(Err(error));
        }
        writer.write(&buffer[..read]);
    }
    if !is_expected(store, place, path, expected).await? {
        let _ = writer.abort().await;
        return Err(Error::changed(place));
    }
    let sent = match writer.finish().await {
        Ok(sent) => version_of(sent),
        Err(error) => return Ok(Err(error)),
    };
    match head(store, place, path).await? {
        Some(file) if file.size == Some(size) => Ok(Ok(file.version.unwrap_or(sent))),
        _ => Err(Error::new(place, format!("was sent, but its store does not have its {size} bytes"))),
    }
}

async fn is_expected(
    store: &dyn ObjectStore,
    place: &ObjectAddress,
    path: &Path,
    expected: &Expected,
) -> Result<bool> {
    let there = match expected {
        Expected::Anything => return Ok(true),
        _ => head(store, place, path).await?,
    };
    Ok(match (expected, there) {
        (Expected::Version(expected), Some(there)) => there.version.as_ref() == Some(expected),
        (Expected::Nothing, None) | (Expected::Anything, _) => true,
        _ => false,
    })
}

/// The version of the object if it has the file's bytes.
async fn same_content(
    store: &dyn ObjectStore,
    place: &ObjectAddress,
    path: &Path,
    from: &LocalPath,
    size: u64,
) -> Result<Option<Version>> {
    let found = match store.get(path).await {
        Ok(found) if found.meta.size == size => found,
        _ => return Ok(None),
    };
    let version = Version { etag: found.meta.e_tag.clone(), generation: found.meta.version.clone() };
    let local = |error| Error::local(from, error);
    let mut input = std::fs::File::open(from).map_err(local)?;
    let mut stream = found.into_stream();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| explain(place, &error))?;
        let mut ours = vec![0; piece.len()];
        if input.read_exact(&mut ours).is_err() || ours != piece {
            return Ok(None);
        }
    }
    Ok(Some(version))
}

fn version_of(sent: object_store::PutResult) -> Version {
    Version { etag: sent.e_tag, generation: sent.version }
}
