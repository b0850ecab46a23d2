//! One connection: the negotiation, then the session.

use super::link::Link;
use super::negotiation::{Agreed, Encryption, Negotiation, Step};
use super::session::{IDLE, Session};
use super::shared::{KIND, Place, Shared};
use super::socket::Mode;
use crate::events::Event;
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
    let agreed = match negotiate(shared, &mut link, &mut input, until) {
        Ok(Some(agreed)) => agreed,
        Ok(None) => return,
        Err(why) => return place.refuse(&why),
    };
    let disconnect = Arc::clone(socket);
    let name = agreed.served.name().to_owned();
    let Some(client) = shared.clients.connect(KIND, &name, &place.peer, move || disconnect.disconnect())
    else {
        return place.refuse(&format!("there are {} clients, as many as allowed", shared.clients.most()));
    };
    if !place.is_client(client.id) {
        return place.refuse("the server stops");
    }
    let session = socket.set_timeouts(None, Some(IDLE)).map_err(|errno| errno.to_string()).and_then(|()| {
        let others = (&*client, &shared.log, &shared.stopping);
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
        limit(link, until)?;
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

/// Limits the next call on the socket to the time that is left.
fn limit(link: &Link, until: Instant) -> Result<(), String> {
    let left = until.saturating_duration_since(Instant::now());
    if left < Duration::from_millis(1) {
        return Err("the negotiation took too long".to_owned());
    }
    link.socket().set_timeouts(Some(left), Some(left)).map_err(|errno| errno.to_string())
}

/// Negotiates until `until`. `None`: the client has ended the negotiation.
fn negotiate(
    shared: &Shared,
    link: &mut Link,
    input: &mut Input,
    until: Instant,
) -> Result<Option<Agreed>, String> {
    let mut negotiation = Negotiation::new(&shared.devices, Encryption::Unavailable);
    let mut out = Vec::new();
    negotiation.greet(&mut out);
    loop {
        if !out.is_empty() {
            limit(link, until)?;
            let sent = link.socket().send_all(&out);
            sent.map_err(|errno| format!("the peer does not take replies: {errno}"))?;
            out.clear();
        }
        let (used, step) = negotiation.take(input.unread(), &mut out);
        input.used += used;
        match step {
            Step::Again => {}
            Step::NeedMore => input.receive(link, until)?,
            Step::StartTls => return Err("TLS is not available".to_owned()),
            Step::Abort => {
                // A client that does not wait for this reply has ended the negotiation all the same.
                let _ = link.socket().send_all(&out);
                return Ok(None);
            }
            Step::Close(why) => return Err(why.to_owned()),
            Step::Agreed(agreed) => {
                limit(link, until)?;
                let sent = link.socket().send_all(&out);
                sent.map_err(|errno| format!("the peer does not take replies: {errno}"))?;
                return Ok(Some(agreed));
            }
        }
    }
}
