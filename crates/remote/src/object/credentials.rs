//! Keys of S3 in the file that `aws configure` writes, which the store's own client does not read.
//!
//! ```text
//! [default]
//! aws_access_key_id = AKIA…
//! aws_secret_access_key = …
//! aws_session_token = …
//! ```
//!
//! The file is read again for every request, so keys that are renewed while a command runs are taken up. Not read:
//! `credential_process`, single sign-on and roles; `aws configure export-credentials` turns those into variables.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::CredentialProvider;
use object_store::aws::AwsCredential;

/// A section of the credentials file.
#[derive(Debug)]
pub(super) struct Profile {
    file: PathBuf,
    name: String,
}

impl Profile {
    /// The profile to use: none where variables have keys or say how to get some, or where there is no file.
    pub(super) fn from_env() -> Result<Option<Self>, String> {
        let set = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let others = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SKIP_SIGNATURE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        ];
        let asked_for = set("AWS_PROFILE");
        if asked_for.is_none() && others.iter().any(|name| set(name).is_some()) {
            return Ok(None);
        }
        let file = match set("AWS_SHARED_CREDENTIALS_FILE") {
            Some(file) => PathBuf::from(file),
            None => match env::home_dir() {
                Some(home) => home.join(".aws/credentials"),
                None => return Ok(None),
            },
        };
        let profile = Self { name: asked_for.clone().unwrap_or_else(|| "default".to_owned()), file };
        match profile.keys() {
            Ok(_) => Ok(Some(profile)),
            Err(message) if asked_for.is_some() => Err(message),
            Err(_) => Ok(None),
        }
    }

    /// The region that the profile names.
    pub(super) fn region(&self) -> Option<String> {
        if env::var_os("AWS_REGION").or_else(|| env::var_os("AWS_DEFAULT_REGION")).is_some() {
            return None;
        }
        section(&self.file, &self.name)?.remove("region")
    }

    fn keys(&self) -> Result<AwsCredential, String> {
        let missing = |what: &str| format!("{what} of profile {} in {}", self.name, self.file.display());
        let mut section = section(&self.file, &self.name)
            .ok_or_else(|| missing("AWS_PROFILE asks for keys, but there are none"))?;
        let mut key = |name: &str| section.remove(name).filter(|text| !text.is_empty());
        Ok(AwsCredential {
            key_id: key("aws_access_key_id").ok_or_else(|| missing("no aws_access_key_id"))?,
            secret_key: key("aws_secret_access_key").ok_or_else(|| missing("no aws_secret_access_key"))?,
            token: key("aws_session_token"),
        })
    }
}

#[async_trait::async_trait]
impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let failed = |message: String| object_store::Error::Generic { store: "S3", source: message.into() };
        self.keys().map(Arc::new).map_err(failed)
    }
}

/// The settings of a section.
fn section(file: &Path, name: &str) -> Option<HashMap<String, String>> {
    let text = std::fs::read_to_string(file).ok()?;
    let (mut found, mut inside) = (None, false);
    for line in text.lines().map(str::trim) {
        if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            inside = title.trim().trim_start_matches("profile ") == name;
            if inside {
                found.get_or_insert_with(HashMap::new);
            }
        } else if let (true, Some((key, value)), false) =
            (inside, line.split_once('='), line.starts_with(['#', ';']))
        {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("credentials");
        let text = "# aws\n[default]\naws_access_key_id = A\naws_secret_access_key=B=\n\n[ two ]\naws_access_key_id=C\n";
        std::fs::write(&file, text).unwrap();
        let profile = |name: &str| Profile { file: file.clone(), name: name.to_owned() };
        let keys = profile("default").keys().unwrap();
        assert_eq!((keys.key_id.as_str(), keys.secret_key.as_str(), keys.token), ("A", "B=", None));
        assert!(profile("two").keys().unwrap_err().contains("no aws_secret_access_key of profile two"));
        assert!(profile("three").keys().unwrap_err().contains("there are none of profile three"));
    }
}
