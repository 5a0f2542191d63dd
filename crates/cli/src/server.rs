//! Which server is meant, and what is sent to it with every request.

use longhaul::settings::ProcessEnv;
use longhaul_client::{Client, Target};
use longhaul_gateway::Config;
use url::Url;

use crate::args::Global;
use crate::exit::Stop;

/// Where servers have names.
const FILE: &str = ".mcp.json";

/// The server that the user named.
///
/// # Errors
/// If there is none.
pub(crate) fn target(global: &Global) -> Result<Target, Stop> {
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

fn named(name: &str) -> Result<Target, Stop> {
    let text = std::fs::read_to_string(FILE).map_err(|error| {
        Stop::usage(format!(
            "there is no server `{name}`: {FILE} in this folder cannot be read ({error}), and it is no URL"
        ))
    })?;
    let (url, headers) =
        Config::endpoint_of(&text, name, &ProcessEnv).map_err(|error| Stop::usage(format!("{FILE}: {error}")))?;
    Ok(Target { url, headers })
}

/// A connection to it, in this session if it was begun before.
///
/// # Errors
/// If it cannot be reached, or lets nobody in.
pub(crate) async fn connect(target: &Target, session: Option<&str>) -> Result<Client, Stop> {
    Client::connect(target.clone(), session).await.map_err(|error| {
        let stop = Stop::from(error);
        let host = target.url.host_str().unwrap_or_default();
        let port = target.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Stop { why: format!("{host}{port}: {}", stop.why), ..stop }
    })
}
