//! Commands that return data about the unit.

use super::medium::UNMAP_DESCRIPTORS;
use super::{Failure, Handler, Identity, Key, Modes, Plan, Response, Unit, field, handlers, invalid};
use crate::cdb::{self, Cdb, Command};
use crate::layout::find;
use crate::page;
use crate::structure::Structure;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const HANDLERS: &[(&Command, Handler)] = &[
    (&cdb::TEST_UNIT_READY, |_, _, _| Ok(Plan::Done(Response::GOOD))),
    (&cdb::REQUEST_SENSE, |_, cdb, _| sense(cdb, Failure::new(Key::NO_SENSE, 0, 0)).map(Plan::Done)),
    (&cdb::INQUIRY, inquiry),
    (&cdb::MODE_SENSE_6, mode_sense),
    (&cdb::MODE_SENSE_10, mode_sense),
    (&cdb::READ_CAPACITY_10, capacity_10),
    (&cdb::READ_CAPACITY_16, capacity_16),
    (&cdb::REPORT_LUNS, luns),
    (&cdb::REPORT_SUPPORTED_OPERATION_CODES, operation_codes),
];

/// The pages of vital product data.
const PAGES: &[u8] = &[0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2];

/// Bits of the mode pages: byte 2 of Caching, bytes 2 and 4 of Control.
pub(crate) const WCE: u8 = 1 << 2;
pub(crate) const D_SENSE: u8 = 1 << 2;
pub(crate) const SWP: u8 = 1 << 3;

/// Version descriptors: SAM-5, SPC-4 and SBC-3, no version claimed.
const VERSIONS: [u16; 3] = [0x00a0, 0x0460, 0x04c0];

/// As much of the data as the initiator has room for.
fn answer(cdb: &Cdb, data: Vec<u8>) -> Result<Plan, Failure> {
    Ok(Plan::Done(within(cdb, data)))
}

/// The same, as a response.
pub(crate) fn within(cdb: &Cdb, mut data: Vec<u8>) -> Response {
    if let Some(room) = cdb.get("ALLOCATION LENGTH") {
        data.truncate(usize::try_from(room).unwrap_or(usize::MAX));
    }
    Response::data(data)
}

