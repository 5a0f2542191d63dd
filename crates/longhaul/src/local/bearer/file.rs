//! The file of tokens that a local server accepts: its format, and what is wrong with it.
//!
//! A line is `NAME TOKEN [SCOPE…]`. The token is written as it is, or as `sha256:` and the digest of it; two of them,
//! separated by a comma, are both accepted while one replaces the other. Empty lines, and lines that begin with `#`,
//! mean nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::Read;
use std::path::Path;

use longhaul_core::{Identity, OwnerId, Principal, Scopes, VerifiedIdentity};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use crate::local::limits::{
    CALLER_NAME_CHARS_MAX, SCOPE_CHARS_MAX, SCOPES_MAX, TOKEN_FILE_BYTES_MAX, TOKEN_LINES_MAX, TOKENS_OF_ONE_MAX,
    WRONG_LINES_NAMED_MAX,
};

/// The issuer of identities from such a file.
const ISSUER: &str = "bearer";

/// Characters of a token. One that is shorter can be guessed.
const TOKEN_CHARS: std::ops::RangeInclusive<usize> = 32..=512;

/// What goes before a token's digest.
const DIGEST_PREFIX: &str = "sha256:";

type Digest = [u8; 32];

/// The tokens that are accepted, and whose they are. The tokens themselves are not kept.
pub(in crate::local) struct Tokens {
    callers: Vec<Principal>,
    /// The digest of each token, and the place of its caller.
    digests: Vec<(Digest, u64)>,
}

/// Why a file of tokens cannot be used. Contains nothing of what is in the file.
#[derive(Debug, thiserror::Error)]
pub(in crate::local) enum TokenFileError {
    #[error("it cannot be read: check its path and its permissions")]
    Io(#[from] std::io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("other users may read or change it: take that away with `chmod 600`")]
    Open,
    #[error("it has more than {TOKEN_LINES_MAX} lines, or {} KiB", TOKEN_FILE_BYTES_MAX / 1024)]
    TooLarge,
    #[error("{0}")]
    NotText(String),
    #[error("it has no tokens: write a line `NAME TOKEN` for each caller")]
    Empty,
    #[error("{0}")]
    Lines(Faults),
}

/// What is wrong with the lines of a file.
#[derive(Debug)]
pub(in crate::local) struct Faults(Vec<(usize, Fault)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the name must have 1 to {CALLER_NAME_CHARS_MAX} characters: letters, digits, `.`, `_`, `@` and `-`")]
    Name,
    #[error("the token is missing: write `NAME TOKEN`, and scopes after them if the caller may not do everything")]
    NoToken,
    #[error(
        "a token must have {} to {} characters: letters, digits, `-`, `.`, `_`, `~`, `+`, `/`, and `=` at its end; \
         `openssl rand -base64 32` makes one",
        TOKEN_CHARS.start(),
        TOKEN_CHARS.end()
    )]
    Token,
    #[error(
        "`{DIGEST_PREFIX}` must be followed by 64 hexadecimal digits, as `printf %s \"$TOKEN\" | sha256sum` prints them"
    )]
    Digest,
    #[error("there are more than {TOKENS_OF_ONE_MAX} tokens: keep the new one, and the one that it replaces")]
    ManyTokens,
    #[error("a scope must have 1 to {SCOPE_CHARS_MAX} visible ASCII characters, no quotation mark and no backslash")]
    Scope,
    #[error("there are more than {SCOPES_MAX} scopes")]
    ManyScopes,
    #[error("a comment must have a line of its own")]
    Comment,
    #[error("it has the name of line {0}: two callers with one name would be one owner")]
    SameName(usize),
    #[error("it has a token of line {0}: each caller needs its own")]
    SameToken(usize),
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (line, fault)) in self.0.iter().take(WRONG_LINES_NAMED_MAX).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}line {line}: {fault}")?;
        }
        match self.0.len().saturating_sub(WRONG_LINES_NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl Tokens {
    /// Whose token this is. All tokens are compared, each in the same time, whichever is right.
    pub(in crate::local) fn caller(&self, token: &str) -> Option<&Principal> {
        if !TOKEN_CHARS.contains(&token.len()) {
            return None;
        }
        let given = Sha256::digest(token);
        let mut found = u64::MAX;
        for (digest, caller) in &self.digests {
            found.conditional_assign(caller, digest.as_slice().ct_eq(given.as_slice()));
        }
        self.callers.get(usize::try_from(found).ok()?)
    }

    /// How many callers there are.
    pub(in crate::local) fn len(&self) -> usize {
        self.callers.len()
    }

    pub(in crate::local) fn parse(bytes: &[u8]) -> Result<Self, TokenFileError> {
        let text = longhaul_settings::text_of(bytes.to_vec());
        let text = text.map_err(|why| TokenFileError::NotText(why.to_string()))?;
        if text.lines().count() > TOKEN_LINES_MAX {
            return Err(TokenFileError::TooLarge);
        }
        let mut reading = Reading::default();
        for (line, text) in (1..).zip(text.lines()) {
            reading.take(line, text.trim());
        }
        reading.finish()
    }
}

/// The content of the file at `path`, which only its owner may read.
pub(in crate::local) fn read(path: &Path) -> Result<Vec<u8>, TokenFileError> {
    // Before it is opened: opening a pipe waits for somebody who writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(TokenFileError::NotAFile);
    }
    let file = std::fs::File::open(path)?;
    if is_open_to_others(&file.metadata()?) {
        return Err(TokenFileError::Open);
    }
    let mut bytes = Vec::new();
    file.take(TOKEN_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TOKEN_FILE_BYTES_MAX {
        return Err(TokenFileError::TooLarge);
    }
    Ok(bytes)
}

#[cfg(unix)]
fn is_open_to_others(file: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    file.mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_file: &std::fs::Metadata) -> bool {
    false
}

#[derive(Default)]
struct Reading<'a> {
    callers: Vec<Principal>,
    digests: Vec<(Digest, u64)>,
    names: HashMap<&'a str, usize>,
    tokens: HashMap<Digest, usize>,
    faults: Vec<(usize, Fault)>,
}

