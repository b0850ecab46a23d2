//! The client's side of the negotiation, without I/O: bytes of the server go in, bytes for it come out.
//!
//! The client asks for structured replies, for the metadata context of the allocation status, and for the export with
//! its block sizes. A server that knows none of these options gets the old `EXPORT_NAME`. If the export does not exist,
//! the client asks for the list of those that do, so that the error can name them.

use super::wire::{
    BASE_ALLOCATION, INIT_MAGIC, MAX_STRING_BYTES, OPTION_MAGIC, OptionHeader, OptionReply, client_flag,
    info, option, option_reply, server_flag, transmission_flag,
};
use platter_block::text::{excerpt, printable};
use std::fmt;

/// Longest data of a reply that is accepted: two strings and what is around them.
const MAX_REPLY: u32 = 4 * MAX_STRING_BYTES as u32;
/// Most replies of a negotiation.
const MAX_REPLIES: u32 = 10_000;
/// Most names of exports that are kept.
const MAX_NAMES: usize = 1000;
/// The magic number of the negotiation that ended with nbd 2.9.
const OLD_STYLE: u64 = 0x0000_4202_8186_1253;
/// Zeroes after the answer to `EXPORT_NAME`.
const ZEROES: usize = 124;

/// The sizes of requests that a server takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it; a power of two.
    pub min: u32,
    /// The size at which requests become efficient; a power of two.
    pub preferred: u32,
    /// The largest read or write.
    pub max: u32,
}

impl BlockSizes {
    /// What the protocol assumes of a server that does not say.
    pub const DEFAULT: BlockSizes = BlockSizes { min: 1, preferred: 4096, max: 32 << 20 };
}

/// An export, as a server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// Size in bytes.
    pub size: u64,
    /// See [`transmission_flag`].
    pub flags: u16,
    /// The sizes of its requests, if the server has said.
    pub blocks: Option<BlockSizes>,
    /// Whether replies are structured.
    pub structured: bool,
    /// The id of the metadata context of the allocation status, if the server has it.
    pub allocation: Option<u32>,
}

impl Export {
    /// Whether the export has a flag of [`transmission_flag`].
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The result of a negotiation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transmission phase has begun.
    Export(Export),
    /// The names of the server's exports. The negotiation has ended.
    List(Vec<String>),
    /// TLS begins with the next byte in each direction. After that [`Handshake::encrypted`] goes on.
    StartTls,
}

/// Why a negotiation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The server has not kept to the protocol.
    Protocol(String),
    /// The server has no export of this name.
    UnknownExport {
        /// The name.
        name: String,
        /// The names that it has, if it tells.
        known: Option<Vec<String>>,
    },
    /// The server demands TLS.
    TlsRequired,
    /// The server has no TLS, for this reason.
    NoTls(String),
    /// The server has refused, for this reason.
    Refused(String),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Protocol(what) => {
                write!(f, "the server does not keep to the NBD protocol: {what}")
            }
            HandshakeError::UnknownExport { name, known } => {
                write!(f, "the server has no export `{}`", printable(name))?;
                match known.as_deref() {
                    None => f.write_str("; it does not list those it has"),
                    Some([]) => f.write_str("; it lists none at all"),
                    Some(names) => {
                        let shown: Vec<_> = names.iter().take(20).map(|name| excerpt(name, 64)).collect();
                        write!(f, "; it has `{}`", shown.join("`, `"))?;
                        match names.len() - shown.len() {
                            0 => Ok(()),
                            more => write!(f, " and {more} more"),
                        }
                    }
                }
            }
            HandshakeError::TlsRequired => f.write_str("the server demands TLS; use nbds:// or nbds+unix://"),
            HandshakeError::NoTls(why) => write!(
                f,
                "the server does not encrypt ({why}); start it with a certificate, or use nbd:// over a network that is trusted"
            ),
            HandshakeError::Refused(why) => write!(f, "the server refuses: {why}"),
        }
    }
}

impl std::error::Error for HandshakeError {}

/// What the client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    StartTls,
    Structured,
    Context,
    Go,
    ExportName,
    List,
    Done,
}

/// A negotiation.
#[derive(Debug)]
pub struct Handshake {
    export: String,
    /// TLS is to begin.
    tls: bool,
    /// The list is wanted, or the export was not found.
    lists: bool,
    unknown: bool,
    step: Step,
    no_zeroes: bool,
    replies: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    found: Export,
    size_known: bool,
    names: Vec<String>,
}

