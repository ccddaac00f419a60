//! The file of a graph: a header of one page, then what USearch writes.
//!
//! The header is a line of JSON, filled up with spaces:
//! `{"format":"gradus-graph-1","bytes":1234,"blake3":"…","rows":3,"dimension":2,"scale":127.0,"settings":{…}}`.

use std::path::Path;

use gradus_durable::PendingFile;
use memmap2::{Mmap, MmapMut};
use serde::{Deserialize, Serialize};

use super::Settings;
use crate::error::{Error, Result};

/// Bytes before the graph.
pub(super) const HEADER: usize = 4096;
const FORMAT: &str = "gradus-graph-1";

/// What a file says about its graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) rows: usize,
    pub(super) dimension: usize,
    pub(super) scale: f32,
    pub(super) settings: Settings,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    bytes: usize,
    blake3: String,
    #[serde(flatten)]
    about: About,
}

/// Writes a graph of so many bytes, which `fill` puts into place, and then moves the file to where it belongs.
pub(super) fn write(
    path: &Path,
    about: &About,
    bytes: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<()>,
) -> Result<()> {
    let pending = PendingFile::create_plain(path)?;
    let file = pending.file();
    file.set_len((HEADER + bytes) as u64).map_err(Error::io(path))?;
    // SAFETY: the file was just made, and its name is not the one that others read.
    #[allow(unsafe_code)]
    let mut map = unsafe { MmapMut::map_mut(file) }.map_err(Error::io(path))?;
    let (head, body) = map.split_at_mut(HEADER);
    fill(body)?;
    let blake3 = blake3::hash(body).to_hex().to_string();
    let header = Header { format: FORMAT.to_owned(), bytes, blake3, about: about.clone() };
    let header = serde_json::to_vec(&header).expect("a header is plain data");
    assert!(header.len() < HEADER, "a header fits a page");
    head.fill(b' ');
    head[..header.len()].copy_from_slice(&header);
    head[HEADER - 1] = b'\n';
    map.flush().map_err(Error::io(path))?;
    drop(map);
    Ok(pending.commit()?)
}

/// What a mapped file says about its graph, which is compared with its checksum.
pub(super) fn read(path: &Path, map: &Mmap) -> Result<About> {
    let damaged = |what: &str| Error::pool(path, format!("{what}; build the index again"));
    let header = map.get(..HEADER).and_then(|header| serde_json::from_slice::<Header>(header).ok());
    let Some(Header { format, bytes, blake3, about }) = header else {
        return Err(damaged("is no index: its header cannot be read"));
    };
    if format != FORMAT {
        return Err(damaged(&format!("has the format `{format}`, expected `{FORMAT}`")));
    }
    if map.len() - HEADER != bytes {
        let found = map.len() - HEADER;
        return Err(damaged(&format!("has {found} bytes of graph instead of {bytes}: it was cut off")));
    }
    if blake3::hash(&map[HEADER..]).to_hex().as_str() != blake3 {
        return Err(damaged("is damaged: its checksum does not match"));
    }
    if about.dimension == 0 || !about.scale.is_finite() || about.settings.check().is_err() {
        return Err(damaged("is damaged: its header makes no sense"));
    }
    Ok(about)
}
