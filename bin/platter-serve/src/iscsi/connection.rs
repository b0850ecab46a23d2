//! One connection: the login, then a discovery session or a session with a target.

use super::login::{Agreed, Login, MAX_RECEIVE, MAX_TEXT, Status, Step};
use super::names;
use super::session::{IDLE, Session, SessionParts};
use super::texts::Texts;
use crate::clients::NotTaken;
use crate::events::Event;
use crate::served::Served;
use crate::stream::shared::{Place, Shared};
use crate::stream::sleep::Sleep;
use crate::stream::socket::{Mode, Socket};
use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{HEADER_BYTES, Header, NO_TAG, at, flag, opcode, padding};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Bytes to receive at once during the login.
const INPUT_BYTES: usize = 32 << 10;

/// How long a discovery session may stay.
const DISCOVERY: Duration = Duration::from_secs(60);

/// Serves one connection until it ends.
pub(super) fn run(place: &Place) {
    let shared = &*place.shared;
    let mut wire = Wire::new(&place.socket, Instant::now() + shared.options.handshake_timeout);
    if let Err(why) = serve(place, shared, &mut wire) {
        place.refuse(&why);
    }
}

fn serve(place: &Place, shared: &Shared, wire: &mut Wire<'_>) -> Result<(), String> {
    let iscsi = &shared.options.iscsi;
    let mut login = Login::new(&shared.devices, &iscsi.prefix, iscsi.chap.as_ref(), shared.options.depth);
    loop {
        let (header, data) = wire.receive("the login")?;
        match login.take(&header, &data, next_tsih()) {
            Step::Reply(header, answer) => wire.send(header, &answer)?,
            Step::Refuse(header, why) => {
                // It ends all the same if the initiator is gone.
                let _ = wire.send(header, &[]);
                return Err(why);
            }
            Step::Agreed(response, answer, mut agreed) => {
                return match agreed.served.take() {
                    None => {
                        wire.send(response, &answer)?;
                        discover(shared, wire, &agreed)
                    }
                    Some(served) => {
                        let refusal = |status| login.refusal(&header, status);
                        begin(place, shared, wire, (served, agreed), (response, answer, &refusal))
                    }
                };
            }
        }
    }
}

/// The handle of the next session; never 0.
fn next_tsih() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// Begins a session with a target; the response to its login is sent when there is room for it.
fn begin(
    place: &Place,
    shared: &Shared,
    wire: &mut Wire<'_>,
    (served, agreed): (Arc<Served>, Agreed),
    (response, answer, refusal): (Header, Vec<u8>, &dyn Fn(Status) -> Header),
) -> Result<(), String> {
    let socket = &place.socket;
    let peer = format!("{} ({})", place.peer, agreed.port);
    let unit = served.unit();
    // Given up last. An earlier session of this port counts among the clients, so it ends before another one is counted.
    let claim = unit.claim((&agreed.port, agreed.tsih), socket, wire.until);
    let first = wire.unread().to_vec();
    let mut refuse_with = |status: Status, why: String| {
        // The refusal is the last that the initiator hears.
        let _ = wire.send(refusal(status), &[]);
        why
    };
    let _claim = claim.map_err(|why| refuse_with(Status::OUT_OF_RESOURCES, why))?;
    let client = place.connect(&served, &peer).map_err(|why| match why {
        NotTaken::Full(_) => refuse_with(Status::OUT_OF_RESOURCES, why.to_string()),
        NotTaken::Removed => refuse_with(Status::NOT_FOUND, why.to_string()),
    })?;
    let mut refuse = |why| refuse_with(Status::OUT_OF_RESOURCES, why);
    place.is_client(client.id);
    let sleep = Sleep::new(socket)
        .map_err(|errno| refuse(format!("no descriptor for another connection: {errno}")))?;
    let attached = unit.connect(&agreed.port, sleep.bell());
    let address = local_address(socket);
    let parts = SessionParts { socket, client: &client, shared, served, sleep, attached, address };
    let session = Session::new(parts, &agreed, &first).map_err(&mut refuse)?;
    wire.send(response, &answer)?;
    socket.set_timeouts(None, Some(IDLE)).map_err(|errno| errno.to_string())?;
    (shared.log)(&Event::Connected(&client));
    let why = session.run();
    (shared.log)(&Event::Disconnected(&client, why));
    Ok(())
}

/// The address of this end of a connection, as TargetAddress has it; none for sockets without one.
fn local_address(socket: &Socket) -> Option<String> {
    let address = rustix::net::getsockname(socket.fd()).ok()?;
    SocketAddr::try_from(address).ok().map(shown)
}

