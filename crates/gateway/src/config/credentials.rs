//! Credentials of a server behind a URL that are renewed while the gateway runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use longhaul::settings::EnvSource;
use url::Url;

use super::reader::{Members, Node, Reader};
use super::server::environment;
use crate::target::{ClientCredentials, Launch, Login, Source};

/// Reads `credentials`, and `headersHelper` of Claude Code.
pub(super) fn read(reader: &mut Reader<'_>, env: &dyn EnvSource, members: &mut Members<'_>) -> Option<Source> {
    let (node, helper) = (members.find("credentials"), members.find("headersHelper"));
    match (node, helper) {
        (Some(_), Some(helper)) => {
            reader.fault(&helper.pointer, "is there next to `credentials`: leave out one of them");
            None
        }
        (Some(node), None) => source(reader, env, &node),
        (None, Some(helper)) => {
            let command = reader.text(&helper)?;
            Some(Source::Command(launch(vec!["sh".to_owned(), "-c".to_owned(), command], env)?))
        }
        (None, None) => None,
    }
}

fn source(reader: &mut Reader<'_>, env: &dyn EnvSource, node: &Node<'_>) -> Option<Source> {
    let mut members = reader.members(node)?;
    let (file, command) = (members.find("file"), members.find("command"));
    let (client, login) = (members.find("clientId"), members.find("login"));
    let source = match (file, command, client, login) {
        (Some(file), None, None, None) => reader.text(&file).map(|file| Source::File(PathBuf::from(file))),
        (None, Some(command), None, None) => {
            let words = reader.texts(&command)?;
            let launch = launch(words, env);
            reader
                .read(&command, launch.ok_or_else(|| "is empty: name the program and its arguments".to_owned()))
                .map(Source::Command)
        }
        (None, None, Some(id), None) => client_credentials(reader, &mut members, &id),
        (None, None, None, Some(login)) => reader.only_true(&login).map(|()| Source::Login(Login::default())),
        _ => {
            let what = "names one way to get credentials: `file`, `command`, `clientId` with `clientSecret` and \
                        `tokenUrl`, or `\"login\": true`";
            reader.fault(&node.pointer, what);
            return None;
        }
    };
    reader.refuse_unknown(&members);
    source
}

fn client_credentials(reader: &mut Reader<'_>, members: &mut Members<'_>, id: &Node<'_>) -> Option<Source> {
    let id = reader.text(id);
    let secret = members.required(reader, "clientSecret", Reader::text);
    let token_url = members.required(reader, "tokenUrl", |reader, node| {
        let parsed = Url::parse(&reader.text(node)?).map_err(|error| format!("is not a URL: {error}"));
        reader.read(node, parsed.and_then(checked))
    });
    let scope = members.optional(reader, "scope", Reader::text);
    Some(Source::Client(ClientCredentials { id: id?, secret: secret?, token_url: token_url?, scope }))
}

fn launch(words: Vec<String>, env: &dyn EnvSource) -> Option<Launch> {
    let mut words = words.into_iter();
    let command = words.next().filter(|command| !command.trim().is_empty())?;
    Some(Launch { command, args: words.collect(), env: environment(BTreeMap::new(), env), cwd: None })
}

/// A URL of HTTP.
pub(super) fn checked(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        _ => Err("must begin with https:// or http://".to_owned()),
    }
}
