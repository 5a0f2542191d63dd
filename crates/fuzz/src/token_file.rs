//! The token file of a local server. With any content the server starts or says why not, without a word of the file. It
//! lets in only callers that have one of its tokens.

use std::io::Write;
use std::net::SocketAddr;

use longhaul::Server;
use longhaul::serve::{self, Options, Running, ServeError};
use longhaul_core::settings::table::{self, Callers};
use longhaul_core::with_causes;

use crate::tools::Tools;
use crate::upstream::status_of;

/// A token that no file has.
const UNKNOWN: &str = "unknown-token-unknown-token-unknown-token";

/// Bytes of a word that would be recognised in an error.
const WORD_BYTES_MIN: usize = 20;

/// Starts one server.
pub(crate) fn run(input: &[u8]) {
    // Only its owner can read it.
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(input).unwrap();
    let options = Options::default()
        .with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0)))
        .with(&table::DB, ":memory:")
        .with(&table::AUTH, Callers::Bearer)
        .with(&table::TOKEN_FILE, file.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        match serve::start(&Server::new(|| Tools), &options).await {
            Ok(running) => {
                let text = std::str::from_utf8(input).expect("a file that is used is text");
                judge(&running, text).await;
                running.stop().await;
            }
            Err(error) => refused(input, &error),
        }
    });
}

/// The first token of the file is accepted, and one that is not in it is not.
async fn judge(running: &Running, text: &str) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    // A file may have comments only.
    let first = lines.next().unwrap_or_default();
    let token = first.split_whitespace().nth(1).unwrap_or_default();
    if !first.is_empty() && !token.starts_with("sha256:") && !first.contains("expires=") {
        let token = token.split(',').next().unwrap_or_default();
        assert_ne!(status(running, token).await, 401, "{first}");
    }
    if !text.contains(UNKNOWN) {
        assert_eq!(status(running, UNKNOWN).await, 401);
    }
}

/// The status with which a request with this token is answered.
async fn status(running: &Running, token: &str) -> u16 {
    status_of(running.address(), &format!("authorization: Bearer {token}\r\n"), "{}").await
}

fn refused(input: &[u8], error: &ServeError) {
    let text = with_causes(error);
    let file = String::from_utf8_lossy(input);
    let words = file.split_whitespace().filter(|word| word.len() >= WORD_BYTES_MIN);
    words.for_each(|word| assert!(!text.contains(word), "an error has a word of the file: {text}"));
    assert!(text.len() < 4_000, "{text}");
}
