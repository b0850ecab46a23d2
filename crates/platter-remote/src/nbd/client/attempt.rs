//! Connecting and negotiating, without blocking.

use super::error::NbdError;
use super::socket::{Place, Socket};
use crate::nbd::handshake::{Handshake, HandshakeError, Outcome};
use platter_block::time::Span;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::time::{Duration, Instant};

/// A connection that is being made.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) socket: Socket,
    handshake: Handshake,
}

impl Attempt {
    /// Begins to connect.
    pub(super) fn begin(place: &Place, peer_timeout: Span, handshake: Handshake) -> io::Result<Attempt> {
        Ok(Attempt { socket: Socket::connect(place, peer_timeout)?, handshake })
    }

    /// Whether it waits until it can send.
    pub(super) fn wants_output(&mut self) -> bool {
        !self.handshake.output().is_empty()
    }

    /// Goes on as far as it can. `None`: the server's answer is awaited.
    pub(super) fn advance(&mut self) -> Result<Option<Outcome>, NbdError> {
        self.socket.error()?;
        let mut buffer = [0; 4096];
        loop {
            self.flush()?;
            match recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => {
                    let what = "it closes the connection during the negotiation";
                    return Err(HandshakeError::Refused(what.to_owned()).into());
                }
                Ok((_, count)) => {
                    let outcome = self.handshake.feed(&buffer[..count]);
                    // Also after an error: a polite end of the negotiation.
                    let sent = self.flush();
                    if let Some(outcome) = outcome? {
                        return Ok(Some(outcome));
                    }
                    sent?;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(NbdError::Connect(error.into())),
            }
        }
    }

    fn flush(&mut self) -> Result<(), NbdError> {
        let output = self.handshake.output();
        while !output.is_empty() {
            match send(&self.socket, output, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => drop(output.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOTCONN) => break,
                Err(error) => return Err(NbdError::Connect(error.into())),
            }
        }
        Ok(())
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
                Err(error @ NbdError::Handshake(_)) => return Err(error),
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
