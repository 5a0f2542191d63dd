//! Which requests are let in, and which may act.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::PoisonError;

use http::header::{COOKIE, HOST, HeaderMap, ORIGIN};
use http::{HeaderName, StatusCode};
use maud::{Markup, html};
use subtle::ConstantTimeEq;

use crate::ask::PageRequest;
use crate::page::Page;
use crate::posted::Posted;
use crate::problem::Problem;

/// The cookie of those who have logged in.
const COOKIE_NAME: &str = "longhaul-console";

/// How long they stay so, in seconds.
const COOKIE_S: u32 = 12 * 3_600;

/// The field of our forms that pages elsewhere cannot know.
const TOKEN_FIELD: &str = "token";

/// What a proxy adds.
const FORWARDED: [HeaderName; 2] = [http::header::FORWARDED, HeaderName::from_static("x-forwarded-for")];

/// 128 random bits, as text.
pub(crate) fn random() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// What lets requests in.
pub(crate) struct Guard {
    /// In every form of ours.
    token: String,
    /// Names in the `Host` header besides those of loopback.
    pub(crate) hosts: Vec<String>,
    pub(crate) log_in: Option<LogIn>,
}

/// What those have to know who are let in.
pub(crate) struct LogIn {
    secret: String,
    /// In a link that works once.
    once: Mutex<Option<String>>,
    cookie: String,
}

impl LogIn {
    pub(crate) fn new(secret: String) -> std::io::Result<Self> {
        Ok(Self { secret, once: Mutex::new(Some(random()?)), cookie: random()? })
    }

    /// The code of the link, as long as nobody has used it.
    pub(crate) fn once(&self) -> Option<String> {
        self.once.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn opens(&self, posted: &Posted) -> bool {
        if posted.value("secret").is_some_and(|secret| is_same(secret, &self.secret)) {
            return true;
        }
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = matches!((posted.value("once"), &*once), (Some(given), Some(code)) if is_same(given, code));
        if fits {
            *once = None;
        }
        fits
    }
}

fn is_same(given: &str, known: &str) -> bool {
    given.as_bytes().ct_eq(known.as_bytes()).into()
}

impl Guard {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { token: random()?, hosts: Vec::new(), log_in: None })
    }

    /// The hidden field that every form has.
    pub(crate) fn field(&self) -> Markup {
        html! { input type="hidden" name=(TOKEN_FIELD) value=(self.token); }
    }

    /// Refuses what came by a name that is not ours, which is how a page elsewhere would reach a server on loopback
    /// (DNS rebinding), and what a proxy let in for somebody who is not here.
    pub(crate) fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = name_of(host);
        let is_ours = is_loopback(name) || self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name));
        if !is_ours {
            return Err(Problem::forbidden(
                "The console is not called by this name. Use the address that it was started with.",
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
    pub(crate) fn lets_in(&self, headers: &HeaderMap) -> bool {
        let Some(log_in) = &self.log_in else { return true };
        let cookies = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut cookies = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|one| one.trim().split_once('='));
        cookies.any(|(name, value)| name == COOKIE_NAME && is_same(value, &log_in.cookie))
    }

    /// Refuses to act for pages that are not ours: they have another origin.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value: &http::HeaderValue| value.to_str().ok());
        let authority = text(ORIGIN).and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
        match (authority, text(HOST)) {
            (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Ok(()),
            _ => Err(Problem::forbidden("Only pages of this console may act, and this request comes from elsewhere.")),
        }
    }

    /// Refuses to act for forms that are not ours.
    pub(crate) fn check_token(&self, posted: &Posted) -> Result<(), Problem> {
        if posted.value(TOKEN_FIELD).is_some_and(|given| is_same(given, &self.token)) {
            return Ok(());
        }
        Err(Problem::forbidden(
            "Nothing was done: this form is not one of this console, or the console was restarted since. Go back, \
             reload the page, and try again.",
        ))
    }

    /// Where people log in. The link that works once leads here too: what only reads a link does not use it up.
    pub(crate) fn log_in_page(&self, ask: &PageRequest) -> Page {
        let form = html! {
            h1 { "Log in" }
            form method="post" action={ (crate::PATH) "/log-in" } class="card form" {
                (self.field())
                @if let Some(once) = ask.value("once") {
                    input type="hidden" name="once" value=(once);
                    p { "This link opens the console once." }
                    button { "Open the console" }
                } @else {
                    label for="secret" { "The token in the file that the console was started with" }
                    input id="secret" name="secret" type="password" required autocomplete="off";
                    button { "Log in" }
                }
            }
        };
        Page::new("Log in").status(StatusCode::UNAUTHORIZED).still("log-in", form)
    }

    /// The cookie for who knows what has to be known.
    pub(crate) fn log_in(&self, posted: &Posted) -> Result<String, Problem> {
        let Some(log_in) = self.log_in.as_ref().filter(|log_in| log_in.opens(posted)) else {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "Not logged in",
                "This is not the token, or the link was used before. A link works once.",
            ));
        };
        let path = crate::PATH;
        Ok(format!("{COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Path={path}; Max-Age={COOKIE_S}", log_in.cookie))
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _port)) => address,
        None => host.split_once(':').map_or(host, |(name, _port)| name),
    }
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
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
        assert!(check("http://localhost:8081").is_ok());
        for origin in ["http://localhost:8080", "http://127.0.0.1:8081", "https://evil.example", "null", ""] {
            assert!(check(origin).is_err(), "{origin}");
        }
        assert!(guard.check_origin(&headers(&[(HOST, "localhost:8081")])).is_err(), "no origin at all");
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

    #[test]
    fn a_link_lets_in_once_and_the_secret_always() {
        let mut guard = Guard::new().unwrap();
        guard.log_in = Some(LogIn::new("a long secret".to_owned()).unwrap());
        assert!(!guard.lets_in(&HeaderMap::new()));
        let once = guard.log_in.as_ref().and_then(LogIn::once).unwrap();
        let log_in = |body: &str| guard.log_in(&Posted::read(body.as_bytes()).unwrap());
        assert!(log_in("once=other").is_err());
        let cookie = log_in(&format!("once={once}")).unwrap();
        assert!(log_in(&format!("once={once}")).is_err(), "a second time");
        assert!(log_in("secret=a+long+secret").is_ok());
        assert!(log_in("secret=").is_err());
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, format!("a=b; {}", cookie.split(';').next().unwrap()).parse().unwrap());
        assert!(guard.lets_in(&headers));
        assert!(cookie.contains("HttpOnly; SameSite=Strict; Path=/console"), "{cookie}");
    }
}
