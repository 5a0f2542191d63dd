//! Signatures for servers that AWS lets callers into: function URLs and API Gateway (SigV4).

use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::ProvideCredentials;
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use futures::future::BoxFuture;
use longhaul_client::{Challenge, Credentials, Error, with_causes};
use reqwest::Request;
use reqwest::header::{HeaderName, HeaderValue};
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use crate::clock;

/// Keys that expire so soon are not used any more.
const EXPIRES_SOON: Duration = Duration::from_secs(60);

/// The services whose names are in host names.
const SERVICES: [(&str, &str); 2] = [("lambda-url", "lambda"), ("execute-api", "execute-api")];

/// The word that leaves the service and the region to the host name.
const AUTO: &str = "auto";

/// For whom a request is signed.
#[derive(Debug, PartialEq, Eq)]
struct Scope {
    service: String,
    /// `None`: that of the AWS configuration.
    region: Option<String>,
}

impl Scope {
    /// What the user said, and what the host name says where the user did not.
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
                     --aws-sign=execute-api/REGION, or without \
                 the region for that of the AWS configuration"
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

/// Signs each request with what the AWS configuration of this user and process has: variables, profiles, single
/// sign-on, processes, web identities, containers, instances.
pub(crate) struct AwsSignature {
    scope: Scope,
    config: OnceCell<SdkConfig>,
    keys: Mutex<Option<Keys>>,
}

impl AwsSignature {
    /// For a server. `wanted` is what the user said about the service and the region.
    pub(crate) fn of(url: &Url, wanted: &str) -> Result<Self, String> {
        Ok(Self { scope: Scope::of(url, wanted)?, config: OnceCell::new(), keys: Mutex::new(None) })
    }

    async fn config(&self) -> &SdkConfig {
        let https = || Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
        self.config.get_or_init(|| aws_config::defaults(BehaviorVersion::latest()).http_client(https()).load()).await
    }

    /// The keys that were used last, unless they expire soon.
    async fn keys(&self) -> Result<Keys, Error> {
        let mut kept = self.keys.lock().await;
        let soon = clock::system_time() + EXPIRES_SOON;
        if let Some(keys) = kept.as_ref().filter(|keys| keys.expiry().is_none_or(|expiry| expiry > soon)) {
            return Ok(keys.clone());
        }
        let keys = self.load().await?;
        *kept = Some(keys.clone());
        Ok(keys)
    }

    async fn load(&self) -> Result<Keys, Error> {
        let none = |why: &str| Error::NoCredentials(format!("there are no AWS credentials to sign with: {why}"));
        let provider = self.config().await.credentials_provider();
        let provider = provider.ok_or_else(|| none("none are configured"))?;
        provider.provide_credentials().await.map_err(|error| none(&with_causes(&error)))
    }

    async fn sign(&self, request: &mut Request) -> Result<(), Error> {
        let keys = self.keys().await?;
        let region = match &self.scope.region {
            Some(region) => region.clone(),
            None => self.config().await.region().map(ToString::to_string).ok_or_else(|| {
                Error::NoCredentials("the AWS configuration has no region to sign for: --aws-sign=REGION".to_owned())
            })?,
        };
        let signed = signed(request, &keys, &self.scope.service, &region);
        for (name, value) in signed.map_err(|why| Error::Unexpected(format!("no request can be signed: {why}")))? {
            request.headers_mut().insert(name, value);
        }
        Ok(())
    }
}

impl Credentials for AwsSignature {
    fn add<'a>(&'a self, request: &'a mut Request) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(self.sign(request))
    }

    /// Worth it if there are other keys by now: a user who signs in elsewhere changes them.
    fn renew<'a>(&'a self, _challenge: &'a Challenge<'a>) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(async {
            let mut kept = self.keys.lock().await;
            let loaded = self.load().await?;
            let are_new = kept.as_ref().is_none_or(|keys| keys.access_key_id() != loaded.access_key_id());
            *kept = Some(loaded);
            Ok(are_new)
        })
    }
}

type Signed = Vec<(HeaderName, HeaderValue)>;

/// The headers that a signed request has more: they sign its method, URL, other headers and body.
fn signed(
    request: &Request,
    keys: &Keys,
    service: &str,
    region: &str,
) -> Result<Signed, Box<dyn std::error::Error + Send + Sync>> {
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let identity = keys.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(clock::system_time())
        .settings(settings)
        .build()?
        .into();
    let headers: Vec<(&str, &str)> = request
        .headers()
        .iter()
        .map(|(name, value)| Ok((name.as_str(), value.to_str()?)))
        .collect::<Result<_, reqwest::header::ToStrError>>()?;
    let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
    let signable = SignableRequest::new(
        request.method().as_str(),
        request.url().as_str(),
        headers.into_iter(),
        SignableBody::Bytes(body),
    )?;
    let (instructions, _signature) = sign(signable, &params)?.into_parts();
    let (headers, _query) = instructions.into_parts();
    let mut all = Signed::new();
    for header in headers {
        let mut value = HeaderValue::from_str(header.value())?;
        value.set_sensitive(true);
        all.push((header.name().parse()?, value));
    }
    Ok(all)
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
