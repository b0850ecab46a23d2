//! What a logical unit says of itself: the commands that ask, and what their answers mean. Does no I/O.

use crate::cdb::{self, Cdb};
use crate::page;
use crate::sense::{Key, Sense};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use platter_block::command::{CommandSet, CommandSets};
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;

/// LOGICAL UNIT NOT ACCESSIBLE, TARGET PORT IN STANDBY STATE.
const STANDBY: u8 = 0x0b;

/// Smallest and largest logical block that is taken.
const BLOCKS: core::ops::RangeInclusive<u64> = 512..=65536;
/// Largest discard or write-zeroes.
const MAX_DISCARD: u64 = 1 << 30;
/// How often a question is asked again because of a unit attention.
const ATTENTIONS: usize = 16;
/// Bytes of a list of logical units that are asked for.
const UNITS: u64 = 8 + 8 * 1024;

/// What a logical unit says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Vendor (standard INQUIRY data).
    pub vendor: String,
    /// Product.
    pub product: String,
    /// Revision of the product.
    pub revision: String,
    /// Serial number (page 80h).
    pub serial: String,
    /// Page 83h, which names the unit.
    pub designation: Vec<u8>,
    /// Logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block.
    pub block: u64,
    physical_exponent: u64,
    max_transfer: u64,
    optimal_transfer: u64,
    max_unmap: u64,
    unmap_granularity: u64,
    max_write_same: u64,
    unmaps: bool,
    /// Whether WRITE SAME (16) is supported.
    pub write_same: bool,
    /// Rotations a minute; 1: does not rotate; 0: not told.
    pub rotation: u64,
    /// `None`: not told.
    pub write_cache: Option<bool>,
    /// Whether writes can be forced to the medium (DPOFUA).
    pub fua: bool,
    /// Whether the medium is write protected.
    pub write_protected: bool,
    /// Numbers of the target's logical units, where it was asked for them.
    pub units: Vec<u16>,
}

/// Why a logical unit cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It may be ready later, and why it is not now.
    NotReady(String),
    /// The target has no such logical unit.
    NoUnit,
    /// It cannot be used, and why.
    Unfit(String),
}

/// What a transport takes at most in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Bytes.
    pub max_transfer: u32,
    /// Segments.
    pub max_segments: u16,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Ready,
    Inquiry,
    Page(u8),
    Capacity16,
    Capacity10,
    Cache,
    WriteSame,
    Units,
}

impl Question {
    /// Whether a disk can be used without the answer.
    fn is_optional(self) -> bool {
        matches!(self, Question::Page(_) | Question::Cache | Question::WriteSame)
    }
}

/// The pages of interest.
const PAGES: [u8; 5] = [0x80, 0x83, 0xb0, 0xb1, 0xb2];

/// Asks a logical unit about itself.
#[derive(Debug)]
pub struct Inquirer {
    left: Vec<Question>,
    found: Found,
    attentions: Vec<(u8, u8)>,
}

/// The number of a logical unit, of the eight bytes of an entry of REPORT LUNS: peripheral device or flat space addressing
/// (SAM-5, 4.7). `None`: it is addressed in another way.
fn unit(entry: u64) -> Option<u16> {
    let first = (entry >> 48) as u16;
    match first >> 14 {
        _ if entry << 16 != 0 => None,
        0 if first <= 0xff => Some(first),
        1 => Some(first & 0x3fff),
        _ => None,
    }
}

impl Inquirer {
    /// Asks for everything that a disk needs.
    pub fn of_disk() -> Inquirer {
        use Question::{Cache, Capacity16, Inquiry, Page, Ready, WriteSame};
        let left = vec![WriteSame, Cache, Capacity16, Page(0), Inquiry, Ready];
        Inquirer { left, found: Found::default(), attentions: Vec::new() }
    }

    /// Asks for the capacity only.
    #[cfg(feature = "disk")]
    pub(crate) fn of_size() -> Inquirer {
        Inquirer { left: vec![Question::Capacity16, Question::Ready], ..Inquirer::of_disk() }
    }

    /// Asks a target for its logical units instead.
    pub fn of_units() -> Inquirer {
        Inquirer { left: vec![Question::Units], ..Inquirer::of_disk() }
    }

