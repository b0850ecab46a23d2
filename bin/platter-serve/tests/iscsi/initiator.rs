//! A small initiator, for tests: one command at a time, or units as they are told to it, right or wrong.

use platter_remote::iscsi::text;
use platter_remote::iscsi::wire::{DIGEST_BYTES, HEADER_BYTES, Header, NO_TAG, at, flag, opcode, padding};
use platter_scsi::cdb::Cdb;
use platter_scsi::sense::Sense;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for the server. Only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first target of a server without another prefix.
pub(crate) const TARGET: &str = "iqn.2026-11.localhost.platter:disk";

/// How to log in.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) target: String,
    pub(crate) isid: u8,
    pub(crate) digests: bool,
    pub(crate) initial_r2t: bool,
    pub(crate) immediate: bool,
    pub(crate) max_burst: u32,
    pub(crate) first_burst: u32,
    /// Longest segment that the target may send.
    pub(crate) max_receive: u32,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            target: TARGET.to_owned(),
            isid: 1,
            digests: false,
            initial_r2t: false,
            immediate: true,
            max_burst: 256 << 10,
            first_burst: 64 << 10,
            max_receive: 64 << 10,
        }
    }
}

/// The answer to a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Over- or underflow, and by how much.
    pub(crate) residual: (u8, u32),
}

impl Answer {
    /// Sense key and additional codes.
    pub(crate) fn why(&self) -> (u8, (u8, u8)) {
        let sense = Sense::decode(&self.sense).unwrap();
        (sense.key().0, sense.code())
    }
}

/// A session with its connection.
pub(crate) struct Initiator {
    pub(crate) stream: TcpStream,
    pub(crate) terms: Terms,
    pub(crate) cmd_sn: u32,
    digests: bool,
    next_tag: u32,
}

pub(crate) fn connect(address: &str) -> Initiator {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    Initiator { stream, terms: Terms::default(), cmd_sn: 1, digests: false, next_tag: 1 }
}

/// A session in the full feature phase. The unit attention of a new one has been taken.
pub(crate) fn attach(address: &str, terms: &Terms) -> Initiator {
    try_attach(address, terms).unwrap()
}

/// The same; it fails if the server disconnects meanwhile.
pub(crate) fn try_attach(address: &str, terms: &Terms) -> io::Result<Initiator> {
    let mut initiator = connect(address);
    let (status, _) = initiator.log_in(terms)?;
    assert_eq!(status, 0);
    let ready = initiator.command(&Cdb::new(&platter_scsi::cdb::TEST_UNIT_READY), 0, &[])?;
    assert_eq!(ready.why(), (6, (0x29, 0)));
    Ok(initiator)
}

impl Initiator {
    pub(crate) fn send(&mut self, header: Header, data: &[u8]) -> io::Result<()> {
        let header = header.with_data_bytes(data.len());
        let mut unit = header.0.to_vec();
        if self.digests {
            unit.extend(crc32c::crc32c(&header.0).to_le_bytes());
        }
        unit.extend(data);
        unit.extend(vec![0; padding(data.len())]);
        if self.digests && !data.is_empty() {
            let padded = &unit[HEADER_BYTES + DIGEST_BYTES..];
            let sum = crc32c::crc32c(padded);
            unit.extend(sum.to_le_bytes());
        }
        self.stream.write_all(&unit)
    }

    pub(crate) fn receive(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut header = Header([0; HEADER_BYTES]);
        self.stream.read_exact(&mut header.0)?;
        if self.digests {
            let mut sum = [0; DIGEST_BYTES];
            self.stream.read_exact(&mut sum)?;
            assert_eq!(sum, crc32c::crc32c(&header.0).to_le_bytes(), "{header:?}");
        }
        let bytes = header.data_bytes();
        let mut data = vec![0; bytes + padding(bytes)];
        self.stream.read_exact(&mut data)?;
        if self.digests && bytes > 0 {
            let mut sum = [0; DIGEST_BYTES];
            self.stream.read_exact(&mut sum)?;
            assert_eq!(sum, crc32c::crc32c(&data).to_le_bytes(), "{header:?}");
        }
        data.truncate(bytes);
        assert!(bytes <= self.terms.max_receive as usize || header.opcode() == opcode::LOGIN_RESPONSE);
        Ok((header, data))
    }

    /// Whether the server closes the connection next.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// A login request; returns the response's header and pairs.
    pub(crate) fn login(
        &mut self,
        flags: u8,
        pairs: &[(&str, &str)],
    ) -> io::Result<(Header, Vec<(String, String)>)> {
        let mut data = Vec::new();
        pairs.iter().for_each(|(key, value)| text::push(&mut data, key, value));
        let mut header = Header::new(opcode::LOGIN | 0x40, flags).with(at::CMD_SN, self.cmd_sn);
        (header.0[8], header.0[13]) = (0x80, self.terms.isid);
        self.send(header, &data)?;
        let (header, data) = self.receive()?;
        assert_eq!(header.opcode(), opcode::LOGIN_RESPONSE);
        Ok((header, text::parse(&data).unwrap()))
    }

