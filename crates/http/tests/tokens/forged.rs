//! Tokens that are wrong in one place only: signed by the issuer's own key, or as a forger would have them.

use harness::tokens::signing::encoded;
use http::{Request, StatusCode};
use longhaul_http::Identify;
use serde_json::{Value, json};

use crate::world::{AUDIENCE, Refused, World, header, request};

/// A token whose first two parts are this text, well signed.
fn signed(world: &World, message: &str) -> String {
    format!("{message}.{}", encoded(world.key.sign("EdDSA", message.as_bytes())))
}

/// A good token with these members of the claims, a JSON text, before the others.
fn with_claims(world: &World, more: &str) -> String {
    let claims = world.claims().to_string().replacen('{', &format!("{{{more},"), 1);
    world.key.token_of(&header("1").to_string(), &claims)
}

/// A good token with these members of the header, a JSON text, before the others.
fn with_header(world: &World, more: &str) -> String {
    let header = header("1").to_string().replacen('{', &format!("{{{more},"), 1);
    signed(world, &format!("{}.{}", encoded(header), encoded(world.claims().to_string())))
}

#[tokio::test]
async fn the_algorithm_is_one_text() {
    let world = World::new().await;
    for algorithm in [json!(null), json!(["EdDSA"]), json!({"EdDSA": 1}), json!(1), json!("EdDSA,none"), json!("HS512")]
    {
        let head = json!({"alg": algorithm, "kid": "1"});
        assert!(!world.accepts(&world.key.token(&head, &world.claims())).await, "{algorithm}");
    }
    let head = json!({"kid": "1"});
    assert!(!world.accepts(&world.key.token(&head, &world.claims())).await, "without any");
}

