//! Signatures for servers that AWS lets callers into: function URLs and API Gateway (SigV4).

use std::sync::Arc;

use futures::future::BoxFuture;
use longhaul_client::{Challenge, Credentials, Error};
use longhaul_gateway::jobs::{Aws, SigningError};
use reqwest::Request;
use url::Url;

/// The services whose names are in host names.
const SERVICES: [(&str, &str); 2] = [("lambda-url", "lambda"), ("execute-api", "execute-api")];

/// The word that leaves the service and the region to the host name.
const AUTO: &str = "auto";

/// The service and the region that a request is signed for.
#[derive(Debug, PartialEq, Eq)]
struct Scope {
    service: String,
    /// `None`: that of the AWS configuration.
    region: Option<String>,
}

impl Scope {
    /// The user's choice. The host name gives the parts that the user did not choose.
    fn of(url: &Url, wanted: &str) -> Result<Self, String> {
        let (service, region) = match wanted.split_once('/') {
            Some((service, region)) => (Some(service), Some(region)),
            None if SERVICES.iter().any(|(_, service)| *service == wanted) => (Some(wanted), None),
            None => (None, Some(wanted).filter(|wanted| !wanted.is_empty() && *wanted != AUTO)),
        };
        let is_name = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        };
        if [service, region].into_iter().flatten().any(|text| !is_name(text)) {
            return Err(format!(
                "`{wanted}` is none of: a region such as eu-west-1, lambda, execute-api, lambda/eu-west-1"
            ));
        }
        let host = url.host_str().unwrap_or_default();
        let named = of_host(host);
        let service = service.or(named.map(|(service, _)| service)).ok_or_else(|| {
            format!(
                "{host} does not say for which service to sign: --aws-sign=lambda/REGION or \
                 --aws-sign=execute-api/REGION, or without the region for that of the AWS configuration"
            )
        })?;
        let region = region.or(named.map(|(_, region)| region));
        Ok(Self { service: service.to_owned(), region: region.map(str::to_owned) })
    }
}

/// The service and the region that a host name has, such as `id.lambda-url.eu-west-1.on.aws`.
fn of_host(host: &str) -> Option<(&'static str, &str)> {
    if ![".on.aws", ".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"].iter().any(|end| host.ends_with(end)) {
        return None;
    }
    let mut labels = host.split('.').skip(1);
    let service = labels.find_map(|label| SERVICES.iter().find(|(name, _)| *name == label))?.1;
    Some((service, labels.next()?))
}

/// Signs each request with the AWS configuration of this user and process: variables, profiles, single sign-on,
/// processes, web identities, containers, instances.
pub(crate) struct AwsSignature {
    scope: Scope,
    aws: Arc<Aws>,
}

impl AwsSignature {
    /// For a server. `wanted` is the user's choice of the service and the region.
    pub(crate) fn of(url: &Url, wanted: &str) -> Result<Self, String> {
        Ok(Self { scope: Scope::of(url, wanted)?, aws: Aws::from_environment() })
    }
}

impl Credentials for AwsSignature {
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        let Scope { service, region } = &self.scope;
        Box::pin(async move { self.aws.sign(request, service, region.as_deref()).await.map_err(unsigned) })
    }

    fn renew<'a>(&'a self, _challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async { self.aws.renew().await.map_err(unsigned) })
    }
}

fn unsigned(error: SigningError) -> Error {
    match error {
        SigningError::NoCredentials(why) => {
            Error::NoCredentials(format!("there are no AWS credentials to sign with: {why}"))
        }
        SigningError::NoRegion => {
            Error::NoCredentials("the AWS configuration has no region to sign for: --aws-sign=REGION".to_owned())
        }
        SigningError::Request(why) => Error::Unexpected(format!("no request can be signed: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(url: &str, wanted: &str) -> Result<(String, Option<String>), String> {
        Scope::of(&url.parse().unwrap(), wanted).map(|scope| (scope.service, scope.region))
    }

    fn signs_for(url: &str, wanted: &str, service: &str, region: Option<&str>) {
        assert_eq!(scope(url, wanted), Ok((service.to_owned(), region.map(str::to_owned))), "{url} {wanted}");
    }

    #[test]
    fn the_host_says_for_whom_to_sign_unless_the_user_does() {
        let function = "https://abc.lambda-url.eu-central-1.on.aws/mcp";
        signs_for(function, "auto", "lambda", Some("eu-central-1"));
        signs_for(function, "", "lambda", Some("eu-central-1"));
        signs_for(function, "us-east-1", "lambda", Some("us-east-1"));
        let api = "https://abc.execute-api.cn-north-1.amazonaws.com.cn/prod/mcp";
        signs_for(api, "auto", "execute-api", Some("cn-north-1"));
        let private = "https://vpce-1.execute-api.us-east-1.vpce.amazonaws.com/mcp";
        signs_for(private, "auto", "execute-api", Some("us-east-1"));
        signs_for("https://mcp.example.com/mcp", "execute-api/us-east-1", "execute-api", Some("us-east-1"));
        signs_for("https://mcp.example.com/mcp", "execute-api", "execute-api", None);
    }

    #[test]
    fn a_host_that_says_nothing_wants_a_service() {
        for host in ["mcp.example.com", "lambda-url.eu-west-1.example.com", "a.lambda-url.eu-west-1.on.aws.example.com"]
        {
            let why = scope(&format!("https://{host}/mcp"), "auto").unwrap_err();
            assert!(why.contains("--aws-sign=lambda/REGION"), "{why}");
        }
        for wrong in ["eu west", "a/b/c", "/", "lambda/"] {
            let why = scope("https://abc.lambda-url.eu-central-1.on.aws/mcp", wrong).unwrap_err();
            assert!(why.contains("is none of"), "{wrong}: {why}");
        }
    }
}
