//! `longhaul console`: the tasks of a server in the browser.

use std::path::Path;
use std::sync::Arc;

use longhaul_console::{Act, Console, Remote, Setup};
use longhaul_core::settings::read_text;
use tokio::net::TcpListener;

use crate::args::{ConsoleFlags, Global};
use crate::exit::{Exit, Stop};
use crate::limits::TOKEN_BYTES_MAX;
use crate::out::{self, line};
use crate::private;
use crate::server::target;

/// Serves the console until Ctrl-C.
pub(super) async fn run(global: &Global, flags: ConsoleFlags) -> Result<Exit, Stop> {
    let source = Arc::new(Remote::new(target(global)?));
    let secret = flags.token_file.as_deref().map(secret).transpose()?;
    if secret.is_none() && !flags.listen.ip().is_loopback() {
        let why =
            "other machines reach this address: name a file with a token with --token-file, or listen on loopback";
        return Err(Stop::usage(format!("{}: {why}", flags.listen)));
    }
    let hosts = [flags.allow_host, vec![flags.listen.ip().to_string()]].concat();
    let setup = Setup {
        source: Arc::<Remote>::clone(&source),
        acts: Box::new(log),
        is_read_only: flags.read_only,
        hosts,
        secret,
        // Only the server itself knows.
        servers: Box::new(Vec::new),
    };
    let console = Console::new(setup).map_err(|error| Stop::usage(error.to_string()))?;
    let cannot = |error| Stop::usage(format!("cannot listen on {}: {error}", flags.listen));
    let listener = TcpListener::bind(flags.listen).await.map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    out::say(&format!("The console is at http://{address}{}", console.entry()));
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        () = longhaul_console::serve(listener, console) => {}
    }
    source.close().await;
    Ok(Exit::Well)
}

/// The token for signing in: the first line of a file that only its owner reads.
fn secret(file: &Path) -> Result<String, Stop> {
    let cannot = |why: String| Stop::usage(format!("--token-file {}: {why}", file.display()));
    let read = || Ok((std::fs::metadata(file)?, read_text(file, TOKEN_BYTES_MAX)?));
    let (metadata, text) = read().map_err(|error: std::io::Error| cannot(error.to_string()))?;
    if private::mode_for_others(&metadata).is_some() {
        return Err(cannot("others than its owner can read it: chmod 600".to_owned()));
    }
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// A line for each action in the console.
fn log(act: &Act<'_>) {
    let task = act.task.map(|id| format!(" task={}", line(id))).unwrap_or_default();
    let error = act.error.map(|why| format!(" error={}", line(why))).unwrap_or_default();
    out::say(&format!("{} console: {}{task}{error}", crate::clock::timestamp(), act.what));
}