impl Handshake {
    /// A negotiation that begins to use an export.
    pub fn open(export: &str) -> Handshake {
        Handshake {
            export: export.to_owned(),
            tls: false,
            lists: false,
            unknown: false,
            step: Step::Greeting,
            no_zeroes: false,
            replies: 0,
            input: Vec::new(),
            output: Vec::new(),
            found: Export { size: 0, flags: 0, blocks: None, structured: false, allocation: None },
            size_known: false,
            names: Vec::new(),
        }
    }

    /// A negotiation that lists the exports.
    pub fn list() -> Handshake {
        Handshake { lists: true, ..Handshake::open("") }
    }

    /// Asks for TLS before anything else. Nothing of the negotiation is believed that comes without it.
    #[must_use]
    pub fn with_tls(self) -> Handshake {
        Handshake { tls: true, ..self }
    }

    /// TLS has begun, after [`Outcome::StartTls`]: the negotiation goes on.
    pub fn encrypted(&mut self) {
        self.begin();
    }

    /// The first option.
    fn begin(&mut self) {
        match self.lists {
            true => self.ask(Step::List, option::LIST, &[]),
            false => self.ask(Step::Structured, option::STRUCTURED_REPLY, &[]),
        }
    }

    /// What is to be sent now. The caller removes what it has sent.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// The negotiation has failed; the connection is to be closed.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Option<Outcome>, HandshakeError> {
        self.input.extend_from_slice(bytes);
        let mut outcome = None;
        while outcome.is_none() {
            let Some((taken, result)) = self.advance()? else { break };
            self.input.drain(..taken);
            outcome = result;
        }
        if outcome.is_some() {
            self.step = Step::Done;
            if !self.input.is_empty() {
                return Err(protocol("bytes follow the negotiation although nothing was requested"));
            }
        }
        Ok(outcome)
    }

    /// Takes the next message of the input: returns its length. `None`: it is not complete.
    fn advance(&mut self) -> Result<Option<(usize, Option<Outcome>)>, HandshakeError> {
        match self.step {
            Step::Greeting => self.greeting(),
            Step::ExportName => self.export_name(),
            Step::Done => Err(protocol("the negotiation is over")),
            _ => self.option_reply(),
        }
    }

    fn greeting(&mut self) -> Result<Option<(usize, Option<Outcome>)>, HandshakeError> {
        let input = &self.input;
        if input.len() >= 8 && be64(input, 0) != INIT_MAGIC {
            return Err(protocol("it does not begin with NBDMAGIC; is this port that of another service?"));
        }
        if input.len() >= 16 && be64(input, 8) != OPTION_MAGIC {
            return Err(protocol(match be64(input, 8) {
                OLD_STYLE => "it speaks the oldstyle negotiation, which has no exports and no options",
                _ => "its greeting has an unknown magic number",
            }));
        }
        if input.len() < 18 {
            return Ok(None);
        }
        let flags = be16(input, 16);
        self.no_zeroes = flags & server_flag::NO_ZEROES != 0;
        let fixed = flags & server_flag::FIXED_NEWSTYLE != 0;
        let mut own = 0;
        if fixed {
            own |= client_flag::FIXED_NEWSTYLE;
        }
        if self.no_zeroes {
            own |= client_flag::NO_ZEROES;
        }
        self.output.extend(own.to_be_bytes());
        match (fixed, self.lists) {
            (true, _) if self.tls => self.ask(Step::StartTls, option::STARTTLS, &[]),
            (true, _) => self.begin(),
            (false, _) if self.tls => {
                return Err(HandshakeError::NoTls("it knows no options".to_owned()));
            }
            (false, false) => self.ask_by_name(),
            (false, true) => {
                return Err(HandshakeError::Refused("it cannot list exports (no fixed newstyle)".to_owned()));
            }
        }
        Ok(Some((18, None)))
    }

    fn ask(&mut self, step: Step, option: u32, data: &[u8]) {
        self.step = step;
        let header = OptionHeader { option, length: data.len() as u32 };
        self.output.extend(header.to_bytes());
        self.output.extend(data);
    }

    fn ask_by_name(&mut self) {
        let name = self.export.clone();
        self.ask(Step::ExportName, option::EXPORT_NAME, name.as_bytes());
    }

    fn ask_for_context(&mut self) {
        let mut data = string(&self.export);
        data.extend(1u32.to_be_bytes());
        data.extend(string(BASE_ALLOCATION));
        self.ask(Step::Context, option::SET_META_CONTEXT, &data);
    }

    fn ask_to_go(&mut self) {
        let mut data = string(&self.export);
        data.extend(1u16.to_be_bytes());
        data.extend(info::BLOCK_SIZE.to_be_bytes());
        self.ask(Step::Go, option::GO, &data);
    }

    /// The end of a negotiation that does not lead to an export.
    fn abort(&mut self) {
        self.ask(Step::Done, option::ABORT, &[]);
    }

    /// The answer to `EXPORT_NAME`, which has no header.
    fn export_name(&mut self) -> Result<Option<(usize, Option<Outcome>)>, HandshakeError> {
        let len = if self.no_zeroes { 10 } else { 10 + ZEROES };
        if self.input.len() < len {
            return Ok(None);
        }
        self.found.size = be64(&self.input, 0);
        self.found.flags = be16(&self.input, 8);
        Ok(Some((len, Some(self.outcome()?))))
    }

    fn outcome(&mut self) -> Result<Outcome, HandshakeError> {
        if !self.found.has(transmission_flag::HAS_FLAGS) {
            // Bits of a server that says it has none mean nothing.
            self.found.flags = 0;
        }
        if self.found.size > i64::MAX as u64 {
            return Err(protocol("the size of the export is beyond 2^63"));
        }
        Ok(Outcome::Export(self.found.clone()))
    }

    fn option_reply(&mut self) -> Result<Option<(usize, Option<Outcome>)>, HandshakeError> {
        let Some(header) = self.input.first_chunk::<{ OptionReply::BYTES }>() else { return Ok(None) };
        let Some(header) = OptionReply::parse(header) else {
            return Err(protocol("a reply to an option has a wrong magic number"));
        };
        if header.length > MAX_REPLY {
            return Err(protocol(&format!(
                "a reply to an option has {} bytes, more than {MAX_REPLY}",
                header.length
            )));
        }
        let end = OptionReply::BYTES + header.length as usize;
        if self.input.len() < end {
            return Ok(None);
        }
        self.replies += 1;
        if self.replies > MAX_REPLIES {
            return Err(protocol(&format!("it has sent more than {MAX_REPLIES} replies")));
        }
        let asked = match self.step {
            Step::StartTls => option::STARTTLS,
            Step::Structured => option::STRUCTURED_REPLY,
            Step::Context => option::SET_META_CONTEXT,
            Step::Go => option::GO,
            _ => option::LIST,
        };
        if header.option != asked {
            return Err(protocol(&format!("it answers option {}, but was asked for {asked}", header.option)));
        }
        let data = self.input[OptionReply::BYTES..end].to_vec();
        let outcome = match self.step {
            Step::StartTls => match header.kind {
                option_reply::ACK => Some(Outcome::StartTls),
                _ if header.is_error() => return Err(HandshakeError::NoTls(reason(header.kind, &data))),
                _ => return Err(unexpected(header)),
            },
            Step::Structured => self.on_structured(header)?,
            Step::Context => self.on_context(header, &data)?,
            Step::Go => self.on_go(header, &data)?,
            _ => self.on_list(header, &data)?,
        };
        Ok(Some((end, outcome)))
    }

    fn on_structured(&mut self, header: OptionReply) -> Result<Option<Outcome>, HandshakeError> {
        match header.kind {
            option_reply::ACK => {
                self.found.structured = true;
                self.ask_for_context();
            }
            option_reply::ERR_TLS_REQD => return Err(HandshakeError::TlsRequired),
            _ if header.is_error() => self.ask_to_go(),
            _ => return Err(unexpected(header)),
        }
        Ok(None)
    }

    fn on_context(&mut self, header: OptionReply, data: &[u8]) -> Result<Option<Outcome>, HandshakeError> {
        match header.kind {
            option_reply::META_CONTEXT if data.len() >= 4 => {
                if &data[4..] == BASE_ALLOCATION.as_bytes() {
                    self.found.allocation = Some(be32(data, 0));
                }
            }
            option_reply::ACK => self.ask_to_go(),
            // Also for an unknown export: the answer to GO says it.
            _ if header.is_error() => {
                self.found.allocation = None;
                self.ask_to_go();
            }
            _ => return Err(unexpected(header)),
        }
        Ok(None)
    }

    fn on_go(&mut self, header: OptionReply, data: &[u8]) -> Result<Option<Outcome>, HandshakeError> {
        match header.kind {
            option_reply::INFO => {
                self.info(data)?;
                Ok(None)
            }
            option_reply::ACK if !self.size_known => Err(protocol("it begins without telling the size")),
            option_reply::ACK => Ok(Some(self.outcome()?)),
            option_reply::ERR_UNSUP => {
                // Without GO a server may not know contexts either, and tells nothing of unknown names.
                self.found.allocation = None;
                self.ask_by_name();
                Ok(None)
            }
            option_reply::ERR_UNKNOWN => {
                self.unknown = true;
                self.ask(Step::List, option::LIST, &[]);
                Ok(None)
            }
            option_reply::ERR_TLS_REQD => Err(HandshakeError::TlsRequired),
            _ if header.is_error() => {
                self.abort();
                Err(HandshakeError::Refused(reason(header.kind, data)))
            }
            _ => Err(unexpected(header)),
        }
    }

    fn info(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        if data.len() < 2 {
            return Err(protocol("an information has no type"));
        }
        match (be16(data, 0), data.len()) {
            (info::EXPORT, 12) => {
                (self.found.size, self.found.flags) = (be64(data, 2), be16(data, 10));
                self.size_known = true;
            }
            (info::BLOCK_SIZE, 14) => {
                let sizes = BlockSizes { min: be32(data, 2), preferred: be32(data, 6), max: be32(data, 10) };
                check_sizes(sizes)?;
                self.found.blocks = Some(sizes);
            }
            (info::EXPORT | info::BLOCK_SIZE, _) => {
                return Err(protocol("an information has the wrong length"));
            }
            _ => {}
        }
        Ok(())
    }

    fn on_list(&mut self, header: OptionReply, data: &[u8]) -> Result<Option<Outcome>, HandshakeError> {
        let name = std::mem::take(&mut self.export);
        match header.kind {
            option_reply::SERVER => {
                self.export = name;
                self.listed(data)?;
                Ok(None)
            }
            option_reply::ACK => {
                let known = std::mem::take(&mut self.names);
                self.abort();
                match self.unknown {
                    true => Err(HandshakeError::UnknownExport { name, known: Some(known) }),
                    false => Ok(Some(Outcome::List(known))),
                }
            }
            _ if header.is_error() && self.unknown => {
                self.abort();
                Err(HandshakeError::UnknownExport { name, known: None })
            }
            option_reply::ERR_TLS_REQD => Err(HandshakeError::TlsRequired),
            _ if header.is_error() => {
                self.abort();
                Err(HandshakeError::Refused(reason(header.kind, data)))
            }
            _ => Err(unexpected(header)),
        }
    }

    fn listed(&mut self, data: &[u8]) -> Result<(), HandshakeError> {
        if data.len() < 4 {
            return Err(protocol("an export of the list has no name"));
        }
        let (len, rest) = (be32(data, 0) as usize, &data[4..]);
        if len > rest.len() {
            return Err(protocol("the name of an export is longer than its reply"));
        }
        let name = String::from_utf8_lossy(&rest[..len]);
        if self.names.len() < MAX_NAMES {
            self.names.push(name.into_owned());
        }
        Ok(())
    }
}

