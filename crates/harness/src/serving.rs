//! Answering the requests of a listener.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Answers the requests of all connections with their shared state, until the future is dropped.
pub(crate) async fn serve<S, B, F>(
    listener: TcpListener,
    shared: Arc<S>,
    answer: impl Fn(Arc<S>, Request<Incoming>) -> F + Clone + Send + Sync + 'static,
) where
    S: Send + Sync + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
{
    loop {
        let Ok((connection, _peer)) = listener.accept().await else { return };
        drop(connection.set_nodelay(true));
        let (shared, answer) = (Arc::clone(&shared), answer.clone());
        let answering = service_fn(move |request| {
            let answered = answer(Arc::clone(&shared), request);
            async move { Ok::<_, Infallible>(answered.await) }
        });
        tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), answering));
    }
}
