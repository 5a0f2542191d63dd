//! The sources of data: inline text, a file below the data directory, or a public `https` URL.
//!
//! The first step of a task records what the source is ([`Identity`]). Every chunk checks that it is unchanged, so that
//! a profile never mixes two versions.

mod file;
mod identity;
mod url;

use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::{Arc, Weak};

use self::file::DataDir;
pub(super) use self::identity::Identity;
use self::url::Fetcher;
use super::arguments::{Plan, SourceRequest};
use super::chunk::{Progress, profile_chunk};
use super::error::{ProfileError, refused};
use super::state::State;

/// Opens sources.
#[derive(Debug)]
pub(crate) struct Sources {
    data_dir: Option<DataDir>,
    fetcher: Fetcher,
}

impl Sources {
    /// Files come from `data_dir`; without one, paths are refused. URLs are public ones.
    pub(crate) fn new(data_dir: Option<&Path>) -> io::Result<Self> {
        Ok(Self { data_dir: data_dir.map(DataDir::open_dir).transpose()?, fetcher: Fetcher::public() })
    }

    /// Finds the source without reading it.
    pub(super) async fn identify(&self, plan: &Plan) -> Result<Identity, ProfileError> {
        match &plan.source {
            SourceRequest::Text(text) => {
                Ok(Identity { bytes: Some(text.len() as u64), version: None, has_parts: true })
            }
            SourceRequest::File(path) => {
                let (dir, path) = (self.data_dir()?, path.clone());
                blocking(move || dir.identify(&path)).await
            }
            SourceRequest::Url(url) => self.fetcher.identify(url).await,
        }
    }

    /// Profiles the first chunk, or the one after `before`. Without parts, the first chunk is the whole source.
    pub(super) async fn chunk(
        &self,
        plan: &Plan,
        known: &Identity,
        before: Option<State>,
    ) -> Result<Progress, ProfileError> {
        let offset = before.as_ref().map_or(0, |before| before.offset);
        let source: Box<dyn Read + Send> = match &plan.source {
            SourceRequest::Text(text) => {
                let mut rest = Cursor::new(Arc::clone(text));
                rest.set_position(offset);
                Box::new(rest)
            }
            SourceRequest::File(path) => {
                let (dir, path, known) = (self.data_dir()?, path.clone(), known.clone());
                Box::new(blocking(move || dir.open(&path, &known, offset)).await?)
            }
            SourceRequest::Url(url) => Box::new(self.fetcher.open(url, known, offset).await?),
        };
        let mut reading = plan.reading.clone();
        if !known.has_parts {
            reading.chunk_bytes = u64::MAX;
        }
        let awaited = Arc::new(());
        let source = WhileAwaited { source, caller: Arc::downgrade(&awaited) };
        blocking(move || profile_chunk(source, before, &reading)).await
    }

    fn data_dir(&self) -> Result<DataDir, ProfileError> {
        self.data_dir.clone().ok_or_else(|| refused("this server has no data directory: use `text` or `url`"))
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProfileError> + Send + 'static,
) -> Result<T, ProfileError> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.unwrap_or(Err(ProfileError::Internal("the reading thread panicked".into())))
}

/// A source that ends with an error when its caller no longer waits.
struct WhileAwaited<R> {
    source: R,
    caller: Weak<()>,
}

impl<R: Read> Read for WhileAwaited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.caller.strong_count() == 0 {
            return Err(io::Error::other("the caller no longer waits"));
        }
        self.source.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_no_further_when_its_caller_has_left() {
        let awaited = Arc::new(());
        let mut source = WhileAwaited { source: "text".as_bytes(), caller: Arc::downgrade(&awaited) };
        assert_eq!(source.read(&mut [0; 2]).unwrap(), 2);
        drop(awaited);
        assert!(source.read(&mut [0; 2]).is_err());
    }
}
