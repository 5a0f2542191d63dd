//! The verbs about tokens, and their flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use longhaul_client::time;

use crate::clock::timestamp;

/// The verbs about tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Makes a token, adds its digest to the list, and shows it once
    Add(NewToken),
    /// Lists the tokens: their names, owners, scopes and expiry
    List {
        #[command(flatten)]
        list: TokenList,
    },
    /// Removes tokens from the list
    Revoke {
        #[arg(required = true, num_args = 1..=64, value_name = "NAME")]
        names: Vec<String>,
        #[command(flatten)]
        list: TokenList,
    },
}

/// Where the list of tokens is.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct TokenList {
    /// The file of a local server (`--token-file`)
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The parameter of SSM of a stack (the output `TokenParameter`), with the credentials that the AWS CLI would use
    #[arg(long, value_name = "NAME")]
    pub(crate) parameter: Option<String>,
}

/// A token to be made.
#[derive(Args, Clone, Debug)]
pub(crate) struct NewToken {
    /// Its name, which no other token has
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) list: TokenList,
    /// The owner of its tasks, which tokens may share; without it, the token's name
    #[arg(long)]
    pub(crate) owner: Option<String>,
    /// A scope that it has, or several; without any, it may do everything
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',')]
    pub(crate) scopes: Vec<String>,
    /// When it stops working: 90d, 2027-01-01 or 2027-01-01T18:00:00Z; without it, never
    #[arg(long, value_parser = expiry, value_name = "TIME")]
    pub(crate) expires: Option<Timestamp>,
    /// Writes the token to a new file that only you can read, and does not show it
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// When a token stops working: after a time, or at one.
fn expiry(text: &str) -> Result<Timestamp, String> {
    let now = timestamp();
    let expires = match time::read(text) {
        Ok(after) => now.checked_add(after).map_err(|error| error.to_string())?,
        Err(_) => longhaul_http::time_of(text)
            .and_then(|at| Timestamp::from_millisecond(i64::try_from(at.as_ms()).ok()?).ok())
            .ok_or("write a time such as 90d, 2027-01-01 or 2027-01-01T18:00:00Z")?,
    };
    if expires <= now {
        return Err("it is in the past: name a later time".to_owned());
    }
    Ok(expires)
}
