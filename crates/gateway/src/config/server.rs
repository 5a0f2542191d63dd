//! One server of a configuration, and the terms on which its tools run.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::settings::EnvSource;

use super::choice::Choice;
use super::fold::Fold;
use super::terms::{Pattern, Terms};
use crate::limits;
use crate::target::{Keeping, Lifecycle, Target};

/// One server of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) target: Target,
    /// The prefix of its tools' and prompts' names; `None` for its name and `_` if there are several servers.
    pub(crate) prefix: Option<String>,
    /// The lifecycle to speak; `None` to find out.
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) start_max: Duration,
    pub(crate) concurrency: usize,
    /// How long its processes or connections are kept between calls, if they are.
    pub(crate) keeping: Option<Keeping>,
    pub(crate) terms: Terms,
    /// For its tools with such names.
    pub(crate) tools: Vec<(Pattern, Terms)>,
    /// Which of them clients see.
    pub(crate) choice: Choice,
    /// Tools of it that are shown as one.
    pub(crate) folds: Vec<Fold>,
    pub(crate) resource_updates: ResourceUpdates,
}

/// Whether clients are notified of changes of a server's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceUpdates {
    PassedOn,
    /// A function cannot stay connected to a server.
    #[cfg(feature = "lambda")]
    Unheard,
}

impl Server {
    pub(super) fn new(name: &str, target: Target) -> Self {
        Self {
            name: name.to_owned(),
            target,
            prefix: None,
            lifecycle: None,
            start_max: limits::START_MAX,
            concurrency: limits::CONCURRENCY,
            keeping: None,
            terms: Terms::default(),
            tools: Vec::new(),
            choice: Choice::default(),
            folds: Vec::new(),
            resource_updates: ResourceUpdates::PassedOn,
        }
    }

    /// Whether the two are reached in the same way, so that processes and connections of one are those of the other.
    pub(crate) fn is_reached_as(&self, other: &Self) -> bool {
        let way = |server: &Self| {
            (server.name.clone(), server.target.clone(), server.lifecycle, server.start_max, server.concurrency)
        };
        way(self) == way(other) && self.keeping == other.keeping
    }

    /// The names of tools in its section, with the members that have them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&'static str, &Pattern)> {
        self.tools.iter().map(|(pattern, _)| ("tools", pattern)).chain(self.choice.names())
    }

    /// The terms of its tool: each from the pattern that says most about the name, otherwise the server's own.
    pub(crate) fn terms_of(&self, tool: &str) -> Terms {
        let mut matching: Vec<_> = self.tools.iter().filter(|(pattern, _)| pattern.matches(tool)).collect();
        matching.sort_by_key(|(pattern, _)| std::cmp::Reverse(pattern.weight()));
        let named = matching.into_iter().fold(Terms::default(), |terms, (_, more)| terms.or(more));
        named.or(&self.terms)
    }
}

/// The variables of its own environment that the gateway passes to every server. Programs need them to run, and to
/// reach other machines through a proxy or with certificates of a company.
const PASSED_ON: [&str; 16] = [
    "HOME",
    "LANG",
    "PATH",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The whole environment of a program: those variables, and the ones that are named.
pub(super) fn environment(named: BTreeMap<String, String>, env: &dyn EnvSource) -> BTreeMap<String, String> {
    let passed_on = PASSED_ON.iter().filter_map(|name| Some(((*name).to_owned(), env.get(name)?.into_string().ok()?)));
    let mut all: BTreeMap<String, String> = passed_on.collect();
    all.extend(named);
    all
}
