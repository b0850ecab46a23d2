//! Traces of block I/O as people have them: read, written, converted, summed up.
//!
//! Each [format](Format) has a reader that gives one record after the other ([`Source`]) and a writer. [`Merged`] makes one
//! trace of several inputs, by time; a [`Conversion`] writes it in another format and counts what that cannot hold
//! ([`Loss`]); a [`Report`] sums it up: how long each stage took, what was accessed, how often again; [`Arrivals`] are its I/Os,
//! one after the other, with the time that each took. All of it needs memory that does not grow with the trace. Inputs are anything that can be read; no file is opened here.
//!
//! ```
//! use platter_traces::{Conversion, Format, Input, Merged};
//! let csv = "128166372003061629,hm,0,Write,7014912,4096,26\n128166372016382155,hm,0,Read,1074696192,4096,113\n";
//! assert_eq!(Format::detect(csv.as_bytes()), Some(Format::Msr));
//! let inputs = vec![Input::new("hm_0.csv", Format::Msr, csv.as_bytes())];
//! let mut conversion = Conversion::new(Merged::new(inputs, false)?, Format::Iolog3, None)?;
//! let mut iolog = Vec::new();
//! while conversion.step(&mut iolog)? {}
//! let lines: Vec<&str> = std::str::from_utf8(&iolog).unwrap().lines().collect();
//! assert_eq!(lines[3..5], ["0 hm.0 write 7014912 4096", "1332052 hm.0 read 1074696192 4096"]);
//! let latencies = conversion.loss().rows().find(|row| row.0 == "latencies");
//! assert_eq!(latencies.map(|row| row.2), Some(2));
//! # Ok::<(), platter_traces::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod arrivals;
mod blkparse;
mod blktrace;
mod convert;
mod csv;
mod error;
mod event;
mod fields;
mod fit;
mod format;
mod iolog;
mod loss;
mod merge;
mod pairing;
mod reads;
mod report;
mod sink;
mod source;

pub use arrivals::Arrivals;
pub use convert::Conversion;
pub use error::{Place, TraceError};
pub use event::{Action, Device, Direction, Event, Extra, Flags, Item, Kind, Note, SECTOR};
pub use fields::{MOST_END, MOST_LENGTH};
pub use format::{Clock, DETECT, Format, Holds, Row, TABLE, read_all};
pub use loss::{LOSSES, Loss};
pub use merge::{Input, Merged, Passed, WINDOW};
pub use report::{Counted, Heat, KINDS, Report, Reuse, STAGES, Seeks, Sizes, Span, Spread, Summary};
pub use source::{MOST_LINE, MOST_NAMES, Skipped, Source};
