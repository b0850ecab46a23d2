//! The parameters of a cache that can be set while it is open.

use super::dirty::WriteBack;
use super::{Settings, TYPE};
use platter_block::params::{self, Param, ParamError};
use platter_block::time::Span;

/// Their place in the table of parameters.
const FIRST: usize = 4;
const COUNT: usize = 6;

fn tunable() -> &'static [Param] {
    &TYPE.params[FIRST..FIRST + COUNT]
}

/// Their values, in the units of the table.
#[derive(Clone, Copy)]
pub(super) struct Tuning([i64; COUNT]);

impl Tuning {
    pub(super) fn new(settings: &Settings) -> Tuning {
        let millis = |span: Span| (span.0 / 1_000_000).cast_signed();
        Tuning([
            settings.background.into(),
            settings.dirty.into(),
            millis(settings.expire),
            millis(settings.interval),
            settings.congestion.into(),
            settings.gather.into(),
        ])
    }

    /// The parameters with their values.
    pub(super) fn params(&self) -> Vec<(Param, i64)> {
        tunable().iter().copied().zip(self.0).collect()
    }

    /// Sets a value, and applies it to a cache of this many pages: to its rules of write-back, and to the number of readahead
    /// I/Os in flight at which there is no more readahead.
    ///
    /// # Errors
    /// The name is unknown, or the value is out of range or contradicts another one. Nothing changes.
    pub(super) fn set(
        &mut self,
        (name, value): (&str, i64),
        pages: u32,
        rules: &mut WriteBack,
        congestion: &mut u32,
    ) -> Result<(), ParamError> {
        let at = params::check("a cache that is open", tunable(), name, value)?;
        let mut new = *self;
        new.0[at] = value;
        let [background, dirty, ..] = new.0;
        if background > dirty {
            let both = format!("background={background} is more than dirty={dirty}");
            return Err(ParamError(format!("cache: {name}={value} is out of range: {both}")));
        }
        *self = new;
        let value = value.unsigned_abs();
        match at {
            0 => rules.background = share(pages, value),
            1 => rules.limit = limit(pages, value),
            2 => rules.expire = Span::from_millis(value),
            3 => rules.interval = Span::from_millis(value),
            4 => *congestion = value as u32,
            _ => rules.gather = value as u32,
        }
        Ok(())
    }
}

/// The rules of write-back of a new cache of this many pages.
pub(super) fn rules(settings: &Settings, pages: u32) -> WriteBack {
    WriteBack {
        background: share(pages, settings.background.into()),
        limit: limit(pages, settings.dirty.into()),
        expire: settings.expire,
        interval: settings.interval,
        gather: settings.gather,
    }
}

fn share(pages: u32, percent: u64) -> u32 {
    (u64::from(pages) * percent / 100).max(1) as u32
}

fn limit(pages: u32, percent: u64) -> u32 {
    share(pages, percent).max(8)
}