    /// The next question: a command, and how much it returns. `None`: everything is known.
    pub fn next(&self) -> Option<(Cdb, usize)> {
        let question = *self.left.last()?;
        let cdb = Cdb::new;
        let inquiry = |len: usize| cdb(&cdb::INQUIRY).with("ALLOCATION LENGTH", len as u64);
        Some(match question {
            Question::Ready => (cdb(&cdb::TEST_UNIT_READY), 0),
            Question::Inquiry => (inquiry(96), 96),
            Question::Page(page) => (inquiry(255).with("EVPD", 1).with("PAGE CODE", u64::from(page)), 255),
            Question::Capacity16 => (cdb(&cdb::READ_CAPACITY_16).with("ALLOCATION LENGTH", 32), 32),
            Question::Capacity10 => (cdb(&cdb::READ_CAPACITY_10), 8),
            Question::Cache => {
                let sense = cdb(&cdb::MODE_SENSE_10).with("DBD", 1).with("PAGE CODE", 8);
                (sense.with("ALLOCATION LENGTH", 252), 252)
            }
            Question::Units => (cdb(&cdb::REPORT_LUNS).with("ALLOCATION LENGTH", UNITS), UNITS as usize),
            Question::WriteSame => {
                let code = u64::from(cdb::WRITE_SAME_16.opcode);
                let report = cdb(&cdb::REPORT_SUPPORTED_OPERATION_CODES).with("REPORTING OPTIONS", 1);
                (report.with("REQUESTED OPERATION CODE", code).with("ALLOCATION LENGTH", 64), 64)
            }
        })
    }

    /// Takes the answer to the question: its data if it was answered, or its sense data.
    ///
    /// # Errors
    /// The logical unit cannot be used.
    pub fn take(&mut self, answer: Result<&[u8], &[u8]>) -> Result<(), Refused> {
        let Some(&question) = self.left.last() else { return Ok(()) };
        let data = match answer {
            Ok(data) => data,
            Err(sense) => return self.failed(question, sense),
        };
        self.left.pop();
        self.learn(question, data)
    }

