//! A folder that looks like a checkout in which `make build` was run, and the commands of the pages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::emulator::fresh_name;
use harness::{file, output_of, root};
use serde_json::Value;

use super::programs::{api, worker};

/// Files that commands read, and that no command writes.
const SHARED: [&str; 6] = [".cache", "Cargo.toml", "Cargo.lock", "crates", "infra", "tests"];

/// Files that the SAM CLI would follow to the real checkout if they were links.
const COPIED: [&str; 2] = ["template.yaml", "samconfig.toml"];

/// The folder, with the programs of the tests instead of those that `make build` would take minutes for. Deleted when
/// dropped.
pub(crate) struct Built(pub(crate) PathBuf);

impl Built {
    /// Packs the programs as `make build` does.
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(fresh_name());
        for (name, program) in [("api", api()), ("worker", worker())] {
            let target = folder.join("target/lambda").join(name);
            fs::create_dir_all(&target).unwrap();
            fs::copy(program, target.join("bootstrap")).unwrap();
        }
        for shared in SHARED {
            symlink(root().join(shared), folder.join(shared)).unwrap();
        }
        for copied in COPIED {
            fs::copy(root().join(copied), folder.join(copied)).unwrap();
        }
        let built = Self(folder);
        built.pack();
        built
    }

    /// The last step of `make build`, with little compression.
    fn pack(&self) {
        let mut pack = Command::new("python3");
        pack.arg(root().join("scripts/pack_lambda.py")).args(["target/lambda", "api", "worker", "--level", "1"]);
        output_of(pack.current_dir(&self.0));
    }

    /// The contents of a zip: names, permissions, and whether the program is the one that was built.
    pub(crate) fn zip(&self, function: &str) -> Value {
        let read = "import json,sys,zipfile\nfolder=sys.argv[1]\nz=zipfile.ZipFile(folder+'/bootstrap.zip')\n\
            assert z.testzip() is None\n\
            print(json.dumps([[e.filename, oct(e.external_attr >> 16 & 0o777), \
            z.read(e) == open(folder+'/bootstrap','rb').read()] for e in z.infolist()]))";
        let folder = self.0.join("target/lambda").join(function);
        let out = output_of(Command::new("python3").args(["-c", read]).arg(folder));
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The command lines in the console examples of a page, each as one line.
pub(crate) fn commands_of(page: &str) -> Vec<String> {
    commands_in(&file(page))
}

/// The commands below a heading of a page, up to the next heading of the same height.
pub(crate) fn commands_below(page: &str, heading: &str) -> Vec<String> {
    let text = file(page);
    let (_, below) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{page} has no {heading}"));
    let height = heading.split(' ').next().unwrap();
    let below = below.split(&format!("\n{height} ")).next().unwrap();
    commands_in(below)
}

fn commands_in(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ "));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The script of the real checkout: another folder would have tools of its own.
pub(crate) fn script(name: &str) -> PathBuf {
    root().join("scripts").join(Path::new(name))
}
