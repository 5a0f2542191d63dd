//! The user's sign-ins: one file for each server, which only the user can read.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use longhaul_core::settings::text_in;
use longhaul_core::strict_json;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use crate::limits::LOGINS_BYTES_MAX;
use crate::private;
use crate::record::{hold, state_folder};

/// A sign-in at one server.
#[derive(Deserialize, Serialize)]
pub(super) struct Login {
    /// The URL of the server, which alone gets the token.
    server: String,
    /// The secret of a client that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    /// Scopes that the server has asked for since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted: Vec<String>,
    /// The tokens, their client, issuer and scopes.
    pub(super) tokens: StoredCredentials,
}

/// The place of the sign-in at one server.
#[derive(Clone)]
pub(super) struct Place {
    server: String,
    file: PathBuf,
}

impl Place {
    /// In the folder where this user's tasks are remembered; `None` if no variable says where that is.
    pub(super) fn of(server: &Url) -> Option<Self> {
        let server = server.as_str().to_owned();
        let name: String = Sha256::digest(&server).iter().map(|byte| format!("{byte:02x}")).collect();
        let file = state_folder()?.join("logins").join(format!("{name}.json"));
        Some(Self { server, file })
    }

    /// # Errors
    /// Why the file cannot be used. A file that other users may read cannot be used: they may know the tokens.
    pub(super) fn read(&self) -> Result<Option<Login>, String> {
        let shown = self.file.display();
        let cannot = |error: &dyn std::fmt::Display| format!("the sign-in in {shown} cannot be used: {error}");
        let file = match File::open(&self.file) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(&error)),
        };
        if let Some(mode) = private::mode_for_others(&file.metadata().map_err(|error| cannot(&error))?) {
            return Err(cannot(&format_args!("its mode is {mode:04o}, so that others know it; log in again")));
        }
        let text = text_in(file, LOGINS_BYTES_MAX).map_err(|error| cannot(&error))?;
        // The error does not quote the text, which has the tokens.
        let login: Login =
            strict_json::from_str(&text).map_err(|error| cannot(&format_args!("{:?}", error.classify())))?;
        if login.server == self.server { Ok(Some(login)) } else { Err(cannot(&"it is that of another server")) }
    }

    pub(super) fn write(&self, login: &Login) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("{} cannot be written: {error}", self.file.display());
        let folder = self.folder().map_err(cannot)?;
        // Made with mode 0600, and never seen half written.
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(login)?)?;
            file.persist(&self.file).map_err(|error| error.error)
        });
        written.map(drop).map_err(cannot)
    }

    /// Whether there was one.
    pub(super) fn remove(&self) -> Result<bool, String> {
        match std::fs::remove_file(&self.file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(format!("{} cannot be removed: {error}", self.file.display())),
        }
    }

    fn folder(&self) -> std::io::Result<&Path> {
        let folder = self.file.parent().unwrap_or(&self.file);
        private::create_folder(folder)?;
        Ok(folder)
    }

    /// Holds the sign-in, so that no other process renews its token: a token for renewal may be used only once.
    pub(super) async fn hold(&self) -> Result<File, String> {
        let cannot = |error: &dyn std::fmt::Display| format!("{} cannot be locked: {error}", self.file.display());
        self.folder().map_err(|error| cannot(&error))?;
        hold(&self.file.with_extension("lock")).await.map_err(|error| cannot(&error))
    }

    /// Stores the tokens of a new sign-in.
    pub(super) fn store(&self, client_secret: Option<String>) -> Store {
        Store { place: self.clone(), client_secret, wanted: Vec::new() }
    }

    /// Stores the renewed tokens of a sign-in.
    pub(super) fn renewing(&self, login: &Login) -> Store {
        Store { wanted: login.wanted.clone(), ..self.store(login.client_secret.clone()) }
    }
}

/// Stores the tokens of one client at one server.
pub(super) struct Store {
    place: Place,
    client_secret: Option<String>,
    wanted: Vec<String>,
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let login = self.place.read().map_err(AuthError::CredentialStoreError)?;
        Ok(login.map(|login| login.tokens))
    }

    async fn save(&self, tokens: StoredCredentials) -> Result<(), AuthError> {
        let (server, client_secret) = (self.place.server.clone(), self.client_secret.clone());
        let login = Login { server, client_secret, wanted: self.wanted.clone(), tokens };
        self.place.write(&login).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.place.remove().map(drop).map_err(AuthError::CredentialStoreError)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place(folder: &Path, server: &str) -> Place {
        Place { server: server.to_owned(), file: folder.join("logins/a.json") }
    }

    fn tokens() -> StoredCredentials {
        StoredCredentials::new("client".to_owned(), None, vec!["a".to_owned()], None)
    }

    #[tokio::test]
    async fn a_log_in_is_kept_for_its_server_in_a_file_of_its_users() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "https://a.example/mcp");
        assert!(place.read().unwrap().is_none() && !place.remove().unwrap());
        place.store(Some("secret".to_owned())).save(tokens()).await.unwrap();
        assert_eq!(place.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let folder_mode = place.file.parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(folder_mode & 0o777, 0o700);
        let login = place.read().unwrap().unwrap();
        assert_eq!((login.client_secret.as_deref(), login.tokens.client_id.as_str()), (Some("secret"), "client"));
        let other = self::place(folder.path(), "https://b.example/mcp");
        assert!(other.read().err().unwrap().contains("that of another server"));
        assert!(place.remove().unwrap() && place.read().unwrap().is_none());
    }

    #[tokio::test]
    async fn scopes_that_the_server_asked_for_survive_a_renewal_and_not_a_new_log_in() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "https://a.example/mcp");
        place.store(None).save(tokens()).await.unwrap();
        let mut login = place.read().unwrap().unwrap();
        login.wanted = vec!["b".to_owned()];
        place.write(&login).unwrap();
        place.renewing(&login).save(tokens()).await.unwrap();
        assert_eq!(place.read().unwrap().unwrap().wanted, ["b"]);
        place.store(None).save(tokens()).await.unwrap();
        assert!(place.read().unwrap().unwrap().wanted.is_empty());
    }

    #[tokio::test]
    async fn a_file_that_others_may_read_or_that_is_broken_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "https://a.example/mcp");
        place.store(None).save(tokens()).await.unwrap();
        std::fs::set_permissions(&place.file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let why = place.read().err().unwrap();
        assert!(why.contains("its mode is 0644"), "{why}");
        // A new sign-in is written next to it and replaces it.
        place.store(None).save(tokens()).await.unwrap();
        assert!(place.read().unwrap().is_some());
        std::fs::write(&place.file, "{\"server\": \"hunter2").unwrap();
        let why = place.read().err().unwrap();
        assert!(!why.contains("hunter2"), "{why}");
    }

    #[tokio::test]
    async fn one_process_at_a_time_holds_a_log_in() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path(), "https://a.example/mcp");
        let held = place.hold().await.unwrap();
        let other = File::open(place.file.with_extension("lock")).unwrap();
        assert!(other.try_lock().is_err());
        drop(held);
        assert!(other.try_lock().is_ok());
    }
}
