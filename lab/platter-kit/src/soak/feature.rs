//! The features of runs. Each run uses some of them, and any can be excluded.

use std::fmt;
use std::str::FromStr;

macro_rules! features {
    ($($name:ident $word:literal $chance:literal $summary:literal,)*) => {
        /// A feature of runs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Feature {
            $(#[doc = $summary] $name,)*
        }

        impl Feature {
            /// All of them.
            pub const ALL: &[Feature] = &[$(Feature::$name,)*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Feature::$name => $word,)* }
            }

            /// One line about it.
            pub const fn summary(self) -> &'static str {
                match self { $(Feature::$name => $summary,)* }
            }

            /// Percentage of runs that have it.
            pub(super) const fn chance(self) -> u64 {
                match self { $(Feature::$name => $chance,)* }
            }
        }
    };
}

features! {
    Spikes "spikes" 30 "commands that take longer",
    Stuck "stuck" 30 "commands that are stuck, and take effect late, early or never",
    Transient "transient" 30 "commands that fail with EINTR, EAGAIN, ENOMEM or ECANCELED",
    Errors "errors" 30 "reads and writes that fail with EIO",
    BadSectors "bad-sectors" 15 "sectors that always fail",
    FlushErrors "flush-errors" 15 "flushes that fail",
    Death "death" 10 "a disk that goes away for a while",
    Cuts "cuts" 50 "power cuts",
    Timeouts "timeouts" 40 "disks with a timeout",
    Deadlines "deadlines" 30 "deadlines of single I/Os",
    Cancel "cancel" 25 "I/Os that the program cancels",
    Switch "switch" 35 "elevators, parameters and the order of barriers, which change while I/O is under way",
    Neglect "neglect" 25 "channels that are not polled while others send barriers",
    DropLanes "drop-lanes" 25 "channels and futures that are dropped with I/O under way",
    Reopen "reopen" 15 "devices that are closed and opened again",
    Handles "handles" 30 "handles that open and close, and hints",
    Calls "calls" 35 "synchronous calls",
    Futures "futures" 35 "futures",
    Layers "layers" 65 "partitions and filters over disks",
    Arrays "arrays" 40 "raid0 and concat over several disks",
    Cache "cache" 35 "page caches",
    Elevators "elevators" 75 "disks with an elevator",
    Barriers "barriers" 70 "soft and hard barriers",
    Durable "durable" 80 "flushes, flushes of ranges, FUA and preflushes",
    Discards "discards" 50 "discards and write-zeroes",
    Atomic "atomic" 30 "atomic writes",
    Destructors "destructors" 30 "memory whose destructor uses the device that it was lent to",
    Unsound "unsound" 20 "I/Os that must be refused",
    Resize "resize" 20 "disks that shrink, grow again or are taken away while in use",
    Snapshots "snapshots" 100 "snapshots, in runs without failing disks",
    Tags "ordered-tags" 40 "disks to which barriers are sent as ordered tags",
    Scsi "scsi" 60 "disks behind SCSI targets with faults of the transport, in runs without failing disks and power cuts",
    Shards "shards" 40 "page caches of 1, 2 or 7 shards, in runs with page caches",
    Deep "deep" 4 "a page cache over raid0 over several paths to slow disks",
    Twins "twins" 20 "two arrays over the same disks in opposite order, in runs with failing disks",
    Guests "guests" 25 "memory of channels that is lent until the I/O ends, as that of guests",
    Paths "paths" 50 "two paths to disks behind SCSI targets, each of which may fail for a while",
}

/// Some of the features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Whether the set contains `feature`.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & 1 << feature as u8 != 0
    }

    /// These and `feature`.
    #[must_use]
    pub const fn and(self, feature: Feature) -> Features {
        Features(self.0 | 1 << feature as u8)
    }

    /// The set without the features of `other`.
    #[must_use]
    pub const fn without(self, other: Features) -> Features {
        Features(self.0 & !other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for feature in Feature::ALL.iter().filter(|feature| self.has(**feature)) {
            write!(f, "{comma}{}", feature.name())?;
            comma = ",";
        }
        Ok(())
    }
}

/// An unknown feature name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureError(String);

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a feature of the soak; choose among ", self.0)?;
        let mut all = Features::default();
        Feature::ALL.iter().for_each(|feature| all = all.and(*feature));
        all.fmt(f)
    }
}

impl std::error::Error for FeatureError {}

impl FromStr for Features {
    type Err = FeatureError;

    fn from_str(text: &str) -> Result<Features, FeatureError> {
        let mut features = Features::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let known = Feature::ALL.iter().find(|feature| feature.name() == word);
            features = features.and(*known.ok_or_else(|| FeatureError(word.to_owned()))?);
        }
        Ok(features)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_written_and_read() {
        let some: Features = "cuts, stuck".parse().unwrap();
        assert!(some.has(Feature::Cuts) && some.has(Feature::Stuck) && !some.has(Feature::Calls));
        assert_eq!(some.to_string(), "stuck,cuts");
        assert_eq!("".parse(), Ok(Features::default()));
        assert!("cuts,luck".parse::<Features>().unwrap_err().to_string().contains("`luck`"));
    }
}