/// RFC 7519, section 4: two readers could disagree about which of them holds.
#[tokio::test]
async fn each_member_is_there_once() {
    let world = World::new().await;
    for more in [
        format!(r#""iss":"{}""#, world.issuer.name),
        r#""iss":"https://other.example.com""#.to_owned(),
        format!(r#""aud":"{AUDIENCE}""#),
        r#""aud":"https://other.example.com""#.to_owned(),
        r#""exp":1"#.to_owned(),
        r#""sub":"ann""#.to_owned(),
        r#""s\u0075b":"root""#.to_owned(),
        r#""scope":"admin""#.to_owned(),
        r#""x":1,"x":1"#.to_owned(),
    ] {
        assert!(!world.accepts(&with_claims(&world, &more)).await, "{more}");
    }
    for more in [
        r#""alg":"EdDSA""#,
        r#""alg":"none""#,
        r#""\u0061lg":"EdDSA""#,
        r#""kid":"2""#,
        r#""typ":"JWT""#,
        r#""x":1,"x":1"#,
    ] {
        assert!(!world.accepts(&with_header(&world, more)).await, "{more}");
    }
    assert!(world.accepts(&with_header(&world, r#""x":1"#)).await);
    assert!(world.accepts(&with_claims(&world, r#""x":{"iss":1}"#)).await, "members of members mean nothing");
}

/// RFC 7519, section 2: a number of seconds, which may have a fraction.
#[tokio::test]
async fn an_expiry_is_a_number() {
    let world = World::new().await;
    let mut claims = world.claims();
    claims.as_object_mut().unwrap().remove("exp");
    let claims = claims.to_string();
    let later = world.now_s() + 60;
    for (exp, accepted) in [
        (later.to_string(), true),
        (format!("{later}.75"), true),
        ("1e11".to_owned(), true),
        ("99999999999.0E-1".to_owned(), true),
        (u64::MAX.to_string(), true),
        ("1e300".to_owned(), true),
        ("1e400".to_owned(), false),
        ("0".to_owned(), false),
        ("-0".to_owned(), false),
        ("-1".to_owned(), false),
        ("-1e300".to_owned(), false),
        ("1e-300".to_owned(), false),
        (format!("-{later}"), false),
        (format!("\"{later}\""), false),
        (format!("[{later}]"), false),
        (format!("{{\"exp\":{later}}}"), false),
        (format!("0{later}"), false),
        (format!("+{later}"), false),
        ("null".to_owned(), false),
        ("true".to_owned(), false),
        ("NaN".to_owned(), false),
        ("Infinity".to_owned(), false),
        ("\"\"".to_owned(), false),
    ] {
        let text = claims.replacen('{', &format!(r#"{{"exp":{exp},"#), 1);
        let token = world.key.token_of(&header("1").to_string(), &text);
        assert_eq!(world.accepts(&token).await, accepted, "{exp}");
    }
    assert!(!world.accepts(&world.key.token_of(&header("1").to_string(), &claims)).await, "without any");
    for more in [r#""nbf":null"#, r#""nbf":"1""#, r#""nbf":-1"#, r#""nbf":1e300"#] {
        assert!(!world.accepts(&with_claims(&world, more)).await, "{more}");
    }
}

#[tokio::test]
async fn an_audience_is_this_server_and_not_one_that_is_spelled_like_it() {
    let world = World::new().await;
    for (audience, accepted) in [
        (json!("https://mcp.example.com/mcp"), true),
        (json!("https://mcp.example.com/mcp/"), true),
        (json!("https://mcp.example.com:443/mcp"), true),
        (json!("HTTPS://MCP.EXAMPLE.COM/mcp"), true),
        (json!(["https://mcp.example.com/mcp"]), true),
        (json!(["a", "https://mcp.example.com/mcp", "b"]), true),
        (json!("https://mcp.example.com"), false),
        (json!("https://mcp.example.com/"), false),
        (json!("https://mcp.example.com/MCP"), false),
        (json!("https://mcp.example.com/mcp/x"), false),
        (json!("https://mcp.example.com/mcp/../mcp"), false),
        (json!("https://mcp.example.com/%6dcp"), false),
        (json!("https://mcp.example.com/mc"), false),
        (json!("https://mcp.example.com/mcpx"), false),
        (json!("https://mcp.example.com:8443/mcp"), false),
        (json!("https://mcp.example.com:443x/mcp"), false),
        (json!("https://mcp.example.com:65979/mcp"), false),
        (json!("https://mcp.example.com:/mcp"), false),
        (json!("http://mcp.example.com/mcp"), false),
        (json!("https://mcp.example.com./mcp"), false),
        (json!("https://mcp.example.com@evil.example.com/mcp"), false),
        (json!("https://mcp.example.com/mcp?x=1"), false),
        (json!("https://mcp.example.com/mcp#"), false),
        (json!("https://mcp.example.com/mcp https://other.example.com"), false),
        (json!("https://mcp.example.com/mcp,https://other.example.com"), false),
        (json!(" https://mcp.example.com/mcp"), false),
        (json!("https://mcp.example.com/mcp\u{0}"), false),
        (json!("mcp.example.com/mcp"), false),
        (json!("*"), false),
        (json!(""), false),
        (json!([["https://mcp.example.com/mcp"]]), false),
        (json!({"aud": "https://mcp.example.com/mcp"}), false),
        (json!(true), false),
    ] {
        assert_eq!(world.accepts(&world.token_with(&json!({"aud": audience}))).await, accepted, "{audience}");
    }
}

#[tokio::test]
async fn a_subject_is_a_name_that_a_log_can_show() {
    let world = World::new().await;
    let long = "x".repeat(512);
    for sub in ["ann", "auth0|5f7c8ec7c33c6c004bbafe82", "Ann Ex ünïcode", "0", long.as_str()] {
        assert!(world.accepts(&world.token_with(&json!({"sub": sub}))).await, "{sub}");
    }
    for sub in ["\u{0}", "ann\u{0}", "a\tb", "a\r\nb", "\u{1b}[2J", "\u{7f}", "\u{9b}2J", "\u{85}"] {
        assert!(!world.accepts(&world.token_with(&json!({"sub": sub}))).await, "{sub:?}");
    }
    for sub in [json!(true), json!(["ann"]), json!({"a": 1}), json!(1.5)] {
        assert!(!world.accepts(&world.token_with(&json!({"sub": sub}))).await, "{sub}");
    }
}

/// RFC 7515, section 2, and RFC 4648, section 3.5: there is one way to write bytes.
#[tokio::test]
async fn base64_has_one_form() {
    let world = World::new().await;
    // Both parts have characters in which the alphabets differ, and end within a character.
    let head = encoded(r#"{"alg":"EdDSA","kid":"1","x":"???>>>~~"}"#);
    let (_, claims) = (1..=3)
        .map(|more| (more, encoded(world.claims_with(&json!({"x": "???>>>~~~"})).to_string() + &" ".repeat(more))))
        .find(|(_, claims)| !claims.len().is_multiple_of(4))
        .unwrap();
    assert!(head.contains(['-', '_']) && claims.contains(['-', '_']), "{head} {claims}");
    let good = signed(&world, &format!("{head}.{claims}"));
    assert!(world.accepts(&good).await);
    let standard = |part: &str| part.replace('-', "+").replace('_', "/");
    for message in [
        format!("{}.{claims}", standard(&head)),
        format!("{head}.{}", standard(&claims)),
        format!("{head}=.{claims}"),
        format!("{head}.{claims}="),
        format!("{head}==.{claims}=="),
        format!("{head}.{claims} "),
        format!("{head} .{claims}"),
        format!("{}.{claims}", loosened(&head)),
        format!("{head}.{}", loosened(&claims)),
        format!("{head}%2E{claims}"),
    ] {
        assert!(!world.accepts(&signed(&world, &message)).await, "{message}");
    }
    let (message, signature) = good.rsplit_once('.').unwrap();
    for signature in [format!("{signature}="), format!("{signature}=="), loosened(signature)] {
        assert!(!world.accepts(&format!("{message}.{signature}")).await, "{signature}");
    }
}

/// The same bytes, with a bit set that belongs to none of them: a tolerant decoder drops it.
fn loosened(part: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    assert!(!part.len().is_multiple_of(4), "it has no such bit");
    let (rest, last) = part.split_at(part.len() - 1);
    let value = ALPHABET.find(last).unwrap();
    assert!(value.is_multiple_of(4), "these bits are set already");
    format!("{rest}{}", &ALPHABET[value + 1..value + 2])
}

#[tokio::test]
async fn a_json_text_is_one_object() {
    let world = World::new().await;
    let (head, claims) = (header("1").to_string(), world.claims().to_string());
    for (head, claims) in [
        (format!("\u{feff}{head}"), claims.clone()),
        (head.clone(), format!("\u{feff}{claims}")),
        (head.clone(), format!("{claims}{claims}")),
        (head.clone(), format!("{claims},")),
        (head.clone(), format!("[{claims}]")),
        (format!("[{head}]"), claims.clone()),
        (head.clone(), format!("{claims}\u{0}")),
        (head.clone(), claims.replace('"', "'")),
        (head.clone(), json!(claims).to_string()),
    ] {
        let message = format!("{}.{}", encoded(&head), encoded(&claims));
        assert!(!world.accepts(&signed(&world, &message)).await, "{head} {claims}");
    }
    let spaced = format!("{}.{}", encoded(format!(" {head}\n")), encoded(format!("\r\n{claims}\t")));
    assert!(world.accepts(&signed(&world, &spaced)).await, "whitespace around a JSON text means nothing");
}

/// Not a signed token inside of another one, nor an encrypted one, nor the JSON forms (RFC 7515, section 7.2).
#[tokio::test]
async fn only_the_compact_form_of_a_signature_is_a_token() {
    let world = World::new().await;
    let good = world.token();
    let [head, claims, signature] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let jwe = |head: Value| format!("{}.AAAA.{claims}.{signature}.AAAA", encoded(head.to_string()));
    let unencoded = encoded(r#"{"alg":"EdDSA","kid":"1","b64":false}"#);
    for token in [
        signed(&world, &format!("{}.{}", encoded(r#"{"alg":"EdDSA","kid":"1","cty":"JWT"}"#), encoded(&good))),
        jwe(json!({"alg": "RSA-OAEP", "enc": "A256GCM"})),
        jwe(json!({"alg": "dir", "enc": "A128CBC-HS256", "kid": "1", "cty": "JWT"})),
        jwe(header("1")),
        format!("{good}.{claims}.{signature}"),
        json!({"protected": head, "payload": claims, "signature": signature}).to_string(),
        json!({"payload": claims, "signatures": [{"protected": head, "signature": signature}]}).to_string(),
        format!("{head}..{signature}"),
        format!(".{claims}.{signature}"),
        // A detached payload, and one that is not encoded (RFC 7797).
        signed(&world, &format!("{head}.")),
        signed(&world, &format!("{unencoded}.{claims}")),
        signed(&world, &format!("{unencoded}.{}", world.claims())),
    ] {
        assert!(!world.accepts(&token).await, "{token}");
    }
}

pub(super) const RSA_MESSAGE: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.\
     eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cHM6Ly9tY3AuZXhhbXBsZS5jb20vbWNwIiwic3ViIjoi\
     YW5uIiwiZXhwIjo5OTk5OTk5OTk5fQ";

/// Made by OpenSSL: the modulus of a key of 1024 bits, and its signature of the message.
pub(super) const RSA_1024: (&str, &str) = (
    "z7uKIFK5nsAaeYcb0t52bRg5BXK7m0iaL4ix2AaKybEK82TbaZSQae9-zGyXvgJoSIfhYRnvCtNXCkESUJsy2mNa2g3dx6MO\
     ohWTZcEtyVtQtJcSdQrMhA3wv3IwfYFiAqb9sy8C1gmELUNOA75JxUfciyOre6NEIR3_OINnhKU",
    "FPXkhhOl7WJlOuBlZRPCkf8m6bSIZRpPrXBLFsnDVjizT99AkYWAYJBPt4Dg3GMKK47jNR-txFjD80-mbK-KhetVsItUbt_s\
     K54rqhB13IC2zFjym8BmCjqMfkslT0f8s9A1o8XOAG_sYHaVUgqFoJ8ViI7p8oxES0JfJmFqxm4",
);

/// The same with 2048 bits.
pub(super) const RSA_2048: (&str, &str) = (
    "ogaUAq19WOHUTsVKhjY4ZDhwCYly4dBR2CaJ9jir6TRhhurlwWZbgVrU21m6Mzcd3cwOt9QNw4WxO8rdv1gYvfg-CFg5Z9_s\
     08X0rhoH9WMNfAu-vUCxERJJ6kOkWj4oocKP3j3I_3WguaTecIrmskmQZrKqcdmZwdncSM2Ft644dVy8WI7cVRUKr0s-Vj9T\
     kAT2s8-Y7efuJjiUkiFt3Vbn4_oAgF4ATwiFkGtON6xt8dczySiwAW0RDfcYY3L2I-NVz1f1rmibs6OR0uf5zmWSRlaqJn43\
     GHCcFh_ZW29hY7NJHQxilfqRFEV21t03BR_qG7q-widJeFm57Vv_jQ",
    "WlHGCYM0-Q1Hbjh5MN4haVtTmn_UYAlm9dUSCmKVMu1IsYoWb1ywg9Rg3HAQmo0aaWRq2ParccK8dyXixbxPsJBVSUA6voPm\
     ZjMsvpnZv2l19cA18pl-M16pGu_72nGSgu1OB2xV-wUEFcZqTGDnTBHqXy7JWgfdq6bbmZcSWGC2ZaBKV4bwFLh1oOh8dOt9\
     VrI6_1OfhVgxjw2aTkyKgGWYJAn4mYg_hSH1GYgjxmk9Vyy8XbOkhBbnzwx91KOLPLSarA_2oN4grOBdTWs4T0gJYf11b-YO\
     UkNqgV2KSVqryHYYhsOnc_mTyjVIUOkJzT29gqV6PtFHilu8EKKgbQ",
);

/// They are signed with the keys of access tokens, and may be for the same audience.
#[tokio::test]
async fn tokens_of_other_kinds_let_nobody_in() {
    let world = World::new().await;
    for claims in [
        json!({"at_hash": "x"}),
        json!({"c_hash": "x"}),
        json!({"s_hash": "x"}),
        json!({"token_use": "id"}),
        json!({"typ": "ID"}),
        json!({"typ": "Refresh"}),
        json!({"typ": "Offline"}),
        json!({"typ": "Logout"}),
    ] {
        let fault = world.fault(&world.token_with(&claims)).await;
        assert!(fault.contains("is not an access token"), "{claims}: {fault}");
    }
    for claims in [json!({"token_use": "access"}), json!({"typ": "Bearer"}), json!({"nonce": "x"})] {
        assert!(world.accepts(&world.token_with(&claims)).await, "{claims}");
    }
}

/// RFC 6750, section 2.1. HTTP takes whitespace around the value away; the events of functions are not HTTP.
#[tokio::test]
async fn the_header_is_a_scheme_and_a_token() {
    let world = World::new().await;
    let token = world.token();
    for (value, accepted) in [
        (format!("Bearer {token}"), true),
        (format!("bEaReR {token}"), true),
        (format!("Bearer   {token}  "), true),
        (format!(" Bearer {token}"), false),
        (format!("Bearer\t{token}"), false),
        (format!("Bearer \t{token}"), false),
        (format!("Bearer {token}\t"), false),
        (format!("Bearer:{token}"), false),
        (format!("Bearer: {token}"), false),
        (format!("Bearer={token}"), false),
        (format!("Bearer{token}"), false),
        (format!("Bearer \"{token}\""), false),
        (format!("Bearer Bearer {token}"), false),
        (format!("Bearer {token} x"), false),
        (format!("Bearer {token},"), false),
        (format!("Bearer realm=x {token}"), false),
        (format!("DPoP {token}"), false),
        (format!("Token {token}"), false),
        (token.clone(), false),
    ] {
        assert_eq!(world.server.identify(&request(&[&value])).await.is_ok(), accepted, "{value:?}");
    }
    let good = format!("Bearer {token}");
    for twice in [[good.as_str(), good.as_str()], ["Basic YTpi", good.as_str()], [good.as_str(), ""]] {
        let refused = Refused::of(&world.server.identify(&request(&twice)).await.unwrap_err());
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }
    let beside = Request::post("/mcp?access_token=x").header("host", "mcp.example.com").header("authorization", &good);
    let beside = beside.body(()).unwrap().into_parts().0;
    assert!(world.server.identify(&beside).await.is_ok(), "what is in the query is not looked at");
}
