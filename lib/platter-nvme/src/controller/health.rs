//! Counters of the SMART / Health Information log page, and the errors of the Error Information log page.

use super::Failure;
use crate::command::{self, Entry, Queue};
use crate::log;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Errors that are kept; ELPE counts them from 0.
pub(super) const KEPT: usize = 64;

/// Length of an entry of the Error Information log page in bytes.
const ERROR: usize = 64;

/// Length of the SMART / Health Information log page in bytes.
const SMART: usize = 512;

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    read_bytes: u128,
    written_bytes: u128,
    read_commands: u128,
    write_commands: u128,
    media_errors: u128,
    error_count: u64,
    /// Entries of the log, the newest first.
    errors: VecDeque<Vec<u8>>,
}

/// Bytes as data units: thousands of 512 bytes, rounded up.
fn units(bytes: u128) -> u128 {
    bytes.div_ceil(512 * 1000)
}

impl Health {
    /// Counts a command that was carried out.
    pub(super) fn count(&mut self, entry: &Entry, block: u64) {
        let is = |row: &command::Command| core::ptr::eq(entry.command(), row);
        let bytes = || entry.blocks().map_or(0, |(_, blocks)| u128::from(blocks) * u128::from(block));
        if is(&command::READ) || is(&command::COMPARE) || is(&command::VERIFY) {
            self.read_bytes += bytes();
            self.read_commands += 1;
        } else if is(&command::WRITE) {
            self.written_bytes += bytes();
            self.write_commands += 1;
        }
    }

    /// Keeps the failure of a command.
    pub(super) fn note(&mut self, entry: &Entry, failure: &Failure) {
        self.error_count += 1;
        if failure.status.kind() == 2 && failure.status.bare() != crate::status::Status::COMPARE_FAILURE {
            self.media_errors += 1;
        }
        // Bits 0 to 7 are the byte, 8 to 10 the bit; all ones: the error is not of one parameter.
        let location = failure.parameter.map_or(0xffff, |(byte, bit)| u64::from(byte) | u64::from(bit) << 8);
        let get = |name| entry.get(name).unwrap_or(0);
        let error = log::ERROR
            .build(ERROR)
            .with("error_count", self.error_count)
            .with("sqid", u64::from(entry.command().queue == Queue::Io))
            .with("cmdid", get("cid"))
            .with("status_field", failure.status.0.into())
            .with("parm_error_location", location)
            .with("lba", failure.lba.or(entry.get("slba")).unwrap_or(0))
            .with("nsid", get("nsid"));
        self.errors.push_front(error.into_bytes());
        self.errors.truncate(KEPT);
    }

    /// The Error Information log page.
    pub(super) fn errors(&self) -> Vec<u8> {
        let mut page: Vec<u8> = self.errors.iter().flatten().copied().collect();
        page.resize(KEPT * ERROR, 0);
        page
    }

    /// The SMART / Health Information log page. Temperature, spare and wear of a device below are not known; the temperature
    /// is 0 kelvins, which stands for that, and all of the spare is available.
    pub(super) fn smart(&self) -> Vec<u8> {
        log::SMART
            .build(SMART)
            .with("avail_spare", 100)
            .with_wide("data_units_read", units(self.read_bytes))
            .with_wide("data_units_written", units(self.written_bytes))
            .with_wide("host_read_commands", self.read_commands)
            .with_wide("host_write_commands", self.write_commands)
            .with_wide("power_cycles", 1)
            .with_wide("media_errors", self.media_errors)
            .with_wide("num_err_log_entries", self.error_count.into())
            .into_bytes()
    }
}

/// The bytes of a page that a Get Log Page command asks for: from an offset on, filled up with zeroes behind the page's end.
/// `None`: the offset is behind the end.
pub(super) fn part(page: &[u8], offset: u64, len: u64) -> Option<Vec<u8>> {
    let from = page.get(usize::try_from(offset).ok()?..)?;
    let mut part = vec![0; usize::try_from(len).ok()?];
    part.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    Some(part)
}
