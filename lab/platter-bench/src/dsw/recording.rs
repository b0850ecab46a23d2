//! A recording: which pages of a database its queries read, and the processor time before each read.
//!
//! The file is `platter-dsw 1` and a newline, then unsigned LEB128 numbers: the scale of the data in millionths, bytes of a page,
//! pages of the database, the number of queries; for each query the length of its name, the name, the number of its reads,
//! and for each read the page as the (zigzag) distance from the page after the one before, and the processor time in
//! nanoseconds. A CRC-32C of all that, four bytes, the least significant first, is the end.

use std::ops::RangeInclusive;

/// Smallest page of a database.
pub const MIN_PAGE_BYTES: u32 = 512;
/// Largest page of a database.
pub const MAX_PAGE_BYTES: u32 = 64 << 10;

const MAGIC: &[u8] = b"platter-dsw 1\n";
/// Scale of the data, in millionths.
const SCALES: RangeInclusive<u64> = 1..=1_000_000_000;
/// Most pages of a database: 4 PiB of 4 KiB.
const MAX_PAGES: u64 = 1 << 40;
const MAX_NAME: u64 = 64;
/// Longest processor time before a read: an hour.
const MAX_COMPUTE_NS: u64 = 3_600_000_000_000;

/// One read of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The page, from 0.
    pub page: u64,
    /// Processor time that the database used since the read before, in nanoseconds.
    pub compute_ns: u64,
}

/// The reads of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: String,
    /// In the order in which the database issued them.
    pub reads: Vec<Read>,
}

/// What the queries of a database read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    scale_millionths: u64,
    page_bytes: u32,
    pages: u64,
    queries: Vec<Query>,
}

/// Why a recording is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadRecording(String);

fn bad<T>(text: impl Into<String>) -> Result<T, BadRecording> {
    Err(BadRecording(text.into()))
}

impl Recording {
    /// Makes a recording of a database of `pages` pages.
    ///
    /// # Errors
    /// A scale, size, name or page out of range, or no reads at all.
    pub fn new(
        scale: f64,
        page_bytes: u32,
        pages: u64,
        queries: Vec<Query>,
    ) -> Result<Recording, BadRecording> {
        // A scale that is too large or no number becomes one that is out of range.
        let recording =
            Recording { scale_millionths: (scale * 1e6).round() as u64, page_bytes, pages, queries };
        recording.check()?;
        Ok(recording)
    }

    fn check(&self) -> Result<(), BadRecording> {
        if !SCALES.contains(&self.scale_millionths) {
            return bad(format!("scale {} millionths: 1 to {}", self.scale_millionths, SCALES.end()));
        }
        let sizes = MIN_PAGE_BYTES..=MAX_PAGE_BYTES;
        if !self.page_bytes.is_power_of_two() || !sizes.contains(&self.page_bytes) {
            let bytes = self.page_bytes;
            return bad(format!(
                "pages of {bytes} bytes: a power of two, {MIN_PAGE_BYTES} to {MAX_PAGE_BYTES}"
            ));
        }
        if !(1..=MAX_PAGES).contains(&self.pages) {
            return bad(format!("a database of {} pages: 1 to {MAX_PAGES}", self.pages));
        }
        if self.reads() == 0 {
            return bad("there are no reads in it");
        }
        for query in &self.queries {
            if !(1..=MAX_NAME).contains(&(query.name.len() as u64)) {
                return bad(format!("a query's name of {} bytes: 1 to {MAX_NAME}", query.name.len()));
            }
            if let Some(read) = query.reads.iter().find(|read| read.page >= self.pages) {
                let (name, page, pages) = (&query.name, read.page, self.pages);
                return bad(format!("{name} reads page {page} of a database of {pages} pages"));
            }
            if let Some(read) = query.reads.iter().find(|read| read.compute_ns > MAX_COMPUTE_NS) {
                let (name, ns) = (&query.name, read.compute_ns);
                return bad(format!("{name} computes for {ns} ns before a read: {MAX_COMPUTE_NS} at most"));
            }
        }
        Ok(())
    }

