//! Signing in to the console, by a link that works once or by a token. A session ends after twelve hours, or when the
//! user logs out.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::{COOKIE, HOST};
use subtle::ConstantTimeEq;

use crate::limits::{SESSION_S, SESSIONS_MAX};
use crate::posted::Posted;

/// The name of the session's cookie, without the port: a browser sends the cookies of a host to all its ports.
const COOKIE_NAME: &str = "longhaul-console";

/// 128 random bits, as text.
pub(crate) fn random() -> std::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// The secrets for signing in, and the sessions.
pub(crate) struct LogIn {
    secret: String,
    /// In a link that works once.
    once: Mutex<Option<String>>,
    /// Oldest first.
    sessions: Mutex<VecDeque<Session>>,
}

struct Session {
    cookie: String,
    until_ms: i64,
}

impl LogIn {
    pub(crate) fn new(secret: String) -> std::io::Result<Self> {
        Ok(Self { secret, once: Mutex::new(Some(random()?)), sessions: Mutex::default() })
    }

    /// The code of the link, while it is unused.
    pub(crate) fn once(&self) -> Option<String> {
        self.lock_once().clone()
    }

    /// Whether a link has the code, and was not used yet.
    pub(crate) fn is_unused(&self, given: &str) -> bool {
        self.lock_once().as_ref().is_some_and(|code| is_same(given, code))
    }

    /// The cookie of a new session, as a header has it; `None` if the code or the token is wrong.
    pub(crate) fn begin(&self, posted: &Posted, headers: &HeaderMap, now_ms: i64) -> std::io::Result<Option<String>> {
        if !self.opens(posted) {
            return Ok(None);
        }
        let cookie = random()?;
        let mut sessions = self.lock_sessions();
        sessions.retain(|session| session.until_ms > now_ms);
        if sessions.len() >= SESSIONS_MAX {
            sessions.pop_front();
        }
        let header = set_cookie(headers, &cookie, SESSION_S);
        sessions.push_back(Session { cookie, until_ms: now_ms.saturating_add(i64::from(SESSION_S) * 1_000) });
        Ok(Some(header))
    }

    /// Whether the sender has logged in.
    pub(crate) fn lets_in(&self, headers: &HeaderMap, now_ms: i64) -> bool {
        let sessions = self.lock_sessions();
        let is_open =
            |given: &str| sessions.iter().any(|session| session.until_ms > now_ms && is_same(given, &session.cookie));
        cookies(headers).any(is_open)
    }

    /// Ends the sender's session. Returns the header that has the browser forget its cookie.
    pub(crate) fn end(&self, headers: &HeaderMap) -> String {
        let is_left = |session: &Session| !cookies(headers).any(|given| is_same(given, &session.cookie));
        self.lock_sessions().retain(is_left);
        set_cookie(headers, "", 0)
    }

    fn opens(&self, posted: &Posted) -> bool {
        if posted.value("secret").is_some_and(|secret| is_same(secret, &self.secret)) {
            return true;
        }
        let mut once = self.lock_once();
        let fits = matches!((posted.value("once"), &*once), (Some(given), Some(code)) if is_same(given, code));
        if fits {
            *once = None;
        }
        fits
    }

    fn lock_once(&self) -> MutexGuard<'_, Option<String>> {
        self.once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sessions(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn is_same(given: &str, known: &str) -> bool {
    given.as_bytes().ct_eq(known.as_bytes()).into()
}

/// The values of the cookies that a request has for this console.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let name = cookie_name(headers);
    let all = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let all = all.flat_map(|cookies| cookies.split(';')).filter_map(|one| one.trim().split_once('='));
    all.filter(move |(given, _)| *given == name).map(|(_, value)| value)
}

fn set_cookie(headers: &HeaderMap, value: &str, age_s: u32) -> String {
    let (name, path) = (cookie_name(headers), crate::PATH);
    format!("{name}={value}; HttpOnly; SameSite=Strict; Path={path}; Max-Age={age_s}")
}

/// The name of the cookie for the port of the browser's request.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    port.map_or_else(|| COOKIE_NAME.to_owned(), |port| format!("{COOKIE_NAME}-{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(HOST, host.parse().unwrap()), (COOKIE, cookie.parse().unwrap())])
    }

    fn posted(body: &str) -> Posted {
        Posted::read(body.as_bytes()).unwrap()
    }

    fn pair(header: &str) -> String {
        header.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_link_lets_in_once_and_the_secret_always() {
        let log_in = LogIn::new("a long secret".to_owned()).unwrap();
        let headers = at("localhost:8081", "");
        let begin = |body: &str| log_in.begin(&posted(body), &headers, 0).unwrap();
        let once = log_in.once().unwrap();
        assert!(log_in.is_unused(&once) && !log_in.is_unused("other"));
        assert_eq!(begin("once=other"), None);
        let cookie = begin(&format!("once={once}")).unwrap();
        assert!(!log_in.is_unused(&once));
        assert_eq!(begin(&format!("once={once}")), None, "a second time");
        assert!(begin("secret=a+long+secret").is_some());
        assert_eq!((begin("secret="), begin("")), (None, None));
        assert!(log_in.lets_in(&at("localhost:8081", &format!("a=b; {}", pair(&cookie))), 0));
        assert!(!log_in.lets_in(&headers, 0));
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/console; Max-Age=43200"), "{cookie}");
    }

    #[test]
    fn a_session_ends_after_twelve_hours_and_by_logging_out() {
        let log_in = LogIn::new("secret".to_owned()).unwrap();
        let begin = |now_ms| pair(&log_in.begin(&posted("secret=secret"), &at("h:1", ""), now_ms).unwrap().unwrap());
        let (first, second) = (at("h:1", &begin(0)), at("h:1", &begin(1_000)));
        let hours = |hours: i64| hours * 3_600_000;
        assert!(log_in.lets_in(&first, hours(12) - 1) && !log_in.lets_in(&first, hours(12)));
        assert!(log_in.lets_in(&second, hours(12)));
        assert!(log_in.end(&second).starts_with("longhaul-console-1=; HttpOnly"));
        assert!(!log_in.lets_in(&second, 2_000) && log_in.lets_in(&first, 2_000));
    }

    #[test]
    fn sessions_are_counted() {
        let log_in = LogIn::new("secret".to_owned()).unwrap();
        let begin = || pair(&log_in.begin(&posted("secret=secret"), &at("h:1", ""), 0).unwrap().unwrap());
        let first = begin();
        for _ in 0..SESSIONS_MAX {
            begin();
        }
        assert!(!log_in.lets_in(&at("h:1", &first), 1));
        assert_eq!(log_in.lock_sessions().len(), SESSIONS_MAX);
    }

    #[test]
    fn consoles_at_two_ports_have_two_cookies() {
        let names = ["localhost:8081", "localhost:8082", "localhost", "[::1]:8081", "[::1]", "h:x"]
            .map(|host| cookie_name(&at(host, "")));
        let bare = "longhaul-console";
        assert_eq!(
            names,
            [&format!("{bare}-8081"), &format!("{bare}-8082"), bare, &format!("{bare}-8081"), bare, bare]
        );
    }
}
