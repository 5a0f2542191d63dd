//! The endpoints of the template: what a REST API serves, domain names, the firewall, and what pages may do.

use std::collections::BTreeSet;

use longhaul_http::cors;
use serde_json::{Value, json};

use super::resolve::{Stack, text};
use super::{TEMPLATE, hold};

const REST: (&str, &str) = ("Endpoint", "rest-api");
const CERTIFICATE: &str = "arn:aws:acm:us-east-1:111122223333:certificate/11111111-2222-3333-4444-555555555555";
const DOMAIN: (&str, &str) = (
    "DomainAndCertificate",
    "mcp.example.com,arn:aws:acm:us-east-1:111122223333:certificate/11111111-2222-3333-4444-555555555555",
);
const WEB_ACL: (&str, &str) =
    ("WebAclArn", "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/longhaul/11111111-2222-3333-4444-555555555555");

/// One method of one path of the REST API, as its name and its definition.
fn operations(stack: &Stack<'_>) -> Vec<(String, Value)> {
    let body = stack.resource("RestApi").unwrap()["DefinitionBody"].clone();
    let paths = body["paths"].as_object().unwrap().clone();
    let of = |(path, methods): (String, Value)| {
        let named = move |(method, operation): (&String, &Value)| {
            (format!("{}{path}", method.to_uppercase()), operation.clone())
        };
        methods.as_object().unwrap().iter().map(named).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of).collect()
}

#[test]
fn a_rest_api_streams_for_as_long_as_a_function_runs_or_sends_whole_answers() {
    let stream = "2021-11-15/functions/${Api.Arn}/response-streaming-invocations";
    let whole = "2015-03-31/functions/${Api.Arn}/invocations";
    for (endpoint, mode, call, timeout_ms) in
        [("rest-api", "STREAM", stream, 900_000), ("rest-api-buffered", "BUFFERED", whole, 29_000)]
    {
        let stack = Stack::new(&TEMPLATE, &[("Endpoint", endpoint)]);
        for (name, operation) in operations(&stack) {
            let integration = &operation["x-amazon-apigateway-integration"];
            // The function has one form of answer, so all of its methods have to expect the same.
            assert_eq!(integration["responseTransferMode"], mode, "{name}");
            assert!(text(&integration["uri"]["Fn::Sub"]).ends_with(&format!(":lambda:path/{call}")), "{name}");
            assert_eq!(integration["timeoutInMillis"], timeout_ms, "{name}");
            assert_eq!((&integration["type"], &integration["httpMethod"]), (&json!("aws_proxy"), &json!("POST")));
        }
    }
    let function = Stack::new(&TEMPLATE, &[REST, ("ApiTimeoutSeconds", "900")]).resource("Api").unwrap();
    assert_eq!(text(&function["Timeout"]), "900");
}

