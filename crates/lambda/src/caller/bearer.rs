//! Callers with a token from the list of the stack, which is read again and again while requests come.

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use longhaul_aws::Parameter;
use longhaul_core::{Clock, Timestamp, with_causes};
use longhaul_http::{BearerTokens, Identified, Identify, Rejection, bearer_token};
use tokio::sync::Mutex;

/// How old the list may become before it is read again.
const READ_AGAIN_MS: u64 = 30_000;

/// How old the list may become while it cannot be read. A token that was revoked works no longer than this.
const AGE_MS_MAX: u64 = 60_000;

/// The pause after a list that could not be read.
const PAUSE_MS: u64 = 5_000;

// A list that is read late is not too old at once.
const _: () = assert!(READ_AGAIN_MS + 2 * PAUSE_MS < AGE_MS_MAX);

/// Where the list of tokens is.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// The list as it is now; `None` if there is none yet. An error is a sentence for the log, without any of the list.
    async fn read(&self) -> Result<Option<String>, String>;
}

/// A list in a parameter of SSM.
pub(crate) struct TokenParameter {
    pub(crate) parameter: Parameter,
    pub(crate) clock: Arc<dyn Clock>,
}

#[async_trait]
impl TokenSource for TokenParameter {
    async fn read(&self) -> Result<Option<String>, String> {
        self.parameter.read(&*self.clock).await.map_err(|error| error.to_string())
    }
}

/// Identifies callers by the tokens of a list.
pub struct BearerCaller {
    source: Box<dyn TokenSource>,
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

/// The list as it was read last, and when it is to be read next.
#[derive(Default)]
struct Kept {
    list: Option<(Timestamp, Arc<BearerTokens>)>,
    next: Option<Timestamp>,
}

impl BearerCaller {
    /// The callers of a list. Reads nothing yet.
    #[must_use]
    pub fn new(source: impl TokenSource + 'static, clock: Arc<dyn Clock>) -> Self {
        Self { source: Box::new(source), clock, kept: Mutex::default() }
    }

    /// The list, no older than it may be.
    pub(crate) async fn tokens(&self) -> Option<Arc<BearerTokens>> {
        let mut kept = self.kept.lock().await;
        if kept.next.is_none_or(|next| next <= self.clock.now()) {
            self.read(&mut kept).await;
        }
        let (read_at, tokens) = kept.list.as_ref()?;
        (self.clock.now().since_ms(*read_at) < AGE_MS_MAX).then(|| Arc::clone(tokens))
    }

    async fn read(&self, kept: &mut Kept) {
        let begun = self.clock.now();
        match self.source.read().await.and_then(|text| parse(text.as_deref())) {
            Ok(tokens) => {
                *kept = Kept { list: Some((begun, Arc::new(tokens))), next: Some(begun.plus_ms(READ_AGAIN_MS)) }
            }
            Err(why) => {
                tracing::error!(
                    why,
                    "the tokens of callers cannot be used; those that were read before work for a minute"
                );
                kept.next = Some(self.clock.now().plus_ms(PAUSE_MS));
            }
        }
    }
}

fn parse(text: Option<&str>) -> Result<BearerTokens, String> {
    // A stack without tokens yet.
    let text = text.unwrap_or("# none");
    BearerTokens::parse(text.as_bytes()).map_err(|error| with_causes(&error))
}

#[async_trait]
impl Identify for BearerCaller {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        // Nothing is read for a request without a token.
        let token = bearer_token(&request.headers)?;
        let tokens = self.tokens().await.ok_or(Rejection::NoTokens { retry_after_s: PAUSE_MS / 1_000 })?;
        tokens.identify(token, self.clock.now())
    }
}
