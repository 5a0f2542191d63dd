//! Callers with a token from a file: who they are, and how the file is read again when it has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use longhaul_core::Clock;
use longhaul_http::{BearerTokens, Identified, Identify, Rejection, TokensError, bearer_token, read_token_file};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ServeError;
use crate::SystemClock;
use crate::serve::limits::TOKEN_FILE_READ_EVERY_MS;

/// Identifies callers by the token that they send, among those of a file.
pub(super) struct Bearer {
    tokens: watch::Receiver<Arc<BearerTokens>>,
}

/// A file of tokens, which is read again and again.
pub(super) struct TokenFile {
    path: PathBuf,
    tokens: watch::Sender<Arc<BearerTokens>>,
    /// The last result: the content, or the error of the file.
    found: Result<Vec<u8>, String>,
}

impl TokenFile {
    /// Reads the file.
    pub(super) async fn open(path: &Path) -> Result<Self, ServeError> {
        let refused = |cause: TokensError| ServeError::TokenFile { path: path.to_owned(), cause: cause.into() };
        let content = read(path).await.map_err(refused)?;
        let (tokens, _) = watch::channel(Arc::new(BearerTokens::parse(&content).map_err(refused)?));
        Ok(Self { path: path.to_owned(), tokens, found: Ok(content) })
    }

    /// Identifies callers by the tokens of this file, as it is at the time of a request.
    pub(super) fn callers(&self) -> Bearer {
        Bearer { tokens: self.tokens.subscribe() }
    }

    /// Reads the file again and again, until the process stops.
    pub(super) async fn follow(mut self, stop: CancellationToken) {
        while stop.run_until_cancelled(SystemClock.sleep_ms(TOKEN_FILE_READ_EVERY_MS)).await.is_some() {
            self.reread().await;
        }
    }

    /// Takes over changes. The earlier tokens stay valid while the file cannot be used.
    async fn reread(&mut self) {
        let read = read(&self.path).await;
        if let (Ok(now), Ok(before)) = (&read, &self.found)
            && now == before
        {
            return;
        }
        let parsed = read.and_then(|content| Ok((BearerTokens::parse(&content)?, content)));
        match parsed {
            Ok((tokens, content)) => {
                tracing::info!(tokens = tokens.entries().len(), "the token file has changed, and is in use");
                self.tokens.send_replace(Arc::new(tokens));
                self.found = Ok(content);
            }
            Err(error) => self.refuse(&error),
        }
    }

    /// Says once what is wrong.
    fn refuse(&mut self, error: &TokensError) {
        let problem = match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        };
        let found = Err(problem);
        if self.found != found {
            tracing::error!(
                path = %self.path.display(),
                error = error as &dyn std::error::Error,
                "the token file cannot be used: the tokens that it had before are still accepted"
            );
            self.found = found;
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TokensError> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_token_file(&path)).await;
    read.unwrap_or_else(|stopped| Err(TokensError::Io(std::io::Error::other(stopped))))
}

#[async_trait]
impl Identify for Bearer {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let token = bearer_token(&request.headers)?;
        let tokens = Arc::clone(&self.tokens.borrow());
        tokens.identify(token, SystemClock.now())
    }
}
