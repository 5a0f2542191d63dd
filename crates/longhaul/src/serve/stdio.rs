//! Standard input and output instead of HTTP: one client, which started this process and ends it.

use std::io::{BufRead, BufReader, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, select};
use longhaul_core::with_causes;
use longhaul_mcp::converse_over_stdio;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::limits::LINE_BYTES_MAX;
use super::stopping::stop_wanted;
use super::windows::Window;
use super::{Options, ServeError};
use crate::{Server, SystemClock};

/// So many messages wait in either direction.
const AHEAD_MAX: usize = 64;

/// How long a client may take that does not read, or does not write, when the server ends.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The JSON-RPC error of a server that could not start.
const INTERNAL_ERROR: i32 = -32_603;

/// Serves one client on standard input and output until it leaves, or the process is asked to stop. Its calls become
/// tasks as over HTTP, and survive that this process is killed: the next one resumes them. Between two clients nothing
/// runs.
///
/// Unless the options name a store, the tasks are in a file of the folder in which the process was started, below
/// `$XDG_STATE_HOME/longhaul` or `~/.local/state/longhaul`. One process has the file at a time. A second one, such as
/// for another window of the same project, passes everything on to the first one. When the first one ends, the second
/// one continues its tasks.
///
/// Standard output belongs to the protocol: print nothing there. The same happens in [`serve`](fn@super::serve) if the
/// setting `stdio` is on.
///
/// ```no_run
/// # use longhaul::Server;
/// # use longhaul::serve::Options;
/// # #[derive(Clone)]
/// # struct Reports;
/// # impl longhaul::rmcp::ServerHandler for Reports {}
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     Ok(longhaul::serve_stdio(Server::new(|| Reports), Options::from_env()?).await?)
/// }
/// ```
pub async fn serve_stdio(server: Server, options: Options) -> Result<(), ServeError> {
    // Its type has more levels than the compiler follows in the program of an author.
    converse(server, options).boxed().await
}

async fn converse(server: Server, options: Options) -> Result<(), ServeError> {
    let (mut lines, (out, writer)) = (read_lines(), write_lines());
    let window = match Window::of(server, options).await {
        Ok(window) => Arc::new(window),
        Err(error) => return refuse(error, &mut lines, out, writer).await,
    };
    if let Err(error) = window.open().await {
        return refuse(error, &mut lines, out, writer).await;
    }
    let (responding, repeating) = (Arc::clone(&window), Arc::clone(&window));
    let respond = move |request| {
        let window = Arc::clone(&responding);
        async move { window.respond(request).await }
    };
    let may_repeat = move |tool: &str| repeating.may_repeat(tool);
    let conversation = Box::pin(converse_over_stdio(respond, may_repeat, Arc::new(SystemClock), lines, out));
    let mut end = pin!(async {
        tokio::select! {
            () = stop_wanted() => {}
            () = window.succeed() => {}
        }
    });
    let left = select(conversation, end.as_mut()).await;
    window.stop().await;
    // Now that the database is closed: what the client still waits for is not cancelled.
    match left {
        Either::Left((unanswered, _end)) => drop(unanswered),
        Either::Right(((), conversation)) => drop(conversation),
    }
    written(writer).await;
    Ok(())
}

/// Ends a server that cannot start, with an answer for its client.
async fn refuse(
    error: ServeError,
    lines: &mut Receiver<Bytes>,
    out: Sender<Bytes>,
    writer: JoinHandle<()>,
) -> Result<(), ServeError> {
    tell_client(&error, lines, out).await;
    written(writer).await;
    Err(error)
}

/// Answers the first request of the client with the error, since few clients show other output of a process.
async fn tell_client(error: &ServeError, lines: &mut Receiver<Bytes>, out: Sender<Bytes>) {
    let first = tokio::time::timeout(LAST_LINES, lines.recv()).await;
    let first: Option<Value> = first.ok().flatten().and_then(|line| longhaul_core::strict_json::from_slice(&line).ok());
    let Some(id) = first.as_ref().and_then(|first| first.get("id")) else { return };
    let error = json!({"code": INTERNAL_ERROR, "message": with_causes(error)});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    drop(out.send(answer.into()).await);
}

/// Waits until all is written that was said. A client that does not read is not waited for.
async fn written(writer: JoinHandle<()>) {
    let joined = tokio::task::spawn_blocking(move || drop(writer.join()));
    drop(tokio::time::timeout(LAST_LINES, joined).await);
}

/// The lines of standard input. A thread reads them that nothing waits for: a runtime that ends would wait for one of
/// its own until the client writes something.
fn read_lines() -> Receiver<Bytes> {
    let (read, lines) = channel(AHEAD_MAX);
    std::thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        while let Some(line) = next_line(&mut input) {
            if !line.trim_ascii().is_empty() && read.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The next line, without its end; `None` at the end of the input. A line that is too long is cut off, so that it is
/// refused as something that is not a message.
fn next_line(input: &mut impl BufRead) -> Option<Bytes> {
    let mut line = Vec::new();
    let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
    match read {
        Ok(0) => return None,
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(%error, "standard input cannot be read");
            return None;
        }
    }
    if !line.ends_with(b"\n") && line.len() as u64 == LINE_BYTES_MAX {
        tracing::warn!("a message of the client has more than {} MiB, and is refused", LINE_BYTES_MAX >> 20);
        line.truncate(1_024);
        if let Err(error) = input.skip_until(b'\n') {
            tracing::warn!(%error, "standard input cannot be read");
        }
    }
    Some(line.trim_ascii().to_vec().into())
}

/// Where lines go to standard output.
fn write_lines() -> (Sender<Bytes>, JoinHandle<()>) {
    let (out, mut lines) = channel::<Bytes>(AHEAD_MAX);
    let writer = std::thread::spawn(move || {
        let mut output = std::io::stdout();
        while let Some(line) = lines.blocking_recv() {
            let written = output.write_all(&line).and_then(|()| output.write_all(b"\n")).and_then(|()| output.flush());
            if let Err(error) = written {
                tracing::debug!(%error, "the client does not read any more");
                break;
            }
        }
    });
    (out, writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_one_is_read() {
        let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 10];
        let mut input = BufReader::new(std::io::Cursor::new([&long[..], b"\nnext\n"].concat()));
        assert_eq!(next_line(&mut input).unwrap().len(), 1_024);
        assert_eq!(&next_line(&mut input).unwrap()[..], b"next");
        assert!(next_line(&mut input).is_none());
    }
}
