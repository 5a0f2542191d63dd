//! The tokens of a server with `--auth bearer`, or of a stack with `AuthMode=bearer`: `longhaul token`.

use std::io::Write as _;
use std::path::Path;

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_core::{Scopes, Timestamp};
use longhaul_http::{BearerTokens, TokenEntry, time_text};
use serde_json::{Value, json};

use self::list::{Change, List};
use crate::args::{Global, NewToken, TokenList, TokenVerb};
use crate::clock::timestamp;
use crate::exit::{Exit, Stop};
use crate::out;
use crate::private;
use crate::server::without_credentials;

mod clients;
mod list;

/// The beginning of each token, by which scanners for leaked secrets can know it.
const PREFIX: &str = "longhaul_";

/// Stands for the URL of a stack that the user did not name.
const UNKNOWN_URL: &str = "URL";

pub(crate) async fn run(global: &Global, verb: &TokenVerb) -> Result<Exit, Stop> {
    match verb {
        TokenVerb::Add(new) => add(global, new).await,
        TokenVerb::List { list } => show(global, list).await,
        TokenVerb::Revoke { names, list } => revoke(global, names, list).await,
    }
}

async fn add(global: &Global, new: &NewToken) -> Result<Exit, Stop> {
    if new.out.is_none() && !out::is_to_terminal() {
        return Err(Stop::usage(
            "the standard output is not a terminal, and a log may keep what is written there: write the token to a \
             file with --out FILE",
        ));
    }
    let url = url(global, &new.list)?;
    let (entry, token) = (entry(new), random()?);
    let line = entry.line(&token);
    check(&line)?;
    if let Some(file) = &new.out {
        write_new(file, &token)?;
    }
    let added = List::of(&new.list).change(&Change::Add { name: &entry.name, line: &line }).await;
    if let (Err(_), Some(file)) = (&added, &new.out) {
        // It is not in the list.
        drop(std::fs::remove_file(file));
    }
    added?;
    say_added(global, new, &entry, &token, &url)?;
    Ok(Exit::Well)
}

fn entry(new: &NewToken) -> TokenEntry {
    let ms = |at: jiff::Timestamp| u64::try_from(at.as_millisecond()).unwrap_or_default();
    TokenEntry {
        name: new.name.clone(),
        owner: new.owner.clone().unwrap_or_else(|| new.name.clone()),
        scopes: if new.scopes.is_empty() {
            Scopes::Unrestricted
        } else {
            Scopes::Granted(new.scopes.iter().cloned().collect())
        },
        expires_at: new.expires.map(|at| Timestamp::from_ms(ms(at))),
    }
}

/// Refuses a line that no list may have, without its number.
fn check(line: &str) -> Result<(), Stop> {
    match BearerTokens::parse(line.as_bytes()) {
        Ok(tokens) if tokens.entries().len() == 1 => Ok(()),
        Ok(_) => Err(Stop::usage("a name does not begin with `#`")),
        Err(error) => {
            let why = error.to_string();
            Err(Stop::usage(format!("the token cannot be added: {}", why.strip_prefix("line 1: ").unwrap_or(&why))))
        }
    }
}

/// A token of 256 random bits.
fn random() -> Result<String, Stop> {
    let mut bytes = [0; 32];
    let failed = |error| Stop::new(Exit::Unexpected, format!("the system gives no random numbers: {error}"));
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes.iter().fold(PREFIX.to_owned(), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    }))
}

/// Writes `token` to a new file that only its owner can read.
fn write_new(file: &Path, token: &str) -> Result<(), Stop> {
    let opened = private::options().write(true).create_new(true).open(file);
    let written = opened.and_then(|mut opened| writeln!(opened, "{token}").and_then(|()| opened.sync_all()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Stop::usage(format!("{} exists already: name a new file for the token", file.display()))
        }
        _ => Stop::usage(format!("the token cannot be written to {}: {error}", file.display())),
    })
}