/// A structure of `len` bytes with these fields. Numbers above the field's range become its largest value.
fn build(structure: &Structure, len: usize, fields: &[(&str, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (name, value) in fields {
        let field = find(structure.fields, name);
        let set = field.is_some_and(|field| field.set(&mut bytes, (*value).min(field.max())));
        debug_assert!(set, "{} has no field {name} within {len} bytes", structure.name);
    }
    bytes
}

/// Writes text, cut off or filled up with spaces.
fn put_text(bytes: &mut [u8], text: &str) {
    let ascii = text.bytes().map(|byte| if byte.is_ascii_graphic() { byte } else { b' ' });
    bytes.iter_mut().zip(ascii.chain(core::iter::repeat(b' '))).for_each(|(to, from)| *to = from);
}

/// The answer to REQUEST SENSE. Sense data of a command comes with its status, so what is pending is of the unit.
pub(crate) fn sense(cdb: &Cdb, pending: Failure) -> Result<Response, Failure> {
    let data = match field(cdb, "DESC") {
        0 => pending.to_fixed().to_vec(),
        _ => pending.to_descriptor(),
    };
    Ok(within(cdb, data))
}

fn inquiry(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    let code = field(cdb, "PAGE CODE");
    if field(cdb, "EVPD") == 0 {
        return if code == 0 {
            answer(cdb, standard(&unit.identity))
        } else {
            Err(invalid(cdb, "PAGE CODE"))
        };
    }
    let data = match code {
        0x00 => with_length(0x00, PAGES.to_vec()),
        0x80 => with_length(0x80, printable(&unit.identity.serial)),
        0x83 => with_length(0x83, designators(&unit.identity)),
        0xb0 => limits(unit),
        // No rotation rate is known of a device; writes with FUA are honoured as such.
        0xb1 => build(
            &page::BLOCK_DEVICE_CHARACTERISTICS,
            64,
            &[("PAGE CODE", 0xb1), ("PAGE LENGTH", 60), ("FUAB", 0)],
        ),
        0xb2 => provisioning(unit),
        _ => return Err(invalid(cdb, "PAGE CODE")),
    };
    answer(cdb, data)
}

fn standard(identity: &Identity) -> Vec<u8> {
    // VERSION 6 is SPC-4. MULTIP and TPGS are set by the target, if it tells its ports apart.
    let fields = [("VERSION", 6), ("RESPONSE DATA FORMAT", 2), ("ADDITIONAL LENGTH", 91), ("CMDQUE", 1)];
    let mut bytes = build(&page::INQUIRY, 96, &fields);
    put_text(&mut bytes[8..16], &identity.vendor);
    put_text(&mut bytes[16..32], &identity.product);
    put_text(&mut bytes[32..36], &identity.revision);
    VERSIONS
        .iter()
        .enumerate()
        .for_each(|(n, version)| bytes[58 + 2 * n..][..2].copy_from_slice(&version.to_be_bytes()));
    bytes
}

fn printable(text: &str) -> Vec<u8> {
    let mut bytes = vec![0; text.len().min(200)];
    put_text(&mut bytes, text);
    bytes
}

fn with_length(code: u8, data: Vec<u8>) -> Vec<u8> {
    let [high, low] = (data.len() as u16).to_be_bytes();
    [vec![0, code, high, low], data].concat()
}

/// Designators of the unit: by vendor and serial number (type 1h, ASCII), and a number made of these (NAA, type 3h, binary), which
/// clusters ask for. A number of a registered authority is for those who have one; NAA 3h is for all others.
fn designators(identity: &Identity) -> Vec<u8> {
    const LOCALLY_ASSIGNED: u64 = 3;
    let mut vendor = vec![0; 8];
    put_text(&mut vendor, &identity.vendor);
    let name = [vendor, printable(&identity.serial)].concat();
    let number = hash(&name) >> 4 | LOCALLY_ASSIGNED << 60;
    [&[2, 1, 0, name.len() as u8], &name[..], &[1, 3, 0, 8], &number.to_be_bytes()].concat()
}

/// FNV-1a, then mixed so that each bit depends on all of the text.
fn hash(text: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut hash = text.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        hash = (hash ^ hash >> 31).wrapping_mul(factor);
    }
    hash ^ hash >> 32
}

fn limits(unit: &Unit) -> Vec<u8> {
    let (limits, block) = (&unit.geometry.limits, unit.block());
    let unmaps = unit.can_discard();
    let most = unit.max_blocks_without_data();
    let only = |is: bool, value: u64| if is { value } else { 0 };
    build(
        &page::BLOCK_LIMITS,
        64,
        &[
            ("PAGE CODE", 0xb0),
            ("PAGE LENGTH", 60),
            ("WSNZ", 1),
            ("OPTIMAL TRANSFER LENGTH GRANULARITY", u64::from(limits.physical_block) / block),
            ("MAXIMUM COMPARE AND WRITE LENGTH", unit.max_compare()),
            ("MAXIMUM TRANSFER LENGTH", unit.max_transfer / block),
            ("OPTIMAL TRANSFER LENGTH", u64::from(limits.optimal_io) / block),
            ("MAXIMUM UNMAP LBA COUNT", only(unmaps, unit.max_unmap())),
            ("MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT", only(unmaps, UNMAP_DESCRIPTORS)),
            ("OPTIMAL UNMAP GRANULARITY", only(unmaps, u64::from(limits.discard_granularity) / block)),
            ("UGAVALID", only(unmaps, 1)),
            ("MAXIMUM WRITE SAME LENGTH", most),
        ],
    )
}

/// What was unmapped may read as anything (LBPRZ 0): a discard of the layer promises no contents.
fn provisioning(unit: &Unit) -> Vec<u8> {
    let thin = u64::from(unit.can_discard());
    build(
        &page::LOGICAL_BLOCK_PROVISIONING,
        8,
        &[
            ("PAGE CODE", 0xb2),
            ("PAGE LENGTH", 4),
            ("LBPU", thin),
            ("LBPWS", thin),
            ("LBPWS10", thin),
            // 2: thin provisioned.
            ("PROVISIONING TYPE", 2 * thin),
        ],
    )
}

fn capacity_10(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    if field(cdb, "PMI") == 0 && field(cdb, "LOGICAL BLOCK ADDRESS") != 0 {
        return Err(invalid(cdb, "LOGICAL BLOCK ADDRESS"));
    }
    // A larger last address is FFFFFFFFh: ask READ CAPACITY (16).
    let fields = [
        ("RETURNED LOGICAL BLOCK ADDRESS", unit.blocks().saturating_sub(1)),
        ("LOGICAL BLOCK LENGTH IN BYTES", unit.block()),
    ];
    answer(cdb, build(&page::CAPACITY_10, 8, &fields))
}

fn capacity_16(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    if field(cdb, "PMI") == 0 && field(cdb, "LOGICAL BLOCK ADDRESS") != 0 {
        return Err(invalid(cdb, "LOGICAL BLOCK ADDRESS"));
    }
    let per_physical = u64::from(unit.geometry.limits.physical_block) / unit.block();
    let fields = [
        ("RETURNED LOGICAL BLOCK ADDRESS", unit.blocks().saturating_sub(1)),
        ("LOGICAL BLOCK LENGTH IN BYTES", unit.block()),
        ("LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT", u64::from(per_physical.max(1).ilog2())),
        ("LBPME", u64::from(unit.can_discard())),
    ];
    answer(cdb, build(&page::CAPACITY_16, 32, &fields))
}

/// Only logical unit 0.
fn luns(_: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    let mut data = vec![0; 16];
    match field(cdb, "SELECT REPORT") {
        0 | 2 => data[3] = 8,
        // Well known logical units: there are none.
        1 => data.truncate(8),
        _ => return Err(invalid(cdb, "SELECT REPORT")),
    }
    answer(cdb, data)
}

/// Caching (08h) and Control (0Ah): the current values, those that MODE SELECT changes, or the first ones.
fn mode_sense(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    let control = field(cdb, "PC");
    if control == 3 {
        return Err(super::at_field(cdb, "PC", Failure::new(Key::ILLEGAL_REQUEST, 0x39, 0)));
    }
    if !matches!(field(cdb, "SUBPAGE CODE"), 0 | 0xff) {
        return Err(invalid(cdb, "SUBPAGE CODE"));
    }
    let values = match control {
        0 => unit.modes,
        _ => Modes::default(),
    };
    let [caching, control] = if control == 1 { changeable(unit) } else { pages(unit, values) };
    let pages = match field(cdb, "PAGE CODE") {
        0x08 => caching,
        0x0a => control,
        0x3f => [caching, control].concat(),
        _ => return Err(invalid(cdb, "PAGE CODE")),
    };
    // WP and DPOFUA.
    let specific = u8::from(unit.is_write_protected()) << 7 | 0x10;
    let long = field(cdb, "LLBAA") != 0;
    let descriptor = if field(cdb, "DBD") != 0 { Vec::new() } else { block_descriptor(unit, long) };
    let len = descriptor.len() as u8;
    let mut data = match cdb.bytes().len() {
        6 => vec![0, 0, specific, len],
        _ => vec![0, 0, 0, specific, u8::from(long), 0, 0, len],
    };
    data.extend([descriptor, pages].concat());
    // The length does not count itself.
    match cdb.bytes().len() {
        6 => data[0] = data.len() as u8 - 1,
        _ => data[1] = data.len() as u8 - 2,
    }
    answer(cdb, data)
}

/// The mode pages Caching and Control.
pub(crate) fn pages(unit: &Unit, modes: Modes) -> [Vec<u8>; 2] {
    let mut caching = vec![0; 20];
    (caching[0], caching[1]) = (0x08, 18);
    let caches = unit.geometry.features.write_cache && !modes.write_through;
    caching[2] = if caches { WCE } else { 0 };
    let mut control = vec![0; 12];
    (control[0], control[1]) = (0x0a, 10);
    control[2] = if modes.descriptor_sense { D_SENSE } else { 0 };
    // QUEUE ALGORITHM MODIFIER 1: commands may be reordered.
    control[3] = 0x10;
    control[4] = if modes.write_protect { SWP } else { 0 };
    [caching, control]
}

/// The same pages with the bits set that MODE SELECT changes. A unit by itself has none.
pub(crate) fn changeable(unit: &Unit) -> [Vec<u8>; 2] {
    let selects = unit.further.contains(&&cdb::MODE_SELECT_6);
    let bit = |is: bool, bit: u8| if selects && is { bit } else { 0 };
    let mut caching = vec![0; 20];
    (caching[0], caching[1]) = (0x08, 18);
    caching[2] = bit(unit.geometry.features.write_cache, WCE);
    let mut control = vec![0; 12];
    (control[0], control[1], control[2], control[4]) = (0x0a, 10, bit(true, D_SENSE), bit(true, SWP));
    [caching, control]
}

fn block_descriptor(unit: &Unit, long: bool) -> Vec<u8> {
    let (blocks, block) = (unit.blocks(), unit.block() as u32);
    if long {
        return [&blocks.to_be_bytes()[..], &[0; 4], &block.to_be_bytes()].concat();
    }
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    [blocks.to_be_bytes(), block.to_be_bytes()].concat()
}

/// The commands of a unit and those of its owner, in the order of their codes.
fn all_of(unit: &Unit) -> Vec<&'static Command> {
    let own = handlers().map(|(command, _)| command);
    let mut all: Vec<_> = own.chain(unit.further.iter().copied()).collect();
    all.sort_by_key(|command| (command.opcode, command.service_action));
    all
}

