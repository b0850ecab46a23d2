//! Connecting and negotiating, without blocking.

use super::error::NbdError;
use super::socket::{Place, Socket};
use crate::nbd::handshake::{Handshake, HandshakeError, Outcome};
use platter_block::time::Span;
use std::io;
use std::time::{Duration, Instant};

/// Most parts of the server's answers that are read at once: it must not keep the thread beyond the time for connecting.
const MOST_PARTS: u32 = 4096;

/// A connection that is being made.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) socket: Socket,
    handshake: Handshake,
    place: Place,
}

impl Attempt {
    /// Begins to connect.
    pub(super) fn begin(place: &Place, peer_timeout: Span, handshake: Handshake) -> io::Result<Attempt> {
        let handshake = if place.is_encrypted() { handshake.with_tls() } else { handshake };
        Ok(Attempt { socket: Socket::connect(place, peer_timeout)?, handshake, place: place.clone() })
    }

    /// Whether it waits until it can send.
    pub(super) fn wants_output(&mut self) -> bool {
        !self.handshake.output().is_empty() || self.socket.is_behind()
    }

    /// Goes on as far as it can. `None`: the server's answer is awaited.
    pub(super) fn advance(&mut self) -> Result<Option<Outcome>, NbdError> {
        self.socket.error()?;
        let mut buffer = [0; 4096];
        for _ in 0..MOST_PARTS {
            let flushed = self.flush();
            match self.socket.receive(&mut buffer) {
                // The server may have told why it takes nothing any more.
                Ok(0) if flushed.is_ok() => {
                    let what = "it closes the connection during the negotiation";
                    return Err(HandshakeError::Refused(what.to_owned()).into());
                }
                Ok(count) if count > 0 => {
                    let outcome = self.handshake.feed(&buffer[..count]);
                    // Also after an error: a polite end of the negotiation.
                    let sent = self.flush();
                    match outcome? {
                        Some(Outcome::StartTls) => {
                            sent?;
                            self.socket.encrypt(&self.place)?;
                            self.handshake.encrypted();
                        }
                        Some(outcome) => return Ok(Some(outcome)),
                        None => sent?,
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error.into()),
                _ if flushed.is_err() => return flushed.map(|()| None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A socket that is not connected yet has nothing either.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(None)
    }

    fn flush(&mut self) -> Result<(), NbdError> {
        let output = self.handshake.output();
        while !output.is_empty() {
            match self.socket.send(output) {
                Ok(count) => drop(output.drain(..count)),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected => return Ok(()),
                    _ => return Err(error.into()),
                },
            }
        }
        match self.socket.push() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Connects and negotiates, and blocks until that has succeeded or failed. Tries all addresses.
pub(super) fn negotiate(
    places: &[Place],
    (connect_timeout, peer_timeout): (Span, Span),
    handshake: &dyn Fn() -> Handshake,
) -> Result<(Socket, Outcome), NbdError> {
    let mut last = NbdError::Silent;
    for place in places {
        let until = Instant::now() + Duration::from_nanos(connect_timeout.0);
        match Attempt::begin(place, peer_timeout, handshake()) {
            Ok(attempt) => match finish(attempt, until) {
                Ok(done) => return Ok(done),
                // A server that has answered is the one that is meant.
                Err(error @ (NbdError::Handshake(_) | NbdError::Tls(_))) => return Err(error),
                Err(error) => last = error,
            },
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

fn finish(mut attempt: Attempt, until: Instant) -> Result<(Socket, Outcome), NbdError> {
    loop {
        if let Some(outcome) = attempt.advance()? {
            return Ok((attempt.socket, outcome));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NbdError::Silent);
        }
        let output = attempt.wants_output();
        attempt.socket.wait(output, Some(Span(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))));
    }
}
