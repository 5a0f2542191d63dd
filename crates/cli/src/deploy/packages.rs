//! The packages of the functions: zip files that are named, or that `make build` makes.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::flags::Files;
use crate::exit::{Exit, Stop};
use crate::limits::PACKAGE_BYTES_MAX;
use crate::out;

/// Where `make build` puts them.
const BUILT: &str = "target/lambda";

/// How a zip file begins.
const ZIP: &[u8] = b"PK\x03\x04";

/// The zip files of both programs.
pub(super) struct Packages {
    pub(super) api: Vec<u8>,
    pub(super) worker: Vec<u8>,
    /// The processor that they were built for, if the build noted it.
    pub(super) architecture: Option<String>,
}

impl Packages {
    /// The packages that the user names. Without names, builds those of this folder.
    pub(super) fn find(files: &Files) -> Result<Self, Stop> {
        let (api, worker) = match (&files.api, &files.worker) {
            (Some(api), Some(worker)) => (api.clone(), worker.clone()),
            _ => built()?,
        };
        let architecture = architecture(&api).filter(|here| architecture(&worker).as_ref() == Some(here));
        Ok(Self { api: read(&api)?, worker: read(&worker)?, architecture })
    }
}

/// Runs `make build`, and returns what it makes.
fn built() -> Result<(PathBuf, PathBuf), Stop> {
    let packages = ["api", "worker"].map(|name| Path::new(BUILT).join(name).join("bootstrap.zip"));
    if !Path::new("Makefile").is_file() || !Path::new("Cargo.toml").is_file() {
        return Err(Stop::usage(
            "there are no packages: name them with --api FILE and --worker FILE, or run this in the folder of a \
             server, where `make build` builds them",
        ));
    }
    out::say("building the functions: make build");
    // Its output is not a result of this command.
    let ended = Command::new("make").arg("build").stdin(Stdio::null()).stdout(std::io::stderr()).status();
    let ended = ended.map_err(|error| Stop::new(Exit::Failed, format!("`make` cannot be started: {error}")))?;
    if !ended.success() {
        return Err(Stop::new(Exit::Failed, format!("`make build` ended with {ended}: nothing was deployed")));
    }
    Ok(packages.into())
}

/// The file `architecture` of the build that made this package.
fn architecture(package: &Path) -> Option<String> {
    let file = package.parent()?.parent()?.join("architecture");
    let text = longhaul_core::settings::read_text(&file, 64).ok()?;
    Some(text.trim().to_owned())
}

fn read(file: &Path) -> Result<Vec<u8>, Stop> {
    let wrong = |why: &dyn std::fmt::Display| Stop::usage(format!("the package {}: {why}", file.display()));
    let mut bytes = Vec::new();
    let open = std::fs::File::open(file).map_err(|error| wrong(&error))?;
    open.take(PACKAGE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > PACKAGE_BYTES_MAX {
        return Err(wrong(&"it is larger than the 250 MiB that Lambda takes"));
    }
    if !bytes.starts_with(ZIP) {
        return Err(wrong(&"it is not a zip file: `make build` writes one next to each program"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_a_zip_file_and_its_build_says_for_which_processor() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name).join("bootstrap.zip");
        for name in ["api", "worker"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(file(name), b"PK\x03\x04").unwrap();
        }
        let files = Files { api: Some(file("api")), worker: Some(file("worker")) };
        assert_eq!(Packages::find(&files).ok().unwrap().architecture, None);
        std::fs::write(folder.path().join("architecture"), "arm64\n").unwrap();
        assert_eq!(Packages::find(&files).ok().unwrap().architecture.as_deref(), Some("arm64"));
        std::fs::write(file("worker"), b"\x7fELF").unwrap();
        let why = Packages::find(&files).err().unwrap().why;
        assert!(why.contains("worker/bootstrap.zip: it is not a zip file"), "{why}");
        let missing = Files { api: Some(file("api")), worker: Some(file("none")) };
        let why = Packages::find(&missing).err().unwrap().why;
        assert!(why.contains("none/bootstrap.zip: No such file"), "{why}");
    }
}
