//! `longhaul deploy` against a stand-in for AWS. A whole deployment on an emulator is in the tests of whole programs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::command::{Said, Setup};

/// The beginning of a request, in lower case, with its form.
type Asked = Arc<Mutex<Vec<String>>>;

/// Answers each request by the action in its form, or by its method and path.
fn stand_in(answer: fn(&str) -> (u16, &'static str)) -> (String, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let request = read(&mut connection);
            let (status, body) = answer(&request);
            seen.lock().unwrap().push(request);
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            connection.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
        }
    });
    (url, asked)
}

fn read(connection: &mut TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.to_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
        text.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text + &String::from_utf8_lossy(&body)
}

const CALLER: &str = "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>111122223333</Account>\
    </GetCallerIdentityResult></GetCallerIdentityResponse>";
const NO_STACK: &str = "<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id s does not \
    exist</Message></Error></ErrorResponse>";
const EXPIRED: &str = "<ErrorResponse><Error><Code>ExpiredToken</Code><Message>The security token included in the \
    request is expired</Message></Error></ErrorResponse>";

fn run(setup: &Setup, url: &str, args: &[&str]) -> Said {
    let mut command = setup.command(args);
    command.env("AWS_ENDPOINT_URL", url).env("AWS_REGION", "eu-west-1").env_remove("AWS_PROFILE");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    Setup::end(command.spawn().unwrap())
}

#[test]
fn nothing_is_put_into_a_bucket_of_another_account() {
    let (url, asked) = stand_in(|request| match request {
        request if request.contains("Action=GetCallerIdentity") => (200, CALLER),
        request if request.contains("Action=DescribeStacks") => (400, NO_STACK),
        _ => (403, ""),
    });
    let setup = Setup::new();
    for name in ["api.zip", "worker.zip"] {
        std::fs::write(setup.folder().join(name), b"PK\x03\x04").unwrap();
    }
    let packages = ["--api", "api.zip", "--worker", "worker.zip", "--parameter", "Architecture=arm64", "--yes"];
    let packages = [packages.as_slice(), &["--parameter", "AuthMode=iam"]].concat();
    let said = run(&setup, &url, &[["deploy", "s"].as_slice(), &packages].concat());
    assert!(said.code == 5 && said.err.contains("longhaul-packages-111122223333-eu-west-1 is not"), "{said:?}");
    assert!(said.err.contains("--bucket") && said.err.lines().count() == 1, "{said:?}");
    let asked = asked.lock().unwrap();
    assert!(!asked.iter().any(|request| request.starts_with("put ")), "{asked:?}");
    let to_the_bucket: Vec<_> = asked.iter().filter(|request| request.starts_with("head ")).collect();
    assert_eq!(to_the_bucket.len(), 1, "{asked:?}");
    let owner = "x-amz-expected-bucket-owner: 111122223333";
    assert!(to_the_bucket.iter().all(|request| request.contains(owner)), "{asked:?}");
}

#[test]
fn a_new_stack_has_to_be_told_who_may_call_it() {
    let (setup, (url, asked)) = (Setup::new(), stand_in(|_| (400, NO_STACK)));
    let said = run(&setup, &url, &["deploy", "s", "--yes"]);
    assert_eq!(said.code, 6, "{}", said.err);
    for mode in ["bearer", "oauth", "iam"] {
        assert!(said.err.contains(&format!("--parameter AuthMode={mode} (")), "{}", said.err);
    }
    assert_eq!(asked.lock().unwrap().len(), 1, "nothing but whether it is there");
}

#[test]
fn credentials_that_aws_does_not_take_are_said_to_be_so() {
    let (url, asked) = stand_in(|_| (403, EXPIRED));
    let said = run(&Setup::new(), &url, &["status"]);
    assert!(said.code == 3 && said.err.contains("AWS does not take these credentials"), "{said:?}");
    assert_eq!(asked.lock().unwrap().len(), 1, "it is not tried again");
}

#[test]
fn a_template_is_written_without_credentials_and_never_over_a_file() {
    let setup = Setup::new();
    let eject = || Setup::end(setup.command(&["deploy", "--eject", "t.yaml"]).spawn().unwrap());
    assert_eq!(eject().code, 0);
    let text = std::fs::read_to_string(setup.folder().join("t.yaml")).unwrap();
    assert!(text.contains("AWS::Serverless-2016-10-31"));
    let said = eject();
    assert!(said.code == 2 && said.err.contains("t.yaml cannot be written"), "{said:?}");
}
