//! The endpoints as the operator names them, in JSON. Every mistake is named, with the place that it is in.

use std::collections::BTreeSet;
use std::fmt;

use longhaul_core::NotificationKind;
use serde_json::{Map, Value};
use url::Url;

use crate::{Endpoint, Endpoints, Reach, Secret};

/// How many endpoints there may be.
const ENDPOINTS_MAX: usize = 16;

/// How long the name of an endpoint may be.
const NAME_BYTES_MAX: usize = 64;

/// How many tools, or patterns of tools, an endpoint may name.
const TOOLS_MAX: usize = 64;

/// How many secrets an endpoint may have: one, and another that replaces it.
const SECRETS_MAX: usize = 2;

/// Something that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// A JSON pointer (RFC 6901), such as `/endpoints/0/url`; empty for the whole configuration.
    pub pointer: String,
    /// What is wrong there.
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

/// Where secrets are read from.
pub trait SecretSource {
    /// The text of the secret that `source` names, such as `env:NAME` or `file:PATH`.
    ///
    /// # Errors
    /// Why there is none, in words that follow its place, and say nothing about what is in it.
    fn secret(&self, source: &str) -> Result<String, String>;
}

/// The endpoints in `text`, which is JSON.
///
/// # Errors
/// [`ConfigError`], with all that is wrong.
pub fn read(text: &str, secrets: &dyn SecretSource, reach: Reach) -> Result<Endpoints, ConfigError> {
    Reader { secrets: Some(secrets), reach, faults: Vec::new(), sources: BTreeSet::new() }
        .read(text)
        .map(|(read, _)| read)
}

/// The endpoints in `text` without their secrets, and where those are: for whoever decides who is told and signs
/// nothing, or has to fetch the secrets first.
///
/// # Errors
/// [`ConfigError`], with all that is wrong but for the secrets themselves.
pub fn read_without_secrets(text: &str, reach: Reach) -> Result<(Endpoints, BTreeSet<String>), ConfigError> {
    Reader { secrets: None, reach, faults: Vec::new(), sources: BTreeSet::new() }.read(text)
}

struct Reader<'a> {
    /// None if secrets are not read.
    secrets: Option<&'a dyn SecretSource>,
    reach: Reach,
    faults: Vec<Fault>,
    /// Where the secrets are.
    sources: BTreeSet<String>,
}

