//! A small client of the protocol, for tests: it sends what it is told to, right or wrong.

use platter_remote::nbd::wire::{
    self, Chunk, OptionHeader, OptionReply, Reply, Request, chunk, command, option, option_reply,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest wait for the server. Only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) trait Stream: Read + Write + Send {
    fn half_close(&self);
}

impl Stream for TcpStream {
    fn half_close(&self) {
        self.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

impl Stream for UnixStream {
    fn half_close(&self) {
        self.shutdown(std::net::Shutdown::Write).unwrap();
    }
}

/// A connection.
pub(crate) struct Client {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) size: u64,
    pub(crate) flags: u16,
    pub(crate) structured: bool,
    next: u64,
}

/// The whole answer to a request.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) cookie: u64,
    pub(crate) error: u32,
    pub(crate) message: String,
    pub(crate) data: Vec<u8>,
    /// Lengths and states of extents.
    pub(crate) extents: Vec<(u32, u32)>,
    /// Whether the data came as a hole.
    pub(crate) hole: bool,
}

pub(crate) fn connect(address: &str) -> Client {
    let stream: Box<dyn Stream> = match address.strip_prefix("unix:") {
        Some(path) => {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Box::new(stream)
        }
        None => {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            Box::new(stream)
        }
    };
    over(stream)
}

/// A client over a stream that is connected already.
pub(crate) fn over(stream: Box<dyn Stream>) -> Client {
    Client { stream, size: 0, flags: 0, structured: false, next: 1 }
}

/// A client in the transmission phase.
pub(crate) fn attach(address: &str, name: &str, structured: bool) -> Client {
    let mut client = connect(address);
    client.greet();
    if structured {
        client.option(option::STRUCTURED_REPLY, b"");
        client.option(option::SET_META_CONTEXT, &contexts(name, &[wire::BASE_ALLOCATION]));
        client.structured = true;
    }
    client.go(name);
    client
}

/// The data of `SET_META_CONTEXT`.
pub(crate) fn contexts(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(counted(query)));
    data
}

fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

impl Client {
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn receive(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the server closes the connection next.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    pub(crate) fn greet(&mut self) {
        let greeting = self.receive(18);
        assert_eq!(greeting[..8], wire::INIT_MAGIC.to_be_bytes());
        assert_eq!(greeting[8..16], wire::OPTION_MAGIC.to_be_bytes());
        self.send(&3u32.to_be_bytes());
    }

    /// Sends an option and returns the replies to it.
    pub(crate) fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&OptionHeader { option: number, length: data.len() as u32 }.to_bytes());
        self.send(data);
        let mut all = Vec::new();
        loop {
            let header: [u8; OptionReply::BYTES] = self.receive(OptionReply::BYTES).try_into().unwrap();
            let header = OptionReply::parse(&header).unwrap();
            assert_eq!(header.option, number);
            let data = self.receive(header.length as usize);
            all.push((header.kind, data));
            if header.kind == option_reply::ACK || header.is_error() {
                return all;
            }
        }
    }

    pub(crate) fn go(&mut self, name: &str) {
        let replies = self.option(option::GO, &[counted(name), vec![0, 0]].concat());
        assert_eq!(replies.last().unwrap().0, option_reply::ACK, "{name:?}");
        let export = &replies[0].1;
        self.size = u64::from_be_bytes(export[2..10].try_into().unwrap());
        self.flags = u16::from_be_bytes(export[10..12].try_into().unwrap());
    }

    /// Sends the header of a request; returns its cookie.
    pub(crate) fn request(&mut self, kind: u16, flags: u16, offset: u64, length: u32) -> u64 {
        let cookie = self.next;
        self.next += 1;
        self.send(&Request { flags, kind, cookie, offset, length }.to_bytes());
        cookie
    }

    /// Carries out a request and checks that it is the one that is answered.
    pub(crate) fn call(&mut self, kind: u16, flags: u16, offset: u64, length: u32, payload: &[u8]) -> Answer {
        let cookie = self.request(kind, flags, offset, length);
        self.send(payload);
        let answer = self.answer(if kind == command::READ { length } else { 0 });
        assert_eq!(answer.cookie, cookie);
        answer
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let answer = self.call(command::READ, 0, offset, length, b"");
        assert_eq!(answer.error, 0, "{answer:?}");
        answer.data
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let answer = self.call(command::WRITE, 0, offset, data.len() as u32, data);
        assert_eq!(answer.error, 0, "{answer:?}");
    }

    pub(crate) fn flush(&mut self) {
        assert_eq!(self.call(command::FLUSH, 0, 0, 0, b"").error, 0);
    }

    /// Receives the answer to a request; `length`: that of a read, else 0.
    pub(crate) fn answer(&mut self, length: u32) -> Answer {
        let mut answer = Answer::default();
        loop {
            let mut header = self.receive(wire::SimpleReply::BYTES);
            let reply = match Reply::parse(&header).unwrap() {
                Some(reply) => reply,
                None => {
                    header.extend(self.receive(Chunk::BYTES - wire::SimpleReply::BYTES));
                    Reply::parse(&header).unwrap().unwrap()
                }
            };
            match reply {
                Reply::Simple(simple) => {
                    assert!(!(self.structured && length > 0), "a read must be answered by chunks");
                    (answer.cookie, answer.error) = (simple.cookie, simple.error);
                    if simple.error == 0 {
                        answer.data = self.receive(length as usize);
                    }
                    return answer;
                }
                Reply::Chunk(part) => {
                    assert!(self.structured);
                    answer.cookie = part.cookie;
                    let payload = self.receive(part.length as usize);
                    take_chunk(&mut answer, part.kind, &payload);
                    if part.flags & wire::chunk_flag::DONE != 0 {
                        return answer;
                    }
                }
            }
        }
    }

    pub(crate) fn disconnect(mut self) {
        self.request(command::DISC, 0, 0, 0);
        assert!(self.is_closed());
    }
}

fn take_chunk(answer: &mut Answer, kind: u16, payload: &[u8]) {
    let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
    match kind {
        chunk::NONE => assert!(payload.is_empty()),
        chunk::OFFSET_DATA => answer.data.extend_from_slice(&payload[8..]),
        chunk::OFFSET_HOLE => {
            answer.hole = true;
            answer.data.resize(answer.data.len() + number(8) as usize, 0);
        }
        chunk::BLOCK_STATUS => {
            assert_eq!(number(0), 1, "the context");
            answer.extents = (4..payload.len()).step_by(8).map(|at| (number(at), number(at + 4))).collect();
        }
        chunk::ERROR => {
            answer.error = number(0);
            let length = usize::from(u16::from_be_bytes(payload[4..6].try_into().unwrap()));
            answer.message = String::from_utf8(payload[6..6 + length].to_vec()).unwrap();
        }
        other => panic!("unknown chunk {other}"),
    }
}
