//! Longhaul's flags as a part of a command of the program's own.

use clap::{ArgMatches, Command, FromArgMatches};
use longhaul_core::settings::{Flags, Place, SettingsError, Values, table};

use super::Options;
use super::flags::{self, declared};
use crate::settings::ProcessEnv;

/// Longhaul's flags, for a program that reads its command line with `clap`.
///
/// ```
/// use clap::Parser;
/// use longhaul::serve::Args;
///
/// /// Reports about sales.
/// #[derive(Parser)]
/// struct Command {
///     /// Where the data is.
///     #[arg(long)]
///     folder: std::path::PathBuf,
///     #[command(flatten)]
///     longhaul: Args,
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let command = Command::parse_from(["reports", "--folder", "sales", "--listen", "127.0.0.1:0"]);
/// let options = command.longhaul.options()?;
/// options.bind().await?;
/// // longhaul::serve(server, options).await?;
/// # Ok(())
/// # }
/// ```
///
/// Flatten them last. If a flag of your program has the name of one of Longhaul's, your program gets its value.
/// Longhaul's value is then set by its environment variable, which `docs/settings.md`
/// names.
#[derive(Clone, Debug, Default)]
pub struct Args {
    flags: Flags,
}

impl Args {
    /// The options in the flags and the environment of this process. The flag wins.
    ///
    /// # Errors
    /// [`SettingsError`], with all that is wrong.
    pub fn options(&self) -> Result<Options, SettingsError> {
        Ok(Values::read(Place::Local, &[&table::ALL], &self.flags, &ProcessEnv)?.into())
    }
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let is_free = |arg: &clap::Arg| {
            command.get_arguments().all(|own| own.get_long() != arg.get_long() && own.get_id() != arg.get_id())
        };
        let ours = declared(&[]).map(|setting| flags::arg(setting).help_heading("Longhaul")).chain(flags::removed(&[]));
        let ours: Vec<_> = ours.filter(is_free).collect();
        command.args(ours)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { flags: flags::given(&[], matches) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
