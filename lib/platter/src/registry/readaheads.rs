//! Readahead policies in specs: `platter(streams=8)`, `2.6.7(runs=2.6.8)`.

use super::params::{READAHEAD, convert, value};
use crate::spec::{self, Args, Argument, ArgumentKind, Signature, Spec, SpecError, Words};
use platter_cache::readahead::{self, ReadaheadType, Settings};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The names known so far. Rows are only added, and kept for the life of the process.
struct Known {
    names: &'static [&'static str],
    /// The parameters of each.
    tables: Vec<&'static [&'static [Argument]]>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { names: &[], tables: Vec::new() });

/// Everything that can be named by now.
fn known() -> MutexGuard<'static, Known> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let rows = readahead::all();
    if known.names.len() != rows.len() {
        known.names = rows.iter().map(|row| row.name).collect::<Vec<_>>().leak();
    }
    let converted = known.tables.len();
    known.tables.extend(rows[converted..].iter().map(|row| convert(row.params)));
    known
}

/// The names of the readahead policies, those that were registered
/// ([`readahead::register`](platter_cache::readahead::register)) included.
pub fn readahead_names() -> &'static [&'static str] {
    known().names
}

/// The parameters of a readahead policy, as specs have them.
pub fn readahead_params(name: &str) -> impl Iterator<Item = &'static Argument> + use<> {
    find(name).map_or(&[][..], |(_, table)| table).iter().copied().flatten()
}

/// Where a policy is in the list of all, and its parameters.
fn find(name: &str) -> Option<(usize, &'static [&'static [Argument]])> {
    let known = known();
    let index = known.names.iter().position(|known| *known == name)?;
    Some((index, known.tables[index]))
}

/// Parses a policy with its parameters, such as `2.6.11(same_page=on)`. The sizes in the settings are the
/// defaults.
///
/// # Errors
/// An error in the syntax, the name or a parameter.
pub fn parse_readahead(text: &str) -> Result<(&'static ReadaheadType, Settings), SpecError> {
    let spec = spec::parse(text, readahead_names())?;
    let (Some((_, table)), Some(row)) = (find(spec.name()), readahead::by_name(spec.name())) else {
        return Err(spec.reject(format!("there is no readahead policy `{}`", spec.name())));
    };
    let settings = settings(&spec, row, table)?;
    Ok((row, settings))
}

/// Reads the argument `readahead`: the place of the policy in its table, and the values of its parameters.
pub(super) fn read(args: &mut Args<'_>) -> Result<(usize, Vec<i64>), SpecError> {
    let spec = args.nested(READAHEAD)?;
    let (Some((index, table)), Some(row)) = (find(spec.name()), readahead::by_name(spec.name())) else {
        return Err(args.reject(READAHEAD, format!("there is no readahead policy `{}`", spec.name())));
    };
    Ok((index, settings(&spec, row, table)?.values))
}

/// The parameters of a layer, where that of readahead is a policy that may have its own parameters.
pub(super) fn nest(table: &'static [&'static [Argument]]) -> &'static [&'static [Argument]] {
    let nested = |param: &Argument| match param.name {
        READAHEAD => Argument { kind: ArgumentKind::Nested(Words(readahead_names)), ..*param },
        _ => *param,
    };
    let params: Vec<Argument> = table.iter().copied().flatten().map(nested).collect();
    Box::leak(Box::new([&*params.leak()]))
}

fn settings(
    spec: &Spec,
    row: &ReadaheadType,
    tables: &'static [&'static [Argument]],
) -> Result<Settings, SpecError> {
    let signature = Signature { unnamed: &[], tables, devices: 0..=0 };
    let mut given = Args::new(spec, &signature)?;
    let mut settings = Settings::default();
    for param in row.params {
        let value = value(&mut given, param)?;
        settings.set(row, param.name, value).map_err(|error| given.reject(param.name, error.0))?;
    }
    given.finish()?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::check_table;

    #[test]
    fn every_policy_can_be_written_with_and_without_parameters() {
        platter_repro::policies::register_readahead();
        assert!(readahead_names().len() > readahead::TABLE.len());
        for name in readahead_names() {
            check_table(find(name).unwrap().1).unwrap();
            let (row, settings) = parse_readahead(name).unwrap();
            assert_eq!((row.name, settings.values.len()), (*name, row.params.len()));
        }
        let (row, settings) = parse_readahead("2.6.7(runs=2.6.9)").unwrap();
        assert_eq!((row.name, settings.value(row, 0)), ("2.6.7", 2));
        let (row, settings) = parse_readahead("2.6.6+private(extra=0)").unwrap();
        assert_eq!((row.name, settings.value(row, 0)), ("2.6.6+private", 0));
        for wrong in ["2.6.8", "platter(streams=0)", "context(colour=1)", "none(", "2.6.11(ram(1M))"] {
            assert!(parse_readahead(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cache_takes_a_policy_with_its_parameters() {
        platter_repro::policies::register_readahead();
        use crate::registry::{Access, open};
        let with =
            |policy: &str| open(&format!("cache(size=1M, readahead={policy}, ram(1M))"), Access::read());
        for policy in ["2.6.7(runs=2.6.9)", "platter(streams=4)", "none"] {
            with(policy).unwrap();
        }
        for (policy, told) in [("2.6.8", "2.6.7"), ("platter(streams=0)", "streams"), ("none(a=1)", "a")] {
            let error = with(policy).unwrap_err().to_string();
            assert!(error.contains(told), "{policy}: {error}");
        }
    }
}
