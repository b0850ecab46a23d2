//! Readers of records, and the one of all formats that are lines.

use crate::error::{Place, TraceError, quote};
use crate::event::{Device, Item};
use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, Read};
use std::sync::Arc;

/// Longest line.
pub const MOST_LINE: usize = 64 << 10;
/// Most devices of an input.
pub const MOST_NAMES: usize = 1 << 16;

/// What a reader has left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Records of actions and notes that are not known.
    pub unknown: u64,
    /// Numbers of cgroups of records.
    pub cgroups: u64,
    /// Data behind records: command bytes, data of drivers.
    pub data: u64,
}

/// A reader of records, in the order of its input.
pub trait Source {
    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// A record is malformed, or the input cannot be read. Unless [`TraceError::is_end`] is set, the next call goes on behind
    /// it.
    fn next(&mut self) -> Result<Option<Item>, TraceError>;

    /// What was left out so far.
    fn skipped(&self) -> Skipped {
        Skipped::default()
    }

    /// Where the last record was.
    fn place(&self) -> Place;
}

/// Whether a line ended the trace.
#[derive(PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    End,
}

/// A format that is lines.
pub(crate) trait Lines {
    /// Reads a line that is not blank. `first` is whether none was read before it.
    fn line(&mut self, line: &str, first: bool, out: &mut VecDeque<Item>) -> Result<Flow, String>;
}

/// The reader of a format that is lines.
pub(crate) struct LineSource<R, L> {
    reader: R,
    input: String,
    lines: L,
    number: u64,
    any: bool,
    ended: bool,
    buffer: Vec<u8>,
    ready: VecDeque<Item>,
}

impl<R: BufRead, L: Lines> LineSource<R, L> {
    pub(crate) fn new(reader: R, input: &str, lines: L) -> Self {
        let input = input.to_owned();
        let (buffer, ready) = (Vec::new(), VecDeque::new());
        Self { reader, input, lines, number: 0, any: false, ended: false, buffer, ready }
    }

    fn error(&self, problem: impl Into<String>, is_end: bool) -> TraceError {
        TraceError::new(&self.input, Place::Line(self.number), problem, is_end)
    }

    /// Reads a line into the buffer; `false` at the end.
    fn fill(&mut self) -> Result<bool, TraceError> {
        self.buffer.clear();
        self.number += 1;
        let limit = MOST_LINE as u64 + 2;
        let read = Read::by_ref(&mut self.reader).take(limit).read_until(b'\n', &mut self.buffer);
        match read {
            Err(error) => {
                self.ended = true;
                return Err(self.error(format!("cannot be read: {error}"), true));
            }
            Ok(0) => return Ok(false),
            Ok(_) => {}
        }
        while self.buffer.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.buffer.pop();
        }
        if self.buffer.len() > MOST_LINE {
            let start = quote(&String::from_utf8_lossy(&self.buffer[..200]));
            self.buffer.clear();
            // The rest is not kept.
            self.reader
                .skip_until(b'\n')
                .map_err(|error| self.error(format!("cannot be read: {error}"), true))?;
            return Err(self.error(format!("the line has more than {MOST_LINE} bytes: {start}"), false));
        }
        Ok(true)
    }
}

impl<R: BufRead, L: Lines> Source for LineSource<R, L> {
    fn next(&mut self) -> Result<Option<Item>, TraceError> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            if self.ended || !self.fill()? {
                self.ended = true;
                return Ok(None);
            }
            let line = String::from_utf8_lossy(&self.buffer);
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let first = !std::mem::replace(&mut self.any, true);
            match self.lines.line(line, first, &mut self.ready) {
                Ok(flow) => self.ended = flow == Flow::End,
                Err(problem) => return Err(self.error(problem, false)),
            }
        }
    }

    fn place(&self) -> Place {
        Place::Line(self.number)
    }
}

/// Names of devices, each kept once.
#[derive(Default)]
pub(crate) struct Names(HashMap<Arc<str>, ()>);

impl Names {
    pub(crate) fn device(&mut self, name: &str) -> Result<Device, String> {
        Ok(Device::Name(self.keep(name)?))
    }

    pub(crate) fn keep(&mut self, name: &str) -> Result<Arc<str>, String> {
        if let Some((kept, ())) = self.0.get_key_value(name) {
            return Ok(Arc::clone(kept));
        }
        if name.is_empty() || name.len() > 256 || name.contains(platter_block::text::is_unsafe) {
            return Err(format!("name `{}` does not have 1 to 256 printable bytes", quote(name)));
        }
        if self.0.len() == MOST_NAMES {
            return Err(format!("name `{}` is one of more than {MOST_NAMES}", quote(name)));
        }
        let kept: Arc<str> = name.into();
        self.0.insert(Arc::clone(&kept), ());
        Ok(kept)
    }
}
