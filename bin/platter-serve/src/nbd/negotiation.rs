//! The negotiation as a state machine: bytes in, bytes out. It does no I/O, so it is tested and fuzzed as it is.

use super::terms::{MAX_PAYLOAD_BYTES, Terms};
use crate::served::{Devices, Served};
use platter_remote::nbd::wire::{self, OptionHeader, OptionReply, info, option, option_reply};
use std::sync::Arc;

/// Most bytes of data of an option: two strings of the longest kind and then some. Longer ones are skipped and refused.
pub const MAX_OPTION_BYTES: u32 = 16 << 10;

/// Most options of one connection. Clients need fewer than ten.
const MAX_OPTIONS: u32 = 1024;

/// The number by which replies name the metadata context `base:allocation`.
pub(super) const ALLOCATION_CONTEXT: u32 = 1;

/// Which connections may or must be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// None is: the server has no certificate, or the connection is encrypted already.
    Unavailable,
    /// The client may begin TLS.
    Allowed,
    /// The client must begin TLS before anything else.
    Required,
}

/// What follows from the bytes that were given.
pub enum Step {
    /// More bytes are needed.
    NeedMore,
    /// Call again with what is left.
    Again,
    /// The reply is to be sent, then TLS begins. Nothing of the input may be left.
    StartTls,
    /// Requests follow.
    Agreed(Agreed),
    /// The client has ended the negotiation; the connection is to be closed once the reply is sent.
    Abort,
    /// The connection is to be closed, for this reason.
    Close(&'static str),
}

/// The device that a client has chosen.
pub struct Agreed {
    /// The device.
    pub served: Arc<Served>,
    /// The terms.
    pub terms: Terms,
}

/// One negotiation.
pub struct Negotiation<'a> {
    devices: &'a Devices,
    encryption: Encryption,
    /// The flags of the client, once they have been read.
    flags: Option<u32>,
    structured: bool,
    /// The device for which the client has chosen `base:allocation`.
    status_of: Option<Arc<Served>>,
    /// Bytes of an option's data that are still to be skipped.
    skip: u32,
    options: u32,
}

/// Data of an option that does not have the form that it should.
struct Malformed;

