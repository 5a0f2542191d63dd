//! A `local` server whose log and memory a test looks at.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::caller::Caller;
use crate::process::Setup;

/// A running server. Killed when dropped.
pub(crate) struct Watched {
    child: Child,
    log: PathBuf,
    url: String,
}

impl Watched {
    /// Starts a server with the diagnostic tools and these flags.
    pub(crate) fn start(setup: &Setup) -> Self {
        let log = setup.folder().join("log");
        let mut command = setup.command();
        command.stderr(Stdio::from(File::create(&log).unwrap()));
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let url = line.split_whitespace().find(|word| word.starts_with("http://") && word.ends_with("/mcp"));
            url.map(str::to_owned)
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, log, url: url.expect("the server prints its URL") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A client that declares the tasks extension.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// Everything that it has logged.
    pub(crate) fn log(&self) -> String {
        String::from_utf8(std::fs::read(&self.log).unwrap()).unwrap()
    }

    /// The most memory that it ever had, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
