//! Finds a partition by its number, in a GUID partition table (UEFI specification, section 5.3) or in a
//! master boot record with its chain of extended boot records.

/// Reads whole logical blocks. Arguments: what the blocks hold (for errors), the first block, and the number
/// of blocks.
pub(super) type ReadBlocks<'a> = &'a mut dyn FnMut(&str, u64, u64) -> Result<Vec<u8>, String>;

/// Reads bytes. Arguments: what they hold (for errors), the first byte, and the number of bytes.
pub(super) type ReadBytes<'a> = &'a mut dyn FnMut(&str, u64, usize) -> Result<Vec<u8>, String>;

/// Most entries of a table, and most links of a chain of extended boot records.
const MAX_ENTRIES: u64 = 4096;
const MAX_LINKS: usize = 256;

/// Sizes of the sectors that a GUID partition table may count in.
const SECTORS: [u64; 4] = [512, 4096, 1024, 2048];

/// Size of the sectors that the table of a disk counts in. An image of a disk, and a disk behind an adapter, may have other
/// blocks than the disk on which the table was made: its header is in the second sector, and a copy in the last one.
/// What cannot be read is no header here.
pub(super) fn sector((block, size): (u64, u64), read: ReadBytes<'_>) -> u64 {
    let others = SECTORS.into_iter().filter(|sector| *sector != block);
    for sector in [block].into_iter().chain(others).filter(|sector| size / sector >= 3) {
        for at in [1, size / sector - 1] {
            let header = read("the head of a partition table", at * sector, 512).unwrap_or_default();
            if header.starts_with(SIGNATURE) && u64_at(&header, 24) == at {
                return sector;
            }
        }
    }
    block
}

/// First block and number of blocks of partition `number` (from 1) of a disk of `blocks` blocks of `block`
/// bytes.
///
/// # Errors
/// What is wrong with the table, or that it has no such partition.
pub(super) fn find(
    number: u64,
    (block, blocks): (u64, u64),
    read: ReadBlocks<'_>,
) -> Result<(u64, u64), String> {
    if blocks < 3 {
        return Err(format!("the disk has {blocks} blocks, too few for a partition table"));
    }
    let first = read("the first two blocks (boot record, head of the partition table)", 0, 2)?;
    let (mbr, header) = first.split_at(block as usize);
    let is_mbr = mbr.get(510..512) == Some(&[0x55, 0xaa]);
    let protective = is_mbr && (0..4).any(|at| Slot::of(mbr, at).kind == 0xee);
    let (begin, count) = if protective || header.starts_with(SIGNATURE) {
        gpt(number, (block, blocks), header, read)?
    } else if is_mbr {
        mbr_partition(number, mbr, read)?
    } else {
        return Err(
            "there is no partition table: block 0 does not end in 55 aa, and block 1 does not begin \
                    with \"EFI PART\""
                .to_string(),
        );
    };
    if count == 0 || begin.checked_add(count).is_none_or(|end| end > blocks) {
        return Err(format!(
            "partition {number} has {count} blocks from {begin} on, and the disk {blocks}: the table is damaged, \
             or of another disk"
        ));
    }
    Ok((begin, count))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// CRC-32 as in IEEE 802.3, which the table uses.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

/// Signature of a header.
const SIGNATURE: &[u8] = b"EFI PART";

/// The fields of a valid header that describe its entries.
struct Header {
    entries: u64,
    count: u64,
    size: u64,
    crc: u32,
}

impl Header {
    /// Checks a header that was read from block `at`.
    fn check(bytes: &[u8], at: u64, block: u64, blocks: u64) -> Result<Header, String> {
        if !bytes.starts_with(SIGNATURE) {
            return Err("it does not begin with \"EFI PART\"".to_string());
        }
        let len = u64::from(u32_at(bytes, 12));
        if !(92..=block).contains(&len) {
            return Err(format!("its length {len} is out of range: 92 to {block}"));
        }
        let mut sum = bytes[..len as usize].to_vec();
        sum[16..20].fill(0);
        let (crc, stored) = (crc32(&sum), u32_at(bytes, 16));
        if crc != stored {
            return Err(format!("its CRC is {crc:#010x}, but its header says {stored:#010x}"));
        }
        if u64_at(bytes, 24) != at {
            return Err(format!("its header says that it is in block {}", u64_at(bytes, 24)));
        }
        let (entries, count) = (u64_at(bytes, 72), u64::from(u32_at(bytes, 80)));
        let (size, crc) = (u64::from(u32_at(bytes, 84)), u32_at(bytes, 88));
        let possible = (128..=4096).contains(&size) && size.is_power_of_two();
        if !possible || count == 0 || count > MAX_ENTRIES {
            return Err(format!(
                "it has {count} entries of {size} bytes; expected 1 to {MAX_ENTRIES} of a power of two from 128 to 4096"
            ));
        }
        let len = (count * size).div_ceil(block);
        if entries.checked_add(len).is_none_or(|end| end > blocks) {
            return Err(format!("its entries are in block {entries}, past the end of the disk"));
        }
        Ok(Header { entries, count, size, crc })
    }
}

/// The entries of the table whose header was read from block `at`, and the size of an entry.
fn entries(
    header: &[u8],
    at: u64,
    (block, blocks): (u64, u64),
    read: ReadBlocks<'_>,
) -> Result<(Vec<u8>, u64), String> {
    let header = Header::check(header, at, block, blocks)?;
    let len = header.count * header.size;
    let mut table = read("the entries of the partition table", header.entries, len.div_ceil(block))?;
    table.truncate(len as usize);
    let crc = crc32(&table);
    if crc != header.crc {
        return Err(format!(
            "the CRC of its entries is {crc:#010x}, but its header says {:#010x}",
            header.crc
        ));
    }
    Ok((table, header.size))
}

/// The primary table, or the backup at the end of the disk if the primary table is damaged.
fn gpt(
    number: u64,
    (block, blocks): (u64, u64),
    primary: &[u8],
    read: ReadBlocks<'_>,
) -> Result<(u64, u64), String> {
    let (table, size) = match entries(primary, 1, (block, blocks), read) {
        Ok(found) => found,
        Err(wrong) => {
            let backup = read("the header of the backup partition table", blocks - 1, 1)?;
            entries(&backup, blocks - 1, (block, blocks), read).map_err(|also| {
                format!(
                    "both GUID partition tables are damaged. The primary one in block 1: {wrong}. The backup in \
                     block {}: {also}",
                    blocks - 1
                )
            })?
        }
    };
    let used = |entry: &[u8]| entry[..16].iter().any(|&byte| byte != 0);
    let all = table.chunks_exact(size as usize).zip(1u64..).filter(|(entry, _)| used(entry));
    match all.clone().find(|&(_, at)| at == number) {
        Some((entry, _)) => {
            let (first, last) = (u64_at(entry, 32), u64_at(entry, 40));
            Ok((first, last.checked_sub(first).map_or(0, |blocks| blocks.saturating_add(1))))
        }
        None => Err(missing(number, "GUID partition table", all.map(|(_, at)| at))),
    }
}

fn missing(number: u64, table: &str, known: impl Iterator<Item = u64>) -> String {
    let known: Vec<String> = known.take(64).map(|at| at.to_string()).collect();
    match known.is_empty() {
        true => format!("there is no partition {number}: the {table} is empty"),
        false => format!("there is no partition {number}: the {table} has {}", known.join(", ")),
    }
}

/// A slot of a master or extended boot record.
#[derive(Clone, Copy)]
struct Slot {
    kind: u8,
    begin: u64,
    blocks: u64,
}

impl Slot {
    fn of(record: &[u8], at: usize) -> Slot {
        let at = 446 + 16 * at;
        let kind = record.get(at + 4).copied().unwrap_or(0);
        Slot { kind, begin: u32_at(record, at + 8).into(), blocks: u32_at(record, at + 12).into() }
    }

    fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85)
    }
}

