//! Flags: from the table of settings to a help page, and from arguments to options.

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use longhaul_core::settings::{
    Declared, EnvSource, Flags, Place, Preset, REMOVED, SettingsError, Shape, Values, table,
};

use super::{Options, ServeError, init_logs, serve};
use crate::settings::ProcessEnv;
use crate::{Server, ToolEnv};

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
/// use longhaul::local::CommandLine;
/// use longhaul::settings::{Declared, Place, Preset, Setting, Text};
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

    /// A whole `main`. It reads the flags and the environment of this process, makes the server with the settings of
    /// its tools, and serves it until the process is asked to stop. Help is printed, and so are what a user needs once
    /// the server is ready, and what goes wrong, with its causes. Call it last, as [`run_with`](super::run_with).
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    ///
    /// use longhaul::local::CommandLine;
    ///
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # impl longhaul::rmcp::ServerHandler for Reports {}
    /// # fn server(_env: longhaul::ToolEnv) -> longhaul::Server { longhaul::Server::new(|| Reports) }
    /// fn main() -> ExitCode {
    ///     CommandLine::new("reports").version(env!("CARGO_PKG_VERSION")).main(server)
    /// }
    /// ```
    pub fn main(&self, server: impl FnOnce(ToolEnv) -> Server) -> ExitCode {
        self.run(|options| Ok(server(options.tool_env()?)))
    }

    /// [`main`](Self::main) for a program that reads its own settings to make its server, which may fail.
    ///
    /// ```no_run
    /// use std::process::ExitCode;
    ///
    /// use longhaul::local::CommandLine;
    ///
    /// # #[derive(Clone)]
    /// # struct Reports { font: Vec<u8> }
    /// # impl longhaul::rmcp::ServerHandler for Reports {}
    /// fn main() -> ExitCode {
    ///     CommandLine::new("reports").main_with(|_options| {
    ///         let font = std::fs::read("report.ttf")?;
    ///         Ok(longhaul::Server::new(move || Reports { font: font.clone() }))
    ///     })
    /// }
    /// ```
    pub fn main_with(&self, server: impl FnOnce(&Options) -> Result<Server, Box<dyn Error + Send + Sync>>) -> ExitCode {
        self.run(|options| server(options).map_err(ServeError::Program))
    }

    /// The server may log while it is made.
    fn run(&self, server: impl FnOnce(&Options) -> Result<Server, ServeError>) -> ExitCode {
        let options = match self.parse() {
            Ok(options) => options,
            Err(error) => return error.report(),
        };
        let served = init_logs(&options)
            .map_err(ServeError::from)
            .and_then(|()| server(&options))
            .and_then(|server| serve::run(server, options));
        served.map_or_else(|error| error.report(), |()| ExitCode::SUCCESS)
    }

    /// The options in the flags and the environment of this process.
    ///
    /// # Errors
    /// [`OptionsError`], including a request for help: [`OptionsError::report`] prints it.
    pub fn parse(&self) -> Result<Options, OptionsError> {
        let verbs = self.name.split(' ').count().saturating_sub(1);
        self.read(std::env::args_os().skip(verbs), &ProcessEnv)
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
        let flags = self.flags(args)?;
        Ok(Options::from(Values::read(Place::Local, &[&table::ALL, &self.own], &flags, env)?))
    }

    fn flags(&self, args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Flags, OptionsError> {
        let mut matches = self.command().try_get_matches_from(args).map_err(|error| {
            let text = error.render().to_string();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => OptionsError::Help(text),
                _ => OptionsError::Usage(text),
            }
        })?;
        let removed = self.removed().filter(|name| matches.contains_id(name));
        let removed: Vec<_> = removed.map(|name| (name, OsString::new())).collect();
        let given = self.declared().filter_map(|setting| Some((setting.name(), text(*setting, &mut matches)?)));
        Ok(given.chain(removed).collect())
    }

    fn command(&self) -> Command {
        let command = Command::new(self.name)
            .about(self.about)
            .next_line_help(true)
            .after_help("Every flag can also be set by the environment variable that it names; the flag wins.")
            .args(self.declared().map(|setting| arg(*setting)))
            .args(self.removed().map(removed));
        match self.version {
            Some(version) => command.version(version),
            None => command,
        }
    }

    /// The flags that there were, but for those that the application has.
    fn removed(&self) -> impl Iterator<Item = &'static str> {
        let names = REMOVED.iter().map(|(name, _)| *name);
        names.filter(|name| self.own.iter().all(|setting| setting.name() != *name))
    }

    fn declared(&self) -> impl Iterator<Item = &&'static dyn Declared> {
        let all = table::ALL.iter().chain(&self.own);
        all.filter(|setting| setting.preset(Place::Local) != Preset::Absent)
    }
}

impl Options {
    /// The options in the flags and the environment of this process. Each flag has an environment variable; the flag
    /// wins.
    ///
    /// # Errors
    /// [`OptionsError`], also if help was requested: [`OptionsError::report`] prints it.
    pub fn parse() -> Result<Self, OptionsError> {
        CommandLine::default().parse()
    }

    /// The options in `args` and the environment of this process. The first of `args` is the program's name.
    ///
    /// # Errors
    /// [`OptionsError`], also if help was requested: [`OptionsError::report`] prints it.
    pub fn from_args(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, OptionsError> {
        CommandLine::default().read(args, &ProcessEnv)
    }
}

fn arg(setting: &'static dyn Declared) -> Arg {
    let arg = Arg::new(setting.name()).long(setting.name()).help(help(setting));
    match setting.shape() {
        Shape::Switch => arg.action(ArgAction::SetTrue),
        Shape::One(placeholder) => arg.value_name(placeholder).value_parser(value_parser!(OsString)),
        Shape::Several(placeholder) => {
            arg.value_name(placeholder).value_parser(value_parser!(OsString)).action(ArgAction::Append)
        }
    }
}

/// A flag that there was: it is taken with its value, to be refused together with all other faults.
fn removed(name: &'static str) -> Arg {
    Arg::new(name).long(name).hide(true).num_args(0..=1).action(ArgAction::Append).value_parser(value_parser!(OsString))
}

/// The sentence about the setting, and on a separate line what is allowed, the default and the variable.
fn help(setting: &dyn Declared) -> String {
    let allowed = match setting.shape() {
        Shape::Switch => String::new(),
        Shape::One(_) | Shape::Several(_) => format!("[{}] ", setting.allowed()),
    };
    let default = match setting.preset(Place::Local) {
        Preset::Value(text) => format!("[default: {text}] "),
        Preset::Unset(meaning) => format!("[default: {meaning}] "),
        Preset::Required => "[required] ".to_owned(),
        Preset::Absent => String::new(),
    };
    format!("{}\n{allowed}{default}[env: {}]", setting.about(), setting.variable())
}

/// The value of the flag; `None` if it is not given.
fn text(setting: &dyn Declared, matches: &mut ArgMatches) -> Option<OsString> {
    match setting.shape() {
        Shape::Switch => matches.get_flag(setting.name()).then(|| "true".into()),
        Shape::One(_) => matches.remove_one(setting.name()),
        Shape::Several(_) => {
            let texts: Vec<OsString> = matches.remove_many(setting.name())?.collect();
            Some(texts.join(std::ffi::OsStr::new(",")))
        }
    }
}
