//! A sign-in that is under way, and a browser that follows redirects.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command};

use url::Url;

use crate::command::{Said, Setup};

/// A `longhaul login` that waits for the browser.
pub(crate) struct Login {
    child: Child,
    errors: BufReader<ChildStderr>,
    pub(crate) page: Url,
}

impl Login {
    pub(crate) fn begin(setup: &Setup, flags: &[&str]) -> Self {
        Self::of(setup.command(&[&["login", "--no-browser"], flags].concat()))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut line) = (String::new(), String::new());
        while !line.starts_with("http") {
            said.push_str(&line);
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it writes no address: {said}");
        }
        Self { child, errors, page: line.trim().parse().unwrap() }
    }

    /// A parameter of the page's URL that an answer needs.
    pub(crate) fn param(&self, name: &str) -> String {
        let found = self.page.query_pairs().find(|(key, _)| key == name);
        found.unwrap_or_else(|| panic!("{}", self.page)).1.into_owned()
    }

    /// Comes back to it with these parameters, and says what the page is.
    pub(crate) fn come_back(&self, params: &[(&str, &str)]) -> String {
        let mut back: Url = self.param("redirect_uri").parse().unwrap();
        back.query_pairs_mut().extend_pairs(params);
        get(&back)
    }

    pub(crate) fn end(&mut self) -> Said {
        let mut err = String::new();
        self.errors.read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        Said { code, out: String::new(), err }
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One request by HTTP, with cookies: the head of the answer and its body.
fn request(url: &Url, cookies: &BTreeMap<String, String>) -> (String, String) {
    let address = (url.host_str().unwrap(), url.port().unwrap());
    let mut connection = TcpStream::connect(address).unwrap();
    let cookies: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let target = &url[url::Position::BeforePath..];
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
        url.authority(),
        cookies.join("; ")
    );
    connection.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get(url: &Url) -> String {
    request(url, &BTreeMap::new()).0
}

/// Follows an authorization server's redirects as this user, up to where it sends the browser back to.
pub(crate) fn browse(page: &Url, user: &str) -> Url {
    let (mut url, mut cookies) = (page.clone(), BTreeMap::new());
    url.query_pairs_mut().append_pair("login_hint", user);
    for _ in 0..10 {
        let (head, body) = request(&url, &cookies);
        let headers = || head.lines().filter_map(|line| line.split_once(": "));
        for (_, cookie) in headers().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        let location = headers().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        url = url.join(location.unwrap_or_else(|| panic!("{head}\n{body}")).1).unwrap();
        if url.path() == "/callback" {
            return url;
        }
    }
    panic!("the authorization server redirects without end");
}
