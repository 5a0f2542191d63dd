//! Files below the data directory, and nothing outside it.
//!
//! Paths are resolved component by component from the directory's own handle. Neither `..`, an absolute path nor a
//! symbolic link leads out, not even one that is replaced in the meantime. Links that stay inside are followed.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

use super::super::error::{ProfileError, changed, refused};
use super::identity::Identity;

/// The directory whose files may be read.
#[derive(Debug, Clone)]
pub(super) struct DataDir(Arc<Dir>);

impl DataDir {
    /// Opens the directory; it stays the same one if it is renamed.
    pub(super) fn open_dir(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(Dir::open_ambient_dir(path, ambient_authority())?)))
    }

    /// The present version of the file. Blocks the thread.
    pub(super) fn identify(&self, path: &str) -> Result<Identity, ProfileError> {
        // Asked before opening: opening a pipe would wait for its writer.
        identity(&self.0.metadata(path).map_err(refusal)?)
    }

    /// Opens the file at `offset` if it is still `known`. Blocks the thread.
    pub(super) fn open(
        &self,
        path: &str,
        known: &Identity,
        offset: u64,
    ) -> Result<impl Read + Send + use<>, ProfileError> {
        self.identify(path)?;
        let mut file = self.0.open(path).map_err(refusal)?;
        if identity(&file.metadata()?)? != *known {
            return Err(changed());
        }
        file.seek(SeekFrom::Start(offset))?;
        // Bytes that are appended from now on are not part of the identified version.
        Ok(file.take(known.bytes.unwrap_or(0).saturating_sub(offset)))
    }
}

fn identity(metadata: &Metadata) -> Result<Identity, ProfileError> {
    if !metadata.is_file() {
        return Err(refused("`path` does not name a regular file"));
    }
    let modified = metadata.modified().ok().and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok());
    let version = modified.map(|age| age.as_nanos().to_string());
    Ok(Identity { bytes: Some(metadata.len()), version, has_parts: true })
}

/// The same text for a file that does not exist and one that may not be read: a caller learns nothing about the disk.
fn refusal(error: io::Error) -> ProfileError {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::InvalidInput
        | ErrorKind::InvalidFilename => refused("`path` does not name a file below the server's data directory"),
        kind => io::Error::from(kind).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dir: &DataDir, path: &str) -> Result<String, ProfileError> {
        let known = dir.identify(path)?;
        let mut text = String::new();
        dir.open(path, &known, 0)?.read_to_string(&mut text)?;
        Ok(text)
    }

    fn disk() -> (tempfile::TempDir, DataDir) {
        let disk = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(disk.path().join("data/sub")).unwrap();
        std::fs::write(disk.path().join("secret.csv"), "secret").unwrap();
        std::fs::write(disk.path().join("data/sub/a.csv"), "inside").unwrap();
        let dir = DataDir::open_dir(&disk.path().join("data")).unwrap();
        (disk, dir)
    }

    #[test]
    fn files_below_the_directory_are_read() {
        let (_disk, dir) = disk();
        assert_eq!(read(&dir, "sub/a.csv").unwrap(), "inside");
        assert_eq!(read(&dir, "./sub//a.csv").unwrap(), "inside");
    }

    #[test]
    fn no_path_leads_out_of_the_directory() {
        let (disk, dir) = disk();
        let absolute = disk.path().join("secret.csv");
        let long = "x".repeat(5_000);
        for path in
            ["../secret.csv", "sub/../../secret.csv", "/etc/passwd", absolute.to_str().unwrap(), "", "a\0b", &long]
        {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_symbolic_link_that_leads_out_is_refused_and_one_inside_is_followed() {
        use std::os::unix::fs::symlink;
        let (disk, dir) = disk();
        let data = disk.path().join("data");
        symlink(disk.path().join("secret.csv"), data.join("absolute.csv")).unwrap();
        symlink("../secret.csv", data.join("relative.csv")).unwrap();
        symlink("..", data.join("up")).unwrap();
        symlink("sub/a.csv", data.join("inside.csv")).unwrap();
        for path in ["absolute.csv", "relative.csv", "up/secret.csv"] {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
        assert_eq!(read(&dir, "inside.csv").unwrap(), "inside");
    }

    #[test]
    fn a_directory_and_a_missing_file_are_refused() {
        let (_disk, dir) = disk();
        for path in ["sub", "none.csv", "sub/a.csv/b"] {
            assert!(matches!(read(&dir, path), Err(ProfileError::Refused(_))), "{path}");
        }
    }

    #[test]
    fn a_file_that_changed_is_not_read_further() {
        let (disk, dir) = disk();
        let known = dir.identify("sub/a.csv").unwrap();
        std::fs::write(disk.path().join("data/sub/a.csv"), "longer than before").unwrap();
        let error = dir.open("sub/a.csv", &known, 0).err().unwrap();
        assert!(error.to_string().contains("changed"), "{error}");
    }
}
