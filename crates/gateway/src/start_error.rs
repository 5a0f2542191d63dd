//! Why a gateway does not start.

use std::fmt;

use longhaul::ToolError;

use crate::limits;

/// Why a gateway does not start: everything that was found, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub(crate) Vec<Problem>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Problem {
    #[error("{0}")]
    Server(String),
    #[error("the server `{0}` lists nothing: no tools, prompts or resources; check how it is started")]
    Empty(String),
    #[error("the server `{0}` is not in the lock file: write it again with `longhaul gateway lock`")]
    NotLocked(String),
    #[error(
        "the {kind} `{name}` is in both `{first}` and `{second}`: give one of them another `prefix` in the section \
         `longhaul`"
    )]
    Clash { kind: &'static str, name: String, first: String, second: String },
    #[error(
        "the name `{name}` of a tool of `{server}` is longer than {max} bytes: choose a shorter `prefix` in the \
         section `longhaul`",
        max = limits::NAME_BYTES_MAX
    )]
    NameTooLong { name: String, server: String },
    #[error("the servers have {tools} tools together; {max} at most can be served", max = limits::TOOLS_MAX)]
    TooManyTools { tools: usize },
    #[error("no tool of `{server}` is called `{pattern}`, as `{member}` of its section says; {instead}")]
    NoSuchTool { server: String, member: &'static str, pattern: String, instead: String },
    #[error(
        "the lock file was written for other tools of `{0}`, or other descriptions, than `only`, `hidden` and `tools` \
         choose now: write it again with `longhaul gateway lock`"
    )]
    ChosenOtherwise(String),
    #[error("{place}: {what}")]
    Entry { place: String, what: String },
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl StartError {
    /// Unless there are no problems.
    pub(crate) fn unless_none(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self(problems)) }
    }
}

impl fmt::Display for StartError {
    /// One line for each reason.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for StartError {}
