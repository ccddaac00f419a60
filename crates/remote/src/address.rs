//! Addresses of files: what they are, and how they are shown without what is secret in them.

use std::fmt;
use std::path::Path;

use gradus_http::Url;

use crate::hub::HubAddress;

/// Where a file is that is not on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// In an object store: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`.
    Object(ObjectAddress),
    /// In a repository of the Hugging Face hub: `hf://datasets/OWNER/NAME/FILE@REVISION`.
    Hub(HubAddress),
    /// On the web: `https://…`, with whatever its query holds.
    Web(Url),
}

/// An object, or the common beginning of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAddress {
    pub(crate) scheme: Scheme,
    pub(crate) bucket: String,
    pub(crate) key: String,
}

/// Whose object store it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    S3,
    Gcs,
    Azure,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
        }
    }
}

impl Address {
    /// The address that a text is; none for what is a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let object = |scheme| {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            Self::Object(ObjectAddress { scheme, bucket: bucket.to_owned(), key: key.to_owned() })
        };
        match scheme {
            "s3" | "s3a" => Some(object(Scheme::S3)),
            "gs" | "gcs" => Some(object(Scheme::Gcs)),
            "az" | "azure" => Some(object(Scheme::Azure)),
            "http" | "https" => Url::parse(text).ok().map(Self::Web),
            "hf" => Some(Self::Hub(HubAddress::parse(rest))),
            _ => None,
        }
    }

    /// The address that a command's argument is; none for a path of this machine.
    pub fn of(path: &Path) -> Option<Self> {
        Self::parse(path.to_str()?)
    }

    /// The file's name, without folders.
    pub fn file_name(&self) -> &str {
        let path = match self {
            Self::Object(place) => &place.key,
            Self::Hub(place) => &place.path,
            Self::Web(url) => url.path(),
        };
        path.rsplit('/').next().unwrap_or_default()
    }
}

impl ObjectAddress {
    /// Another object of the same bucket.
    pub(crate) fn at(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }
}

impl fmt::Display for ObjectAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}/{}", self.scheme.name(), self.bucket, self.key)
    }
}

/// Names and passwords, and queries, which sign addresses, are left out.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(place) => write!(f, "{place}"),
            Self::Hub(place) => write!(f, "{place}"),
            Self::Web(url) => f.write_str(&shown(url)),
        }
    }
}

/// A web address without what may be secret.
pub(crate) fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_from_paths() {
        for path in ["a.jsonl", "/tmp/a", "-", "C:\\a", "file:///tmp/a", "postgres://u@h/d", "s3:/a"] {
            assert_eq!(Address::parse(path), None, "{path}");
        }
        for (text, shown, name) in [
            ("s3://b/k/a.jsonl", "s3://b/k/a.jsonl", "a.jsonl"),
            ("s3a://b/k", "s3://b/k", "k"),
            ("gs://b", "gs://b/", ""),
            ("az://c/x y.csv", "az://c/x y.csv", "x y.csv"),
            ("https://u:p@h:81/d/a.parquet?sig=1#x", "https://h:81/d/a.parquet", "a.parquet"),
            ("hf://datasets/o/n/d/a.jsonl@v1", "hf://datasets/o/n@v1/d/a.jsonl", "a.jsonl"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((address.to_string().as_str(), address.file_name()), (shown, name));
        }
    }
}