fn check_sizes(sizes: BlockSizes) -> Result<(), HandshakeError> {
    let BlockSizes { min, preferred, max } = sizes;
    // A server without a limit says 2^32 - 1.
    let whole = max == u32::MAX || max.is_multiple_of(min.max(1));
    if min.is_power_of_two()
        && min <= 1 << 16
        && preferred.is_power_of_two()
        && preferred >= min
        && max >= min
        && whole
    {
        return Ok(());
    }
    Err(protocol(&format!("its block sizes are impossible (min {min}, preferred {preferred}, max {max})")))
}

/// Why an option failed: the server's own words, if it has sent any.
fn reason(kind: u32, data: &[u8]) -> String {
    let name = match kind {
        option_reply::ERR_UNSUP => "it does not know the option",
        option_reply::ERR_POLICY => "its policy forbids it",
        option_reply::ERR_INVALID => "it finds the request invalid",
        option_reply::ERR_PLATFORM => "it was built without it",
        option_reply::ERR_SHUTDOWN => "it is shutting down",
        option_reply::ERR_BLOCK_SIZE_REQD => "it wants block sizes to be negotiated",
        option_reply::ERR_TOO_BIG => "it finds the request too long",
        _ => "error",
    };
    let words = excerpt(&String::from_utf8_lossy(data), 200);
    match (name, words.is_empty()) {
        ("error", true) => format!("error {kind:#x}"),
        (name, true) => name.to_owned(),
        (name, false) => format!("{name}: {words}"),
    }
}

fn protocol(what: &str) -> HandshakeError {
    HandshakeError::Protocol(what.to_owned())
}

fn unexpected(header: OptionReply) -> HandshakeError {
    protocol(&format!("a reply of type {:#x} to option {}", header.kind, header.option))
}

/// A string with its length before it.
fn string(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

#[cfg(test)]
mod tests;
