//! The parameters of a cache that can be set while it is open.

use super::dirty::WriteBack;
use super::opened::Opened;
use super::{Settings, TYPE};
use crate::readahead::PAGE;
use platter_block::params::{self, Param, ParamError};
use platter_block::text::short_size;
use platter_block::time::Span;

/// The place of those of write-back and readahead in the table of parameters.
const FIRST: usize = 4;
const COUNT: usize = 7;

/// Where the upper limit of `size` is from.
const MOST_SIZE: &str = "a cache that is open has at most its max_size, or the size that it was opened with";

fn tunable() -> &'static [Param] {
    &TYPE.params[FIRST..FIRST + COUNT]
}

/// Their values.
#[derive(Clone, Copy)]
pub(super) struct Tuning {
    /// Percent dirty at which write-back begins, and at which writers wait.
    background: u64,
    dirty: u64,
    expire: Span,
    interval: Span,
    congestion: u32,
    gather: u32,
    write_depth: u32,
    /// Bytes for pages, and the range of it.
    size: u64,
    range: (u64, u64),
    /// Bytes to which memory pressure has taken it down, and takes it down at most.
    squeezed: u64,
    min_size: u64,
    shards: u32,
    opened: Opened,
}

/// What the engine works by.
pub(super) struct Tuned {
    pub(super) rules: WriteBack,
    /// No readahead while this many readahead I/Os are in flight.
    pub(super) congestion: u32,
    /// Pages that it has memory for.
    pub(super) pages: u32,
}

impl Tuning {
    pub(super) fn new(settings: &Settings) -> Tuning {
        Tuning {
            background: settings.background.into(),
            dirty: settings.dirty.into(),
            expire: settings.expire,
            interval: settings.interval,
            congestion: settings.congestion,
            gather: settings.gather,
            write_depth: settings.write_depth,
            size: settings.size,
            range: (settings.least(), settings.most()),
            squeezed: u64::MAX,
            min_size: settings.min_size,
            shards: settings.shards,
            opened: Opened::with(settings),
        }
    }

    /// The part of one shard.
    pub(super) fn part(&self) -> Tuning {
        let count = self.shards;
        Tuning {
            congestion: self.congestion.div_ceil(count),
            gather: self.gather.div_ceil(count),
            write_depth: self.write_depth.div_ceil(count),
            size: self.size / u64::from(count),
            range: (self.range.0 / u64::from(count), self.range.1 / u64::from(count)),
            min_size: self.min_size / u64::from(count),
            shards: 1,
            ..*self
        }
    }

    /// What the whole cache was opened with.
    pub(super) fn opened(&self) -> Opened {
        self.opened
    }

    /// Most bytes for pages.
    pub(super) fn most(&self) -> u64 {
        self.range.1
    }

    /// With what memory pressure has taken from another one.
    pub(super) fn squeezed_as(self, other: &Tuning) -> Tuning {
        Tuning { squeezed: other.squeezed, ..self }
    }

    /// The values of the tunable parameters, in the units of the table.
    fn values(&self) -> [i64; COUNT] {
        let millis = |span: Span| (span.0 / 1_000_000).cast_signed();
        let percent = |value: u64| value.cast_signed();
        let (expire, interval) = (millis(self.expire), millis(self.interval));
        let (congestion, gather) = (self.congestion.into(), self.gather.into());
        let depth = self.write_depth.into();
        [percent(self.background), percent(self.dirty), expire, interval, congestion, gather, depth]
    }

    /// The parameter `size` with its range in this cache.
    fn size(&self) -> Param {
        let (min, max) = (self.range.0.cast_signed(), self.range.1.cast_signed());
        Param { min, max, ..TYPE.params[0] }
    }

