//! The verbs and their flags.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use jiff::Timestamp;
use longhaul_client::{Status, time};
use longhaul_core::OwnerId;

mod token;

use crate::clock::{moment, timestamp};
use crate::deploy::flags::Verb as DeployVerb;
use crate::limits::{LISTED, LISTED_MAX, WATCHED_AT_ONCE_MAX};

pub(crate) use token::{NewToken, TokenList, TokenVerb};

/// Shows and controls the tasks of an MCP server, or makes the tools of one durable.
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
            5 tool error or failed, 6 needs an answer and cannot ask, 7 --wait elapsed, 8 cancelled or expired,
            130 interrupted";

/// The server that is called if no other one is named.
const DEFAULT: &str = "http://127.0.0.1:8080/mcp";

/// The flags of all verbs except `demo`, `gateway` and `completions`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// The server: its URL, or its name in `.mcp.json` of this folder or in your `servers.json`
    #[arg(long, short, global = true, env = "LONGHAUL_SERVER", value_name = "NAME|URL")]
    #[arg(default_value = DEFAULT)]
    pub(crate) server: String,
    /// Sends a header with every request; may be repeated
    #[arg(short = 'H', long = "header", global = true, value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Signs every request for AWS, with the credentials that the AWS CLI would use. The service and the region are
    /// those of the server's name, or these
    #[arg(long, global = true, env = "LONGHAUL_AWS_SIGN", value_name = "[SERVICE/]REGION|SERVICE")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub(crate) aws_sign: Option<String>,
    /// Writes JSON: one object, or one a line where there are several
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Shows requests, answers and log messages of the server on the standard error, without credentials
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
}

impl Global {
    /// Whether a server was named.
    pub(crate) fn names_server(&self) -> bool {
        self.server != DEFAULT
    }

    /// The flag with which a further command finds the same server.
    pub(crate) fn come_back(&self) -> String {
        if self.server == DEFAULT { String::new() } else { format!(" --server {}", self.server) }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Lists the tools, or shows one with its schema
    Tools { name: Option<String> },
    /// Shows what the server is, and how its tasks work
    Info,
    /// Lists the resources, or reads one
    Resources {
        #[arg(value_name = "URI")]
        uri: Option<String>,
        #[command(flatten)]
        saved: Saved,
    },
    /// Lists the prompts, or gets one
    Prompts {
        name: Option<String>,
        /// Arguments: key=value, @FILE or - for a JSON object
        #[arg(value_name = "ARGUMENT", requires = "name")]
        given: Vec<String>,
    },
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
        /// Only with this status, or one of several: working,failed
        #[arg(long, value_parser = status(), value_delimiter = ',')]
        status: Vec<Status>,
        /// Only of this tool
        #[arg(long)]
        tool: Option<String>,
        /// Only with this label, such as customer=acme; several times for several labels
        #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
        label: Vec<(String, String)>,
        /// At most so many of them, the newest first
        #[arg(long, value_name = "N", default_value_t = LISTED)]
        #[arg(value_parser = clap::value_parser!(u16).range(1..=LISTED_MAX))]
        limit: u16,
        /// Shows them again and again
        #[arg(long)]
        watch: bool,
    },
    /// Shows a task
    Show {
        id: String,
        /// With its attempts and its journal, if the server shows them
        #[arg(long)]
        journal: bool,
    },
    /// Waits for the end of tasks
    Watch {
        /// Without any: all tasks that have not ended
        #[arg(num_args = 0..=WATCHED_AT_ONCE_MAX, value_name = "ID")]
        ids: Vec<String>,
        /// How long to wait at most: 90s, 10m, 2h
        #[arg(long, value_parser = time::read)]
        wait: Option<Duration>,
    },
    /// Writes the result of a task that has ended
    Result {
        id: String,
        #[command(flatten)]
        saved: Saved,
    },
    /// Answers a question of a task: by arguments, or in a form
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
    /// Makes the call of a task again, as a new task, if this machine began it or the server shows its arguments
    Again {
        id: String,
        #[command(flatten)]
        how: How,
    },
    /// Resumes a failed task as a new one, which takes over its steps up to the first that failed
    Resume {
        id: String,
        /// Takes over only the steps before this one
        #[arg(long, value_name = "STEP")]
        from: Option<String>,
        #[command(flatten)]
        waits: Waits,
    },
    /// Serves the tasks of the server as pages for the browser, until Ctrl-C
    Console(ConsoleFlags),
    /// Copies the database file of a server, which may run meanwhile
    Backup {
        /// The copy, which must not exist yet
        #[arg(value_name = "FILE")]
        to: PathBuf,
        /// The database file of the server
        #[arg(long, env = "LONGHAUL_DB", value_name = "FILE", default_value = "longhaul.db")]
        db: PathBuf,
    },
    /// Erases all tasks of an owner from the database file of a server that does not run
    Erase {
        /// The owner, as the audit log has it: 64 hexadecimal digits
        #[arg(required_unless_present = "issuer", conflicts_with = "issuer")]
        owner: Option<OwnerId>,
        /// Instead of OWNER: the issuer of the caller's identity, such as `bearer` for the names of a token file
        #[arg(long)]
        issuer: Option<String>,
        /// The subject of the identity, such as a name of the token file
        #[arg(long, requires = "issuer", default_value = "", hide_default_value = true)]
        subject: String,
        /// The tenant: an account of AWS, or the value of the claim that shares tasks
        #[arg(long, requires = "issuer", default_value = "", hide_default_value = true)]
        tenant: String,
        /// The database file of the server
        #[arg(long, env = "LONGHAUL_DB", value_name = "FILE", default_value = "longhaul.db")]
        db: PathBuf,
    },
    /// Logs in to a server in the browser
    Login {
        #[command(flatten)]
        how: LogIn,
    },
    /// Signs out of a server
    Logout,
    /// Adds, lists and revokes the tokens of a server with `--auth bearer`, or of a stack with `AuthMode=bearer`
    Token {
        #[command(subcommand)]
        verb: TokenVerb,
    },
    /// Passes messages between a client on the standard input and output and a server behind a URL, signed or logged in
    Bridge {
        /// The server, instead of --server
        #[arg(value_name = "NAME|URL")]
        to: Option<String>,
    },
    #[command(flatten)]
    Deploy(DeployVerb),
    /// Writes completions for a shell
    Completions { shell: clap_complete::Shell },
    /// Serves demonstration tools, with their tasks in an embedded database
    #[command(disable_help_flag = true, override_usage = "longhaul demo [OPTIONS]")]
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
    /// The former name of `demo`.
    #[command(hide = true)]
    Local {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
    /// Puts any MCP server behind a gateway that makes its tools durable
    #[command(
        disable_help_flag = true,
        override_usage = "longhaul gateway [OPTIONS] --config FILE\n       longhaul gateway [OPTIONS] -- COMMAND \
                          [ARGS...]\n       longhaul gateway lock [OPTIONS] --config FILE"
    )]
    Gateway {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        args: Vec<OsString>,
    },
}

