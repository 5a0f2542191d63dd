//! `bare`: a minimal Lambda function behind HTTP with a DynamoDB client. `make bench` compares the functions
//! with it.
//!
//! It has what every such function needs: the SDK's configuration, one HTTPS client, the runtime client. If
//! `BARE_TABLE` names a table, it reads an item before it asks for work, as a function does to open its connection
//! during init, and each request reads that item again.

#![expect(clippy::disallowed_methods, reason = "a program that is measured, and reads its one setting itself")]

use aws_config::BehaviorVersion;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use lambda_http::{Error, run, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
    let config = aws_config::defaults(BehaviorVersion::latest()).http_client(https).load().await;
    let (client, table) = (Client::new(&config), std::env::var("BARE_TABLE").ok());
    read(&client, table.as_deref()).await?;
    run(service_fn(|_request| read(&client, table.as_deref()))).await
}

/// Reads one item, and says whether it is there.
async fn read(client: &Client, table: Option<&str>) -> Result<String, Error> {
    let Some(table) = table else { return Ok("no table".to_owned()) };
    let key = || AttributeValue::S("bare".to_owned());
    let read = client.get_item().table_name(table).key("pk", key()).key("sk", key()).consistent_read(true);
    Ok(read.send().await?.item.map_or("nothing", |_item| "something").to_owned())
}