    /// The parameters with their values.
    pub(super) fn params(&self) -> Vec<(Param, i64)> {
        let size = (self.size(), self.size.cast_signed());
        [size].into_iter().chain(tunable().iter().copied().zip(self.values())).collect()
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The name is unknown, or the value is out of range or contradicts another one. Nothing changes.
    pub(super) fn set(&mut self, name: &str, value: i64) -> Result<(), ParamError> {
        let all: Vec<Param> = self.params().into_iter().map(|(param, _)| param).collect();
        let at = params::check("cache", &all, name, value).map_err(|ParamError(why)| match name {
            "size" => ParamError(format!("{why} ({MOST_SIZE})")),
            _ => ParamError(why),
        })?;
        let (mut new, number) = (*self, value.unsigned_abs());
        match at {
            0 => return self.set_size(number),
            1 => new.background = number,
            2 => new.dirty = number,
            3 => new.expire = Span::from_millis(number),
            4 => new.interval = Span::from_millis(number),
            5 => new.congestion = number as u32,
            6 => new.gather = number as u32,
            _ => new.write_depth = number as u32,
        }
        let Tuning { background, dirty, .. } = new;
        if background > dirty {
            let both = format!("background={background} is more than dirty={dirty}");
            return Err(ParamError(format!("cache parameter {name}={value} is out of range: {both}")));
        }
        *self = new;
        Ok(())
    }

    fn set_size(&mut self, bytes: u64) -> Result<(), ParamError> {
        let unit = PAGE * u64::from(self.shards);
        if !bytes.is_multiple_of(unit) {
            let (least, most) = self.range;
            let range = format!("multiples of {unit} from {} to {}", short_size(least), short_size(most));
            let what = format!("cache parameter size={bytes} is out of range: {range} ({MOST_SIZE})");
            return Err(ParamError(what));
        }
        self.size = bytes;
        Ok(())
    }

    /// Bytes for pages.
    fn bytes(&self) -> u64 {
        self.size.min(self.squeezed)
    }

    /// Adapts the size: under memory pressure the cache has an eighth less, down to its least size; without, it takes an eighth
    /// of its size again. Returns whether that changes anything.
    pub(super) fn adapt(&mut self, is_under: bool) -> bool {
        let before = self.bytes();
        let bytes = match is_under {
            true => (before - before / 8).max(self.min_size.min(before)),
            false => (before + self.size / 8).min(self.size),
        };
        self.squeezed = if bytes == self.size { u64::MAX } else { (bytes / PAGE * PAGE).max(self.range.0) };
        self.bytes() != before
    }

    /// What the cache is to do by these values.
    pub(super) fn tuned(&self) -> Tuned {
        let pages = (self.bytes() / PAGE) as u32;
        let rules = WriteBack {
            background: share(pages, self.background),
            limit: limit(pages, self.dirty),
            expire: self.expire,
            interval: self.interval,
            gather: self.gather,
            depth: self.write_depth,
        };
        Tuned { rules, congestion: self.congestion, pages }
    }
}

fn share(pages: u32, percent: u64) -> u32 {
    (u64::from(pages) * percent / 100).max(1) as u32
}

fn limit(pages: u32, percent: u64) -> u32 {
    share(pages, percent).max(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pressure_takes_an_eighth_at_a_time_down_to_the_least() {
        let settings = Settings { size: 64 * MIB, min_size: 20 * MIB, ..Settings::default() };
        let mut tuning = Tuning::new(&settings);
        let mut sizes = Vec::new();
        while tuning.adapt(true) {
            sizes.push(tuning.tuned().pages as u64 * PAGE);
        }
        assert_eq!(sizes[..2], [56 * MIB, 49 * MIB]);
        assert_eq!(sizes.last(), Some(&(20 * MIB)));
        assert!(sizes.iter().all(|size| size.is_multiple_of(PAGE)));
        // The value that was set stays, and the size returns to it.
        assert_eq!(tuning.params()[0].1, 64 << 20);
        assert!(tuning.adapt(false));
        assert_eq!(tuning.tuned().pages as u64 * PAGE, 28 * MIB);
        while tuning.adapt(false) {}
        assert_eq!(tuning.tuned().pages as u64 * PAGE, 64 * MIB);
        assert!(!tuning.adapt(false));
        // A size below the least one is kept.
        tuning.set("size", 10 << 20).unwrap();
        assert!(!tuning.adapt(true) && tuning.tuned().pages as u64 * PAGE == 10 * MIB);
    }

    #[test]
    fn spans_shorter_than_the_unit_of_their_parameter_are_kept() {
        let settings = Settings { interval: Span::from_micros(3), ..Settings::default() };
        let mut tuning = Tuning::new(&settings);
        tuning.set("expire", 7).unwrap();
        let rules = tuning.tuned().rules;
        assert_eq!((rules.interval, rules.expire), (Span::from_micros(3), Span::from_millis(7)));
    }
}