impl<'a> Negotiation<'a> {
    /// A negotiation about these devices.
    pub fn new(devices: &'a Devices, encryption: Encryption) -> Negotiation<'a> {
        Negotiation {
            devices,
            encryption,
            flags: None,
            structured: false,
            status_of: None,
            skip: 0,
            options: 0,
        }
    }

    /// What the server sends first.
    pub fn greet(&self, out: &mut Vec<u8>) {
        let flags = wire::server_flag::FIXED_NEWSTYLE | wire::server_flag::NO_ZEROES;
        out.extend_from_slice(&wire::INIT_MAGIC.to_be_bytes());
        out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
    }

    /// The connection is encrypted from now on; what was agreed on before is void.
    pub fn encrypted(&mut self) {
        self.encryption = Encryption::Unavailable;
        self.structured = false;
        self.status_of = None;
    }

    /// Takes bytes from the client and appends the reply to `out`. Returns how many bytes were used.
    pub fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        if self.skip > 0 {
            let skipped = input.len().min(self.skip as usize);
            self.skip -= skipped as u32;
            return (skipped, if self.skip > 0 { Step::NeedMore } else { Step::Again });
        }
        let Some(client) = self.flags else { return self.take_flags(input) };
        let Some(header) = input.first_chunk::<{ OptionHeader::BYTES }>() else { return (0, Step::NeedMore) };
        let Some(header) = OptionHeader::parse(header) else {
            return (0, Step::Close("the magic number of an option is wrong"));
        };
        if client & wire::client_flag::FIXED_NEWSTYLE == 0 && header.option != option::EXPORT_NAME {
            return (0, Step::Close("an option other than EXPORT_NAME without fixed newstyle negotiation"));
        }
        if header.length > MAX_OPTION_BYTES {
            return self.skip_option(header, out);
        }
        let end = OptionHeader::BYTES + header.length as usize;
        let Some(data) = input.get(OptionHeader::BYTES..end) else { return (0, Step::NeedMore) };
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return (end, Step::Close("too many options"));
        }
        (end, self.option(header.option, data, out))
    }

    fn take_flags(&mut self, input: &[u8]) -> (usize, Step) {
        let Some(bytes) = input.first_chunk::<4>() else { return (0, Step::NeedMore) };
        let flags = u32::from_be_bytes(*bytes);
        if flags & !(wire::client_flag::FIXED_NEWSTYLE | wire::client_flag::NO_ZEROES) != 0 {
            return (4, Step::Close("unknown client flags"));
        }
        self.flags = Some(flags);
        (4, Step::Again)
    }

    fn skip_option(&mut self, header: OptionHeader, out: &mut Vec<u8>) -> (usize, Step) {
        if header.option == option::EXPORT_NAME {
            return (OptionHeader::BYTES, Step::Close("the name of the export is too long"));
        }
        self.options += 1;
        if self.options > MAX_OPTIONS {
            return (OptionHeader::BYTES, Step::Close("too many options"));
        }
        self.skip = header.length;
        reply(out, header.option, option_reply::ERR_TOO_BIG, b"the data of the option is too long");
        (OptionHeader::BYTES, Step::Again)
    }

    fn option(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        if self.encryption == Encryption::Required && !matches!(number, option::STARTTLS | option::ABORT) {
            if number == option::EXPORT_NAME {
                return Step::Close("the client does not begin TLS, which is required");
            }
            return answer(out, number, option_reply::ERR_TLS_REQD, b"TLS is required");
        }
        match number {
            option::EXPORT_NAME => return self.export_name(data, out),
            option::ABORT => {
                reply(out, number, option_reply::ACK, b"");
                return Step::Abort;
            }
            option::STARTTLS if data.is_empty() => return self.start_tls(out),
            option::LIST if data.is_empty() => self.list(out),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, number, option_reply::ACK, b"");
            }
            option::STARTTLS | option::LIST | option::STRUCTURED_REPLY => {
                return answer(out, number, option_reply::ERR_INVALID, b"the option has no data");
            }
            option::INFO | option::GO => match self.describe(number, data, out) {
                Ok(Some(agreed)) if number == option::GO => return Step::Agreed(agreed),
                Ok(_) => {}
                Err(Malformed) => return malformed(out, number),
            },
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                if number == option::SET_META_CONTEXT {
                    self.status_of = None;
                }
                if self.contexts(number, data, out).is_err() {
                    return malformed(out, number);
                }
            }
            _ => reply(out, number, option_reply::ERR_UNSUP, b"unknown option"),
        }
        Step::Again
    }

    fn start_tls(&mut self, out: &mut Vec<u8>) -> Step {
        match self.encryption {
            Encryption::Unavailable => {
                answer(out, option::STARTTLS, option_reply::ERR_POLICY, b"TLS cannot begin here")
            }
            Encryption::Allowed | Encryption::Required => {
                reply(out, option::STARTTLS, option_reply::ACK, b"");
                Step::StartTls
            }
        }
    }

    fn list(&self, out: &mut Vec<u8>) {
        for served in self.devices.list() {
            let (name, about) = (served.name().as_bytes(), description(&served));
            let mut data = Vec::with_capacity(4 + name.len() + about.len());
            data.extend_from_slice(&(name.len() as u32).to_be_bytes());
            data.extend_from_slice(name);
            data.extend_from_slice(about);
            reply(out, option::LIST, option_reply::SERVER, &data);
        }
        reply(out, option::LIST, option_reply::ACK, b"");
    }

    fn agreed(&self, served: Arc<Served>) -> Agreed {
        let status = self.status_of.as_ref().is_some_and(|of| Arc::ptr_eq(of, &served));
        let terms = Terms { structured: self.structured, status, ..Terms::of(&served) };
        Agreed { served, terms }
    }

    fn export_name(&self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let name = std::str::from_utf8(data).ok().filter(|name| name.len() <= wire::MAX_STRING_BYTES);
        let Some(served) = name.and_then(|name| self.devices.find(name)) else {
            return Step::Close("the client asked for an export that does not exist");
        };
        let agreed = self.agreed(served);
        out.extend_from_slice(&agreed.terms.size.to_be_bytes());
        out.extend_from_slice(&agreed.terms.flags().to_be_bytes());
        if self.flags.is_some_and(|flags| flags & wire::client_flag::NO_ZEROES == 0) {
            out.extend_from_slice(&[0; 124]);
        }
        Step::Agreed(agreed)
    }

    /// Answers `INFO` and `GO`.
    fn describe(&self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Option<Agreed>, Malformed> {
        let mut rest = data;
        let name = string(&mut rest)?;
        let count = usize::from(u16::from_be_bytes(array(&mut rest)?));
        if rest.len() != 2 * count {
            return Err(Malformed);
        }
        let wants = |kind: u16| rest.chunks_exact(2).any(|asked| asked == kind.to_be_bytes());
        let Some(served) = self.devices.find(name) else {
            reply(out, number, option_reply::ERR_UNKNOWN, b"there is no export of this name");
            return Ok(None);
        };
        let agreed = self.agreed(served);
        let terms = &agreed.terms;
        let mut inform = |kind: u16, parts: &[&[u8]]| {
            let data = [&kind.to_be_bytes()[..], &parts.concat()].concat();
            reply(out, number, option_reply::INFO, &data);
        };
        inform(info::EXPORT, &[&terms.size.to_be_bytes(), &terms.flags().to_be_bytes()]);
        if wants(info::NAME) {
            inform(info::NAME, &[agreed.served.name().as_bytes()]);
        }
        if wants(info::DESCRIPTION) {
            inform(info::DESCRIPTION, &[description(&agreed.served)]);
        }
        if wants(info::BLOCK_SIZE) {
            let sizes = [terms.min_block, terms.preferred_block, MAX_PAYLOAD_BYTES].map(u32::to_be_bytes);
            inform(info::BLOCK_SIZE, &[&sizes[0], &sizes[1], &sizes[2]]);
        }
        reply(out, number, option_reply::ACK, b"");
        Ok(Some(agreed))
    }

    /// Answers `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
    fn contexts(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut rest = data;
        let name = string(&mut rest)?;
        let count = u32::from_be_bytes(array(&mut rest)?);
        let lists = number == option::LIST_META_CONTEXT;
        let mut asked = lists && count == 0;
        for _ in 0..count {
            let query = string(&mut rest)?;
            asked |= query == wire::BASE_ALLOCATION || (lists && query == "base:");
        }
        if !rest.is_empty() || !self.structured {
            return Err(Malformed);
        }
        let Some(served) = self.devices.find(name) else {
            reply(out, number, option_reply::ERR_UNKNOWN, b"there is no export of this name");
            return Ok(());
        };
        if asked {
            let id = if lists { 0 } else { ALLOCATION_CONTEXT };
            let data = [&id.to_be_bytes()[..], wire::BASE_ALLOCATION.as_bytes()].concat();
            reply(out, number, option_reply::META_CONTEXT, &data);
        }
        if asked && !lists {
            self.status_of = Some(served);
        }
        reply(out, number, option_reply::ACK, b"");
        Ok(())
    }
}