    /// Scale of the data; 1 is the gigabyte of TPC-H.
    pub fn scale(&self) -> f64 {
        self.scale_millionths as f64 / 1e6
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u32 {
        self.page_bytes
    }

    /// Bytes of the database.
    pub fn bytes(&self) -> u64 {
        self.pages * u64::from(self.page_bytes)
    }

    /// The queries.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// Reads of all queries.
    pub fn reads(&self) -> u64 {
        self.queries.iter().map(|query| query.reads.len() as u64).sum()
    }

    /// The contents of its file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for value in [self.scale_millionths, self.page_bytes.into(), self.pages, self.queries.len() as u64] {
            put(&mut bytes, value);
        }
        for query in &self.queries {
            put(&mut bytes, query.name.len() as u64);
            bytes.extend_from_slice(query.name.as_bytes());
            put(&mut bytes, query.reads.len() as u64);
            let mut next = 0i64;
            for read in &query.reads {
                let distance = read.page as i64 - next;
                put(&mut bytes, ((distance << 1) ^ (distance >> 63)) as u64);
                put(&mut bytes, read.compute_ns);
                next = read.page as i64 + 1;
            }
        }
        let sum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the contents of a file.
    ///
    /// # Errors
    /// Another file, one that was cut or changed, or values out of range.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording, BadRecording> {
        if !bytes.starts_with(MAGIC) {
            return bad("it is not a recording of `platter-dsw`, version 1");
        }
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return bad("it ends too early");
        };
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return bad("its checksum is wrong: it was cut or changed; record it again");
        }
        let mut input = Input(body.get(MAGIC.len()..).unwrap_or_default());
        let (scale_millionths, page_bytes, pages) = (input.number()?, input.number()?, input.number()?);
        let page_bytes =
            u32::try_from(page_bytes).or_else(|_| bad("the size of its pages is out of range"))?;
        let queries = (0..input.number()?).map(|_| input.query()).collect::<Result<_, _>>()?;
        if !input.0.is_empty() {
            return bad(format!("{} bytes follow its last query", input.0.len()));
        }
        let recording = Recording { scale_millionths, page_bytes, pages, queries };
        recording.check()?;
        Ok(recording)
    }
}

/// Appends a number as LEB128.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Result<u64, BadRecording> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some((&byte, rest)) = self.0.split_first() else { return bad("it ends too early") };
            self.0 = rest;
            let part = u64::from(byte & 0x7f);
            if (part << shift) >> shift != part {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        bad("one of its numbers is too large")
    }

    fn query(&mut self) -> Result<Query, BadRecording> {
        let len = self.number()?;
        let Some((name, rest)) = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len))
        else {
            return bad("it ends too early");
        };
        self.0 = rest;
        let Ok(name) = str::from_utf8(name) else { return bad("the name of a query is not UTF-8") };
        let count = self.number()?;
        // A read is two bytes at least, so no memory is taken for reads that are not there.
        if count > self.0.len() as u64 / 2 {
            return bad("it ends too early");
        }
        let mut next = 0i64;
        let mut reads = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (code, compute_ns) = (self.number()?, self.number()?);
            let distance = (code >> 1) as i64 ^ -((code & 1) as i64);
            let page = next.checked_add(distance).and_then(|page| u64::try_from(page).ok());
            let Some(page) = page.filter(|page| *page < MAX_PAGES) else {
                return bad(format!("{name} reads a page out of range"));
            };
            reads.push(Read { page, compute_ns });
            next = page as i64 + 1;
        }
        Ok(Query { name: name.to_owned(), reads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recording(pages: Vec<(u64, u64)>) -> Recording {
        let reads = pages.into_iter().map(|(page, compute_ns)| Read { page, compute_ns }).collect();
        let queries = vec![Query { name: "Q1".into(), reads }, Query { name: "none".into(), reads: vec![] }];
        Recording::new(0.1, 4096, 1 << 30, queries).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(pages in prop::collection::vec((0u64..1 << 30, 0u64..MAX_COMPUTE_NS), 1..40)) {
            let before = recording(pages);
            prop_assert_eq!(Recording::from_bytes(&before.to_bytes()), Ok(before));
        }

        #[test]
        fn bytes_of_any_kind_are_refused(mut body in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = MAGIC.to_vec();
            bytes.append(&mut body);
            let sum = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
            if let Ok(read) = Recording::from_bytes(&bytes) {
                prop_assert_eq!(Recording::from_bytes(&read.to_bytes()), Ok(read));
            }
        }
    }

    #[test]
    fn a_scan_takes_three_bytes_a_page() {
        let scan = recording((0..1000).map(|page| (page, 5_000)).collect());
        assert!(scan.to_bytes().len() < 3 * 1000 + 60);
        assert_eq!((scan.reads(), scan.bytes(), scan.scale()), (1000, 1 << 42, 0.1));
    }

    #[test]
    fn damage_is_seen() {
        let bytes = recording(vec![(7, 1), (9, 2)]).to_bytes();
        for end in 0..bytes.len() {
            assert!(Recording::from_bytes(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert!(Recording::from_bytes(&changed).is_err(), "{at}");
        }
    }

    #[test]
    fn values_out_of_range_are_named() {
        let query = |page| vec![Query { name: "Q6".into(), reads: vec![Read { page, compute_ns: 0 }] }];
        let refused = |scale, page_bytes, pages, queries| {
            Recording::new(scale, page_bytes, pages, queries).unwrap_err().to_string()
        };
        assert!(refused(0.0, 4096, 9, query(0)).contains("scale 0 millionths: 1 to"));
        assert!(refused(f64::NAN, 4096, 9, query(0)).contains("scale 0"));
        assert!(refused(1.0, 1000, 9, query(0)).contains("pages of 1000 bytes"));
        assert!(refused(1.0, 4096, 0, query(0)).contains("a database of 0 pages"));
        assert!(refused(1.0, 4096, 9, query(9)).contains("Q6 reads page 9 of a database of 9 pages"));
        assert!(refused(1.0, 4096, 9, vec![]).contains("no reads"));
    }
}
