//! Which server is meant, and what is sent to it with every request.

use std::path::Path;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use longhaul::settings::ProcessEnv;
use longhaul_client::{Client, Credentials, Error, Target};
use longhaul_core::settings::read_text;
use longhaul_core::strict_json;
use longhaul_gateway::Config;
use serde_json::Value;
use url::Url;

use crate::address::check_secure;
use crate::args::Global;
use crate::credentials::{AwsSignature, Bearer};
use crate::exit::Stop;
use crate::limits::SERVERS_BYTES_MAX;
use crate::record::config_folder;

/// Where servers have names.
const FILE: &str = ".mcp.json";

/// The same for all folders, below the user's folder for configuration.
const OWN_FILE: &str = "longhaul/servers.json";

/// The server that the user named, and what shows it who calls: a header of the user's own, a signature, or a sign-in.
pub(crate) fn target(global: &Global) -> Result<Target, Stop> {
    let mut target = named_target(global)?;
    let has_own = target.headers.contains_key(AUTHORIZATION);
    if let Some(wanted) = global.aws_sign.as_ref().filter(|wanted| !wanted.is_empty()) {
        if has_own {
            return Err(Stop::usage("a request is signed or has your header `Authorization`, not both: leave out one"));
        }
        check_secure(&target.url)?;
        let signature = AwsSignature::of(&target.url, wanted).map_err(Stop::usage)?;
        target.credentials = Some(Arc::new(signature));
    } else if !has_own && check_secure(&target.url).is_ok() {
        let bearer = Bearer::of(&target.url, format!("longhaul login{}", global.come_back()));
        target.credentials = bearer.map(|bearer| Arc::new(bearer) as Arc<dyn Credentials>);
    }
    Ok(target)
}

/// The server that the user wants to log in to.
pub(crate) fn without_credentials(global: &Global) -> Result<Target, Stop> {
    let target = named_target(global)?;
    if global.aws_sign.as_ref().is_some_and(|wanted| !wanted.is_empty()) || target.headers.contains_key(AUTHORIZATION) {
        return Err(Stop::usage(
            "a user who signs in needs neither `--aws-sign` nor a header `Authorization`: leave them out",
        ));
    }
    Ok(target)
}

fn named_target(global: &Global) -> Result<Target, Stop> {
    let mut target = if global.server.contains("://") {
        let url = Url::parse(&global.server).map_err(|error| Stop::usage(format!("`{}`: {error}", global.server)))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(Stop::usage(format!("`{url}` is not an http or https URL")));
        }
        Target::new(url)
    } else {
        named(&global.server)?
    };
    for header in &global.headers {
        let wrong = || Stop::usage("a header is written as 'Name: value'");
        let (name, value) = header.split_once(':').ok_or_else(wrong)?;
        let name = name.trim().parse::<http::HeaderName>().map_err(|_not| wrong())?;
        target.headers.insert(name, value.trim().parse().map_err(|_not| wrong())?);
    }
    Ok(target)
}

/// A server of the file in this folder, or else of the user's own file.
fn named(name: &str) -> Result<Target, Stop> {
    let read = |path: &Path| read_text(path, SERVERS_BYTES_MAX);
    let own = config_folder().map(|folder| folder.join(OWN_FILE));
    let in_own = own.as_deref().and_then(|path| Some((path, read(path).ok()?)));
    let endpoint = |path: &Path, text: &str| {
        let found = Config::endpoint_of(text, name, &ProcessEnv);
        found.map_err(|error| Stop::usage(format!("{}: {error}", path.display())))
    };
    let found = match (read(Path::new(FILE)), in_own) {
        // The own file's name counts only if this folder's file does not have it.
        (Ok(text), Some((path, own))) if !has_server(&text, name) && has_server(&own, name) => endpoint(path, &own),
        (Ok(text), _) => endpoint(Path::new(FILE), &text),
        (Err(_), Some((path, own))) => endpoint(path, &own),
        (Err(error), None) => Err(Stop::usage(format!(
            "there is no server `{name}`: {FILE} in this folder cannot be read ({error}), and it is not a URL"
        ))),
    };
    let (url, headers) = found?;
    Ok(Target { headers, ..Target::new(url) })
}

/// Whether a file names this server, even if it describes it with mistakes.
fn has_server(text: &str, name: &str) -> bool {
    let all: Value = strict_json::from_str(text).unwrap_or_default();
    ["mcpServers", "servers"].iter().any(|key| all[key].get(name).is_some())
}

/// Does something with a new connection to the server, and ends the session that this may have begun.
pub(crate) async fn connected<T>(
    target: &Target,
    session: Option<&str>,
    act: impl AsyncFnOnce(&Arc<Client>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let client = Client::connect(target.clone(), session).await.map(Arc::new);
    let client = client.map_err(|error| unconnected(target, error))?;
    let done = act(&client).await;
    client.close().await;
    done
}

/// Why there is no connection to a server.
pub(crate) fn unconnected(target: &Target, error: Error) -> Stop {
    let stop = Stop::from(error);
    Stop { why: format!("{}: {}", authority(&target.url), stop.why), ..stop }
}

/// The host and the port of a server.
fn authority(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// The connections to one server. Each session that began a task has its own, since servers may show a task to its
/// session only. One more connection serves all else.
pub(crate) struct Sessions {
    pub(crate) target: Target,
    open: Vec<(Option<String>, Arc<Client>)>,
}

impl Sessions {
    /// Connects to nothing yet.
    pub(crate) const fn of(target: Target) -> Self {
        Self { target, open: Vec::new() }
    }

    /// The connection in this session.
    pub(crate) async fn client(&mut self, session: Option<&str>) -> Result<Arc<Client>, Error> {
        if let Some((_, client)) = self.open.iter().find(|(open, _)| open.as_deref() == session) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(Client::connect(self.target.clone(), session).await?);
        self.open.push((session.map(str::to_owned), Arc::clone(&client)));
        Ok(client)
    }

    /// Ends the sessions that these connections have begun.
    pub(crate) async fn close(&self) {
        futures::future::join_all(self.open.iter().map(|(_, client)| client.close())).await;
    }
}