/// An address for an initiator. At a socket for both versions of IP, that of an initiator with the older one is mapped into the
/// newer one, which it cannot connect to.
fn shown(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

/// Serves a discovery session: texts and a logout.
fn discover(shared: &Shared, wire: &mut Wire<'_>, agreed: &Agreed) -> Result<(), String> {
    let (mut stat_sn, mut exp_cmd_sn) = (agreed.stat_sn, agreed.exp_cmd_sn);
    wire.until = Instant::now() + DISCOVERY;
    let most = agreed.params.max_send;
    let address = local_address(wire.socket);
    let mut texts = Texts::default();
    loop {
        let (header, mut data) = wire.receive("discovery")?;
        if !header.is_immediate() {
            exp_cmd_sn = header.get(at::CMD_SN).wrapping_add(1);
        }
        let (answer, body) = match header.opcode() {
            opcode::TEXT if texts.is_continued_by(&header) => {
                texts.go_on(&header, most).ok_or("a request for the rest of a list that there is not")?
            }
            opcode::TEXT => texts.begin(targets(shared, address.as_deref(), &data)?, most),
            opcode::LOGOUT => (Header::new(opcode::LOGOUT_RESPONSE, flag::FINAL), Vec::new()),
            opcode::NOP_OUT if header.task_tag() == NO_TAG => continue,
            opcode::NOP_OUT => {
                data.truncate(most as usize);
                (Header::new(opcode::NOP_IN, flag::FINAL).with(at::TRANSFER_TAG, NO_TAG), data)
            }
            _ => return Err("a request that a discovery session cannot have".to_owned()),
        };
        let answer = answer
            .with(at::TASK_TAG, header.task_tag())
            .with(at::STAT_SN, stat_sn)
            .with(at::EXP_CMD_SN, exp_cmd_sn)
            .with(at::MAX_CMD_SN, exp_cmd_sn);
        stat_sn = stat_sn.wrapping_add(1);
        wire.send(answer, &body)?;
        if header.opcode() == opcode::LOGOUT {
            return Ok(());
        }
    }
}

/// The answer to a text request of a discovery session.
fn targets(shared: &Shared, address: Option<&str>, data: &[u8]) -> Result<Vec<u8>, String> {
    let pairs = text::parse(data).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    for (key, value) in &pairs {
        let prefix = &shared.options.iscsi.prefix;
        let wanted = |name: &str| value == "All" || *value == name;
        match key.as_str() {
            "SendTargets" => answer.extend(names::send_targets(&shared.devices, prefix, address, wanted)),
            _ => text::push(&mut answer, key, "NotUnderstood"),
        }
    }
    Ok(answer)
}

/// The connection before a session: whole units, with a limit of time.
struct Wire<'a> {
    socket: &'a Arc<Socket>,
    until: Instant,
    bytes: Vec<u8>,
    used: usize,
}

impl<'a> Wire<'a> {
    fn new(socket: &'a Arc<Socket>, until: Instant) -> Wire<'a> {
        Wire { socket, until, bytes: Vec::new(), used: 0 }
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Limits the next call on the socket to the time that is left.
    fn limit(&self, during: &str) -> Result<(), String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return Err(format!("{during} took too long"));
        }
        self.socket.set_timeouts(Some(left), Some(left)).map_err(|errno| errno.to_string())
    }

    /// The next unit and its data.
    fn receive(&mut self, during: &str) -> Result<(Header, Vec<u8>), String> {
        loop {
            if let Some(first) = self.unread().first_chunk::<HEADER_BYTES>() {
                let header = Header(*first);
                let (from, bytes) = (HEADER_BYTES + header.ahs_bytes(), header.data_bytes());
                if bytes > MAX_TEXT.min(MAX_RECEIVE as usize) {
                    return Err(format!("a unit of {bytes} bytes during {during}"));
                }
                if let Some(data) = self.unread().get(from..from + bytes + padding(bytes)) {
                    let data = data[..bytes].to_vec();
                    self.used += from + bytes + padding(bytes);
                    return Ok((header, data));
                }
            }
            self.receive_more(during)?;
        }
    }

    fn receive_more(&mut self, during: &str) -> Result<(), String> {
        self.bytes.drain(..self.used);
        self.used = 0;
        self.limit(during)?;
        let length = self.bytes.len();
        self.bytes.resize(length + INPUT_BYTES, 0);
        let received = self.socket.receive(&mut [IoSliceMut::new(&mut self.bytes[length..])], Mode::Wait);
        self.bytes.truncate(length + received.unwrap_or(0));
        match received {
            Ok(0) => Err(format!("the peer closed the connection during {during}")),
            Ok(_) => Ok(()),
            Err(Errno::AGAIN) => Err(format!("{during} took too long")),
            Err(errno) => Err(format!("the connection failed during {during}: {errno}")),
        }
    }

    /// Sends a unit.
    fn send(&mut self, header: Header, data: &[u8]) -> Result<(), String> {
        let header = header.with_data_bytes(data.len());
        let mut unit = [&header.0[..], data].concat();
        unit.resize(unit.len().next_multiple_of(4), 0);
        let mut rest = &unit[..];
        while !rest.is_empty() {
            self.limit("the answer")?;
            let sent = self.socket.send(&[IoSlice::new(rest)], Mode::Wait);
            let sent = sent.map_err(|errno| format!("the peer does not take answers: {errno}"))?;
            rest = &rest[sent..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_an_initiator_can_connect_to() {
        for (at, wanted) in [
            ("127.0.0.1:3260", "127.0.0.1:3260"),
            ("[::ffff:127.0.0.1]:3260", "127.0.0.1:3260"),
            ("[fe80::1]:3261", "[fe80::1]:3261"),
        ] {
            assert_eq!(shown(at.parse().unwrap()), wanted);
        }
    }
}