fn operation_codes(unit: &Unit, cdb: &Cdb, _: &[u8]) -> Result<Plan, Failure> {
    let wanted = field(cdb, "REQUESTED OPERATION CODE") as u8;
    let action = field(cdb, "REQUESTED SERVICE ACTION");
    // The timeouts descriptor says nothing of any command.
    let timeouts = field(cdb, "RCTD") != 0;
    let of = |command: &Command| command.service_action.map_or(0, u64::from);
    let all = all_of(unit);
    let data = match field(cdb, "REPORTING OPTIONS") {
        0 => all_commands(&all, timeouts),
        option @ 1..=3 => {
            let found = all.iter().find(|row| row.opcode == wanted && (option == 1 || of(row) == action));
            if option < 3 && found.is_some_and(|row| row.service_action.is_some() != (option == 2)) {
                return Err(invalid(cdb, "REPORTING OPTIONS"));
            }
            one_command(found.copied(), timeouts)
        }
        _ => return Err(invalid(cdb, "REPORTING OPTIONS")),
    };
    answer(cdb, data)
}

/// A timeouts descriptor without times.
const NO_TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn all_commands(all: &[&Command], timeouts: bool) -> Vec<u8> {
    let mut data = vec![0; 4];
    for command in all {
        let flags = u8::from(timeouts) << 1 | u8::from(command.service_action.is_some());
        let action = command.service_action.unwrap_or(0);
        data.extend([command.opcode, 0, 0, action, 0, flags, 0, command.length() as u8]);
        data.extend(NO_TIMEOUTS.iter().filter(|_| timeouts));
    }
    let len = data.len() as u32 - 4;
    data[..4].copy_from_slice(&len.to_be_bytes());
    data
}

fn one_command(command: Option<&'static Command>, timeouts: bool) -> Vec<u8> {
    // SUPPORT: 1 not supported, 3 supported as the standard says.
    let Some(command) = command else { return vec![0, 1, 0, 0] };
    let usage = command.usage();
    let mut data = vec![0, u8::from(timeouts) << 7 | 3, 0, command.length() as u8];
    data.extend(usage.bytes());
    data.extend(NO_TIMEOUTS.iter().filter(|_| timeouts));
    data
}
