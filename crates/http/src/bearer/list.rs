//! The list of tokens that a server accepts: its format, and what is wrong with it. It is the same in the file of a
//! local server and in the parameter of a stack.
//!
//! A line is `NAME TOKEN [owner=OWNER] [expires=TIME] [SCOPE…]`. The token is written as it is, or as `sha256:` and its
//! digest. Two of them, separated by a comma, are both accepted, while one replaces the other. Empty lines, and
//! lines that begin with `#`, mean nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use longhaul_core::{Identity, OwnerId, Principal, Scopes, Timestamp, VerifiedIdentity};
use sha2::{Digest as _, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// Bytes of a file.
pub(super) const FILE_BYTES_MAX: u64 = 256 * 1024;

/// Lines, comments included.
const LINES_MAX: usize = 1_000;

/// Characters of a name, and of an owner.
const NAME_CHARS_MAX: usize = 64;

/// BearerTokens of one name: the one that is valid, and the one that it replaces.
const TOKENS_OF_ONE_MAX: usize = 2;

/// Scopes of one name.
const SCOPES_MAX: usize = 32;

/// Characters of a scope.
const SCOPE_CHARS_MAX: usize = 128;

/// How many lines an error names.
const WRONG_LINES_NAMED_MAX: usize = 10;

// A file with as many lines as it may have is not larger than it may be, if its tokens have the usual length.
const _: () = assert!(LINES_MAX as u64 * 256 <= FILE_BYTES_MAX && WRONG_LINES_NAMED_MAX <= LINES_MAX);

/// The issuer of identities from such a list.
const ISSUER: &str = "bearer";

/// Characters of a token. One that is shorter can be guessed.
const TOKEN_CHARS: std::ops::RangeInclusive<usize> = 32..=512;

/// Goes before a token's digest.
const DIGEST_PREFIX: &str = "sha256:";

/// These go before the owner, and before the time at which a token expires.
const OWNER: &str = "owner=";
const EXPIRES: &str = "expires=";

type Digest = [u8; 32];

/// The tokens that are accepted, and whose they are. The tokens themselves are not kept.
#[derive(Debug)]
pub struct BearerTokens {
    entries: Vec<TokenEntry>,
    /// The digest of each token, and the place of its entry.
    digests: Vec<(Digest, u64)>,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenEntry {
    /// Its name, which no other line has.
    pub name: String,
    /// The owner of its tasks, which several lines may share; its name if it names none.
    pub owner: String,
    /// The scopes of its token.
    pub scopes: Scopes,
    /// When its token stops working; `None` for never.
    pub expires_at: Option<Timestamp>,
}

/// Why a list of tokens cannot be used. The error repeats no part of the list.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// It cannot be read.
    #[error("it cannot be read: check its path and its permissions")]
    Io(#[from] std::io::Error),
    /// It is something else than a file.
    #[error("it is not a regular file")]
    NotAFile,
    /// Others may read it.
    #[error("other users may read or change it: take that away with `chmod 600`")]
    Open,
    /// It is too large.
    #[error("it has more than {LINES_MAX} lines, or {} KiB", FILE_BYTES_MAX / 1024)]
    TooLarge,
    /// It is not text.
    #[error("{0}")]
    NotText(String),
    /// It is empty: not even a comment is left, as after a write that broke off.
    #[error("it is empty: write a line `NAME TOKEN` for each caller, or a comment for no callers")]
    Empty,
    /// Lines are wrong.
    #[error("{0}")]
    Lines(TokenFaults),
}

/// The faults of the lines of a list.
#[derive(Debug)]
pub struct TokenFaults(Vec<(usize, Fault)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Fault {
    #[error("the name must have 1 to {NAME_CHARS_MAX} characters: letters, digits, `.`, `_`, `@` and `-`")]
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
    #[error("it has the name of line {0}: each line needs its own, and `owner=` is for tokens that share tasks")]
    SameName(usize),
    #[error("it has a token of line {0}: each caller needs its own")]
    SameToken(usize),
    #[error("`owner=` must be followed by what a name may be, and be there once")]
    Owner,
    #[error("`expires=` must be followed by a date or a time, such as 2026-12-31 or 2026-12-31T18:00:00Z, once")]
    Expiry,
}

impl fmt::Display for TokenFaults {
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

impl BearerTokens {
    /// Whose token this is, whether it has expired or not. All tokens are compared, each in the same time, whichever is
    /// right.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<&TokenEntry> {
        if !TOKEN_CHARS.contains(&token.len()) {
            return None;
        }
        let given = Sha256::digest(token);
        let mut found = u64::MAX;
        for (digest, entry) in &self.digests {
            found.conditional_assign(entry, digest.as_slice().ct_eq(given.as_slice()));
        }
        self.entries.get(usize::try_from(found).ok()?)
    }

    /// The lines, in their order.
    #[must_use]
    pub fn entries(&self) -> &[TokenEntry] {
        &self.entries
    }

    /// Reads a list.
    ///
    /// # Errors
    /// [`TokensError`], with all that is wrong with its lines.
    pub fn parse(bytes: &[u8]) -> Result<Self, TokensError> {
        let text = longhaul_core::settings::text_of(bytes.to_vec());
        let text = text.map_err(|why| TokensError::NotText(why.to_string()))?;
        if text.lines().count() > LINES_MAX {
            return Err(TokensError::TooLarge);
        }
        if text.trim().is_empty() {
            return Err(TokensError::Empty);
        }
        let mut reading = Reading::default();
        for (line, text) in (1..).zip(text.lines()) {
            reading.take(line, text.trim());
        }
        reading.finish()
    }
}

impl TokenEntry {
    /// The caller that has its token.
    #[must_use]
    pub fn principal(&self) -> Principal {
        let owner = OwnerId::of(Identity::Verified { issuer: ISSUER, subject: &self.owner, tenant: "" });
        let mut identity = VerifiedIdentity::new(ISSUER, &self.owner);
        if self.name != self.owner {
            identity.claims.insert("token".to_owned(), self.name.as_str().into());
        }
        Principal { owner, identity: Some(identity), scopes: self.scopes.clone() }
    }

    /// Whether its token does not work any more.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// The line of this entry and `token`, of which it has the digest only.
    #[must_use]
    pub fn line(&self, token: &str) -> String {
        let digest = Sha256::digest(token).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let mut line = format!("{} {DIGEST_PREFIX}{digest}", self.name);
        if self.owner != self.name {
            line = format!("{line} {OWNER}{}", self.owner);
        }
        if let Some(at) = self.expires_at {
            line = format!("{line} {EXPIRES}{}", time_text(at));
        }
        match &self.scopes {
            Scopes::Unrestricted => line,
            Scopes::Granted(scopes) => scopes.iter().fold(line, |line, scope| format!("{line} {scope}")),
        }
    }
}

/// A time as the list has it: RFC 3339, in UTC.
#[must_use]
pub fn time_text(at: Timestamp) -> String {
    let at = i64::try_from(at.as_ms() / 1_000).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    at.unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// The time that `text` names: RFC 3339, or a date, which is its beginning in UTC.
#[must_use]
pub fn time_of(text: &str) -> Option<Timestamp> {
    let begins =
        |date: jiff::civil::Date| jiff::tz::Offset::UTC.to_timestamp(date.to_datetime(jiff::civil::Time::midnight()));
    let time = text.parse::<jiff::Timestamp>().ok();
    // A date that is followed by more would be read without it.
    let date = || text.parse::<jiff::civil::Date>().ok().filter(|date| date.to_string() == text);
    let time = time.or_else(|| begins(date()?).ok())?;
    u64::try_from(time.as_millisecond()).ok().map(Timestamp::from_ms)
}

#[derive(Default)]
struct Reading<'a> {
    entries: Vec<TokenEntry>,
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
        if let Err(fault) = self.entry(line, text) {
            self.faults.push((line, fault));
        }
    }

    fn entry(&mut self, line: usize, text: &'a str) -> Result<(), Fault> {
        let mut words = text.split_whitespace();
        let name = words.next().filter(|name| is_name(name)).ok_or(Fault::Name)?;
        let digests = digests(words.next().ok_or(Fault::NoToken)?)?;
        let rest = Rest::of(words)?;
        if let Some(earlier) = self.names.insert(name, line) {
            return Err(Fault::SameName(earlier));
        }
        let entry = self.entries.len() as u64;
        for digest in digests {
            if let Some(earlier) = self.tokens.insert(digest, line) {
                return Err(Fault::SameToken(earlier));
            }
            self.digests.push((digest, entry));
        }
        let owner = rest.owner.unwrap_or(name).to_owned();
        let scopes = if rest.scopes.is_empty() { Scopes::Unrestricted } else { Scopes::Granted(rest.scopes) };
        self.entries.push(TokenEntry { name: name.to_owned(), owner, scopes, expires_at: rest.expires_at });
        Ok(())
    }

    fn finish(self) -> Result<BearerTokens, TokensError> {
        if !self.faults.is_empty() {
            return Err(TokensError::Lines(TokenFaults(self.faults)));
        }
        Ok(BearerTokens { entries: self.entries, digests: self.digests })
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
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

/// The words after the token of a line.
#[derive(Default)]
struct Rest<'a> {
    owner: Option<&'a str>,
    expires_at: Option<Timestamp>,
    /// RFC 6749, section 3.3. Without any, the caller may do everything.
    scopes: BTreeSet<String>,
}

impl<'a> Rest<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Result<Self, Fault> {
        let mut rest = Self::default();
        for word in words {
            if let Some(owner) = word.strip_prefix(OWNER) {
                let is_first = rest.owner.replace(owner).is_none();
                (is_first && is_name(owner)).then_some(()).ok_or(Fault::Owner)?;
            } else if let Some(time) = word.strip_prefix(EXPIRES) {
                let is_first = rest.expires_at.replace(time_of(time).ok_or(Fault::Expiry)?).is_none();
                is_first.then_some(()).ok_or(Fault::Expiry)?;
            } else {
                rest.scope(word)?;
            }
        }
        Ok(rest)
    }

    fn scope(&mut self, word: &str) -> Result<(), Fault> {
        if word.starts_with('#') {
            return Err(Fault::Comment);
        }
        let is_allowed = |byte: u8| matches!(byte, b'!'..=b'~') && byte != b'"' && byte != b'\\';
        if word.len() > SCOPE_CHARS_MAX || !word.bytes().all(is_allowed) {
            return Err(Fault::Scope);
        }
        self.scopes.insert(word.to_owned());
        (self.scopes.len() <= SCOPES_MAX).then_some(()).ok_or(Fault::ManyScopes)
    }
}

#[cfg(test)]
mod tests;