    /// The question was answered with RESERVATION CONFLICT: another initiator lets the unit answer only what SPC-4 allows to
    /// all. What a disk can be used without stays unknown.
    ///
    /// # Errors
    /// A disk cannot be used without the answer.
    pub fn take_conflict(&mut self) -> Result<(), Refused> {
        match self.left.pop() {
            Some(question) if !question.is_optional() => {
                Err(Refused::Unfit("RESERVATION CONFLICT: another initiator has reserved it".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn failed(&mut self, question: Question, sense: &[u8]) -> Result<(), Refused> {
        let sense = Sense::decode(sense).map_err(|error| Refused::Unfit(error.to_string()))?;
        let (key, (asc, ascq)) = (sense.key(), sense.code());
        let words = crate::sense::words(asc, ascq).unwrap_or("for a reason that is not known here");
        match (key, asc) {
            (Key::UNIT_ATTENTION, _) if self.attentions.len() < ATTENTIONS => {
                self.attentions.push((asc, ascq));
                Ok(())
            }
            // A reset may interrupt.
            (Key::ABORTED_COMMAND, _) if self.attentions.len() < ATTENTIONS => {
                self.attentions.push((asc, ascq));
                Ok(())
            }
            // The port cannot reach the medium now (ALUA). The unit tells what it is nevertheless, where it can.
            (Key::NOT_READY, 4) if ascq == STANDBY && question == Question::Ready => {
                self.left.pop();
                Ok(())
            }
            (Key::NOT_READY, 4) => Err(Refused::NotReady(words.to_owned())),
            (Key::ILLEGAL_REQUEST, 0x25) => Err(Refused::NoUnit),
            (Key::ILLEGAL_REQUEST, _) if question == Question::Capacity16 => {
                self.left.pop();
                self.left.push(Question::Capacity10);
                Ok(())
            }
            (Key::ILLEGAL_REQUEST, _) if question.is_optional() => {
                self.left.pop();
                Ok(())
            }
            _ => {
                Err(Refused::Unfit(format!("the logical unit refuses to be asked: {}, {words}", key.name())))
            }
        }
    }

    fn learn(&mut self, question: Question, data: &[u8]) -> Result<(), Refused> {
        let found = &mut self.found;
        match question {
            Question::Ready => {}
            Question::Inquiry => {
                let inquiry = page::INQUIRY.decode(data);
                let text = |at: core::ops::Range<usize>| {
                    let bytes = data.get(at).unwrap_or_default();
                    String::from_utf8_lossy(bytes).trim_matches([' ', '\0']).to_owned()
                };
                let kind = inquiry.get("PERIPHERAL DEVICE TYPE");
                if inquiry.get("PERIPHERAL QUALIFIER") != Some(0) {
                    return Err(Refused::NoUnit);
                }
                if kind != Some(0) {
                    let kind = kind.unwrap_or(0x1f);
                    return Err(Refused::Unfit(format!(
                        "the logical unit is no disk but of the type {kind:02x}h"
                    )));
                }
                (found.vendor, found.product, found.revision) = (text(8..16), text(16..32), text(32..36));
            }
            Question::Page(0) => {
                let listed = page::vpd(data).decode(data).items();
                let has = |code: u8| listed.iter().any(|item| item.get("PAGE CODE") == Some(u64::from(code)));
                self.left.extend(PAGES.into_iter().filter(|code| has(*code)).map(Question::Page));
            }
            Question::Page(code) => found.learn_page(code, data),
            Question::Capacity16 | Question::Capacity10 => found.learn_capacity(question, data)?,
            Question::Cache => {
                let mode = page::MODE_PARAMETERS_10.decode(data);
                found.write_protected = mode.get("WP") == Some(1);
                let caching = mode.items().into_iter().find(|item| item.get("PAGE CODE") == Some(8));
                found.write_cache = caching.and_then(|item| item.get("WCE")).map(|flag| flag == 1);
                found.fua = mode.get("DPOFUA") == Some(1);
            }
            Question::Units => {
                let listed = page::LUNS.decode(data).items();
                found.units = listed.iter().filter_map(|item| item.get("LUN")).filter_map(unit).collect();
            }
            // SUPPORT is 3 where the command is as in the standard, 5 where it is not quite.
            Question::WriteSame => found.write_same = data.get(1).is_some_and(|byte| byte & 7 == 3),
        }
        Ok(())
    }

    /// What was learned, and the unit attentions that came before it.
    pub fn into_found(self) -> (Found, Vec<(u8, u8)>) {
        (self.found, self.attentions)
    }
}

impl Found {
    fn learn_page(&mut self, code: u8, data: &[u8]) {
        let decoded = page::vpd(data).decode(data);
        let get = |name: &str| decoded.get(name).unwrap_or(0);
        match code {
            0x80 => {
                let text = String::from_utf8_lossy(decoded.bytes().get(4..).unwrap_or_default()).into_owned();
                self.serial = text.trim_matches([' ', '\0']).to_owned();
            }
            0x83 => self.designation = decoded.bytes().to_vec(),
            0xb0 => {
                self.max_transfer = get("MAXIMUM TRANSFER LENGTH");
                self.optimal_transfer = get("OPTIMAL TRANSFER LENGTH");
                self.max_unmap = get("MAXIMUM UNMAP LBA COUNT");
                self.unmap_granularity = get("OPTIMAL UNMAP GRANULARITY");
                self.max_write_same = get("MAXIMUM WRITE SAME LENGTH");
            }
            0xb1 => self.rotation = get("MEDIUM ROTATION RATE"),
            _ => self.unmaps = get("LBPU") == 1,
        }
    }

    fn learn_capacity(&mut self, question: Question, data: &[u8]) -> Result<(), Refused> {
        let decoded = match question {
            Question::Capacity16 => page::CAPACITY_16.decode(data),
            _ => page::CAPACITY_10.decode(data),
        };
        let last = decoded.get("RETURNED LOGICAL BLOCK ADDRESS");
        let block = decoded.get("LOGICAL BLOCK LENGTH IN BYTES");
        let (Some(last), Some(block)) = (last, block) else {
            return Err(Refused::Unfit("the logical unit does not tell its capacity".to_owned()));
        };
        self.physical_exponent = decoded.get("LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT").unwrap_or(0);
        if decoded.get("PROT_EN") == Some(1) {
            let why = "the logical unit is formatted with protection information, which is not spoken here; format it without";
            return Err(Refused::Unfit(why.to_owned()));
        }
        if !BLOCKS.contains(&block) || !block.is_power_of_two() {
            return Err(Refused::Unfit(format!(
                "the logical unit has blocks of {block} bytes; powers of two from {} to {} can be used",
                BLOCKS.start(),
                BLOCKS.end()
            )));
        }
        if last
            .checked_add(1)
            .and_then(|blocks| blocks.checked_mul(block))
            .is_none_or(|size| size > i64::MAX as u64)
        {
            return Err(Refused::Unfit(format!(
                "the logical unit claims to have {last} blocks of {block} bytes"
            )));
        }
        (self.blocks, self.block) = (last + 1, block);
        Ok(())
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.blocks * self.block
    }

    /// Longest run of a limit that is told in blocks, of which 0 means none; at most `most` bytes.
    fn bytes(&self, blocks: u64, most: u64) -> u64 {
        match blocks {
            0 => most,
            _ => blocks.saturating_mul(self.block).min(most) / self.block * self.block,
        }
    }

    /// Whether UNMAP is used for discards.
    pub fn has_unmap(&self) -> bool {
        self.unmaps && self.max_unmap > 0
    }

    /// Limits and features for the queue, with the bytes and segments of a request that the transport takes at most.
    pub fn geometry(&self, write: bool, transport: Transport) -> Geometry {
        let transported = Limits::unlimited(self.block as u32)
            .with_max_transfer(transport.max_transfer)
            .with_max_segments(transport.max_segments);
        let limits = self.limits(transported);
        let limits = limits.with_max_segment_size(limits.max_transfer);
        Geometry::new(self.size(), limits).with_features(self.features(write))
    }

    /// The limits of the unit, within those of the way to it.
    pub(crate) fn limits(&self, way: Limits) -> Limits {
        let max = self.bytes(self.max_transfer, u64::from(way.max_transfer)) as u32;
        let physical = (self.block << self.physical_exponent).min(1 << 20) as u32;
        let granularity =
            if self.has_unmap() { self.unmap_granularity.max(1).saturating_mul(self.block) } else { 0 };
        let unmap = if self.has_unmap() { self.bytes(self.max_unmap, MAX_DISCARD) } else { MAX_DISCARD };
        let same = if self.write_same { self.bytes(self.max_write_same, MAX_DISCARD) } else { MAX_DISCARD };
        let optimal = self.bytes(self.optimal_transfer, u64::from(max)) as u32;
        way.with_logical_block(self.block as u32)
            .with_physical_block(physical)
            .with_max_transfer(max)
            .with_optimal_io(if self.optimal_transfer == 0 { 0 } else { optimal })
            .with_discard_granularity(u32::try_from(granularity).unwrap_or(0))
            .with_max_discard(unmap.min(same))
            .with_write_zeroes(self.write_same)
    }

    /// What the unit can do, as a disk that is open for writing or not.
    pub(crate) fn features(&self, write: bool) -> Features {
        // A unit that does not tell may have a cache.
        let cache = self.write_cache != Some(false);
        Features::NONE
            .with_write_cache(cache)
            .with_fua(cache && self.fua)
            .with_commands(CommandSets::NONE.with(CommandSet::Scsi))
            .with_read_only(!write || self.write_protected)
    }

    /// What is another disk than before, if it is.
    pub fn difference(&self, now: &Found) -> Option<String> {
        let size = |found: &Found| format!("{} bytes in blocks of {}", found.size(), found.block);
        let changed = |what: &str, from: &str, to: &str| Some(format!("{what} was {from} and is {to}"));
        let of_unit = |found: &Found| found.designation.clone();
        if size(now) != size(self) {
            changed("its size", &size(self), &size(now))
        } else if now.serial != self.serial {
            changed("its serial number", &self.serial, &now.serial)
        } else if of_unit(now) != of_unit(self) {
            Some("its designation (VPD page 83h) has changed".to_owned())
        } else if now.write_protected && !self.write_protected {
            changed("it", "writable", "write protected")
        } else if now.write_cache != Some(false) && self.write_cache == Some(false) {
            changed("its write cache", "off", "on")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
