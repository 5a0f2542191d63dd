//! Longhaul in a program that has a command line, a runtime and a `main` of its own.

use clap::Parser;
use longhaul::serve::{Args, CommandLine};
use longhaul::{IntoServer, Server, ToolEnv, rmcp};
use longhaul_core::settings::table;

/// The tools of a shop.
#[derive(Parser)]
struct Shop {
    /// Where the goods are.
    #[arg(long)]
    goods: String,
    /// A flag of this program that has the name of one of Longhaul's.
    #[arg(long)]
    log: Option<String>,
    #[command(flatten)]
    longhaul: Args,
}

#[test]
fn flags_of_longhaul_are_flattened_into_a_command_and_leave_those_of_the_program_alone() {
    let shop =
        Shop::try_parse_from(["shop", "--goods", "cellar", "--log", "mine", "--lease-ms=20000", "--allow-host", "a"]);
    let shop = shop.unwrap();
    assert_eq!((shop.goods.as_str(), shop.log.as_deref()), ("cellar", Some("mine")));
    let options = shop.longhaul.options().unwrap();
    assert_eq!(options.values().get(&table::LEASE_MS), Ok(20_000));
    assert_eq!(options.values().get(&table::ALLOW_HOST).unwrap(), ["a"]);
    assert_ne!(options.values().get(&table::LOG).unwrap(), "mine");
}

#[test]
fn their_faults_are_those_of_the_command_line() {
    let options = |args: &[&str]| {
        Shop::try_parse_from([&["shop", "--goods", "cellar"], args].concat()).unwrap().longhaul.options()
    };
    let faults = options(&["--lease-ms", "soon", "--leg-margin-ms", "5"]).unwrap_err();
    assert_eq!(faults.faults().len(), 2, "{faults}");
    assert!(options(&[]).is_ok());
    let help = Shop::try_parse_from(["shop", "--help"]).err().unwrap().to_string();
    assert!(help.contains("--listen") && help.contains("Longhaul:") && help.contains("--goods"), "{help}");
}

#[derive(Clone)]
struct Nothing;

impl rmcp::ServerHandler for Nothing {}

/// Each form in which a program may make its server is taken by `main`.
#[tokio::test]
async fn a_server_may_be_made_at_once_by_async_code_or_not_at_all() {
    async fn made<S: IntoServer<Kind>, Kind>(server: impl FnOnce(ToolEnv) -> S) -> Result<(), String> {
        let made = server(ToolEnv::default()).into_server().await;
        made.map(drop).map_err(|error| error.to_string())
    }
    let server = || Server::new(|| Nothing);
    made(|_env| server()).await.unwrap();
    made(async |_env| server()).await.unwrap();
    made(async |_env| Ok::<_, std::io::Error>(server())).await.unwrap();
    let refused = made(async |_env| Err::<Server, _>(std::io::Error::other("no database"))).await;
    assert_eq!(refused, Err("no database".to_owned()));
}

#[test]
fn a_program_without_flags_reads_the_environment_alone() {
    assert!(longhaul::serve::Options::from_env().is_ok());
    assert!(CommandLine::new("shop").read(["shop"], &longhaul::settings::ProcessEnv).is_ok());
}
