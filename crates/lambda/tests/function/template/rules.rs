//! Which parameters the template refuses together, before anything is deployed.

use serde_json::Value;

use super::resolve::Stack;
use super::{ISSUER, TEMPLATE};

#[test]
fn every_way_to_log_in_has_what_it_needs() {
    let refusals = |parameters: &[_]| Stack::new(&TEMPLATE, parameters).refusals();
    let issuer = ("OAuthIssuers", ISSUER);
    let audience = ("OAuthAudiences", "https://mcp.example.com/mcp");
    let (http_api, gateway) = (("Endpoint", "http-api"), ("AuthMode", "gateway"));
    let webhooks = [("Push", "on"), ("Webhooks", "{}"), ("SecretArns", "arn:aws:ssm:eu-west-1:1:parameter/a")];
    for accepted in [
        &[][..],
        &[http_api],
        &[("AuthMode", "anonymous")],
        &[("AuthMode", "oauth"), issuer],
        &[("AuthMode", "oauth"), issuer, http_api],
        &[gateway, issuer, audience, http_api],
        &webhooks[..1],
        &webhooks,
    ] {
        assert_eq!(refusals(accepted), Vec::<String>::new(), "{accepted:?}");
    }
    for (refused, said) in [
        (&[("AuthMode", "oauth")][..], "OAuthIssuers"),
        (&[gateway, audience, http_api], "OAuthIssuers"),
        (&[gateway, issuer, http_api], "OAuthAudiences"),
        (&[gateway, issuer, audience], "Endpoint=http-api"),
        (&webhooks[1..], "Push=on"),
        (&webhooks[..2], "SecretArns"),
    ] {
        let said_about_it = refusals(refused);
        assert!(said_about_it.len() == 1 && said_about_it[0].contains(said), "{refused:?}: {said_about_it:?}");
    }
}

/// CloudFormation takes no more functions here than these, and no conditions of the template.
#[test]
fn rules_use_only_what_rules_may_use() {
    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.keys().filter(|name| name.starts_with("Fn::") || *name == "Condition").cloned());
                fields.values().for_each(|field| names(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    names(&TEMPLATE["Rules"], &mut found);
    for name in found {
        assert!(["Fn::And", "Fn::Contains", "Fn::Equals", "Fn::Not", "Fn::Or"].contains(&name.as_str()), "{name}");
    }
}
