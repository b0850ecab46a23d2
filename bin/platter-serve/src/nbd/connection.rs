//! One connection: the negotiation, then the session.

use super::link::Link;
use super::negotiation::{Agreed, Encryption, Negotiation, Step};
use super::session::{IDLE, Session};
use crate::events::Event;
use crate::stream::shared::{Place, Shared};
use crate::stream::socket::{Mode, Socket};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes to receive at once during the negotiation: the longest option and more.
const INPUT_BYTES: usize = 32 << 10;

/// Serves one connection until it ends.
pub(super) fn run(place: &Place) {
    let (shared, socket) = (&*place.shared, &place.socket);
    let until = Instant::now() + shared.options.handshake_timeout;
    let mut link = Link::plain(Arc::clone(socket));
    let mut input = Input::default();
    let (agreed, reply) = match negotiate(shared, &mut link, &mut input, until) {
        Ok(Some(agreed)) => agreed,
        Ok(None) => return,
        Err(why) => return place.refuse(&why),
    };
    let client = match place.connect(&agreed.served, &place.peer) {
        Ok(client) => client,
        Err(why) => return place.refuse(&why.to_string()),
    };
    place.is_client(client.id);
    // The client is listed before it is told so.
    let told = limit(link.socket(), until).and_then(|()| {
        link.send_all(&reply).map_err(|errno| format!("the peer does not take replies: {errno}"))
    });
    if let Err(why) = told {
        return place.refuse(&why);
    }
    if shared.options.staged {
        link.stage();
    }
    let session = socket.set_timeouts(None, Some(IDLE)).map_err(|errno| errno.to_string()).and_then(|()| {
        let others = (&client, &shared.log, &shared.stopping);
        Session::new(link, agreed, input.unread(), &shared.options, others)
    });
    drop(input);
    match session {
        Err(why) => place.refuse(&why),
        Ok(session) => {
            (shared.log)(&Event::Connected(&client));
            let why = session.run();
            (shared.log)(&Event::Disconnected(&client, why));
        }
    }
}

/// Bytes that were received during the negotiation.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    used: usize,
}

impl Input {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Receives more before `until`.
    fn receive(&mut self, link: &mut Link, until: Instant) -> Result<(), String> {
        self.bytes.drain(..self.used);
        self.used = 0;
        limit(link.socket(), until)?;
        let length = self.bytes.len();
        self.bytes.resize(length + INPUT_BYTES, 0);
        let received = link.receive(&mut [IoSliceMut::new(&mut self.bytes[length..])], Mode::Wait);
        self.bytes.truncate(length + received.unwrap_or(0));
        match received {
            Ok(0) => Err("the peer closed the connection during the negotiation".to_owned()),
            Ok(_) => Ok(()),
            Err(Errno::AGAIN) => Err("the negotiation took too long".to_owned()),
            Err(errno) => Err(format!("the connection failed during the negotiation: {errno}")),
        }
    }
}

/// Which connections are encrypted.
fn encryption(shared: &Shared) -> Encryption {
    #[cfg(feature = "tls")]
    if let Some(tls) = &shared.options.tls {
        return if tls.is_required() { Encryption::Required } else { Encryption::Allowed };
    }
    let _ = shared;
    Encryption::Unavailable
}

#[cfg(feature = "tls")]
fn start_tls(shared: &Shared, link: &mut Link, until: Instant) -> Result<(), String> {
    match &shared.options.tls {
        Some(tls) => link.encrypt(tls, |socket| limit(socket, until)),
        None => Err("there is no certificate".to_owned()),
    }
}

#[cfg(not(feature = "tls"))]
fn start_tls(_: &Shared, _: &mut Link, _: Instant) -> Result<(), String> {
    Err("this program was built without TLS".to_owned())
}

/// Limits the next call on the socket to the time that is left.
fn limit(socket: &Socket, until: Instant) -> Result<(), String> {
    let left = until.saturating_duration_since(Instant::now());
    if left < Duration::from_millis(1) {
        return Err("the negotiation took too long".to_owned());
    }
    socket.set_timeouts(Some(left), Some(left)).map_err(|errno| errno.to_string())
}

/// Negotiates until `until`; what was agreed on, and the last reply. `None`: the client has ended the negotiation.
fn negotiate(
    shared: &Shared,
    link: &mut Link,
    input: &mut Input,
    until: Instant,
) -> Result<Option<(Agreed, Vec<u8>)>, String> {
    let mut negotiation = Negotiation::new(&shared.devices, encryption(shared));
    let mut out = Vec::new();
    negotiation.greet(&mut out);
    loop {
        if !out.is_empty() {
            limit(link.socket(), until)?;
            let sent = link.send_all(&out);
            sent.map_err(|errno| format!("the peer does not take replies: {errno}"))?;
            out.clear();
        }
        let (used, step) = negotiation.take(input.unread(), &mut out);
        input.used += used;
        match step {
            Step::Again => {}
            Step::NeedMore => input.receive(link, until)?,
            Step::StartTls => {
                let sent = link.send_all(&out);
                sent.map_err(|errno| format!("the peer does not take replies: {errno}"))?;
                out.clear();
                if !input.unread().is_empty() {
                    // It was not encrypted, so it may be from anyone.
                    return Err("data arrived between STARTTLS and its reply".to_owned());
                }
                start_tls(shared, link, until)?;
                negotiation.encrypted();
            }
            Step::Abort => {
                // A client that does not wait for this reply has ended the negotiation all the same.
                let _ = link.send_all(&out);
                return Ok(None);
            }
            Step::Close(why) => return Err(why.to_owned()),
            Step::Agreed(agreed) => return Ok(Some((agreed, out))),
        }
    }
}
