//! Keys and signatures that look like others.

use std::fmt::Write as _;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use harness::tokens::issuer::Issuer;
use harness::tokens::signing::{Private, decoded, encoded, hmac_token};
use longhaul_core::settings::table;
use longhaul_http::Identify;
use serde_json::{Value, json};

use super::forged::{RSA_1024, RSA_2048, RSA_MESSAGE};
use crate::far::Far;
use crate::world::{World, header, request};

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