fn mbr_partition(number: u64, mbr: &[u8], read: ReadBlocks<'_>) -> Result<(u64, u64), String> {
    let slots = [0, 1, 2, 3].map(|at| Slot::of(mbr, at));
    let mut known: Vec<(u64, Slot)> = (1..).zip(slots).filter(|(_, slot)| slot.kind != 0).collect();
    if let Some(extended) = slots.iter().find(|slot| slot.is_extended()) {
        logical(extended.begin, &mut known, read)?;
    }
    match known.iter().find(|(at, _)| *at == number) {
        Some((_, slot)) if slot.is_extended() => Err(format!(
            "partition {number} is an extended partition, which only holds logical ones (5 and up)"
        )),
        Some((_, slot)) => Ok((slot.begin, slot.blocks)),
        None => Err(missing(number, "master boot record", known.iter().map(|(at, _)| *at))),
    }
}

/// Adds the partitions of the chain of extended boot records that begins in block `first`, numbered from 5.
fn logical(first: u64, known: &mut Vec<(u64, Slot)>, read: ReadBlocks<'_>) -> Result<(), String> {
    let mut at = first;
    for number in 5..5 + MAX_LINKS as u64 {
        let record = read("an extended boot record", at, 1)
            .map_err(|wrong| format!("the extended boot record in block {at}: {wrong}"))?;
        if record.get(510..512) != Some(&[0x55, 0xaa]) {
            return Err(format!(
                "the extended boot record in block {at} is damaged: it does not end in 55 aa"
            ));
        }
        let (slot, next) = (Slot::of(&record, 0), Slot::of(&record, 1));
        if slot.kind != 0 {
            known.push((number, Slot { begin: at + slot.begin, ..slot }));
        }
        if next.kind == 0 || next.begin == 0 {
            return Ok(());
        }
        at = first + next.begin;
    }
    Err(format!(
        "the chain of extended boot records from block {first} on has more than {MAX_LINKS} records, or is a cycle"
    ))
}
