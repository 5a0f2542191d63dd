use super::*;

const ANN: &str = "annannannannannannannannannannannann";
const BOB: &str = "Bob0-._~+/bobbobbobbobbobbobbobbobbob==";

fn parse(text: &str) -> Result<BearerTokens, String> {
    BearerTokens::parse(text.as_bytes()).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    parse(text).map(|tokens| tokens.entries().len()).unwrap_err()
}

#[test]
fn each_token_has_its_caller() {
    let digest: String = Sha256::digest(BOB).iter().map(|byte| format!("{byte:02x}")).collect();
    let tokens = parse(&format!("# who may call\n\n  ann\t{ANN}\r\nbob sha256:{digest}  etl:run tasks#1\n")).unwrap();
    assert_eq!(tokens.entries().len(), 2);
    let ann = tokens.find(ANN).unwrap().principal();
    assert_eq!(
        (ann.identity.clone(), &ann.scopes),
        (Some(VerifiedIdentity::new("bearer", "ann")), &Scopes::Unrestricted)
    );
    let bob = tokens.find(BOB).unwrap().principal();
    assert_eq!(bob.scopes, Scopes::Granted(["etl:run".to_owned(), "tasks#1".to_owned()].into()));
    assert_ne!(ann.owner, bob.owner);
    for other in ["", "ann", &ANN[1..], &format!("{ANN}a"), &digest, &format!("sha256:{digest}"), &"a".repeat(600)] {
        assert_eq!(tokens.find(other), None, "{other}");
    }
}

#[test]
fn the_example_in_the_docs_is_a_file_of_tokens() {
    let page = include_str!("../../../../../docs/local-server.md");
    let (_, example) = page.split_once("```\n# name ").unwrap();
    let tokens = parse(&format!("# {}", example.split_once("```").unwrap().0)).unwrap();
    assert_eq!(tokens.entries().len(), 4);
    assert!(matches!(&tokens.entries[1].scopes, Scopes::Granted(scopes) if scopes.len() == 2));
}

#[test]
fn tokens_of_one_owner_share_its_tasks_and_keep_their_names_scopes_and_times() {
    let tokens = parse(&format!("laptop {ANN} owner=ann expires=2026-12-31 read\nann {BOB}")).unwrap();
    let (laptop, ann) = (tokens.find(ANN).unwrap(), tokens.find(BOB).unwrap());
    let (caller, other) = (laptop.principal(), ann.principal());
    assert_eq!((caller.owner, caller.scopes == other.scopes), (other.owner, false));
    let identity = caller.identity.unwrap();
    assert_eq!((identity.subject.as_str(), &identity.claims["token"]), ("ann", &"laptop".into()));
    let ends = time_of("2026-12-31T00:00:00Z").unwrap();
    assert_eq!((laptop.expires_at, ann.expires_at), (Some(ends), None));
    assert!(laptop.has_expired(ends) && !laptop.has_expired(ends.minus_ms(1)) && !ann.has_expired(ends));
}

#[test]
fn a_line_that_is_written_is_read_as_what_it_was() {
    let all = TokenEntry {
        name: "laptop".to_owned(),
        owner: "ann@example.com".to_owned(),
        scopes: Scopes::Granted(["call".to_owned(), "read".to_owned()].into()),
        expires_at: time_of("2027-01-02T03:04:05+01:00"),
    };
    let least = TokenEntry { owner: all.name.clone(), scopes: Scopes::Unrestricted, expires_at: None, ..all.clone() };
    for entry in [all, least] {
        let line = entry.line(ANN);
        assert!(!line.contains(ANN), "{line}");
        assert_eq!(parse(&line).unwrap().find(ANN), Some(&entry), "{line}");
    }
    for wrong in ["", "soon", "2026-12-31T00:00", "1969-12-31", "99999-01-01"] {
        assert_eq!(time_of(wrong), None, "{wrong}");
    }
}

#[test]
fn a_token_and_the_one_that_replaces_it_are_one_caller() {
    let tokens = parse(&format!("ann {ANN},{BOB}")).unwrap();
    assert_eq!(tokens.find(ANN).unwrap(), tokens.find(BOB).unwrap());
    assert_eq!(tokens.find(ANN), parse(&format!("ann {BOB}")).unwrap().find(BOB));
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_never_with_a_token() {
    let secret = "secretsecretsecretsecretsecretsecret";
    let long = |length: usize| "x".repeat(length);
    for (text, line, said) in [
        (format!("# ann\n{secret}!x {ANN}"), 2, "the name must have"),
        (format!("{} {secret}", long(65)), 1, "the name must have"),
        (secret.to_owned(), 1, "the token is missing"),
        (format!("ann {}", &secret[..31]), 1, "32 to 512 characters"),
        (format!("ann {}", long(513)), 1, "32 to 512 characters"),
        (format!("ann {secret}ä"), 1, "32 to 512 characters"),
        (format!("ann ={secret}"), 1, "32 to 512 characters"),
        (format!("ann {secret},"), 1, "32 to 512 characters"),
        (format!("ann sha256:{secret}"), 1, "64 hexadecimal digits"),
        (format!("ann {ANN},{BOB},{secret}"), 1, "more than 2 tokens"),
        (format!("ann {secret} a\"b"), 1, "a scope must have"),
        (format!("ann {secret} {}", long(129)), 1, "a scope must have"),
        (format!("ann {secret} # since May"), 1, "a line of its own"),
        (format!("ann {secret}\nann {BOB}"), 2, "the name of line 1"),
        (format!("ann {secret}\n\nbob {BOB},{secret}"), 3, "a token of line 1"),
        (format!("ann {secret},{secret}"), 1, "a token of line 1"),
        (format!("ann {secret} owner="), 1, "`owner=` must be"),
        (format!("ann {secret} owner=a/b"), 1, "`owner=` must be"),
        (format!("ann {secret} owner=a owner=a"), 1, "`owner=` must be"),
        (format!("ann {secret} expires=tomorrow"), 1, "`expires=` must be"),
        (format!("ann {secret} expires=2026-13-01"), 1, "`expires=` must be"),
        (format!("ann {secret} expires=2026-12-01 expires=2026-12-01"), 1, "`expires=` must be"),
    ] {
        let refused = refusal(&text);
        assert!(refused.starts_with(&format!("line {line}: ")) && refused.contains(said), "{refused}");
        assert!(!refused.contains("secret") && !refused.contains(ANN) && !refused.contains(BOB), "{refused}");
    }
    let many = (0..40).map(|scope| format!(" s{scope}")).collect::<String>();
    assert!(refusal(&format!("ann {ANN}{many}")).contains("more than 32 scopes"));
}

#[test]
fn all_wrong_lines_are_named_up_to_a_limit() {
    let refused = refusal(&"x\n".repeat(13));
    assert_eq!((refused.matches("line ").count(), refused.ends_with("; and 3 more")), (10, true), "{refused}");
}

#[test]
fn a_file_has_limits() {
    let lines = |count: usize| (0..count).map(|line| format!("n{line} {line:0>32}\n")).collect::<String>();
    assert_eq!(parse(&lines(LINES_MAX)).unwrap().entries().len(), LINES_MAX);
    assert!(refusal(&lines(LINES_MAX + 1)).contains("more than 1000 lines"));
    for nothing in ["", "\n\n"] {
        assert!(refusal(nothing).contains("it is empty"));
    }
    assert!(parse("# The last token was revoked\n").unwrap().entries().is_empty());
    assert!(BearerTokens::parse(&[0xff, b'\n']).is_err_and(|error| error.to_string().contains("UTF-8")));
}
