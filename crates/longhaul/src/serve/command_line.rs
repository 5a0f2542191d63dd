//! The command line of a program that does nothing but serve.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Command;
use clap::error::ErrorKind;
use longhaul_core::settings::{Declared, EnvSource, Flags, Place, SettingsError, Values, table};
use tokio::runtime::Handle;

use super::flags::{self, declared};
use super::{Options, ServeError, init_logs, serve};
use crate::settings::ProcessEnv;
use crate::{IntoServer, ToolEnv};

/// For the author of a program that a user starts with flags which only the author can add.
const OWN_FLAGS: &str = "\n  note: the `main` of this program knows Longhaul's flags only. For flags of its own, \
                         declare settings (`CommandLine::settings`), or flatten `longhaul::serve::Args` into a command \
                         of yours and call `longhaul::serve(server, options).await`\n";

/// Why the command line gave no options.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Help or the version was requested.
    #[error("{0}")]
    Help(String),
    /// The arguments cannot be understood.
    #[error("{0}")]
    Usage(String),
    /// Flags or environment variables have values that cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl OptionsError {
    /// Prints it as programs do: help on standard output, errors on standard error. Returns the exit code: 0 for help,
    /// 1 if that cannot be written, 2 otherwise.
    #[expect(clippy::print_stderr, reason = "this is the output of the program for its user")]
    #[must_use]
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Help(text) => {
                let mut output = std::io::stdout().lock();
                match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
                    // A reader that has gone has read enough.
                    Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                        eprintln!("error: the standard output cannot be written: {error}");
                        ExitCode::FAILURE
                    }
                    Ok(()) | Err(_) => ExitCode::SUCCESS,
                }
            }
            Self::Usage(text) => {
                eprint!("{text}");
                ExitCode::from(2)
            }
            Self::Settings(error) => {
                eprintln!("error: {error}\n\nFor more information, try '--help'.");
                ExitCode::from(2)
            }
        }
    }
}

/// The command line of a program that serves locally: the flags of all local settings, and of the application's.
/// [`main`](Self::main) is all that a program without settings of its own needs.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use longhaul::serve::CommandLine;
/// use longhaul::settings::{Preset, Setting, Text};
///
/// static REGION: Setting<Text> =
///     Setting::new("region", "SHOP_REGION", Text("NAME"), "Where the shop is.").local(Preset::Value("eu"));
///
/// fn main() -> ExitCode {
///     let command_line = CommandLine::new("shop").about("The tools of a shop.").settings(&[&REGION]);
///     let options = match command_line.parse() {
///         Ok(options) => options,
///         Err(error) => return error.report(),
///     };
///     let region = options.values().get(&REGION);
///     // …
///     ExitCode::SUCCESS
/// }
/// ```
#[derive(Clone)]
pub struct CommandLine {
    name: &'static str,
    version: Option<&'static str>,
    about: &'static str,
    own: Vec<&'static dyn Declared>,
}

impl Default for CommandLine {
    /// A program without its own settings.
    fn default() -> Self {
        Self::new("server")
    }
}