impl Verb {
    /// The ids of tasks that it names.
    pub(crate) fn task_ids(&mut self) -> &mut [String] {
        match self {
            Self::Show { id, .. }
            | Self::Result { id, .. }
            | Self::Answer { id, .. }
            | Self::Again { id, .. }
            | Self::Resume { id, .. } => std::slice::from_mut(id),
            Self::Watch { ids, .. } | Self::Cancel { ids } => ids,
            _without_ids => &mut [],
        }
    }
}

/// How to log in.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogIn {
    /// Opens no browser, and only writes the URL of the page
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// The id of a client that the authorization server knows, or the https URL of a document about one. Its secret, if
    /// it has one, is in LONGHAUL_CLIENT_SECRET. Without it, a client is registered
    #[arg(long, value_name = "ID|URL")]
    pub(crate) client_id: Option<String>,
    /// The port on loopback for the browser's redirect, for clients that are registered with one; otherwise any free
    /// port
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub(crate) callback_port: u16,
    /// Asks for these scopes, separated by blanks, instead of those that the server wants
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
}

/// The file for a result or a resource.
#[derive(Args, Clone, Debug)]
pub(crate) struct Saved {
    /// Writes to a new file. An image, a sound and an embedded resource are written as their bytes
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrites the file
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Writes this content of several, counted from 1
    #[arg(long, value_name = "NUMBER", requires = "output", conflicts_with = "json")]
    pub(crate) content: Option<usize>,
}

/// How a call is waited for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Waits {
    /// Writes the id of the task, and does not wait for its end
    #[arg(long, conflicts_with = "wait")]
    pub(crate) detach: bool,
    /// How long to wait at most: 90s, 10m, 2h
    #[arg(long, value_parser = time::read)]
    pub(crate) wait: Option<Duration>,
    /// The call's idempotency key: the same key with the same call is the same task
    #[arg(long)]
    pub(crate) key: Option<String>,
}

/// When a call starts, and how it is waited for.
#[derive(Args, Clone, Debug)]
pub(crate) struct How {
    #[command(flatten)]
    pub(crate) waits: Waits,
    /// Starts at this time: 2026-12-01T09:00Z; without a zone it is a time of this machine's zone
    #[arg(long, value_parser = moment, value_name = "TIME", conflicts_with = "after")]
    at: Option<Timestamp>,
    /// Starts after this time: 90s, 10m, 2h, 3d
    #[arg(long = "in", value_parser = time::read, value_name = "TIME")]
    after: Option<Duration>,
}

impl How {
    /// Whether the call starts later.
    pub(crate) const fn is_later(&self) -> bool {
        self.at.is_some() || self.after.is_some()
    }

    /// When the call starts, if that is not now.
    pub(crate) fn start(&self) -> Result<Option<Timestamp>, String> {
        match (self.at, self.after) {
            (Some(at), _) => Ok(Some(at)),
            (None, Some(after)) => timestamp().checked_add(after).map(Some).map_err(|error| error.to_string()),
            (None, None) => Ok(None),
        }
    }
}

/// Access to the console, and what users may do there.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConsoleFlags {
    /// Where to listen: other addresses than those of loopback need a token file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(crate) listen: SocketAddr,
    /// Only shows: nothing can be called, answered or cancelled
    #[arg(long)]
    pub(crate) read_only: bool,
    /// People log in with the token in this file, or by the link that is written at the start and works once
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// An additional host name of the console
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
}

/// A label, as `KEY=VALUE`.
fn label(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
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

    #[test]
    fn a_label_is_a_key_and_a_value() {
        assert_eq!(label("query=a=b"), Ok(("query".to_owned(), "a=b".to_owned())));
        assert!(label("customer").is_err() && label("customer=").is_err());
    }
}