/// The description of a device, as far as the protocol's strings reach.
fn description(served: &Served) -> &[u8] {
    let about = served.about();
    let fits = (0..=about.len().min(wire::MAX_STRING_BYTES)).rev().find(|end| about.is_char_boundary(*end));
    &about.as_bytes()[..fits.unwrap_or(0)]
}

/// Appends a reply to an option.
fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let length = data.len() as u32;
    out.extend_from_slice(&OptionReply { option, kind, length }.to_bytes());
    out.extend_from_slice(data);
}

/// Replies to an option, and goes on.
fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) -> Step {
    reply(out, option, kind, data);
    Step::Again
}

fn malformed(out: &mut Vec<u8>, option: u32) -> Step {
    answer(out, option, option_reply::ERR_INVALID, b"the data of the option is malformed, or comes too early")
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (first, left) = rest.split_first_chunk::<N>().ok_or(Malformed)?;
    *rest = left;
    Ok(*first)
}

/// A string with its length in front.
fn string<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Malformed> {
    let length = u32::from_be_bytes(array(rest)?) as usize;
    if length > wire::MAX_STRING_BYTES || length > rest.len() {
        return Err(Malformed);
    }
    let (text, left) = rest.split_at(length);
    *rest = left;
    std::str::from_utf8(text).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