impl CommandLine {
    /// The command line of the program `name`. Words after the first one are verbs: [`parse`](Self::parse) skips as
    /// many arguments.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, version: None, about: "A durable MCP server in one process.", own: Vec::new() }
    }

    /// The output of `--version`.
    #[must_use]
    pub const fn version(mut self, version: &'static str) -> Self {
        self.version = Some(version);
        self
    }

    /// The description of the program, for its help page.
    #[must_use]
    pub const fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Adds settings of the application.
    #[must_use]
    pub fn settings(mut self, own: &[&'static dyn Declared]) -> Self {
        self.own.extend(own);
        self
    }

    /// A whole `main`. It reads the flags and the environment of this process, and makes the server with the settings
    /// of its tools. It serves until the process is asked to stop. It prints help, the URLs of the server once it is
    /// ready, and errors with their causes. Call it last, since it does not wait for a tool that keeps computing after
    /// all others have stopped.
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    ///
    /// use longhaul::serve::CommandLine;
    ///
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # impl longhaul::rmcp::ServerHandler for Reports {}
    /// # fn server(_env: longhaul::ToolEnv) -> longhaul::Server { longhaul::Server::new(|| Reports) }
    /// fn main() -> ExitCode {
    ///     CommandLine::new("reports").version(env!("CARGO_PKG_VERSION")).main(server)
    /// }
    /// ```
    pub fn main<S: IntoServer<Kind>, Kind>(&self, server: impl FnOnce(ToolEnv) -> S) -> ExitCode {
        run(self.parse_noting(OWN_FLAGS), |options| Ok(server(options.tool_env()?)))
    }

    /// [`main`](Self::main) for a program that reads its own settings to make its server, which may fail.
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    ///
    /// use longhaul::serve::CommandLine;
    ///
    /// # #[derive(Clone)]
    /// # struct Reports { font: Vec<u8> }
    /// # impl longhaul::rmcp::ServerHandler for Reports {}
    /// fn main() -> ExitCode {
    ///     CommandLine::new("reports").main_with(|_options| -> std::io::Result<_> {
    ///         let font = std::fs::read("report.ttf")?;
    ///         Ok(longhaul::Server::new(move || Reports { font: font.clone() }))
    ///     })
    /// }
    /// ```
    pub fn main_with<S: IntoServer<Kind>, Kind>(&self, server: impl FnOnce(&Options) -> S) -> ExitCode {
        run(self.parse(), |options| Ok(server(options)))
    }

    /// The options in the flags and the environment of this process.
    ///
    /// # Errors
    /// [`OptionsError`], including a request for help: [`OptionsError::report`] prints it.
    pub fn parse(&self) -> Result<Options, OptionsError> {
        self.parse_noting("")
    }

    /// The same, with a note after the error of an unknown flag.
    fn parse_noting(&self, unknown: &str) -> Result<Options, OptionsError> {
        let verbs = self.name.split(' ').count().saturating_sub(1);
        self.read_noting(unknown, std::env::args_os().skip(verbs), &ProcessEnv)
    }

    /// The options in `args` and `env`. The first of `args` is the program's name.
    ///
    /// # Errors
    /// [`OptionsError`], including a request for help: [`OptionsError::report`] prints it.
    pub fn read(
        &self,
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        env: &dyn EnvSource,
    ) -> Result<Options, OptionsError> {
        self.read_noting("", args, env)
    }

    fn read_noting(
        &self,
        unknown: &str,
        args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        env: &dyn EnvSource,
    ) -> Result<Options, OptionsError> {
        let flags = self.flags(args).map_err(|error| {
            let text = error.render().to_string();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => OptionsError::Help(text),
                ErrorKind::UnknownArgument => OptionsError::Usage(text + unknown),
                _ => OptionsError::Usage(text),
            }
        })?;
        Ok(Options::from(Values::read(Place::Local, &[&table::ALL, &self.own], &flags, env)?))
    }

    fn flags(&self, args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Flags, clap::Error> {
        Ok(flags::given(&self.own, &mut self.command().try_get_matches_from(args)?))
    }

    fn command(&self) -> Command {
        let command = Command::new(self.name)
            .about(self.about)
            .next_line_help(true)
            .after_help("Every flag can also be set by the environment variable that it names; the flag wins.")
            .args(declared(&self.own).map(flags::arg))
            .args(flags::removed(&self.own));
        match self.version {
            Some(version) => command.version(version),
            None => command,
        }
    }
}

/// Makes the server and serves it. The server may log while it is made.
fn run<S: IntoServer<Kind>, Kind>(
    options: Result<Options, OptionsError>,
    server: impl FnOnce(&Options) -> Result<S, ServeError>,
) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(error) => return error.report(),
    };
    match try_run(options, server) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}

fn try_run<S: IntoServer<Kind>, Kind>(
    options: Options,
    server: impl FnOnce(&Options) -> Result<S, ServeError>,
) -> Result<(), ServeError> {
    if Handle::try_current().is_ok() {
        return Err(ServeError::NestedRuntime);
    }
    init_logs(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let server = server(&options)?.into_server().await.map_err(ServeError::Program)?;
        serve(server, options).await
    });
    runtime.shutdown_background();
    served
}

impl Options {
    /// The options in the flags and the environment of this process. Each flag has an environment variable; the flag
    /// wins.
    ///
    /// # Errors
    /// [`OptionsError`]. A request for help is one too: [`OptionsError::report`] prints it.
    pub fn parse() -> Result<Self, OptionsError> {
        CommandLine::default().parse()
    }

    /// The options in the environment of this process, for a program with flags of its own.
    ///
    /// # Errors
    /// [`SettingsError`], with all that is wrong.
    pub fn from_env() -> Result<Self, SettingsError> {
        Ok(Values::read(Place::Local, &[&table::ALL], &Flags::new(), &ProcessEnv)?.into())
    }

    /// The options in `args` and the environment of this process. The first of `args` is the program's name.
    ///
    /// # Errors
    /// [`OptionsError`]. A request for help is one too: [`OptionsError::report`] prints it.
    pub fn from_args(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, OptionsError> {
        CommandLine::default().read(args, &ProcessEnv)
    }
}
