//! Tokens that are wrong in one place only: signed by the issuer's own key, or as a forger would have them.

use std::fmt::Write as _;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use harness::tokens::issuer::Issuer;
use harness::tokens::signing::{Private, decoded, encoded, hmac_token};
use http::{Request, StatusCode};
use longhaul_http::Identify;
use longhaul_settings::table;
use serde_json::{Value, json};

use crate::far::Far;
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

fn pem(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in BASE64_STANDARD.encode(der).as_bytes().chunks(64) {
        writeln!(text, "{}", str::from_utf8(line).unwrap()).unwrap();
    }
    text + &format!("-----END {label}-----\n")
}

/// All that a verifier which believes `alg` might take for the secret of an HMAC.
#[tokio::test]
async fn no_form_of_the_public_key_is_a_secret() {
    let world = World::new().await;
    let rsa = Private::of("RS256");
    let Private::Rsa(pair) = &rsa else { panic!("it is an RSA key") };
    let spki = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap().as_ref().to_vec();
    let jwk = rsa.jwk("1");
    let (spki_pem, pkcs1_pem) = (pem("PUBLIC KEY", &spki), pem("RSA PUBLIC KEY", &rsa.public()));
    let secrets = [
        spki_pem.trim_end().as_bytes(),
        spki_pem.as_bytes(),
        pkcs1_pem.as_bytes(),
        &spki,
        &rsa.public(),
        jwk.to_string().as_bytes(),
        json!({"keys": [jwk]}).to_string().as_bytes(),
        jwk["n"].as_str().unwrap().as_bytes(),
        &decoded(jwk["n"].as_str().unwrap()),
    ]
    .map(<[u8]>::to_vec);
    for stated in [json!("RS256"), json!("HS256"), Value::Null] {
        let mut published = jwk.clone();
        published["alg"] = stated;
        world.issuer.publish(&[published]);
        world.clock.advance_ms(600_000);
        let all = secrets.iter().flat_map(|secret| ["HS256", "RS256", "hs256"].map(|algorithm| (secret, algorithm)));
        for (secret, algorithm) in all {
            let token = hmac_token(&json!({"alg": algorithm, "kid": "1"}), &world.claims(), secret);
            assert!(!world.accepts(&token).await, "{algorithm}");
        }
    }
}

#[tokio::test]
async fn a_key_id_names_one_key_of_one_issuer() {
    let other = Issuer::start().await;
    let world = World::with(|values| {
        let issuers = values.find(&table::OAUTH_ISSUER).unwrap().unwrap();
        values.set(&table::OAUTH_ISSUER, &[issuers, vec![other.name.clone()]].concat());
    })
    .await;
    let (second, foreign) = (Private::ed(), Private::ed());
    world.issuer.publish(&[world.key.jwk("1"), second.jwk("2")]);
    other.publish(&[foreign.jwk("foreign")]);
    let of_other = foreign.token(&header("foreign"), &world.claims_with(&json!({"iss": other.name})));
    assert!(world.accepts(&of_other).await && world.accepts(&world.token()).await);
    let long = "1".repeat(400);
    for id in ["2", "foreign", "", "01", "1 ", " 1", "../1", "1\u{0}", "' OR 1=1", "*", long.as_str()] {
        assert!(!world.accepts(&world.key.token(&header(id), &world.claims())).await, "{id:?}");
    }
    for id in ["1", "foreign", "2"] {
        assert!(!world.accepts(&foreign.token(&header(id), &world.claims())).await, "{id:?}");
    }
    for id in [json!(null), json!(1), json!(["1"]), json!({"kid": "1"})] {
        let head = json!({"alg": "EdDSA", "kid": id});
        assert!(!world.accepts(&world.key.token(&head, &world.claims())).await, "{id}");
    }
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

/// RFC 7518, section 3.4: the two numbers one after the other, each of full length, not in DER.
#[tokio::test]
async fn signatures_have_one_form() {
    let world = World::new().await;
    let of_length = [("ES256", 64), ("ES384", 96), ("ES512", 132), ("EdDSA", 64), ("RS256", 256), ("PS256", 256)];
    for (algorithm, bytes) in of_length {
        let key = Private::of(algorithm);
        world.issuer.publish(&[key.jwk("1")]);
        world.clock.advance_ms(600_000);
        let token = key.token(&json!({"alg": algorithm, "kid": "1"}), &world.claims());
        assert!(world.accepts(&token).await, "{algorithm}");
        let (message, signature) = token.rsplit_once('.').unwrap();
        let signature = decoded(signature);
        assert_eq!(signature.len(), bytes, "{algorithm}");
        let mut wrong = vec![
            Vec::new(),
            vec![0],
            // Accepted by verifiers that forget to check the range of the numbers.
            vec![0; bytes],
            vec![0xff; bytes],
            signature[1..].to_vec(),
            signature[..bytes - 1].to_vec(),
            [&signature[..], &[0]].concat(),
            [&[0], &signature[..]].concat(),
            signature.repeat(2),
        ];
        if algorithm.starts_with("ES") {
            wrong.push(in_der(&signature));
            wrong.push([&signature[bytes / 2..], &signature[..bytes / 2]].concat());
        }
        for signature in wrong {
            let token = format!("{message}.{}", encoded(&signature));
            assert!(!world.accepts(&token).await, "{algorithm} {signature:?}");
        }
    }
}

/// An ECDSA signature as X.509 has it.
fn in_der(signature: &[u8]) -> Vec<u8> {
    let tagged = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        let head = if length < 128 { vec![tag, length] } else { vec![tag, 0x81, length] };
        [&head, content].concat()
    };
    let integer = |number: &[u8]| {
        let mut number: Vec<u8> = number.iter().copied().skip_while(|byte| *byte == 0).collect();
        if number.first().is_some_and(|byte| byte & 0x80 != 0) {
            number.insert(0, 0);
        }
        tagged(2, &number)
    };
    let (r, s) = signature.split_at(signature.len() / 2);
    tagged(0x30, &[integer(r), integer(s)].concat())
}

