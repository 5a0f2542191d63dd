//! Where the data comes from: inline text, a file below the data directory, or a public `https` URL.
//!
//! The first step of a task records what the source is ([`SourceIdentity`]); every chunk checks that it is unchanged,
//! so that a profile never mixes two versions. Reading and counting happen on blocking threads, and stop at the next
//! block once the caller's future is dropped.

pub mod address;
pub mod fetch;
pub mod file;
pub mod remote;

use std::io::{Cursor, Read};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::fetch::Fetcher;
use self::file::{DataDir, FileIdentity};
use self::remote::RemoteIdentity;
use super::arguments::{Plan, SourceRequest};
use super::checkpoint::Checkpoint;
use super::chunk::{Progress, Reading, Stop, first_chunk, next_chunk};
use super::error::ProfileError;

/// What a source was when the task began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceIdentity {
    /// Inline text cannot change.
    Text {
        /// Its length.
        bytes: u64,
    },
    /// A file.
    File(FileIdentity),
    /// A resource of a server.
    Url(RemoteIdentity),
}

impl SourceIdentity {
    /// The length of the source in bytes, for progress; `None` if a server does not say.
    #[must_use]
    pub const fn bytes(&self) -> Option<u64> {
        match self {
            Self::Text { bytes } => Some(*bytes),
            Self::File(file) => Some(file.bytes),
            Self::Url(remote) => remote.bytes,
        }
    }
}

/// Opens sources.
#[derive(Debug, Clone)]
pub struct Sources {
    data_dir: Option<DataDir>,
    fetcher: Fetcher,
}

impl Sources {
    /// Files come from `data_dir`; without one, paths are refused.
    #[must_use]
    pub const fn new(data_dir: Option<DataDir>, fetcher: Fetcher) -> Self {
        Self { data_dir, fetcher }
    }

    /// Looks at the source without reading it: the result of the first step.
    ///
    /// # Errors
    ///
    /// [`ProfileError`] if there is no such source, or it may not be read.
    pub async fn identify(&self, plan: &Plan) -> Result<SourceIdentity, ProfileError> {
        match &plan.source {
            SourceRequest::Text(text) => Ok(SourceIdentity::Text { bytes: text.len() as u64 }),
            SourceRequest::File(path) => {
                let (dir, path) = (self.data_dir()?, path.clone());
                let identity = blocking(move || dir.identify(&path)).await?;
                Ok(SourceIdentity::File(identity))
            }
            SourceRequest::Url(url) => Ok(SourceIdentity::Url(self.fetcher.identify(url).await?)),
        }
    }

    /// Profiles the first chunk, or the one after `before`: the result of each further step. The first chunk of a
    /// source whose server cannot send parts is the whole source.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Changed`] if the source is no longer `identity`; other [`ProfileError`]s.
    pub async fn chunk(
        &self,
        plan: &Plan,
        identity: &SourceIdentity,
        before: Option<Checkpoint>,
    ) -> Result<Progress, ProfileError> {
        let stop = StopOnDrop::default();
        let mut work = Work { reading: plan.reading.clone(), before, stop: stop.0.clone() };
        let offset = work.before.as_ref().map_or(0, |before| before.offset);
        match (&plan.source, identity) {
            (SourceRequest::Text(text), SourceIdentity::Text { .. }) => {
                let text = Arc::clone(text);
                blocking(move || {
                    let rest = usize::try_from(offset).ok().and_then(|offset| text.as_bytes().get(offset..));
                    work.run(Cursor::new(rest.unwrap_or_default()))
                })
                .await
            }
            (SourceRequest::File(path), SourceIdentity::File(known)) => {
                let (dir, path, known) = (self.data_dir()?, path.clone(), known.clone());
                blocking(move || work.run(dir.open(&path, &known, offset)?)).await
            }
            (SourceRequest::Url(url), SourceIdentity::Url(known)) => {
                if !known.is_ranged() {
                    work.reading.pace.chunk_bytes = u64::MAX;
                }
                let body = self.fetcher.open(url, known, offset).await?;
                body.read_with(move |reader| work.run(reader)).await
            }
            (SourceRequest::Text(_) | SourceRequest::File(_) | SourceRequest::Url(_), _) => {
                Err(ProfileError::Internal("a source of another kind was recorded"))
            }
        }
    }

    fn data_dir(&self) -> Result<DataDir, ProfileError> {
        let none = || ProfileError::Refused("this server has no data directory: use `text` or `url`".to_owned());
        self.data_dir.clone().ok_or_else(none)
    }
}

/// One chunk to be counted, on the thread that has the bytes.
struct Work {
    reading: Reading,
    before: Option<Checkpoint>,
    stop: Stop,
}

impl Work {
    fn run(&self, reader: impl Read) -> Result<Progress, ProfileError> {
        match &self.before {
            None => first_chunk(reader, &self.reading, &self.stop),
            Some(before) => next_chunk(before, reader, &self.reading, &self.stop),
        }
    }
}

/// Stops the blocking thread once the future that waits for it is dropped.
#[derive(Default)]
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProfileError> + Send + 'static,
) -> Result<T, ProfileError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or(Err(ProfileError::Internal("the reading thread panicked")))
}
