//! The verbs about a deployed server, and their flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use longhaul_client::time;

/// A verb about a server on AWS, which is one stack of CloudFormation.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Deploys a server to AWS Lambda, or changes the settings, the template and the code of one
    Deploy(Deploy),
    /// Replaces the code of every function of a deployed server, and nothing else
    Update(Update),
    /// Gives a deployed server its previous packages and its previous template back
    Rollback(Change),
    /// Shows a deployed server and whether it answers
    Status(Named),
    /// Shows the logs of the functions of a deployed server
    Logs(Logs),
    /// Deletes a deployed server. Its table of tasks stays
    Destroy(Change),
}

/// A stack.
#[derive(Args, Clone, Debug)]
pub(crate) struct Named {
    /// The stack of CloudFormation
    #[arg(default_value = "longhaul")]
    pub(crate) stack: String,
}

/// A stack, and how it is changed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Change {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Does not ask before it changes anything
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The bucket for packages and templates, instead of longhaul-packages-ACCOUNT-REGION. It is made if it is missing
    #[arg(long, value_name = "NAME")]
    pub(crate) bucket: Option<String>,
}

/// The packages of the functions. Without these flags, `make build` builds them in the current folder.
#[derive(Args, Clone, Debug)]
pub(crate) struct Files {
    /// The zip file with the program that answers requests
    #[arg(long, value_name = "FILE", requires = "worker")]
    pub(crate) api: Option<PathBuf>,
    /// The zip file with the program that runs tools
    #[arg(long, value_name = "FILE", requires = "api")]
    pub(crate) worker: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Update {
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) change: Change,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Deploy {
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) change: Change,
    /// A parameter of the template, such as AuthMode=oauth; may be repeated. Others keep their value
    #[arg(long = "parameter", short, value_name = "NAME=VALUE")]
    pub(crate) parameters: Vec<String>,
    /// A tag for everything in the stack; may be repeated. Without it, the stack keeps its tags
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    pub(crate) tags: Vec<String>,
    /// Another template than the one of this version, such as a changed one that --eject wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// Writes the template to this file, and deploys nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["api", "worker", "template", "parameters", "tags"])]
    pub(crate) eject: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Logs {
    #[command(flatten)]
    pub(crate) named: Named,
    /// Only of this function, such as Worker; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Vec<String>,
    /// From so long ago: 90s, 10m, 2h
    #[arg(long, value_parser = time::read, value_name = "TIME", default_value = "10m")]
    pub(crate) since: Duration,
    /// Only lines with this, as CloudWatch Logs writes filter patterns, such as ERROR
    #[arg(long, value_name = "PATTERN")]
    pub(crate) filter: Option<String>,
    /// Continues with new log lines, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
}
