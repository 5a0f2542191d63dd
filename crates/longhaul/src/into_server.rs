//! The forms in which a program may give its server to a whole `main`.

use std::error::Error;
use std::future::Future;

use crate::Server;

/// A [`Server`], a `Result` with one, or a future of either: a whole `main`, such as
/// [`serve::main`](crate::serve::main), takes each of these.
///
/// There is nothing to implement.
///
/// ```
/// use longhaul::{IntoServer, Server};
/// # struct Reports;
/// # impl longhaul::rmcp::ServerHandler for Reports {}
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// Server::new(|| Reports).into_server().await?;
/// async { Ok::<_, std::io::Error>(Server::new(|| Reports)) }.into_server().await?;
/// # Ok(())
/// # }
/// ```
pub trait IntoServer<Kind> {
    /// The server, once it is made.
    fn into_server(self) -> impl Future<Output = Result<Server, Box<dyn Error + Send + Sync>>>;
}

/// The [kind](IntoServer) of a server that is there at once.
#[derive(Clone, Copy, Debug)]
pub enum AtOnce {}

/// The [kind](IntoServer) of a server whose making may fail.
#[derive(Clone, Copy, Debug)]
pub enum Fallible {}

/// The [kind](IntoServer) of a server that async code makes.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<Kind>(std::marker::PhantomData<Kind>);

impl IntoServer<AtOnce> for Server {
    async fn into_server(self) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(self)
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> IntoServer<Fallible> for Result<Server, E> {
    async fn into_server(self) -> Result<Server, Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}

impl<Kind, F: Future<Output: IntoServer<Kind>>> IntoServer<Awaited<Kind>> for F {
    async fn into_server(self) -> Result<Server, Box<dyn Error + Send + Sync>> {
        self.await.into_server().await
    }
}