impl Reader<'_> {
    fn read(mut self, text: &str) -> Result<(Endpoints, BTreeSet<String>), ConfigError> {
        let endpoints = self.endpoints(text);
        if self.faults.is_empty() {
            Ok((Endpoints::new(endpoints), self.sources))
        } else {
            Err(ConfigError { faults: self.faults })
        }
    }

    fn fault(&mut self, pointer: &str, why: impl Into<String>) {
        self.faults.push(Fault { pointer: pointer.to_owned(), why: why.into() });
    }

    fn endpoints(&mut self, text: &str) -> Vec<Endpoint> {
        let config = match serde_json::from_str::<Value>(text) {
            Ok(config) => config,
            Err(error) => {
                self.fault("", format!("is not JSON: {error}"));
                return Vec::new();
            }
        };
        let Some(config) = self.object(&config, "", &["endpoints"]) else { return Vec::new() };
        let Some(Value::Array(list)) = config.get("endpoints") else {
            self.fault("/endpoints", "must be a list of objects");
            return Vec::new();
        };
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
        endpoints
    }

    fn endpoint(&mut self, value: &Value, at: &str) -> Option<Endpoint> {
        let fields = self.object(value, at, &["name", "url", "events", "tools", "secrets", "revision"])?;
        let name = self.name(fields.get("name"), &format!("{at}/name"));
        let url = self.url(fields.get("url"), &format!("{at}/url"));
        let events = self.events(fields.get("events"), &format!("{at}/events"));
        let tools = self.tools(fields.get("tools"), &format!("{at}/tools"));
        let secrets = self.secrets(fields.get("secrets"), &format!("{at}/secrets"));
        let revision = match fields.get("revision") {
            None => Some(1),
            Some(value) => value.as_u64(),
        };
        if revision.is_none() {
            self.fault(&format!("{at}/revision"), "must be a whole number");
        }
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
        let Value::Object(fields) = value else {
            self.fault(at, "must be an object");
            return None;
        };
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
        let name = value.and_then(Value::as_str).filter(|text| is_name(text));
        if name.is_none() {
            self.fault(at, format!("must be 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`"));
        }
        name.map(str::to_owned)
    }

    fn url(&mut self, value: Option<&Value>, at: &str) -> Option<Url> {
        let Some(text) = value.and_then(Value::as_str) else {
            self.fault(at, "must be a URL");
            return None;
        };
        let checked = Url::parse(text).map_err(|_error| "is not a URL");
        match checked.and_then(|url| self.reach.check(&url).map(|()| url)) {
            Ok(url) => Some(url),
            Err(why) => {
                self.fault(at, why);
                None
            }
        }
    }

    /// All that ends, unless something else is said.
    fn events(&mut self, value: Option<&Value>, at: &str) -> Option<BTreeSet<NotificationKind>> {
        let Some(value) = value else {
            return Some(BTreeSet::from([
                NotificationKind::Completed,
                NotificationKind::Failed,
                NotificationKind::Cancelled,
            ]));
        };
        let event = |value: &Value| NotificationKind::ALL.into_iter().find(|event| value == event.as_str());
        let events = value.as_array().and_then(|list| list.iter().map(event).collect::<Option<BTreeSet<_>>>());
        let events = events.filter(|events| !events.is_empty());
        if events.is_none() {
            let all = NotificationKind::ALL.map(NotificationKind::as_str).join(", ");
            self.fault(at, format!("must be a list of at least one of {all}"));
        }
        events
    }

    fn tools(&mut self, value: Option<&Value>, at: &str) -> Option<Vec<String>> {
        let Some(value) = value else { return Some(Vec::new()) };
        let tools = self.texts(value).filter(|tools| (1..=TOOLS_MAX).contains(&tools.len()));
        if tools.is_none() {
            let why = format!("must be a list of 1 to {TOOLS_MAX} names of tools, in which `*` stands for anything");
            self.fault(at, why);
        }
        tools
    }

    fn secrets(&mut self, value: Option<&Value>, at: &str) -> Option<Vec<Secret>> {
        let sources = value.and_then(|value| self.texts(value));
        let Some(sources) = sources.filter(|sources| (1..=SECRETS_MAX).contains(&sources.len())) else {
            self.fault(at, "must be a list of one source of a secret, or of two while one replaces the other");
            return None;
        };
        self.sources.extend(sources.iter().cloned());
        let Some(source_of_secrets) = self.secrets else { return Some(Vec::new()) };
        let mut secrets = Vec::new();
        for (number, source) in sources.iter().enumerate() {
            let read = source_of_secrets.secret(source);
            match read.and_then(|text| Secret::parse(&text).map_err(|invalid| invalid.to_string())) {
                Ok(secret) => secrets.push(secret),
                Err(why) => self.fault(&format!("{at}/{number}"), why),
            }
        }
        (secrets.len() == sources.len()).then_some(secrets)
    }

    fn texts(&self, value: &Value) -> Option<Vec<String>> {
        value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    struct Fixed;

    impl SecretSource for Fixed {
        fn secret(&self, source: &str) -> Result<String, String> {
            match source {
                "env:GOOD" => Ok(SECRET.to_owned()),
                "env:BAD" => Ok("password".to_owned()),
                _ => Err("cannot be read".to_owned()),
            }
        }
    }

    fn faults(config: &Value) -> Vec<String> {
        match read(&config.to_string(), &Fixed, Reach::Public) {
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
        let endpoints = read(&text, &Fixed, Reach::Public).unwrap();
        let endpoint = endpoints.named("ops").unwrap();
        assert_eq!(endpoint.events.len(), 3, "all ends");
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
        assert_eq!(read("{", &Fixed, Reach::Public).unwrap_err().faults[0].pointer, "");
    }

    #[test]
    fn all_mistakes_are_named_at_once_and_no_secret_is() {
        let config = json!({"endpoints": [{"name": "", "url": "", "secrets": ["env:BAD"]}, 7]});
        let error = read(&config.to_string(), &Fixed, Reach::Public).unwrap_err();
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
