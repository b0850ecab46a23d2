//! The parameters of elevators and layers, which have tables of their own, as arguments of specs.

use crate::spec::{Args, Argument, SpecError};
use platter_block::params;

/// The name of the argument of the cache that is a readahead policy.
#[cfg(feature = "layers")]
pub(super) const READAHEAD: &str = "readahead";

/// The tables of a signature, made once for each row of a table and kept as long as the process lives.
pub(super) fn convert(table: &'static [params::Param]) -> &'static [&'static [Argument]] {
    let params: Vec<Argument> = table.iter().map(Argument::of).collect();
    Box::leak(Box::new([&*params.leak()]))
}

/// The value of a parameter of such a table: the one that is given, or the default.
pub(super) fn value(args: &mut Args<'_>, param: &params::Param) -> Result<i64, SpecError> {
    if param.words.is_empty() {
        return args.number(param.name);
    }
    let word = args.one_of(param.name)?;
    let place = param.words.iter().position(|known| *known == word);
    Ok(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(param.default))
}