#[test]
fn a_rest_api_wants_signatures_except_for_what_cannot_be_signed() {
    let names = |parameters: &[_], is_open: bool| {
        let all = operations(&Stack::new(&TEMPLATE, parameters));
        let open = |operation: &Value| operation["security"].as_array().unwrap().is_empty();
        all.into_iter()
            .filter(|(_, operation)| open(operation) == is_open)
            .map(|(name, _)| name)
            .collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let signed = set(&["DELETE/mcp", "GET/healthz", "GET/mcp", "POST/callbacks/{token}", "POST/mcp"]);
    let open = set(&["GET/.well-known/{proxy+}", "OPTIONS/.well-known/{proxy+}", "OPTIONS/mcp"]);
    assert_eq!((names(&[REST], false), names(&[REST], true)), (signed.clone(), open));
    assert!(names(&[REST, ("AuthMode", "anonymous")], false).is_empty());

    let stack = Stack::new(&TEMPLATE, &[REST]);
    let policy = stack.resource("CallerPolicy").unwrap();
    let [statement]: [Value; 1] = policy["PolicyDocument"]["Statement"].as_array().unwrap().clone().try_into().unwrap();
    assert_eq!(statement["Action"], "execute-api:Invoke");
    let named =
        |resource: &Value| text(&resource["Fn::Sub"]).split_once("${RestApi}/prod/").unwrap().1.replace('*', "{token}");
    let allowed: BTreeSet<_> = statement["Resource"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(allowed, signed);
    assert_eq!(stack.resource("RestApi").unwrap()["StageName"], "prod");
}

#[test]
fn with_a_domain_name_an_api_has_no_other_name() {
    let certificate = json!([{"EndpointType": "REGIONAL", "CertificateArn": CERTIFICATE, "SecurityPolicy": "TLS_1_2"}]);
    for (endpoint, api, mapping, other) in [
        ("http-api", "HttpApi", "HttpApiOfDomain", "RestApiOfDomain"),
        ("rest-api", "RestApi", "RestApiOfDomain", "HttpApiOfDomain"),
    ] {
        let alone = [("Endpoint", endpoint)];
        let named = [DOMAIN, alone[0]];
        hold(&[
            ("no other name", &named, api, json!({"DisableExecuteApiEndpoint": true})),
            ("its certificate", &named, "Domain/DomainNameConfigurations", certificate.clone()),
            ("its API", &named, mapping, json!({"ApiId": api})),
            ("no other API", &named, other, json!(null)),
            ("its name", &named, "Domain/DomainName", json!("mcp.example.com")),
            ("no domain", &alone, api, json!({"DisableExecuteApiEndpoint": false})),
            ("no domain", &alone, "Domain", json!(null)),
        ]);
    }
    let url = &TEMPLATE["Outputs"]["McpUrl"]["Value"]["Fn::If"];
    assert_eq!((&url[0], &url[1]["Fn::Sub"][0]), (&json!("HasDomain"), &json!("https://${Name}/mcp")));
}

#[test]
fn a_rest_api_is_limited_and_guarded() {
    let throttled =
        json!([{"ResourcePath": "/*", "HttpMethod": "*", "ThrottlingRateLimit": 500, "ThrottlingBurstLimit": 1_000}]);
    let invokes = json!({"Action": "lambda:InvokeFunction", "Principal": "apigateway.amazonaws.com"});
    let stage = json!("arn:${AWS::Partition}:apigateway:${AWS::Region}::/restapis/${RestApi}/stages/${RestApi.Stage}");
    hold(&[
        ("how often it is called", &[REST], "RestApi/MethodSettings", throttled),
        ("a changed parameter reaches the stage", &[REST], "RestApi/AlwaysDeploy", json!(true)),
        ("SAM would make a second stage", &[REST], "RestApi/OpenApiVersion", json!("2.0")),
        ("it may invoke the function", &[REST], "RestApiMayInvoke", invokes),
        ("a firewall", &[REST, WEB_ACL], "RestApiFirewall/WebACLArn", json!(WEB_ACL.1)),
        ("in front of the stage", &[REST, WEB_ACL], "RestApiFirewall/ResourceArn/Fn::Sub", stage),
        ("no firewall", &[REST], "RestApiFirewall", json!(null)),
    ]);
    let stack = Stack::new(&TEMPLATE, &[REST]);
    let source = stack.resource("RestApiMayInvoke").unwrap()["SourceArn"]["Fn::Sub"].clone();
    assert!(text(&source).ends_with(":${RestApi}/*"), "no other API: {source}");
}

#[test]
fn combinations_that_cannot_work_are_refused_with_what_to_do() {
    let refusals = |parameters: &[_]| Stack::new(&TEMPLATE, parameters).refusals();
    for endpoint in ["function-url", "function-url-buffered", "http-api", "rest-api", "rest-api-buffered"] {
        assert_eq!(refusals(&[("Endpoint", endpoint)]), Vec::<String>::new());
    }
    for endpoint in ["http-api", "rest-api", "rest-api-buffered"] {
        assert_eq!(refusals(&[DOMAIN, ("Endpoint", endpoint)]), Vec::<String>::new());
    }
    assert_eq!(refusals(&[REST, WEB_ACL]), Vec::<String>::new());
    for (parameters, says) in [
        (vec![DOMAIN], "CloudFront"),
        (vec![DOMAIN, ("Endpoint", "function-url-buffered")], "CloudFront"),
        (vec![WEB_ACL], "CloudFront"),
        (vec![WEB_ACL, ("Endpoint", "http-api")], "Endpoint=rest-api"),
    ] {
        let said = refusals(&parameters);
        assert!(said.len() == 1 && said[0].contains(says), "{parameters:?}: {said:?}");
    }
}

#[test]
fn every_endpoint_lets_pages_do_the_same() {
    let words = |list: &str| list.split(", ").map(str::to_owned).collect::<Vec<_>>();
    for (endpoint, resource, cors_of) in
        [("function-url", "ApiUrl", "Cors"), ("http-api", "HttpApi", "CorsConfiguration")]
    {
        let parameters = [("Endpoint", endpoint), ("AllowOrigins", "https://app.example.com")];
        let said = Stack::new(&TEMPLATE, &parameters).resource(resource).unwrap()[cors_of].clone();
        assert_eq!(said["AllowMethods"], json!(words(cors::PAGE_METHODS)), "{endpoint}");
        assert_eq!(said["AllowHeaders"], json!(words(&format!("{}, *", cors::PAGE_HEADERS))), "{endpoint}");
        assert_eq!(said["ExposeHeaders"], json!(words(cors::READABLE_HEADERS)), "{endpoint}");
        assert_eq!(text(&said["MaxAge"]), cors::MAX_AGE_S, "{endpoint}");
    }
    // A page may also read the answers of a REST API itself.
    let body = Stack::new(&TEMPLATE, &[REST]).resource("RestApi").unwrap()["DefinitionBody"].clone();
    for kind in ["DEFAULT_4XX", "DEFAULT_5XX"] {
        let headers = &body["x-amazon-apigateway-gateway-responses"][kind]["responseParameters"];
        assert_eq!(headers["gatewayresponse.header.Access-Control-Allow-Origin"], "'*'");
    }
}

/// The host of the end-to-end tests imitates this, in `crates/harness/src/runtime_host/front_door.rs`.
#[test]
fn a_challenge_keeps_its_name_where_api_gateway_lets_it() {
    let oauth = ("AuthMode", "oauth");
    let http_api = Stack::new(&TEMPLATE, &[oauth, ("Endpoint", "http-api")]);
    let mapping = json!({"ResponseParameters": [{
        "Destination": "overwrite:header.www-authenticate",
        "Source": "$response.header.x-longhaul-www-authenticate",
    }]});
    let mapped = http_api.resource("HttpApiIntegration").unwrap()["ResponseParameters"].clone();
    assert_eq!(mapped, json!({"401": mapping, "403": mapping}));
    assert_eq!(http_api.resource("HttpApiMetadata").unwrap()["AuthorizationType"], "NONE");

    let rest_api = Stack::new(&TEMPLATE, &[oauth, REST, DOMAIN]);
    let definition = &rest_api.resource("RestApi").unwrap()["DefinitionBody"];
    let answered = &definition["x-amazon-apigateway-gateway-responses"]["BAD_REQUEST_PARAMETERS"];
    assert_eq!(answered["statusCode"], "401");
    let challenge = &answered["responseParameters"]["gatewayresponse.header.WWW-Authenticate"]["Fn::Sub"];
    let metadata = "https://${Name}/.well-known/oauth-protected-resource/mcp";
    assert_eq!(challenge[0], format!("'Bearer resource_metadata=\"{metadata}\"'"));
    assert_eq!(challenge[1]["Name"], "mcp.example.com");
    for (name, operation) in operations(&rest_api) {
        let needs_token = name.ends_with("/mcp") && !name.starts_with("OPTIONS");
        let needed = json!([{"in": "header", "name": "Authorization", "type": "string", "required": true}]);
        assert_eq!(operation.get("parameters"), needs_token.then_some(&needed), "{name}");
        let validator = operation["x-amazon-apigateway-request-validator"].as_str();
        assert_eq!(validator, needs_token.then_some("parameters"), "{name}");
    }
    // In no other case does the gateway look for a token.
    for parameters in [[REST].as_slice(), &[[oauth, REST].as_slice()].concat()] {
        let all = operations(&Stack::new(&TEMPLATE, parameters));
        assert!(all.iter().all(|(_, operation)| operation.get("parameters").is_none()), "{parameters:?}");
    }
}
