//! A part of the network that can be cut and slowed down: the connections to a server, or to the emulator.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of everything that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It takes so much longer.
    Open(Duration),
    /// Requests pass, and their connections break instead of an answer.
    OneWay,
    /// Nothing passes, and connections break.
    Cut,
}

/// An address that forwards to another one.
#[derive(Clone, Debug)]
pub(crate) struct Cable {
    address: SocketAddr,
    passage: Arc<watch::Sender<Passage>>,
}

impl Cable {
    /// Forwards to `target`.
    pub(crate) async fn to(target: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (passage, open) = watch::channel(Passage::Open(Duration::ZERO));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(lead(near, target, open.clone()));
            }
        });
        Ok(Self { address, passage: Arc::new(passage) })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, passage: Passage) {
        self.passage.send_replace(passage);
    }
}

/// Forwards one connection, until one of its ends is closed or the cable is cut. Dropped connections are reset.
async fn lead(near: TcpStream, target: SocketAddr, passage: watch::Receiver<Passage>) {
    if *passage.borrow() == Passage::Cut {
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else { return };
    let _slower_if_not_set = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
    let mut cut = passage.clone();
    let there = copy(near_read, far_write, Direction::There, passage.clone());
    let back = copy(far_read, near_write, Direction::Back, passage);
    let passes = async {
        if let Either::Left((End::Closed, back)) = select(Box::pin(there), Box::pin(back)).await {
            // A side that has sent everything may still get an answer.
            back.await;
        }
    };
    let is_cut = cut.wait_for(|passage| *passage == Passage::Cut);
    select(Box::pin(passes), Box::pin(is_cut)).await;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    There,
    Back,
}

/// Why nothing is copied any more.
#[derive(PartialEq, Eq)]
enum End {
    Closed,
    Broken,
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: Direction,
    passage: watch::Receiver<Passage>,
) -> End {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let now = *passage.borrow();
        match now {
            Passage::Open(delay) if !delay.is_zero() => tokio::time::sleep(delay).await,
            Passage::OneWay if direction == Direction::Back => return End::Broken,
            Passage::Open(_) | Passage::OneWay | Passage::Cut => {}
        }
        let Some(read) = bytes.get(..count) else { return End::Broken };
        if to.write_all(read).await.is_err() {
            return End::Broken;
        }
    }
    let _closed_already = to.shutdown().await;
    End::Closed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers a byte with the next one, and what it was sent.
    async fn server() -> (SocketAddr, watch::Receiver<Vec<u8>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sent, seen) = watch::channel(Vec::new());
        tokio::spawn(async move { while answer(&listener, &sent).await.is_ok() {} });
        (address, seen)
    }

    async fn answer(listener: &TcpListener, sent: &watch::Sender<Vec<u8>>) -> std::io::Result<()> {
        let (mut visitor, _) = listener.accept().await?;
        let byte = visitor.read_u8().await?;
        sent.send_modify(|all| all.push(byte));
        visitor.write_u8(byte + 1).await
    }

    async fn asks(cable: &Cable, byte: u8) -> std::io::Result<u8> {
        let mut connection = TcpStream::connect(cable.address()).await?;
        connection.write_u8(byte).await?;
        connection.read_u8().await
    }

    #[tokio::test]
    async fn what_passes_arrives_and_what_is_cut_does_not() {
        let (address, mut seen) = server().await;
        let cable = Cable::to(address).await.unwrap();
        assert_eq!(asks(&cable, 1).await.unwrap(), 2);
        cable.set(Passage::Cut);
        assert!(asks(&cable, 10).await.is_err());
        cable.set(Passage::OneWay);
        assert!(asks(&cable, 20).await.is_err());
        seen.wait_for(|seen| seen == &[1, 20]).await.unwrap();
        cable.set(Passage::Open(Duration::from_millis(1)));
        assert_eq!(asks(&cable, 30).await.unwrap(), 31);
    }
}
