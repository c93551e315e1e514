//! The handshake on a connection: each side's half, frame by frame.

use crate::frame::{FrameHeader, FrameKind};
use crate::handshake::{
    AboutPeer, Answer, ClientWelcome, HandshakeError, Hello, PROTOCOL_VERSION, Refusal, RefusalCode, Role,
};
use crate::reader::{Fill, FrameReader};
use bytes::Bytes;
use quorate_framework::{ClusterId, Lane, WireError, control};
use serde::Serialize;
use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const MAGIC: [u8; 8] = *b"quorate\n";

/// Sends one handshake frame.
async fn write<T: Serialize>(stream: &mut TcpStream, kind: FrameKind, value: &T) -> io::Result<()> {
    let mut body = MAGIC.to_vec();
    body.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    control::encode(value, &mut body);
    let header = FrameHeader {
        lane: Lane::Control,
        kind,
        more: false,
        continued: false,
        head_length: 0,
        body_length: body.len(),
        total_length: body.len(),
    };
    let mut frame = header.encode([&body[..]]).to_vec();
    frame.append(&mut body);
    stream.write_all(&frame).await
}

/// Waits for one handshake frame of a kind and gives what follows its magic and version.
async fn read(stream: &mut TcpStream, reader: &mut FrameReader, kind: FrameKind) -> Result<Bytes, HandshakeError> {
    let message = loop {
        if let Some(message) = reader.next_message()? {
            break message;
        }
        if reader.fill(stream).await? == Fill::Closed {
            return Err(HandshakeError::Closed);
        }
    };
    if message.kind != kind {
        return Err(WireError::Meaningless { what: "handshake frame", value: message.kind as u64 }.into());
    }
    let mut body = message.body;
    if body.len() < MAGIC.len() + 4 || body[..MAGIC.len()] != MAGIC {
        return Err(WireError::Meaningless { what: "handshake magic", value: body.len() as u64 }.into());
    }
    let rest = body.split_off(MAGIC.len() + 4);
    let version = body[MAGIC.len()..].first_chunk::<4>().map_or(0, |chunk| u32::from_le_bytes(*chunk));
    if version != PROTOCOL_VERSION {
        let reason = format!("the other side speaks version {version}, this side {PROTOCOL_VERSION}");
        return Err(HandshakeError::Refused(Refusal { code: RefusalCode::Version, reason }));
    }
    Ok(rest)
}

/// The acceptor's first half: reads the dialler's words.
///
/// # Errors
/// [`HandshakeError`]; a dialler of another version is told so.
pub async fn accept_hello(stream: &mut TcpStream, reader: &mut FrameReader) -> Result<Hello, HandshakeError> {
    match read(stream, reader, FrameKind::Hello).await {
        Ok(body) => Ok(control::decode("hello", &body)?),
        Err(HandshakeError::Refused(refusal)) => Err(send_refusal(stream, refusal).await),
        Err(error) => Err(error),
    }
}

/// Tells the dialler why, and gives the same for this side's log.
pub async fn send_refusal(stream: &mut TcpStream, refusal: Refusal) -> HandshakeError {
    // That the other side cannot be told changes nothing here.
    let _ = write(stream, FrameKind::Answer, &Answer::Refused(refusal.clone())).await;
    let _ = stream.shutdown().await;
    HandshakeError::Refused(refusal)
}

/// The acceptor's second half with a client.
///
/// # Errors
/// [`HandshakeError`].
pub async fn welcome_client(stream: &mut TcpStream, welcome: ClientWelcome) -> Result<(), HandshakeError> {
    Ok(write(stream, FrameKind::Answer, &Answer::Client(welcome)).await?)
}

/// The acceptor's second half with a peer: answers and waits for the confirmation.
///
/// # Errors
/// [`HandshakeError`], with the dialler's refusal if it sent one.
pub async fn welcome_peer(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    about: AboutPeer,
) -> Result<(), HandshakeError> {
    write(stream, FrameKind::Answer, &Answer::Peer(about)).await?;
    let body = read(stream, reader, FrameKind::Confirm).await?;
    match control::decode::<Option<Refusal>>("confirmation", &body)? {
        None => Ok(()),
        Some(refusal) => Err(HandshakeError::RefusedByOther(refusal)),
    }
}

async fn ask(stream: &mut TcpStream, reader: &mut FrameReader, hello: &Hello) -> Result<Answer, HandshakeError> {
    write(stream, FrameKind::Hello, hello).await?;
    let body = read(stream, reader, FrameKind::Answer).await?;
    match control::decode("answer", &body)? {
        Answer::Refused(refusal) => Err(HandshakeError::RefusedByOther(refusal)),
        answer => Ok(answer),
    }
}

/// A dialling replica's half up to the answer; [`confirm`] ends it.
///
/// # Errors
/// [`HandshakeError`], with the acceptor's refusal if it sent one.
pub async fn ask_peer(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    hello: &Hello,
) -> Result<AboutPeer, HandshakeError> {
    match ask(stream, reader, hello).await? {
        Answer::Peer(about) => Ok(about),
        _ => Err(WireError::Meaningless { what: "answer to a peer", value: 0 }.into()),
    }
}

/// A client's half.
///
/// # Errors
/// [`HandshakeError`], with the acceptor's refusal if it sent one.
pub async fn ask_as_client(
    stream: &mut TcpStream,
    reader: &mut FrameReader,
    cluster: Option<ClusterId>,
) -> Result<ClientWelcome, HandshakeError> {
    match ask(stream, reader, &Hello { cluster, role: Role::Client }).await? {
        Answer::Client(welcome) => Ok(welcome),
        _ => Err(WireError::Meaningless { what: "answer to a client", value: 0 }.into()),
    }
}

/// The dialler's last word: it keeps the connection, or refuses.
///
/// # Errors
/// [`HandshakeError`]; the refusal itself if there is one.
pub async fn confirm(stream: &mut TcpStream, verdict: Result<(), Refusal>) -> Result<(), HandshakeError> {
    let refusal = verdict.err();
    write(stream, FrameKind::Confirm, &refusal).await?;
    match refusal {
        None => Ok(()),
        Some(refusal) => {
            let _ = stream.shutdown().await;
            Err(HandshakeError::Refused(refusal))
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