    /// Logs in without authentication; the status, and what the target has answered.
    pub(crate) fn log_in(&mut self, terms: &Terms) -> io::Result<(u16, Vec<(String, String)>)> {
        self.terms = terms.clone();
        let word = |on: bool| if on { "Yes" } else { "No" };
        let digest = if terms.digests { "CRC32C" } else { "None" };
        let numbers =
            [terms.max_burst, terms.first_burst, terms.max_receive].map(|number| number.to_string());
        let pairs = [
            ("InitiatorName", "iqn.2026-11.localhost:test"),
            ("TargetName", &terms.target),
            ("HeaderDigest", digest),
            ("DataDigest", digest),
            ("InitialR2T", word(terms.initial_r2t)),
            ("ImmediateData", word(terms.immediate)),
            ("MaxBurstLength", &numbers[0]),
            ("FirstBurstLength", &numbers[1]),
            ("MaxRecvDataSegmentLength", &numbers[2]),
        ];
        let (header, answers) = self.login(flag::FINAL | 1 << 2 | 3, &pairs)?;
        self.digests = terms.digests;
        for (key, value) in &answers {
            match key.as_str() {
                "MaxBurstLength" => self.terms.max_burst = value.parse().unwrap(),
                "FirstBurstLength" => self.terms.first_burst = value.parse().unwrap(),
                _ => {}
            }
        }
        Ok((u16::from_be_bytes([header.0[36], header.0[37]]), answers))
    }

    pub(crate) fn tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    /// The header of a command, numbered. `expected` bytes are read, or written if `writes`.
    pub(crate) fn header(&mut self, cdb: &[u8], expected: u32, writes: bool) -> Header {
        let direction = match (expected, writes) {
            (0, _) => 0,
            (_, true) => flag::WRITE,
            (_, false) => flag::READ,
        };
        let mut header = Header::new(opcode::COMMAND, flag::FINAL | direction | 1)
            .with(at::TASK_TAG, self.tag())
            .with(at::EXPECTED_LENGTH, expected)
            .with(at::CMD_SN, self.cmd_sn);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        self.cmd_sn += 1;
        header
    }

    /// A command with so many bytes from, or this data to the target.
    pub(crate) fn command(&mut self, cdb: &Cdb, read: u32, data: &[u8]) -> io::Result<Answer> {
        let writes = !data.is_empty();
        let expected = if writes { data.len() as u32 } else { read };
        let header = self.header(cdb.bytes(), expected, writes);
        let first = (self.terms.first_burst as usize).min(data.len());
        let immediate = if self.terms.immediate { first.min(8 << 10) } else { 0 };
        let unsolicited = if self.terms.initial_r2t { immediate } else { first };
        let mut begun = header;
        if unsolicited > immediate {
            begun.0[1] &= !flag::FINAL;
        }
        self.send(begun, &data[..immediate])?;
        self.send_data(header.task_tag(), NO_TAG, data, immediate, unsolicited)?;
        self.answer(header.task_tag(), data)
    }

    /// Data from `from` to `end`, in segments.
    fn send_data(
        &mut self,
        tag: u32,
        transfer: u32,
        data: &[u8],
        mut from: usize,
        end: usize,
    ) -> io::Result<()> {
        const SEGMENT: usize = 10_000;
        let mut number = 0;
        while from < end {
            let to = (from + SEGMENT).min(end);
            let header = Header::new(opcode::DATA_OUT, if to == end { flag::FINAL } else { 0 })
                .with(at::TASK_TAG, tag)
                .with(at::TRANSFER_TAG, transfer)
                .with(at::DATA_SN, number)
                .with(at::BUFFER_OFFSET, from as u32);
            self.send(header, &data[from..to])?;
            (from, number) = (to, number + 1);
        }
        Ok(())
    }

    /// Receives until a command is answered.
    pub(crate) fn answer(&mut self, tag: u32, data: &[u8]) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            let (header, body) = self.receive()?;
            if header.task_tag() != tag {
                continue;
            }
            let residual = (header.flags() & (flag::OVERFLOW | flag::UNDERFLOW), header.get(at::RESIDUAL));
            match header.opcode() {
                opcode::R2T => {
                    let from = header.get(at::BUFFER_OFFSET) as usize;
                    let end = from + header.get(at::DESIRED_LENGTH) as usize;
                    assert!(end - from <= self.terms.max_burst as usize);
                    self.send_data(tag, header.get(at::TRANSFER_TAG), data, from, end)?;
                }
                opcode::DATA_IN => {
                    assert_eq!(header.get(at::BUFFER_OFFSET) as usize, answer.data.len());
                    answer.data.extend(body);
                    if header.flags() & flag::STATUS != 0 {
                        (answer.status, answer.residual) = (header.0[3], residual);
                        return Ok(answer);
                    }
                }
                opcode::RESPONSE => {
                    (answer.status, answer.residual) = (header.0[3], residual);
                    answer.sense = body.get(2..).unwrap_or_default().to_vec();
                    return Ok(answer);
                }
                other => panic!("a unit of the operation code {other:02x}h"),
            }
        }
    }

    /// A task management function; returns its tag.
    pub(crate) fn manage(&mut self, function: u8, referenced: u32) -> u32 {
        let tag = self.tag();
        let header = Header::new(opcode::MANAGEMENT | 0x40, flag::FINAL | function)
            .with(at::TASK_TAG, tag)
            .with(at::REFERENCED_TAG, referenced)
            .with(at::CMD_SN, self.cmd_sn);
        self.send(header, &[]).unwrap();
        tag
    }

    /// The response to a task management function.
    pub(crate) fn managed(&mut self, tag: u32) -> u8 {
        let (header, _) = self.receive().unwrap();
        assert_eq!((header.opcode(), header.task_tag()), (opcode::MANAGEMENT_RESPONSE, tag));
        header.0[2]
    }
}
