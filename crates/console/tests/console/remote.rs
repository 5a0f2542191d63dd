//! The tasks of a server that this is a client of.

use futures::future::join;
use longhaul_console::{Remote, Source};
use tokio::net::TcpListener;

/// Behind a server that drops packets, pages would wait one after the other.
#[tokio::test]
async fn two_pages_connect_to_a_silent_server_side_by_side() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let remote = Remote::at(listener.local_addr().unwrap()).unwrap();
    let accepted = async { (listener.accept().await.unwrap(), listener.accept().await.unwrap()) };
    tokio::select! {
        _both = accepted => {}
        gave_up = join(remote.tools(), remote.tools()) => panic!("they connected one after the other: {gave_up:?}"),
    }
}