impl<'a> Reading<'a> {
    fn take(&mut self, line: usize, text: &'a str) {
        if text.is_empty() || text.starts_with('#') {
            return;
        }
        if let Err(fault) = self.caller(line, text) {
            self.faults.push((line, fault));
        }
    }

    fn caller(&mut self, line: usize, text: &'a str) -> Result<(), Fault> {
        let mut words = text.split_whitespace();
        let name = words.next().filter(|name| is_name(name)).ok_or(Fault::Name)?;
        let digests = digests(words.next().ok_or(Fault::NoToken)?)?;
        let scopes = scopes(words)?;
        if let Some(earlier) = self.names.insert(name, line) {
            return Err(Fault::SameName(earlier));
        }
        let caller = self.callers.len() as u64;
        for digest in digests {
            if let Some(earlier) = self.tokens.insert(digest, line) {
                return Err(Fault::SameToken(earlier));
            }
            self.digests.push((digest, caller));
        }
        let owner = OwnerId::of(Identity::Verified { issuer: ISSUER, subject: name, tenant: "" });
        self.callers.push(Principal { owner, identity: Some(VerifiedIdentity::new(ISSUER, name)), scopes });
        Ok(())
    }

    fn finish(self) -> Result<Tokens, TokenFileError> {
        if !self.faults.is_empty() {
            return Err(TokenFileError::Lines(Faults(self.faults)));
        }
        if self.callers.is_empty() {
            return Err(TokenFileError::Empty);
        }
        Ok(Tokens { callers: self.callers, digests: self.digests })
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    name.len() <= CALLER_NAME_CHARS_MAX && name.bytes().all(is_allowed)
}

fn digests(text: &str) -> Result<Vec<Digest>, Fault> {
    let tokens: Vec<&str> = text.split(',').collect();
    if tokens.len() > TOKENS_OF_ONE_MAX {
        return Err(Fault::ManyTokens);
    }
    tokens.into_iter().map(digest).collect()
}

fn digest(token: &str) -> Result<Digest, Fault> {
    if let Some(digits) = token.strip_prefix(DIGEST_PREFIX) {
        return from_hex(digits).ok_or(Fault::Digest);
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    let is_token = TOKEN_CHARS.contains(&token.len()) && token.trim_end_matches('=').bytes().all(is_allowed);
    if is_token { Ok(Sha256::digest(token).into()) } else { Err(Fault::Token) }
}

fn from_hex(digits: &str) -> Option<Digest> {
    let digits: &[u8; 64] = digits.as_bytes().try_into().ok()?;
    let (pairs, _) = digits.as_chunks::<2>();
    let mut digest = Digest::default();
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        let value = |digit: u8| u8::try_from(char::from(digit).to_digit(16)?).ok();
        *byte = value(*high)? << 4 | value(*low)?;
    }
    Some(digest)
}

/// The scopes that `words` name (RFC 6749, section 3.3). Without any, the caller may do everything.
fn scopes<'a>(words: impl Iterator<Item = &'a str>) -> Result<Scopes, Fault> {
    let mut granted = BTreeSet::new();
    for word in words {
        if word.starts_with('#') {
            return Err(Fault::Comment);
        }
        let is_allowed = |byte: u8| matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\';
        if word.len() > SCOPE_CHARS_MAX || !word.bytes().all(is_allowed) {
            return Err(Fault::Scope);
        }
        granted.insert(word.to_owned());
        if granted.len() > SCOPES_MAX {
            return Err(Fault::ManyScopes);
        }
    }
    Ok(if granted.is_empty() { Scopes::Unrestricted } else { Scopes::Granted(granted) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str = "annannannannannannannannannannannann";
    const BOB: &str = "Bob0-._~+/bobbobbobbobbobbobbobbobbob==";

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(text.as_bytes()).map_err(|error| error.to_string())
    }

    fn refusal(text: &str) -> String {
        parse(text).map(|tokens| tokens.len()).unwrap_err()
    }

    #[test]
    fn each_token_has_its_caller() {
        let digest: String = Sha256::digest(BOB).iter().map(|byte| format!("{byte:02x}")).collect();
        let tokens =
            parse(&format!("# who may call\n\n  ann\t{ANN}\r\nbob sha256:{digest}  etl:run tasks#1\n")).unwrap();
        assert_eq!(tokens.len(), 2);
        let ann = tokens.caller(ANN).unwrap();
        assert_eq!(
            (ann.identity.clone(), &ann.scopes),
            (Some(VerifiedIdentity::new("bearer", "ann")), &Scopes::Unrestricted)
        );
        let bob = tokens.caller(BOB).unwrap();
        assert_eq!(bob.scopes, Scopes::Granted(["etl:run".to_owned(), "tasks#1".to_owned()].into()));
        assert_ne!(ann.owner, bob.owner);
        for other in ["", "ann", &ANN[1..], &format!("{ANN}a"), &digest, &format!("sha256:{digest}"), &"a".repeat(600)]
        {
            assert_eq!(tokens.caller(other), None, "{other}");
        }
    }

    #[test]
    fn the_example_in_the_docs_is_a_file_of_tokens() {
        let page = include_str!("../../../../../docs/operations.md");
        let (_, example) = page.split_once("```\n# name ").unwrap();
        let tokens = parse(&format!("# {}", example.split_once("```").unwrap().0)).unwrap();
        assert_eq!(tokens.len(), 3);
        assert!(matches!(&tokens.callers[1].scopes, Scopes::Granted(scopes) if scopes.len() == 2));
    }

    #[test]
    fn a_token_and_the_one_that_replaces_it_are_one_caller() {
        let tokens = parse(&format!("ann {ANN},{BOB}")).unwrap();
        assert_eq!(tokens.caller(ANN).unwrap(), tokens.caller(BOB).unwrap());
        assert_eq!(tokens.caller(ANN).unwrap().owner, parse(&format!("ann {BOB}")).unwrap().caller(BOB).unwrap().owner);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_never_with_a_token() {
        let secret = "secretsecretsecretsecretsecretsecret";
        let long = |length: usize| "x".repeat(length);
        for (text, line, said) in [
            (format!("# ann\n{secret}!x {ANN}"), 2, "the name must have"),
            (format!("{} {secret}", long(65)), 1, "the name must have"),
            (secret.to_owned(), 1, "the token is missing"),
            (format!("ann {}", &secret[..31]), 1, "32 to 512 characters"),
            (format!("ann {}", long(513)), 1, "32 to 512 characters"),
            (format!("ann {secret}ä"), 1, "32 to 512 characters"),
            (format!("ann ={secret}"), 1, "32 to 512 characters"),
            (format!("ann {secret},"), 1, "32 to 512 characters"),
            (format!("ann sha256:{secret}"), 1, "64 hexadecimal digits"),
            (format!("ann {ANN},{BOB},{secret}"), 1, "more than 2 tokens"),
            (format!("ann {secret} a\"b"), 1, "a scope must have"),
            (format!("ann {secret} {}", long(129)), 1, "a scope must have"),
            (format!("ann {secret} # since May"), 1, "a line of its own"),
            (format!("ann {secret}\nann {BOB}"), 2, "the name of line 1"),
            (format!("ann {secret}\n\nbob {BOB},{secret}"), 3, "a token of line 1"),
            (format!("ann {secret},{secret}"), 1, "a token of line 1"),
        ] {
            let refused = refusal(&text);
            assert!(refused.starts_with(&format!("line {line}: ")) && refused.contains(said), "{refused}");
            assert!(!refused.contains("secret") && !refused.contains(ANN) && !refused.contains(BOB), "{refused}");
        }
        let many = (0..40).map(|scope| format!(" s{scope}")).collect::<String>();
        assert!(refusal(&format!("ann {ANN}{many}")).contains("more than 32 scopes"));
    }

    #[test]
    fn all_wrong_lines_are_named_up_to_a_limit() {
        let refused = refusal(&"x\n".repeat(13));
        assert_eq!((refused.matches("line ").count(), refused.ends_with("; and 3 more")), (10, true), "{refused}");
    }

    #[test]
    fn a_file_has_limits() {
        let lines = |count: usize| (0..count).map(|line| format!("n{line} {line:0>32}\n")).collect::<String>();
        assert_eq!(parse(&lines(TOKEN_LINES_MAX)).unwrap().len(), TOKEN_LINES_MAX);
        assert!(refusal(&lines(TOKEN_LINES_MAX + 1)).contains("more than 1000 lines"));
        for nobody in ["", "\n\n", "# ann\n"] {
            assert!(refusal(nobody).contains("no tokens"));
        }
        assert!(Tokens::parse(&[0xff, b'\n']).is_err_and(|error| error.to_string().contains("UTF-8")));
    }
}
