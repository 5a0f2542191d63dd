//! Why a local server does not run.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_core::settings::SettingsError;
use longhaul_core::with_causes;
use longhaul_mcp::ToolError;

use super::ToolEnvError;

/// Why a local server does not run, and what to do about it. `{:?}` is the same in full, with all causes, because a
/// `main` that returns it prints that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A setting is out of range, or contradicts another one.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings or secrets of the tools are wrong or missing.
    #[error(transparent)]
    ToolEnv(#[from] ToolEnvError),
    /// The runtime for async code could not be started.
    #[error("the process could not start its threads")]
    Runtime(#[source] std::io::Error),
    /// A whole `main` was called where a runtime runs already.
    #[error(
        "`main` starts a runtime, and this program has one already: call `longhaul::serve(server, options).await` \
         instead, or leave out `#[tokio::main]`"
    )]
    NestedRuntime,
    /// The database cannot be opened.
    #[error("the database of --db cannot be opened")]
    Open(#[source] Box<dyn Error + Send + Sync>),
    /// There is no place for the tasks of a server on standard input and output.
    #[error("no file for the tasks of this folder can be found: {cause}; name one with --db FILE or LONGHAUL_DB")]
    NoPlace {
        /// Why.
        cause: String,
    },
    /// The database was opened but does not answer.
    #[error("the database does not answer")]
    Database(#[source] Box<dyn Error + Send + Sync>),
    /// The environment names no region, and the store and the queue are on AWS.
    #[error("no AWS region is known: set AWS_REGION, such as AWS_REGION=eu-west-1")]
    NoRegion,
    /// The file of tokens cannot be used.
    #[error("the token file {} cannot be used", path.display())]
    TokenFile {
        /// Which file.
        path: PathBuf,
        /// Why, and in which lines. Without anything that is in the file.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The configuration of webhooks cannot be read.
    #[error("the webhooks of --webhooks cannot be used")]
    Webhooks {
        /// Why, with each mistake and its place. Without any secret.
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// The address is taken, or does not belong to this machine.
    // The cause is in the sentence and no `source`, because what to do comes after it.
    #[error(
        "cannot listen on {address}: {cause}; choose another address with --listen, or stop the program that uses this \
         one"
    )]
    Listen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// The address of the metrics is taken, or does not belong to this machine.
    #[error(
        "cannot listen on {address} for metrics: {cause}; choose another address with --metrics-listen, or stop the \
         program that uses this one"
    )]
    MetricsListen {
        /// Which address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A policy names a tool that the handler does not have.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The program could not make its server.
    #[error(transparent)]
    Program(Box<dyn Error + Send + Sync>),
}

impl ServeError {
    /// Prints it on standard error, in one line and without a backtrace. Returns the exit code: 2 if the program was
    /// started in a wrong way, 1 otherwise.
    #[expect(clippy::print_stderr, reason = "this is the output of the program for its user")]
    #[must_use]
    pub fn report(&self) -> ExitCode {
        eprintln!("error: {}", with_causes(self));
        if self.is_wrong_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
    }

    fn is_wrong_usage(&self) -> bool {
        matches!(self, Self::Settings(_) | Self::ToolEnv(ToolEnvError::Settings(_)))
            || matches!(self, Self::Program(cause) if cause.is::<SettingsError>())
    }
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_it_prints_all_of_it() {
        let cause = std::io::Error::new(std::io::ErrorKind::AddrInUse, "address in use");
        let error = ServeError::Listen { address: SocketAddr::from(([127, 0, 0, 1], 8_080)), cause };
        let said = "cannot listen on 127.0.0.1:8080: address in use; choose another address with --listen, or stop the \
                    program that uses this one";
        assert_eq!(format!("{error:?}"), said);
    }
}
