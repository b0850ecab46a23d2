//! Finds the newest record of a log. The others are of writes that have ended.

use super::{HEADER_BYTES, Header, check_seal};
use crate::uuid::Uuid;

/// Fills bytes from a position of the log on, or says why it cannot.
pub type Read<'a> = dyn FnMut(u64, &mut [u8]) -> Result<(), String> + 'a;

/// Most bytes that are read at a time.
const PIECE: usize = 64 << 10;

/// What the log of a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Where the newest record is in the log, in bytes.
    pub at: u64,
    /// Its header.
    pub header: Header,
    /// For each entry whether its partial parity is what was logged.
    pub is_sound: Vec<bool>,
    /// How many records there are up to this one.
    pub records: u32,
}

impl Log {
    /// Entries whose partial parity is damaged.
    pub fn damaged(&self) -> usize {
        self.is_sound.iter().filter(|&&is_sound| !is_sound).count()
    }
}

/// Looks through a log of `size` bytes. Records follow one another from its beginning, each newer than the one before; a header
/// that is torn, of another array or older ends them, as for the kernel.
///
/// # Errors
/// There is no record, the newest one is impossible, or the log cannot be read.
pub fn scan(size: u64, array: &Uuid, read: &mut Read<'_>) -> Result<Log, String> {
    let mut newest: Option<(u64, Header)> = None;
    let (mut at, mut records) = (0u64, 0);
    let mut bytes = vec![0; HEADER_BYTES];
    while at + HEADER_BYTES as u64 <= size {
        read(at, &mut bytes)?;
        let sealed = check_seal(&bytes, array);
        if let (Err(why), None) = (&sealed, &newest) {
            return Err(why.clone());
        }
        if sealed.is_err() {
            break;
        }
        let header = Header::parse(&bytes, array)?;
        if newest.as_ref().is_some_and(|(_, before)| before.generation > header.generation) {
            break;
        }
        let end = at.saturating_add(header.record_bytes());
        if end > size {
            return Err(format!(
                "the newest record of the parity log ends at byte {end}, and the log has {size}"
            ));
        }
        newest = Some((at, header));
        (at, records) = (end, records + 1);
    }
    let Some((at, header)) = newest else {
        return Err(format!("the parity log has {size} bytes, which is less than a header"));
    };
    let is_sound = check_entries(at, &header, read)?;
    Ok(Log { at, header, is_sound, records })
}

/// Whether the partial parities are those that were logged.
fn check_entries(at: u64, header: &Header, read: &mut Read<'_>) -> Result<Vec<bool>, String> {
    let mut at = at + HEADER_BYTES as u64;
    let mut is_sound = Vec::new();
    for entry in &header.entries {
        let (mut sum, mut left) = (0, entry.pp_size as usize);
        while left > 0 {
            let mut piece = vec![0; left.min(PIECE)];
            read(at, &mut piece)?;
            sum = crc32c::crc32c_append(sum, &piece);
            at += piece.len() as u64;
            left -= piece.len();
        }
        is_sound.push(sum == entry.checksum);
    }
    Ok(is_sound)
}