const RSA_MESSAGE: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.\
     eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUuY29tIiwiYXVkIjoiaHR0cHM6Ly9tY3AuZXhhbXBsZS5jb20vbWNwIiwic3ViIjoi\
     YW5uIiwiZXhwIjo5OTk5OTk5OTk5fQ";

/// Made by OpenSSL: the modulus of a key of 1024 bits, and its signature of the message.
const RSA_1024: (&str, &str) = (
    "z7uKIFK5nsAaeYcb0t52bRg5BXK7m0iaL4ix2AaKybEK82TbaZSQae9-zGyXvgJoSIfhYRnvCtNXCkESUJsy2mNa2g3dx6MO\
     ohWTZcEtyVtQtJcSdQrMhA3wv3IwfYFiAqb9sy8C1gmELUNOA75JxUfciyOre6NEIR3_OINnhKU",
    "FPXkhhOl7WJlOuBlZRPCkf8m6bSIZRpPrXBLFsnDVjizT99AkYWAYJBPt4Dg3GMKK47jNR-txFjD80-mbK-KhetVsItUbt_s\
     K54rqhB13IC2zFjym8BmCjqMfkslT0f8s9A1o8XOAG_sYHaVUgqFoJ8ViI7p8oxES0JfJmFqxm4",
);

/// The same with 2048 bits.
const RSA_2048: (&str, &str) = (
    "ogaUAq19WOHUTsVKhjY4ZDhwCYly4dBR2CaJ9jir6TRhhurlwWZbgVrU21m6Mzcd3cwOt9QNw4WxO8rdv1gYvfg-CFg5Z9_s\
     08X0rhoH9WMNfAu-vUCxERJJ6kOkWj4oocKP3j3I_3WguaTecIrmskmQZrKqcdmZwdncSM2Ft644dVy8WI7cVRUKr0s-Vj9T\
     kAT2s8-Y7efuJjiUkiFt3Vbn4_oAgF4ATwiFkGtON6xt8dczySiwAW0RDfcYY3L2I-NVz1f1rmibs6OR0uf5zmWSRlaqJn43\
     GHCcFh_ZW29hY7NJHQxilfqRFEV21t03BR_qG7q-widJeFm57Vv_jQ",
    "WlHGCYM0-Q1Hbjh5MN4haVtTmn_UYAlm9dUSCmKVMu1IsYoWb1ywg9Rg3HAQmo0aaWRq2ParccK8dyXixbxPsJBVSUA6voPm\
     ZjMsvpnZv2l19cA18pl-M16pGu_72nGSgu1OB2xV-wUEFcZqTGDnTBHqXy7JWgfdq6bbmZcSWGC2ZaBKV4bwFLh1oOh8dOt9\
     VrI6_1OfhVgxjw2aTkyKgGWYJAn4mYg_hSH1GYgjxmk9Vyy8XbOkhBbnzwx91KOLPLSarA_2oN4grOBdTWs4T0gJYf11b-YO\
     UkNqgV2KSVqryHYYhsOnc_mTyjVIUOkJzT29gqV6PtFHilu8EKKgbQ",
);

#[tokio::test]
async fn a_short_rsa_key_verifies_nothing() {
    let padded = encoded([&[0; 128], &decoded(RSA_1024.0)[..]].concat());
    for (modulus, signature, accepted) in [
        (RSA_2048.0, RSA_2048.1, true),
        (RSA_1024.0, RSA_1024.1, false),
        (padded.as_str(), RSA_1024.1, false),
        (RSA_2048.0, RSA_1024.1, false),
    ] {
        let keys = json!({"keys": [{"kty": "RSA", "kid": "1", "n": modulus, "e": "AQAB"}]});
        let metadata = json!({"issuer": "https://id.example.com", "jwks_uri": "https://id.example.com/jwks"});
        let places = ["https://id.example.com/.well-known/oauth-authorization-server", "https://id.example.com/jwks"];
        let far = Far::with(places.map(str::to_owned).into_iter().zip([metadata, keys]));
        let token = format!("Bearer {RSA_MESSAGE}.{signature}");
        let identified = far.server("https://id.example.com").identify(&request(&[&token])).await;
        assert_eq!(identified.is_ok(), accepted, "{modulus}");
    }
}

/// With an exponent of 1 a signature is what it signs: anyone can write it.
#[tokio::test]
async fn an_rsa_key_that_signs_everything_verifies_nothing() {
    let world = World::new().await;
    let mut jwk = Private::of("RS256").jwk("1");
    for exponent in [&[1_u8][..], &[0, 0, 1], &[0], &[], &[2], &[0xff; 9]] {
        jwk["e"] = encoded(exponent).into();
        world.issuer.publish(std::slice::from_ref(&jwk));
        world.clock.advance_ms(600_000);
        let message = format!("{}.{}", encoded(r#"{"alg":"RS256","kid":"1"}"#), encoded(world.claims().to_string()));
        // EMSA-PKCS1-v1_5 (RFC 8017, section 9.2).
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, message.as_bytes());
        let info = [&decoded("MDEwDQYJYIZIAWUDBAIBBQAEIA")[..], digest.as_ref()].concat();
        let padding = vec![0xff; 256 - 3 - info.len()];
        let signature = [&[0, 1], &padding[..], &[0], &info[..]].concat();
        let token = format!("{message}.{}", encoded(signature));
        assert!(!world.accepts(&token).await, "{exponent:?}");
    }
}

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
