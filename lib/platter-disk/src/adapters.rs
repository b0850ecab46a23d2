//! [`Read`], [`Write`] and [`Seek`] on a device, for code that needs a stream.

use crate::device::Device;
use platter_block::bio::{MAX_SEGMENTS, Op};
use platter_block::fault::{Error, Fault, Kind, Stage};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::ops::{Bound, RangeBounds};

/// Largest transfer of one call. A larger one is shortened, as the traits allow.
pub(crate) const MAX_CALL: u64 = 32 << 20;

/// A position in a range of a device.
///
/// Each call is one synchronous I/O ([`Device::read_at`], [`Device::write_at`]), so wrap the cursor in a
/// [`BufReader`](io::BufReader) or [`BufWriter`](io::BufWriter) if calls are small. Transfers that do not
/// begin and end at block boundaries are bounced. Reads are short at the end of the range and then return 0.
/// So do writes, because a device does not grow: [`write_all`](Write::write_all) then fails with
/// [`WriteZero`](io::ErrorKind::WriteZero). [`flush`](Write::flush) makes written data durable. A clone has a
/// position of its own; for a position that clones share see [`Handle`](crate::handle::Handle).
///
/// ```
/// use platter_disk::device::Device;
/// use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
///
/// let disk = Device::ram(1 << 20)?;
/// let mut cursor = disk.cursor(4096..8192)?;
/// cursor.write_all(b"one line\nand another\n")?;
/// cursor.flush()?;
/// cursor.seek(SeekFrom::Start(9))?;
/// let mut line = String::new();
/// BufReader::new(&mut cursor).read_line(&mut line)?;
/// assert_eq!(line, "and another\n");
/// cursor.seek(SeekFrom::End(-2))?;
/// assert_eq!(cursor.read(&mut [0; 100])?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor {
    device: Device,
    start: u64,
    len: u64,
    /// Offset from the start of the range; may lie past its end.
    pos: u64,
}

impl Device {
    /// A stream over a range of the device, in bytes (`..` for all of it), with [`Read`], [`Write`] and
    /// [`Seek`].
    ///
    /// # Errors
    /// The range reaches past the end of the device, or its end lies before its start.
    pub fn cursor(&self, range: impl RangeBounds<u64>) -> Result<Cursor, Error> {
        let start = match range.start_bound() {
            Bound::Included(&at) => at,
            Bound::Excluded(&at) => at.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&at) => at.saturating_add(1),
            Bound::Excluded(&at) => at,
            Bound::Unbounded => self.size(),
        };
        if start > end || end > self.size() {
            let fault = Fault::new(Kind::OutOfRange, Stage::Handle);
            let detail = format!("no range from {start} to {end}: the device has {} bytes", self.size());
            return Err(self.error(fault, Op::Read, start, end.saturating_sub(start), detail));
        }
        Ok(Cursor { device: self.clone(), start, len: end - start, pos: 0 })
    }
}

/// Converts an error of a device to one of the standard library: its kind follows from the errno, and the
/// original error is its [source](io::Error::get_ref).
pub fn io_error(error: Error) -> io::Error {
    let kind = match error.fault.kind {
        Kind::Short => io::ErrorKind::UnexpectedEof,
        _ => io::Error::from_raw_os_error(error.fault.errno()).kind(),
    };
    io::Error::new(kind, error)
}

/// The error of a seek to an invalid position.
pub(crate) fn seek_error(to: SeekFrom) -> io::Error {
    let message = format!("seek to {to:?}: before the start of the range, or beyond 2^64");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl Cursor {
    /// Bytes of the range.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many of `wanted` bytes one call transfers.
    fn room(&self, wanted: usize) -> usize {
        let left = self.len.saturating_sub(self.pos).min(MAX_CALL);
        usize::try_from(left).unwrap_or(usize::MAX).min(wanted)
    }

    /// Advances the position after a transfer at [`Cursor::place`].
    fn moved(&mut self, bytes: usize, result: Result<(), Error>) -> io::Result<usize> {
        result.map_err(io_error)?;
        self.pos += bytes as u64;
        Ok(bytes)
    }

    /// The position on the device.
    fn place(&self) -> u64 {
        self.start + self.pos
    }
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.room(buffer.len());
        if bytes == 0 {
            return Ok(0);
        }
        let result = self.device.read_at(&mut buffer[..bytes], self.place());
        self.moved(bytes, result)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MAX_SEGMENTS);
        let bytes = buffers[..most].iter().map(|b| b.len()).sum();
        if bytes == 0 || self.room(bytes) < bytes {
            let first = buffers.iter_mut().find(|b| !b.is_empty());
            return first.map_or(Ok(0), |buffer| self.read(buffer));
        }
        let result = self.device.read_vectored_at(&mut buffers[..most], self.place());
        self.moved(bytes, result)
    }
}

