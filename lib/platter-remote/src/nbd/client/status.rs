//! The allocation status, over a connection of its own: the threads that ask do not own a channel.
//!
//! A server that does not keep connections coherent (`CAN_MULTI_CONN`) could report a hole where another connection has
//! written, so it is not asked, and everything counts as data.

use super::attempt::negotiate;
use super::error::NbdError;
use super::shared::Shared;
use super::socket::Socket;
use crate::nbd::handshake::{Handshake, HandshakeError, Outcome};
use crate::nbd::reply::{MAX_PARSED, Reply, parse};
use crate::nbd::wire::{Request, allocation, command, command_flag, transmission_flag};
use platter_block::allocation::Extent;
use platter_block::time::Span;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest range that is asked about at once.
const MOST: u64 = 1 << 30;

struct Line {
    socket: Socket,
    context: u32,
    cookie: u64,
}

/// Asks a server for the allocation status.
pub(super) struct Questions {
    shared: Arc<Shared>,
    line: Mutex<Option<Line>>,
}

fn protocol(what: &str) -> NbdError {
    HandshakeError::Protocol(what.to_owned()).into()
}

impl Questions {
    pub(super) fn new(shared: Arc<Shared>) -> Questions {
        Questions { shared, line: Mutex::new(None) }
    }

    /// The extent that begins at `pos`.
    pub(super) fn allocation(&self, pos: u64, len: u64) -> Result<Extent, NbdError> {
        let export = &self.shared.export;
        if export.allocation.is_none() || !export.has(transmission_flag::CAN_MULTI_CONN) {
            return Ok(Extent::data(pos, len));
        }
        let mut held = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = match held.take().filter(|line| !line.socket.is_hung_up()) {
            Some(line) => line,
            None => self.connect()?,
        };
        let unit = u64::from(export.blocks.map_or(1, |blocks| blocks.min));
        let begin = pos - pos % unit;
        let most = (pos - begin + len).min(MOST).next_multiple_of(unit).min(export.size - begin);
        let until = Instant::now() + Duration::from_nanos(self.shared.options.connect_timeout.0);
        let (length, flags) = ask(&mut line, begin, most as u32, until)?;
        *held = Some(line);
        let end = begin + u64::from(length);
        if end <= pos {
            return Err(protocol("an extent that ends before the range begins"));
        }
        let len = len.min(end - pos);
        let hole = allocation::HOLE | allocation::ZERO;
        Ok(if flags & hole == hole { Extent::hole(pos, len) } else { Extent::data(pos, len) })
    }

    fn connect(&self) -> Result<Line, NbdError> {
        let shared = &self.shared;
        let times = (shared.options.connect_timeout, shared.options.peer_timeout);
        let open = || Handshake::open(&shared.uri.export);
        let (socket, outcome) = negotiate(&shared.places, times, &open)?;
        let Outcome::Export(export) = outcome else { return Err(protocol("no export")) };
        shared.check(&export).map_err(NbdError::Unfit)?;
        let context =
            export.allocation.ok_or_else(|| NbdError::Unfit("it does not know it any more".to_owned()))?;
        Ok(Line { socket, context, cookie: 0 })
    }
}

fn ask(line: &mut Line, offset: u64, length: u32, until: Instant) -> Result<(u32, u32), NbdError> {
    line.cookie += 1;
    let (flags, kind, cookie) = (command_flag::REQ_ONE, command::BLOCK_STATUS, line.cookie);
    let request = Request { flags, kind, cookie, offset, length }.to_bytes();
    let mut unsent = &request[..];
    let (mut input, mut have) = ([0; MAX_PARSED], 0);
    let mut answer = None;
    loop {
        if !unsent.is_empty() {
            match line.socket.send(unsent) {
                Ok(count) => unsent = &unsent[count..],
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Err(error) = line.socket.push()
            && !is_passing(&error)
        {
            return Err(error.into());
        }
        while let Some((taken, reply)) = parse(&input[..have]).map_err(|bad| protocol(&bad.0))? {
            input.copy_within(taken..have, 0);
            have -= taken;
            if let Some(found) = take(line, reply, &mut answer)? {
                return Ok(found);
            }
        }
        match line.socket.receive(&mut input[have..]) {
            Ok(0) => return Err(NbdError::Connect(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => have += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_passing(&error) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(NbdError::Silent);
                }
                let output = !unsent.is_empty() || line.socket.is_behind();
                line.socket.wait(output, Some(Span(left.as_nanos() as u64)));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a call is to be made again later.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Takes a reply; returns the extent when the answer is complete.
fn take(line: &Line, reply: Reply, answer: &mut Option<(u32, u32)>) -> Result<Option<(u32, u32)>, NbdError> {
    let (answers, done) = match reply {
        Reply::Status { cookie, context, length, flags, done } => {
            if context == line.context {
                answer.get_or_insert((length, flags));
            }
            (cookie, done)
        }
        Reply::Error { error, .. } | Reply::Simple { error, .. } => {
            return Err(NbdError::Handshake(HandshakeError::Refused(format!("error {error}"))));
        }
        Reply::Nothing { cookie, done } => (cookie, done),
        Reply::Data { .. } | Reply::Hole { .. } => return Err(protocol("data although none was asked for")),
    };
    if answers != line.cookie {
        return Err(protocol("an answer to another request"));
    }
    match (*answer, done) {
        (found @ Some(_), true) => Ok(found),
        (None, true) => Err(protocol("an answer without an extent")),
        (_, false) => Ok(None),
    }
}