/// The URL for the lines to paste.
fn url(global: &Global, list: &TokenList) -> Result<String, Stop> {
    if list.parameter.is_some() && !global.names_server() {
        return Ok(UNKNOWN_URL.to_owned());
    }
    Ok(without_credentials(global)?.url.to_string())
}

fn say_added(global: &Global, new: &NewToken, entry: &TokenEntry, token: &str, url: &str) -> Result<(), Stop> {
    if global.json {
        let mut added = view(entry);
        match &new.out {
            Some(file) => added["file"] = file.to_string_lossy().into(),
            None => added["token"] = token.into(),
        }
        return out::json(&added);
    }
    let place = List::of(&new.list);
    let shown = match &new.out {
        Some(file) => {
            out::result(&format!("{} is added to {place}, and is in {}", entry.name, file.display()))?;
            "TOKEN"
        }
        None => {
            out::result(&format!("{} is added to {place}. It is shown this once:\n\n{token}", entry.name))?;
            token
        }
    };
    out::result(&format!("\n{}", clients::lines(url, shown)))?;
    if let Some(file) = &new.out {
        out::say(&format!("TOKEN is the content of {}", file.display()));
    }
    if url == UNKNOWN_URL {
        out::say("URL is the output McpUrl of the stack: with --server URL, the lines have it");
    }
    out::say(&format!("{} within a minute", place.accepts()));
    Ok(())
}

async fn show(global: &Global, list: &TokenList) -> Result<Exit, Stop> {
    let list = List::of(list);
    let text = list.read().await?;
    let tokens = BearerTokens::parse(text.as_bytes()).map_err(|error| list.unusable(&error))?;
    if global.json {
        tokens.entries().iter().try_for_each(|entry| out::json(&view(entry)))?;
        return Ok(Exit::Well);
    }
    if tokens.entries().is_empty() {
        out::say(&format!("there are no tokens in {list}"));
        return Ok(Exit::Well);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["NAME", "OWNER", "EXPIRES", "SCOPES"]);
    for entry in tokens.entries() {
        table.add_row([entry.name.clone(), entry.owner.clone(), expiry(entry), scopes(entry)]);
    }
    let rows: Vec<String> = table.lines().map(|row| row.trim().to_owned()).collect();
    out::result(&rows.join("\n"))?;
    Ok(Exit::Well)
}

fn now() -> Timestamp {
    Timestamp::from_ms(u64::try_from(timestamp().as_millisecond()).unwrap_or_default())
}

fn expiry(entry: &TokenEntry) -> String {
    match entry.expires_at.map(time_text) {
        None => "never".to_owned(),
        Some(at) if entry.has_expired(now()) => format!("{at}, expired"),
        Some(at) => at,
    }
}

fn scopes(entry: &TokenEntry) -> String {
    match &entry.scopes {
        Scopes::Unrestricted => "all".to_owned(),
        Scopes::Granted(scopes) => scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" "),
    }
}

/// A token as JSON, without the token.
fn view(entry: &TokenEntry) -> Value {
    let scopes = match &entry.scopes {
        Scopes::Unrestricted => Value::Null,
        Scopes::Granted(scopes) => json!(scopes),
    };
    json!({
        "name": entry.name,
        "owner": entry.owner,
        "scopes": scopes,
        "expiresAt": entry.expires_at.map(time_text),
        "expired": entry.has_expired(now()),
    })
}

async fn revoke(global: &Global, names: &[String], list: &TokenList) -> Result<Exit, Stop> {
    let list = List::of(list);
    list.change(&Change::Remove { names }).await?;
    if global.json {
        out::json(&json!({"revoked": names}))?;
    } else {
        out::result(&format!("revoked: {}", names.join(", ")))?;
        out::say(&format!("{} no more within a minute", list.accepts()));
    }
    Ok(Exit::Well)
}
