//! The verbs and their flags.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use longhaul_client::Status;

use crate::clock::duration;

/// See and steer the tasks of an MCP server, or make one whose tools are durable.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, arg_required_else_help = true, after_help = EXITS)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXITS: &str = "\
Exit codes: 0 ended well, 1 unexpected, 2 usage (also an unknown tool or task), 3 not signed in, 4 not reachable,
            5 tool error or failed, 6 needs an answer and cannot ask, 7 --wait is over, 8 cancelled or expired,
            130 interrupted";

/// What all verbs but `gateway` and `completions` take.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// The server: its URL, or its name in `.mcp.json` of this folder
    #[arg(long, short, global = true, env = "LONGHAUL_SERVER", value_name = "NAME|URL")]
    #[arg(default_value = "http://127.0.0.1:8080/mcp")]
    pub(crate) server: String,
    /// Sends a header with every request; may be repeated
    #[arg(short = 'H', long = "header", global = true, value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Writes JSON: one object, or one a line where there are several
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Lists the tools, or shows one with its schema
    Tools { name: Option<String> },
    /// Calls a tool, and waits for its result
    Call {
        tool: String,
        /// Arguments: key=value, key:=json, @FILE or - for a JSON object
        #[arg(value_name = "ARGUMENT")]
        given: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Lists the tasks
    Tasks {
        /// Only with this status
        #[arg(long, value_parser = status())]
        status: Option<Status>,
        /// Only of this tool, as far as this machine began them
        #[arg(long)]
        tool: Option<String>,
        /// Shows them again and again
        #[arg(long)]
        watch: bool,
    },
    /// Shows a task
    Show { id: String },
    /// Waits for the end of tasks
    Watch {
        #[arg(required = true, num_args = 1..=64, value_name = "ID")]
        ids: Vec<String>,
        /// Waits no longer: 90s, 10m, 2h
        #[arg(long, value_parser = duration)]
        wait: Option<Duration>,
    },
    /// Writes the result of a task that has ended
    Result {
        id: String,
        /// To a file
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Answers what a task asks: by arguments, or in a form
    Answer {
        id: String,
        /// key=value, key:=json, @FILE or - for a JSON object
        #[arg(value_name = "ARGUMENT")]
        given: Vec<String>,
        /// Which question, if there are several
        #[arg(long, value_name = "KEY")]
        question: Option<String>,
        /// Declines to answer
        #[arg(long, conflicts_with = "given")]
        decline: bool,
    },
    /// Cancels tasks
    Cancel {
        #[arg(required = true, num_args = 1..=64, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Makes the call of a task again, as a new task: of those that this machine began
    Again {
        id: String,
        #[command(flatten)]
        how: How,
    },
    /// Writes completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Puts any MCP server behind a gateway that makes its tools durable
    #[command(
        disable_help_flag = true,
        override_usage = "longhaul gateway [OPTIONS] --config FILE\n       longhaul gateway [OPTIONS] -- COMMAND [ARGS...]\n       longhaul gateway lock [OPTIONS] --config FILE"
    )]
    Gateway {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
}

/// How a call is waited for.
#[derive(Args, Clone, Debug)]
pub(crate) struct How {
    /// Writes the id of the task, and does not wait for its end
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    /// Waits no longer: 90s, 10m, 2h
    #[arg(long, value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// The call's idempotency key: the same key with the same call is the same task
    #[arg(long)]
    pub(crate) key: Option<String>,
}

/// The statuses that a task may have, for a flag.
fn status() -> impl TypedValueParser<Value = Status> {
    PossibleValuesParser::new(Status::ALL.map(Status::name)).try_map(|name| Status::of(&name).ok_or("is not a status"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_verbs_and_flags_is_sound() {
        Cli::command().debug_assert();
    }
}
