//! `bench`: measures a local server's requests per second, its latency and its memory. The comparison is a server of
//! `rmcp` alone that stores its tasks in memory. It also measures how soon the Lambda functions start and answer,
//! compared with a minimal function. It prints a table, or JSON, and asserts nothing: a machine is sometimes busy, and
//! a reader knows when.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::future_not_send,
    reason = "a measuring program: it measures time, runs connections concurrently in one thread, and prints"
)]

mod choice;
mod connection;
mod csv;
mod figures;
mod filled;
mod function;
mod ground;
mod load;
mod measure;
mod peers;
mod proc;
mod servers;
mod session;
mod spawned;
mod wire;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use choice::Choice;

#[derive(Parser)]
#[command(about = "Measures a local server and the Lambda functions, each compared with a minimal one", version)]
struct Cli {
    #[command(flatten)]
    choice: Choice,
    #[command(subcommand)]
    other: Option<Other>,
}

/// The other roles of this program: the client of the comparison with other systems, and the servers that are measured,
/// each in its own process.
#[derive(Subcommand)]
enum Other {
    /// The client of `peers/compare.py`.
    #[command(hide = true)]
    PeersClient,
    /// A server on the facade with a tool that does nothing.
    #[command(hide = true)]
    ServeNoop {
        /// Where to listen.
        listen: SocketAddr,
        /// Where tasks are stored.
        db: PathBuf,
    },
    /// The same server, with a table and a queue on AWS.
    #[command(hide = true)]
    ServeAws {
        /// Where to listen.
        listen: SocketAddr,
        /// The table.
        table: String,
        /// The URL of the queue.
        queue: String,
    },
    /// The same tool on rmcp's own task runtime, which stores its tasks in memory.
    #[command(hide = true)]
    ServeRmcp {
        /// Where to listen.
        listen: SocketAddr,
    },
    /// A server over standard input and output that answers at once.
    #[command(name = "serve-stdio", hide = true)]
    AtOnce,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    match cli.other {
        Some(Other::PeersClient) => one_thread()?.block_on(peers::run()),
        Some(Other::ServeNoop { listen, db }) => servers::noop::run(listen, db),
        Some(Other::ServeAws { listen, table, queue }) => servers::noop::run_on_aws(listen, table, queue),
        Some(Other::ServeRmcp { listen }) => servers::rmcp_alone::run(listen),
        Some(Other::AtOnce) => servers::stdio::run(),
        None => one_thread()?.block_on(measure::run(&cli.choice)),
    }
}

/// One thread: the client should use little of the cores that it shares with the server.
fn one_thread() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
