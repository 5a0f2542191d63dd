//! The bucket that keeps packages and templates, each under a name that is made of its hash, and the previous templates
//! of each stack.

use http::Method;
use longhaul_core::strict_json;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::hash::hash;
use super::requests::{Account, Answer, Ask, Failure, S3, STS};
use crate::exit::{Exit, Stop};
use crate::limits::PREVIOUS_MAX;
use crate::out;

/// An earlier state of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Previous {
    /// The key of its template, which names its packages.
    pub(super) template: String,
    /// The processor that the packages were built for.
    pub(super) architecture: Option<String>,
}

/// The bucket of an account in a region, or one that the user names.
pub(super) struct Bucket<'a> {
    account: &'a Account,
    pub(super) name: String,
    /// The number of the account that must own it: every AWS user can make a bucket with a name that can be guessed.
    owner: String,
}

impl<'a> Bucket<'a> {
    /// The bucket, which need not exist yet.
    pub(super) async fn of(account: &'a Account, named: Option<&str>) -> Result<Self, Stop> {
        let caller = account.query(&STS, "GetCallerIdentity", &[]).await?;
        let owner = caller.text("Account").to_owned();
        let name = match named {
            Some(name) => name.to_owned(),
            None => format!("longhaul-packages-{owner}-{}", account.region().await?),
        };
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte));
        if !is_name || !(3..=63).contains(&name.len()) {
            return Err(Stop::usage(format!(
                "`{name}` is not the name of a bucket: it has a-z, 0-9, `.` and `-` only"
            )));
        }
        Ok(Self { account, name, owner })
    }

    /// Makes it, unless it is there.
    pub(super) async fn create(&self) -> Result<(), Stop> {
        if self.ask(Method::HEAD, "", Vec::new()).await?.is_some() {
            return Ok(());
        }
        let region = self.account.region().await?;
        // This region alone is not named.
        let body = if region == "us-east-1" {
            String::new()
        } else {
            format!(
                "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <LocationConstraint>{region}</LocationConstraint></CreateBucketConfiguration>"
            )
        };
        let what = format!("the creation of the bucket {}", self.name);
        let path = format!("/{}", self.name);
        let ask = Ask { service: &S3, method: Method::PUT, path, headers: Vec::new(), body: body.into_bytes(), what };
        match self.account.send(&ask).await {
            Ok(_) => out::say(&format!("made the bucket {}, which keeps packages and templates", self.name)),
            Err(Failure::Refused(refused)) if refused.code == "BucketAlreadyOwnedByYou" => {}
            Err(failure) => return Err(failure.into()),
        }
        Ok(())
    }

    /// Stores bytes under a name with their hash, unless they are there, and returns the key.
    pub(super) async fn keep(&self, before: &str, bytes: &[u8], after: &str) -> Result<String, Stop> {
        self.keep_as(format!("{before}{}{after}", hash(bytes)), bytes).await
    }

    /// Stores bytes under this key, which is made of their hash, unless they are there.
    pub(super) async fn keep_as(&self, key: String, bytes: &[u8]) -> Result<String, Stop> {
        if self.ask(Method::HEAD, &key, Vec::new()).await?.is_none() {
            self.put(&key, bytes.to_vec()).await?;
        }
        Ok(key)
    }

    /// The text that is stored under a key.
    pub(super) async fn text(&self, key: &str) -> Result<String, Stop> {
        let missing = || Stop::new(Exit::Failed, format!("s3://{}/{key} is not there any more", self.name));
        let answer = self.ask(Method::GET, key, Vec::new()).await?.ok_or_else(missing)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// The URL of an object, as CloudFormation takes it.
    pub(super) async fn url(&self, key: &str) -> Result<String, Stop> {
        Ok(format!("{}/{}/{key}", self.account.endpoint(&S3).await?, self.name))
    }

    /// The earlier states of a stack: the latest is the last.
    pub(super) async fn previous(&self, stack: &str) -> Result<Vec<Previous>, Stop> {
        let Some(answer) = self.ask(Method::GET, &key_of(stack), Vec::new()).await? else { return Ok(Vec::new()) };
        let text = String::from_utf8_lossy(&answer.body);
        strict_json::from_str(&text).map_err(|error| {
            Stop::new(Exit::Failed, format!("s3://{}/{} cannot be read: {error}", self.name, key_of(stack)))
        })
    }

    /// Stores that, without the oldest if there are too many.
    pub(super) async fn remember(&self, stack: &str, all: &[Previous]) -> Result<(), Stop> {
        let latest = all.get(all.len().saturating_sub(PREVIOUS_MAX)..).unwrap_or_default();
        self.put(&key_of(stack), json!(latest).to_string().into_bytes()).await
    }

    /// Deletes them.
    pub(super) async fn forget(&self, stack: &str) -> Result<(), Stop> {
        self.ask(Method::DELETE, &key_of(stack), Vec::new()).await.map(drop)
    }

    async fn put(&self, key: &str, body: Vec<u8>) -> Result<(), Stop> {
        self.ask(Method::PUT, key, body).await.map(drop)
    }

    /// S3's answer about an object, or about the bucket; `None` if it is not there.
    async fn ask(&self, method: Method, key: &str, body: Vec<u8>) -> Result<Option<Answer>, Stop> {
        let path = if key.is_empty() { format!("/{}", self.name) } else { format!("/{}/{key}", self.name) };
        let what = format!("{method} of s3:/{path}");
        let headers = vec![("x-amz-expected-bucket-owner", self.owner.clone())];
        match self.account.send(&Ask { service: &S3, method, path, headers, body, what }).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Refused(refused)) if refused.status == 404 => Ok(None),
            // An answer to HEAD has no message.
            Err(Failure::Refused(refused)) if refused.status == 403 && refused.code.is_empty() => Err(Stop::new(
                Exit::Failed,
                format!(
                    "the bucket {} is not of this account, or you may not use it: name another one with --bucket",
                    self.name
                ),
            )),
            Err(failure) => Err(failure.into()),
        }
    }
}

fn key_of(stack: &str) -> String {
    format!("stacks/{stack}/previous.json")
}
