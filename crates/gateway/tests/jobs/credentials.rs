//! Credentials that come late, or that AWS does not take any more.

use std::sync::atomic::{AtomicUsize, Ordering};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, future};
use longhaul_core::Status;
use longhaul_gateway::jobs::GlueJob;
use serde_json::json;

use crate::kinds::{aws_with, glue_spec};
use crate::stand_in::{Asked, StandIn, ok, refusal};
use crate::tool::call;

/// Has none at first, and other ones each time later.
#[derive(Debug)]
struct Changing {
    failures: usize,
    asked: AtomicUsize,
}

impl Changing {
    const fn after(failures: usize) -> Self {
        Self { failures, asked: AtomicUsize::new(0) }
    }
}

impl ProvideCredentials for Changing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        future::ProvideCredentials::ready(match asked.checked_sub(self.failures) {
            None => Err(CredentialsError::not_loaded("the role is not there yet")),
            Some(number) => Ok(Credentials::new(format!("key{number}"), "test", None, None, "tests")),
        })
    }
}

/// A service that takes the credentials with this id and answers others with this code.
async fn taking(key: &'static str, code: &'static str) -> StandIn {
    StandIn::new(move |asked: &Asked, _| match asked.operation().as_str() {
        _ if !asked.header("authorization").unwrap().contains(&format!("Credential={key}/")) => refusal(code, "no"),
        "StartJobRun" => ok(json!({"JobRunId": "jr_1"})),
        _ => ok(json!({"JobRun": {"JobRunState": "SUCCEEDED"}})),
    })
    .await
}

#[tokio::test]
async fn credentials_that_are_not_there_yet_do_not_end_a_task() {
    let service = taking("key0", "AccessDeniedException").await;
    let job = GlueJob::new(aws_with(&service, Changing::after(7)), glue_spec());
    let run = call(job, json!({})).to_end().await.unwrap();
    assert_eq!((run.status(), service.times("StartJobRun")), (Status::Completed, 1), "{:?}", run.error());
}

#[tokio::test]
async fn credentials_that_are_refused_are_dropped_and_the_start_is_made_with_new_ones() {
    for code in [
        "ExpiredTokenException",
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "RequestTimeTooSkewed",
    ] {
        let service = taking("key1", code).await;
        let job = GlueJob::new(aws_with(&service, Changing::after(0)), glue_spec());
        let run = call(job, json!({})).to_end().await.unwrap();
        assert_eq!((run.status(), service.times("StartJobRun")), (Status::Completed, 2), "{code}: {:?}", run.error());
    }
}
