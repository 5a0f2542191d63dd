//! The certificate authorities that a function trusts when it calls AWS.

use aws_smithy_http_client::tls::TrustStore;

/// The authorities of [Amazon Trust Services], which sign the certificates of AWS's endpoints.
///
/// [Amazon Trust Services]: https://www.amazontrust.com/repository/
const AMAZON: &str = include_str!("roots.pem");

/// Beginnings of regions whose endpoints may have certificates of other authorities.
const OTHER_PARTITIONS: [&str; 4] = ["cn-", "eu-iso", "eusc-", "us-iso"];

/// Variables that name another endpoint of a service that Longhaul calls.
const ENDPOINTS: [&str; 6] = [
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_ENDPOINT_URL_SQS",
    "AWS_ENDPOINT_URL_SSM",
    "AWS_ENDPOINT_URL_SECRETS_MANAGER",
    "AWS_ENDPOINT_URL_EVENTBRIDGE",
];

/// The authorities for the endpoints of these variables.
///
/// Most functions trust Amazon's authorities only: reading the more than a hundred of the system takes most of a
/// function's start. In three cases they have those of the system. An operator names others (`SSL_CERT_FILE`,
/// `SSL_CERT_DIR`). An endpoint over TLS is set (`AWS_ENDPOINT_URL` and those of the services). The region is in
/// another partition than `aws` and `aws-us-gov`.
pub(crate) fn of_function(set: impl Fn(&str) -> Option<String>) -> TrustStore {
    let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")).unwrap_or_default();
    let is_elsewhere = OTHER_PARTITIONS.iter().any(|beginning| region.starts_with(beginning));
    let has_own_endpoint = ENDPOINTS.iter().any(|name| set(name).is_some_and(|url| url.starts_with("https:")));
    let names_others = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| set(name).is_some());
    if is_elsewhere || has_own_endpoint || names_others {
        TrustStore::default()
    } else {
        TrustStore::empty().with_pem_certificate(AMAZON)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    fn certificates() -> Vec<Vec<u8>> {
        let text = AMAZON.replace("-----END CERTIFICATE-----", "");
        let bodies = text.split("-----BEGIN CERTIFICATE-----").skip(1);
        bodies.map(|body| BASE64_STANDARD.decode(body.split_whitespace().collect::<String>()).unwrap()).collect()
    }

    /// Mozilla removes an authority that is not to be trusted any more.
    #[test]
    fn every_root_is_one_that_mozilla_trusts() {
        let certificates = certificates();
        assert_eq!(certificates.len(), 5);
        for certificate in certificates {
            assert!(webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().any(|known| **known == *certificate));
        }
    }

    #[test]
    fn other_partitions_proxies_and_endpoints_have_the_roots_of_the_system() {
        let trusted = |variables: &'static [(&str, &str)]| {
            let store = of_function(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            });
            format!("{store:?}").contains("enable_native_roots: true")
        };
        assert!(!trusted(&[("AWS_REGION", "eu-north-1")]) && !trusted(&[("AWS_REGION", "us-gov-west-1")]));
        assert!(!trusted(&[("AWS_REGION", "us-east-1"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]));
        assert!(trusted(&[("AWS_REGION", "cn-north-1")]) && trusted(&[("AWS_DEFAULT_REGION", "us-isob-east-1")]));
        assert!(trusted(&[("AWS_REGION", "us-east-1"), ("AWS_ENDPOINT_URL_SQS", "https://sqs.example.com")]));
        assert!(trusted(&[("AWS_REGION", "us-east-1"), ("AWS_ENDPOINT_URL_SSM", "https://ssm.example.com")]));
        assert!(trusted(&[("AWS_REGION", "us-east-1"), ("SSL_CERT_FILE", "/opt/ca.pem")]));
    }
}
