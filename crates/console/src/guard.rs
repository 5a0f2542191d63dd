//! The checks that admit requests, and that allow their actions.

use http::HeaderName;
use http::header::{HOST, HeaderMap, ORIGIN};
use longhaul_client::text::line;
use longhaul_http::{Host, WebOrigin};
use maud::{Markup, html};

use crate::limits::ORIGIN_MAX;
use crate::log_in::{LogIn, is_same, random};
use crate::posted::Posted;
use crate::problem::Problem;

/// The names of the page where people log in, and of the form that logs them out.
pub(crate) const LOG_IN: &str = "log-in";
pub(crate) const LOG_OUT: &str = "log-out";

/// The field of the console's forms that pages elsewhere cannot know.
const TOKEN_FIELD: &str = "token";

/// The headers of a proxy.
const FORWARDED: [HeaderName; 2] = [http::header::FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// The check of requests.
pub(crate) struct Guard {
    /// In every form of the console.
    token: String,
    /// Names in the `Host` header, in addition to those of loopback.
    pub(crate) hosts: Vec<String>,
    pub(crate) log_in: Option<LogIn>,
}

impl Guard {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { token: random()?, hosts: Vec::new(), log_in: None })
    }

    /// The hidden field that every form has.
    pub(crate) fn field(&self) -> Markup {
        html! { input type="hidden" name=(TOKEN_FIELD) value=(self.token); }
    }

    /// Refuses a request to a name that is not the console's. A page elsewhere would reach a server on loopback by such
    /// a name (DNS rebinding). Also refuses a request of a proxy for another machine.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = name_of(host);
        let is_ours = Host::new(name).is_loopback() || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name));
        if !is_ours {
            return Err(Problem::forbidden(
                "The console is not called by this name. Use the address that it was started with, or start `longhaul \
                 console` with --allow-host and this name.",
            ));
        }
        if self.log_in.is_none() && FORWARDED.iter().any(|name| headers.contains_key(name)) {
            return Err(Problem::forbidden(
                "This request came through a proxy, and the console lets in only who is on its own machine.",
            ));
        }
        Ok(())
    }

    /// Whether the sender has logged in, or need not.
    pub(crate) fn lets_in(&self, headers: &HeaderMap, now_ms: i64) -> bool {
        self.log_in.as_ref().is_none_or(|log_in| log_in.lets_in(headers, now_ms))
    }

    /// Refuses to act for pages that are not the console's: they have another origin.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let (origin, host) = (text(ORIGIN), text(HOST).unwrap_or_default());
        if origin.and_then(WebOrigin::of).is_some_and(|origin| origin.is_served_as(host)) {
            return Ok(());
        }
        let elsewhere = origin.map_or_else(
            || "this request does not say where it comes from (it has no header Origin that can be read)".to_owned(),
            |origin| format!("this request comes from `{}`", line(origin, ORIGIN_MAX)),
        );
        Err(Problem::forbidden(&format!(
            "Only pages of this console may act, and {elsewhere}. Open the console by one address: another name than \
             this machine's needs `longhaul console --allow-host`, and a proxy must pass on the header Host."
        )))
    }

    /// Refuses to act for forms that are not the console's.
    pub(crate) fn check_token(&self, posted: &Posted) -> Result<(), Problem> {
        if posted.value(TOKEN_FIELD).is_some_and(|given| is_same(given, &self.token)) {
            return Ok(());
        }
        Err(Problem::forbidden(
            "Nothing was done: this form is not one of this console, or the console was restarted since. Go back, \
             reload the page, and try again.",
        ))
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split_once(':').map_or(host, |(name, _port)| name),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn only_names_of_loopback_and_those_that_were_named_are_ours() {
        let mut guard = Guard::new().unwrap();
        guard.hosts.push("console.example.com".to_owned());
        for host in
            ["localhost", "LOCALHOST:8081", "127.0.0.1:8081", "127.9.9.9", "[::1]:8081", "console.example.com:1"]
        {
            assert!(guard.check_host(&headers(&[(HOST, host)])).is_ok(), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example", "10.0.0.1:8081", "localhost.evil.example", "[::2]:1"]
        {
            assert!(guard.check_host(&headers(&[(HOST, host)])).is_err(), "{host}");
        }
    }

    #[test]
    fn what_a_proxy_passes_on_is_refused_where_nobody_logs_in() {
        let mut guard = Guard::new().unwrap();
        for name in FORWARDED {
            let passed_on = headers(&[(HOST, "localhost"), (name, "for=192.0.2.1")]);
            assert!(guard.check_host(&passed_on).is_err());
            guard.log_in = Some(LogIn::new("secret".to_owned()).unwrap());
            assert!(guard.check_host(&passed_on).is_ok());
            guard.log_in = None;
        }
    }

    #[test]
    fn pages_elsewhere_may_not_act() {
        let guard = Guard::new().unwrap();
        let check = |origin| guard.check_origin(&headers(&[(HOST, "localhost:8081"), (ORIGIN, origin)]));
        assert!(check("http://localhost:8081").is_ok() && check("HTTP://LocalHost:8081").is_ok());
        for origin in ["http://localhost:8080", "http://127.0.0.1:8081", "https://evil.example", "null", ""] {
            assert!(check(origin).is_err(), "{origin}");
        }
        assert!(guard.check_origin(&headers(&[(HOST, "localhost:8081")])).is_err(), "no origin at all");
        for (host, origin) in [("localhost", "http://localhost:80"), ("console.example:443", "https://console.example")]
        {
            assert!(guard.check_origin(&headers(&[(HOST, host), (ORIGIN, origin)])).is_ok(), "{origin}");
        }
        let refused = check("https://evil.example/\"<b>").unwrap_err();
        assert!(refused.sentence().contains("comes from `https://evil.example/\"<b>`"), "{}", refused.sentence());
        assert!(refused.sentence().contains("--allow-host"), "{}", refused.sentence());
    }

    #[test]
    fn forms_without_the_token_or_with_another_one_may_not_act() {
        let (guard, other) = (Guard::new().unwrap(), Guard::new().unwrap());
        let check = |body: &str| guard.check_token(&Posted::read(body.as_bytes()).unwrap());
        assert!(check(&format!("a=b&token={}", guard.token)).is_ok());
        for body in ["", "token=", "token=x", &format!("token={}", other.token)] {
            assert!(check(body).is_err(), "{body}");
        }
    }
}