impl Write for Cursor {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let bytes = self.room(data.len());
        if bytes == 0 {
            return Ok(0);
        }
        let result = self.device.write_at(&data[..bytes], self.place());
        self.moved(bytes, result)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MAX_SEGMENTS);
        let bytes = buffers[..most].iter().map(|b| b.len()).sum();
        if bytes == 0 || self.room(bytes) < bytes {
            let first = buffers.iter().find(|b| !b.is_empty());
            return first.map_or(Ok(0), |data| self.write(data));
        }
        let result = self.device.write_vectored_at(&buffers[..most], self.place());
        self.moved(bytes, result)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.device.flush().map_err(io_error)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let pos = match to {
            SeekFrom::Start(pos) => Some(pos),
            SeekFrom::Current(by) => self.pos.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        let Some(pos) = pos else {
            return Err(seek_error(to));
        };
        self.pos = pos;
        Ok(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, BufWriter};

    fn disk() -> Device {
        Device::ram(64 << 10).expect("memory for a small disk")
    }

    #[test]
    fn a_stream_of_odd_pieces_comes_back() {
        let disk = disk();
        let data: Vec<u8> = (0..10_000u32).map(|i| (i % 253) as u8).collect();
        let mut writer = BufWriter::with_capacity(1000, disk.cursor(100..).expect("in range"));
        data.chunks(77).for_each(|piece| writer.write_all(piece).expect("room"));
        writer.flush().expect("a flush");
        let mut found = Vec::new();
        let cursor = disk.cursor(100..10_100).expect("in range");
        BufReader::with_capacity(333, cursor).read_to_end(&mut found).expect("reads");
        assert!(found == data);
        let mut before = [1; 100];
        disk.read_at(&mut before, 0).expect("a read");
        assert_eq!(before, [0; 100]);
    }

    #[test]
    fn the_end_is_short_then_nothing() {
        let disk = disk();
        let mut cursor = disk.cursor(..=1023).expect("in range");
        assert_eq!((cursor.len(), cursor.is_empty()), (1024, false));
        assert_eq!(cursor.seek(SeekFrom::End(-24)).ok(), Some(1000));
        assert_eq!(cursor.write(&[5; 100]).ok(), Some(24));
        assert_eq!(cursor.write(&[5; 100]).ok(), Some(0));
        let full = cursor.write_all(&[5]).expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::WriteZero);
        assert_eq!(cursor.seek(SeekFrom::Current(1000)).ok(), Some(2024));
        assert_eq!(cursor.read(&mut [0; 10]).ok(), Some(0));
        let mut rest = Vec::new();
        cursor.seek(SeekFrom::Start(990)).expect("in range");
        assert_eq!(cursor.read_to_end(&mut rest).ok(), Some(34));
        assert_eq!((rest[9], rest[10]), (0, 5));
    }

    #[test]
    fn vectored_calls_are_one_bio_when_all_fits() {
        let disk = disk();
        let mut cursor = disk.cursor(..).expect("in range");
        let (a, b) = ([1u8; 512], [2u8; 1024]);
        assert_eq!(cursor.write_vectored(&[IoSlice::new(&a), IoSlice::new(&b)]).ok(), Some(1536));
        assert_eq!(disk.counters().bios, 1);
        cursor.rewind().expect("seekable");
        let (mut c, mut d) = ([0u8; 1024], [0u8; 512]);
        let mut buffers = [IoSliceMut::new(&mut c), IoSliceMut::new(&mut d)];
        assert_eq!(cursor.read_vectored(&mut buffers).ok(), Some(1536));
        assert_eq!((c[511], c[512], d[511]), (1, 2, 2));
        cursor.seek(SeekFrom::End(-512)).expect("in range");
        let mut buffers = [IoSliceMut::new(&mut []), IoSliceMut::new(&mut c), IoSliceMut::new(&mut d)];
        assert_eq!(cursor.read_vectored(&mut buffers).ok(), Some(512));
        assert_eq!(cursor.write_vectored(&[]).ok(), Some(0));
    }

    #[test]
    fn bad_ranges_and_seeks_say_what_is_wrong() {
        let disk = disk();
        let past = disk.cursor(..=(64 << 10)).expect_err("past the end");
        assert_eq!(past.fault.kind, Kind::OutOfRange);
        assert!(past.to_string().contains("the device has 65536 bytes"), "{past}");
        assert!(disk.cursor((Bound::Excluded(9), Bound::Excluded(9))).is_err());
        let mut cursor = disk.cursor(512..).expect("in range");
        for to in [SeekFrom::Current(-1), SeekFrom::End(i64::MIN)] {
            let error = cursor.seek(to).expect_err("before the start");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(cursor.stream_position().ok(), Some(0));
    }

    #[test]
    fn errors_keep_kind_and_source() {
        let disk = disk();
        let error = disk.read_at(&mut [0; 512], 64 << 10).expect_err("past the end");
        let error = io_error(error);
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let source = error.get_ref().and_then(|e| e.downcast_ref::<Error>()).expect("the whole error");
        assert_eq!(source.offset, 64 << 10);
        let short = Error { fault: Fault::new(Kind::Short, Stage::Disk), ..source.clone() };
        assert_eq!(io_error(short).kind(), io::ErrorKind::UnexpectedEof);
    }
}
