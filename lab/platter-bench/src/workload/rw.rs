//! The direction and order of a workload, in fio's words.

use core::fmt;
use core::str::FromStr;
use platter_block::text::excerpt;

/// fio's `rw` (or `readwrite`): the direction and order of the I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Rw {
    /// Sequential reads.
    #[default]
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Reads and writes mixed, each direction sequential.
    ReadWrite,
    /// Reads and writes mixed, random.
    RandRw,
    /// Sequential discards.
    Trim,
    /// Random discards.
    RandTrim,
}

impl Rw {
    /// Every value, in the order of the help text.
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::RandRead,
        Self::RandWrite,
        Self::ReadWrite,
        Self::RandRw,
        Self::Trim,
        Self::RandTrim,
    ];

    /// The name that fio prints: `read`, `write`, `randread`, `randwrite`, `rw`, `randrw`, `trim`, `randtrim`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
            Self::ReadWrite => "rw",
            Self::RandRw => "randrw",
            Self::Trim => "trim",
            Self::RandTrim => "randtrim",
        }
    }

    /// Whether offsets are random.
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw | Self::RandTrim)
    }

    /// Whether some of the I/Os read.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::RandRead) || self.is_mixed()
    }

    /// Whether some of the I/Os write.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::RandWrite) || self.is_mixed()
    }

    /// Whether the I/Os discard.
    pub fn trims(self) -> bool {
        matches!(self, Self::Trim | Self::RandTrim)
    }

    /// Whether reads and writes are mixed by `rwmixread`.
    pub fn is_mixed(self) -> bool {
        matches!(self, Self::ReadWrite | Self::RandRw)
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rw {
    type Err = ParseRwError;

    fn from_str(text: &str) -> Result<Self, ParseRwError> {
        // fio takes both names of the sequential mix.
        if text == "readwrite" {
            return Ok(Self::ReadWrite);
        }
        let found = Self::ALL.into_iter().find(|rw| rw.name() == text);
        found.ok_or_else(|| ParseRwError { given: text.to_owned() })
    }
}

/// The text is none of the values of [`Rw`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseRwError {
    /// The text.
    pub given: String,
}

impl fmt::Display for ParseRwError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rw=\"{}\" is not known: it is one of", excerpt(&self.given, 60))?;
        for (i, rw) in Rw::ALL.iter().enumerate() {
            write!(f, "{} {rw}", if i == 0 { "" } else { "," })?;
        }
        f.write_str(" (readwrite is another name of rw)")
    }
}

impl core::error::Error for ParseRwError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for rw in Rw::ALL {
            assert_eq!(rw.to_string().parse(), Ok(rw));
        }
        assert_eq!("readwrite".parse(), Ok(Rw::ReadWrite));
        assert_eq!(format!("{:>9}|", Rw::Trim), "     trim|");
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = "rndread".parse::<Rw>().unwrap_err().to_string();
        assert_eq!(
            error,
            "rw=\"rndread\" is not known: it is one of read, write, randread, randwrite, rw, randrw, trim, \
             randtrim (readwrite is another name of rw)"
        );
        for text in ["", "Read", " read", "randreadwrite"] {
            assert!(text.parse::<Rw>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_value_does_something_and_trims_do_nothing_else() {
        for rw in Rw::ALL {
            assert!(rw.reads() || rw.writes() || rw.trims());
            assert_eq!(rw.is_mixed(), rw.reads() && rw.writes());
            assert!(!(rw.trims() && (rw.reads() || rw.writes())));
            assert_eq!(rw.is_random(), rw.name().starts_with("rand"));
        }
    }
}
