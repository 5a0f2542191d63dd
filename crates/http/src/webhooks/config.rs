//! The endpoints as the operator names them, in JSON. Every mistake is named, with the place that it is in.

use std::collections::BTreeSet;
use std::fmt;

use longhaul_core::{NotificationKind, strict_json};
use serde_json::{Map, Value};
use url::Url;

use crate::webhooks::limits::{ENDPOINTS_MAX, NAME_BYTES_MAX, SECRETS_MAX, TOOLS_MAX};
use crate::webhooks::{Endpoint, Endpoints, Reach, Secret};

/// Something that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer (RFC 6901), such as `/endpoints/0/url`; empty for the whole configuration.
    pub pointer: String,
    /// The fault.
    pub why: String,
}

/// All that is wrong with the configuration of webhooks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Each mistake; at least one.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the webhooks cannot be configured: ")?;
        for (number, Fault { pointer, why }) in self.faults.iter().enumerate() {
            let place = if pointer.is_empty() { "the configuration" } else { pointer };
            write!(f, "{}{place} {why}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// The text of the secret that a source such as `env:NAME` or `file:PATH` names. The error is worded to follow the
/// source, and does not repeat the secret.
pub type Secrets<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// The endpoints in `text`, which is JSON.
pub fn read(text: &str, secrets: Secrets<'_>, reach: Reach) -> Result<Endpoints, ConfigError> {
    Reader { secrets: Some(secrets), reach, faults: Vec::new(), sources: BTreeSet::new() }
        .read(text)
        .map(|(read, _)| read)
}

/// The endpoints in `text` without their secrets, and the places of the secrets. It is for a program that chooses
/// endpoints and signs nothing, or that has to fetch the secrets first.
pub fn read_without_secrets(text: &str, reach: Reach) -> Result<(Endpoints, BTreeSet<String>), ConfigError> {
    Reader { secrets: None, reach, faults: Vec::new(), sources: BTreeSet::new() }.read(text)
}

struct Reader<'a> {
    /// None if secrets are not read.
    secrets: Option<Secrets<'a>>,
    reach: Reach,
    faults: Vec<Fault>,
    /// Where the secrets are.
    sources: BTreeSet<String>,
}

impl Reader<'_> {
    fn read(mut self, text: &str) -> Result<(Endpoints, BTreeSet<String>), ConfigError> {
        let endpoints = self.endpoints(text).unwrap_or_default();
        if self.faults.is_empty() {
            Ok((Endpoints::new(endpoints), self.sources))
        } else {
            Err(ConfigError { faults: self.faults })
        }
    }

    fn fault(&mut self, pointer: &str, why: impl Into<String>) {
        self.faults.push(Fault { pointer: pointer.to_owned(), why: why.into() });
    }

    /// The value that was found; without one, there is a fault at this place.
    fn must<T>(&mut self, found: Option<T>, at: &str, why: impl Into<String>) -> Option<T> {
        if found.is_none() {
            self.fault(at, why);
        }
        found
    }

    fn endpoints(&mut self, text: &str) -> Option<Vec<Endpoint>> {
        let config = strict_json::from_str::<Value>(text);
        let config = config.map_err(|error| self.fault("", format!("is not JSON: {error}"))).ok()?;
        let fields = self.object(&config, "", &["endpoints"])?;
        let list = fields.get("endpoints").and_then(Value::as_array);
        let list = self.must(list, "/endpoints", "must be a list of objects")?;
        if list.len() > ENDPOINTS_MAX {
            self.fault("/endpoints", format!("has {} endpoints; at most {ENDPOINTS_MAX} are allowed", list.len()));
        }
        let mut names = BTreeSet::new();
        let mut endpoints = Vec::new();
        for (number, value) in list.iter().enumerate().take(ENDPOINTS_MAX) {
            let at = format!("/endpoints/{number}");
            let Some(endpoint) = self.endpoint(value, &at) else { continue };
            if !names.insert(endpoint.name.clone()) {
                self.fault(&format!("{at}/name"), "is the name of another endpoint, too");
            }
            endpoints.push(endpoint);
        }
        Some(endpoints)
    }

    fn endpoint(&mut self, value: &Value, at: &str) -> Option<Endpoint> {
        let fields = self.object(value, at, &["name", "url", "events", "tools", "secrets", "revision"])?;
        let name = self.name(fields.get("name"), &format!("{at}/name"));
        let url = self.url(fields.get("url"), &format!("{at}/url"));
        let events = self.events(fields.get("events"), &format!("{at}/events"));
        let tools = self.tools(fields.get("tools"), &format!("{at}/tools"));
        let secrets = self.secrets(fields.get("secrets"), &format!("{at}/secrets"));
        let revision = fields.get("revision").map_or(Some(1), Value::as_u64);
        let revision = self.must(revision, &format!("{at}/revision"), "must be a whole number");
        Some(Endpoint {
            name: name?,
            url: url?,
            events: events?,
            tools: tools?,
            secrets: secrets?,
            revision: revision?,
        })
    }

    fn object<'v>(&mut self, value: &'v Value, at: &str, known: &[&str]) -> Option<&'v Map<String, Value>> {
        let fields = self.must(value.as_object(), at, "must be an object")?;
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let escaped = name.replace('~', "~0").replace('/', "~1");
            self.fault(&format!("{at}/{escaped}"), format!("is not known: there is {}", known.join(", ")));
        }
        Some(fields)
    }

    fn name(&mut self, value: Option<&Value>, at: &str) -> Option<String> {
        let is_name = |text: &str| {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(is_allowed)
        };
        let name = value.and_then(Value::as_str).filter(|text| is_name(text)).map(str::to_owned);
        self.must(name, at, format!("must be 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"))
    }

    fn url(&mut self, value: Option<&Value>, at: &str) -> Option<Url> {
        let text = self.must(value.and_then(Value::as_str), at, "must be a URL")?;
        let checked = Url::parse(text).map_err(|_error| "is not a URL");
        let checked = checked.and_then(|url| self.reach.check(&url).map(|()| url));
        checked.map_err(|why| self.fault(at, why)).ok()
    }

    /// All that ends, and cleanup that is given up, unless something else is said.
    fn events(&mut self, value: Option<&Value>, at: &str) -> Option<BTreeSet<NotificationKind>> {
        let Some(value) = value else {
            return Some(BTreeSet::from([
                NotificationKind::Completed,
                NotificationKind::Failed,
                NotificationKind::Cancelled,
                NotificationKind::CleanupGivenUp,
            ]));
        };
        let event = |value: &Value| NotificationKind::ALL.into_iter().find(|event| value == event.as_str());
        let events = value.as_array().and_then(|list| list.iter().map(event).collect::<Option<BTreeSet<_>>>());
        let all = NotificationKind::ALL.map(NotificationKind::as_str).join(", ");
        self.must(events.filter(|events| !events.is_empty()), at, format!("must be a list of at least one of {all}"))
    }

    fn tools(&mut self, value: Option<&Value>, at: &str) -> Option<Vec<String>> {
        let Some(value) = value else { return Some(Vec::new()) };
        let tools = texts(value).filter(|tools| (1..=TOOLS_MAX).contains(&tools.len()));
        let why = format!("must be a list of 1 to {TOOLS_MAX} names of tools, in which `*` stands for anything");
        self.must(tools, at, why)
    }

    fn secrets(&mut self, value: Option<&Value>, at: &str) -> Option<Vec<Secret>> {
        let sources = value.and_then(texts).filter(|sources| (1..=SECRETS_MAX).contains(&sources.len()));
        let why = "must be a list of one source of a secret, or of two while one replaces the other";
        let sources = self.must(sources, at, why)?;
        self.sources.extend(sources.iter().cloned());
        let Some(secret_of) = self.secrets else { return Some(Vec::new()) };
        let mut secrets = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let read = secret_of(source);
            match read.and_then(|text| Secret::parse(&text).map_err(|invalid| invalid.to_string())) {
                Ok(secret) => secrets.push(secret),
                Err(why) => self.fault(&format!("{at}/{number}"), why),
            }
        }
        (secrets.len() == sources.len()).then_some(secrets)
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn fixed(source: &str) -> Result<String, String> {
        match source {
            "env:GOOD" => Ok(SECRET.to_owned()),
            "env:BAD" => Ok("password".to_owned()),
            _ => Err("cannot be read".to_owned()),
        }
    }

    fn faults(config: &Value) -> Vec<String> {
        match read(&config.to_string(), &fixed, Reach::Public) {
            Ok(_) => Vec::new(),
            Err(error) => error.faults.into_iter().map(|fault| fault.pointer).collect(),
        }
    }

    fn with(field: &str, value: Value) -> Value {
        let mut endpoint = json!({"name": "ops", "url": "https://example.com/hook", "secrets": ["env:GOOD"]});
        endpoint[field] = value;
        json!({"endpoints": [endpoint]})
    }

    #[test]
    fn an_endpoint_needs_a_name_a_url_and_a_secret() {
        let text = with("revision", json!(1)).to_string();
        let endpoints = read(&text, &fixed, Reach::Public).unwrap();
        let endpoint = endpoints.named("ops").unwrap();
        assert_eq!(endpoint.events.len(), 4, "all but `input_required`");
        assert!(endpoint.tools.is_empty(), "all tools");
        assert_eq!((endpoint.secrets.len(), endpoint.revision), (1, 1));
        assert_eq!(
            faults(&json!({"endpoints": [{}]})),
            ["/endpoints/0/name", "/endpoints/0/url", "/endpoints/0/secrets"]
        );
    }

    #[test]
    fn without_secrets_it_is_said_where_they_are() {
        let config = with("secrets", json!(["env:GOOD", "env:NONE"])).to_string();
        let (endpoints, sources) = read_without_secrets(&config, Reach::Public).unwrap();
        assert!(endpoints.named("ops").unwrap().secrets.is_empty());
        assert_eq!(sources, ["env:GOOD", "env:NONE"].map(str::to_owned).into());
        let config = with("secrets", json!([])).to_string();
        assert_eq!(read_without_secrets(&config, Reach::Public).unwrap_err().faults[0].pointer, "/endpoints/0/secrets");
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        for (field, value, pointer) in [
            ("name", json!("a b"), "/endpoints/0/name"),
            ("name", json!(""), "/endpoints/0/name"),
            ("url", json!("example.com"), "/endpoints/0/url"),
            ("url", json!("http://example.com/"), "/endpoints/0/url"),
            ("url", json!("https://10.0.0.1/"), "/endpoints/0/url"),
            ("url", json!(7), "/endpoints/0/url"),
            ("events", json!([]), "/endpoints/0/events"),
            ("events", json!(["working"]), "/endpoints/0/events"),
            ("tools", json!("report"), "/endpoints/0/tools"),
            ("secrets", json!([]), "/endpoints/0/secrets"),
            ("secrets", json!(["env:GOOD", "env:GOOD", "env:GOOD"]), "/endpoints/0/secrets"),
            ("secrets", json!(["env:GOOD", "env:BAD"]), "/endpoints/0/secrets/1"),
            ("secrets", json!(["env:NONE"]), "/endpoints/0/secrets/0"),
            ("revision", json!(-1), "/endpoints/0/revision"),
            ("sec/ret", json!(1), "/endpoints/0/sec~1ret"),
        ] {
            assert_eq!(faults(&with(field, value.clone())), [pointer], "{field} {value}");
        }
        assert_eq!(faults(&json!([])), [""]);
        assert_eq!(faults(&json!({"endpoints": {}})), ["/endpoints"]);
        assert_eq!(read("{", &fixed, Reach::Public).unwrap_err().faults[0].pointer, "");
    }

    #[test]
    fn all_mistakes_are_named_at_once_and_no_secret_is() {
        let config = json!({"endpoints": [{"name": "", "url": "", "secrets": ["env:BAD"]}, 7]});
        let error = read(&config.to_string(), &fixed, Reach::Public).unwrap_err();
        assert_eq!(error.faults.len(), 4, "{error}");
        assert!(!error.to_string().contains("password"), "{error}");
    }

    #[test]
    fn names_are_unique_and_there_are_not_too_many_endpoints() {
        let endpoint = |name: String| json!({"name": name, "url": "https://example.com/", "secrets": ["env:GOOD"]});
        let twice = json!({"endpoints": [endpoint("a".to_owned()), endpoint("a".to_owned())]});
        assert_eq!(faults(&twice), ["/endpoints/1/name"]);
        let many = |count: usize| json!({"endpoints": (0..count).map(|n| endpoint(n.to_string())).collect::<Vec<_>>()});
        assert_eq!(faults(&many(ENDPOINTS_MAX)), [""; 0]);
        assert_eq!(faults(&many(ENDPOINTS_MAX + 1)), ["/endpoints"]);
    }
}
