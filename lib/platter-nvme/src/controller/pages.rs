//! What the controller returns about itself: data of Identify, log pages.

use super::{Controller, MAX_EVENT_REQUESTS, NSID, PAGE, health, io};
use crate::command::{Effect, Queue, TABLE};
use crate::identify;
use crate::log::{self, lid};
use alloc::vec;
use alloc::vec::Vec;

/// Changed Namespace List.
pub(super) const CHANGED_NAMESPACES: u8 = 0x04;

/// The pages that there are.
const PAGES: &[u8] =
    &[lid::SUPPORTED, lid::ERRORS, lid::SMART, lid::FIRMWARE, CHANGED_NAMESPACES, lid::EFFECTS];

/// Base Specification 1.4: the last version that asks for no log page, feature or command that is not here.
const VERSION: u64 = 0x0001_0400;

/// Identify Controller.
pub(super) fn controller(of: &Controller) -> Vec<u8> {
    let (identity, geometry) = (&of.identity, &of.geometry);
    let bit = |is: bool, bit: u8| u64::from(is) << bit;
    identify::CONTROLLER
        .build(identify::LEN)
        .with_bytes("sn", identity.serial.as_bytes())
        .with_bytes("mn", identity.model.as_bytes())
        .with_bytes("fr", identity.firmware.as_bytes())
        .with("rab", 7)
        .with("mdts", u64::from((of.max_transfer / PAGE).ilog2()))
        .with("ver", VERSION)
        .with("oaes", 1 << 8)
        // An I/O controller.
        .with("cntrltype", 1)
        .with("oacs", bit(geometry.limits.write_zeroes, 1))
        .with("acl", 3)
        .with("aerl", u64::from(MAX_EVENT_REQUESTS) - 1)
        // One slot of firmware, which is read-only.
        .with("frmw", 0b11)
        // The log page of commands, and offsets in log pages.
        .with("lpa", 0b110)
        .with("elpe", health::KEPT as u64 - 1)
        .with("sqes", 0x66)
        .with("cqes", 0x44)
        .with("nn", NSID)
        .with("oncs", oncs(of))
        // Compare and Write.
        .with("fuses", 1)
        // Flush takes the identifier of all namespaces.
        .with("vwc", 0b110 | bit(geometry.features.write_cache, 0))
        .with("nwpc", bit(!geometry.features.read_only, 0))
        .with("acwu", io::MAX_COMPARE - 1)
        .with_bytes("subnqn", identity.subsystem.as_bytes())
        .into_bytes()
}

/// Optional NVM commands: Compare, Dataset Management, Write Zeroes, the field SEL of Get Features, Verify.
fn oncs(of: &Controller) -> u64 {
    let bit = |is: bool, bit: u8| u64::from(is) << bit;
    1 | bit(of.can_discard(), 2) | bit(of.geometry.limits.write_zeroes, 3) | 1 << 4 | 1 << 7
}

/// Identify Namespace.
pub(super) fn namespace(of: &Controller) -> Vec<u8> {
    let (limits, block) = (&of.geometry.limits, of.block());
    // Counted from 0.
    let unit = |bytes: u32| (u64::from(bytes) / block).saturating_sub(1);
    let blocks = of.blocks();
    // A boundary that the field cannot hold is not reported: another number would be a wrong one.
    let boundary = Some(limits.chunk / block).filter(|blocks| *blocks <= u64::from(u16::MAX)).unwrap_or(0);
    let thin = u64::from(of.can_discard());
    let mut data = identify::NAMESPACE
        .build(identify::LEN)
        .with("nsze", blocks)
        .with("ncap", blocks)
        .with("nuse", blocks)
        // Preferred sizes are given; deallocation is, too.
        .with("nsfeat", 1 << 4)
        .with("noiob", boundary)
        .with_wide("nvmcap", u128::from(blocks * block))
        .with("npwg", unit(limits.physical_block))
        .with("npwa", unit(limits.physical_block))
        .with("npdg", thin * unit(limits.discard_granularity))
        .with("npda", thin * unit(limits.discard_granularity))
        .with("nows", unit(limits.optimal_io))
        .with("nsattr", u64::from(of.is_write_protected()))
        .into_bytes();
    // LBADS of the only format.
    data[130] = block.ilog2() as u8;
    data
}

/// Namespace Identification Descriptors: a UUID, and the NVM command set.
pub(super) fn descriptors(of: &Controller) -> Vec<u8> {
    let mut data = vec![3, 16, 0, 0];
    data.extend(uuid(of.identity.serial.as_bytes()));
    data.extend([4, 1, 0, 0, 0]);
    data.resize(identify::LEN, 0);
    data
}

/// A UUID of version 8 (RFC 9562, of the program's own making): the hash FNV-1a of 128 bits of the serial number. One of
/// version 1 or 4 would be another one each time.
fn uuid(serial: &[u8]) -> [u8; 16] {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = serial.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME));
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Identifiers of active namespaces above `after`.
pub(super) fn active(after: u64) -> Vec<u8> {
    let mut data = vec![0; identify::LEN];
    if after < NSID {
        data[..4].copy_from_slice(&(NSID as u32).to_le_bytes());
    }
    data
}

/// Identify Namespace, independent of command sets. A namespace of these is always ready.
pub(super) fn independent(of: &Controller) -> Vec<u8> {
    let data = identify::INDEPENDENT_NAMESPACE.build(identify::LEN).with("nstat", 1);
    data.with("nsattr", u64::from(of.is_write_protected())).into_bytes()
}

/// Identify Controller of the NVM command set: limits of Dataset Management and no others.
pub(super) fn nvm_controller(of: &Controller) -> Vec<u8> {
    let ranges = if of.can_discard() { crate::data::MAX_RANGES as u64 - 1 } else { 0 };
    identify::NVM_CONTROLLER.build(identify::LEN).with("dmrl", ranges).into_bytes()
}

/// A log page; `None` for one that there is not.
pub(super) fn log(of: &Controller, page: u8) -> Option<Vec<u8>> {
    Some(match page {
        lid::SUPPORTED => supported(),
        lid::ERRORS => of.health.errors(),
        lid::SMART => of.health.smart(),
        lid::FIRMWARE => firmware(of),
        CHANGED_NAMESPACES => active(if of.is_changed { 0 } else { NSID }),
        lid::EFFECTS => effects(of),
        _ => return None,
    })
}

fn supported() -> Vec<u8> {
    let mut data = vec![0; 1024];
    PAGES.iter().for_each(|page| data[4 * usize::from(*page)] = 1);
    data
}

fn firmware(of: &Controller) -> Vec<u8> {
    let page = log::FIRMWARE.build(512).with("afi", 1);
    page.with_bytes("frs1", of.identity.firmware.as_bytes()).into_bytes()
}

fn effects(of: &Controller) -> Vec<u8> {
    let mut data = vec![0; 4096];
    for command in TABLE.iter().filter(|command| of.supports(command)) {
        let from = if command.queue == Queue::Io { 1024 } else { 0 };
        let changes = u64::from(command.effect == Effect::Medium);
        // A format excludes other commands to the namespace.
        let alone = u64::from(command.queue == Queue::Admin) * changes;
        let effect = log::EFFECT.build(4).with("csupp", 1).with("lbcc", changes).with("cse", alone);
        data[from + 4 * usize::from(command.opcode)..][..4].copy_from_slice(&effect.into_bytes());
    }
    data
}
