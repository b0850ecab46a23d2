//! Readahead policies in specs: `platter(streams=8)`, `2.6.7(runs=2.6.8)`.

use super::params::{convert, value};
use crate::spec::{self, Args, Param, ParamKind, Signature, Spec, SpecError, Words};
use platter_cache::readahead::{self, Row, Settings};
use std::sync::LazyLock;

/// The names of the readahead policies and the parameters of each.
static TABLES: LazyLock<Vec<&'static [&'static [Param]]>> =
    LazyLock::new(|| readahead::TABLE.iter().map(|row| convert(row.params)).collect());

static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| readahead::TABLE.iter().map(|row| row.name).collect());

/// The names of the readahead policies.
pub fn readahead_names() -> &'static [&'static str] {
    &NAMES
}

/// The parameters of a readahead policy, as specs have them.
pub fn readahead_params(name: &str) -> impl Iterator<Item = &'static Param> + use<> {
    let index = NAMES.iter().position(|known| *known == name);
    index.map_or(&[][..], |index| TABLES[index]).iter().copied().flatten()
}

/// Parses a policy with its parameters, such as `2.6.11(same_page=on)`. The sizes in the settings are the
/// defaults.
///
/// # Errors
/// An error in the syntax, the name or a parameter.
pub fn parse_readahead(text: &str) -> Result<(&'static Row, Settings), SpecError> {
    let spec = spec::parse(text, &NAMES)?;
    let Some(index) = NAMES.iter().position(|known| *known == spec.name()) else {
        return Err(spec.reject(format!("there is no readahead policy `{}`", spec.name())));
    };
    let settings = settings(&spec, index)?;
    Ok((&readahead::TABLE[index], settings))
}

/// Reads the argument `readahead`: the place of the policy in its table, and the values of its parameters.
pub(super) fn read(args: &mut Args<'_>) -> Result<(usize, Vec<i64>), SpecError> {
    let spec = args.nested(ARGUMENT)?;
    let Some(index) = NAMES.iter().position(|known| *known == spec.name()) else {
        return Err(args.reject(ARGUMENT, format!("there is no readahead policy `{}`", spec.name())));
    };
    Ok((index, settings(&spec, index)?.values))
}

/// The parameters of a layer, where that of readahead is a policy that may have its own parameters.
pub(super) fn nest(table: &'static [&'static [Param]]) -> &'static [&'static [Param]] {
    let nested = |param: &Param| match param.name {
        ARGUMENT => Param { kind: ParamKind::Nested(Words(readahead_names)), ..*param },
        _ => *param,
    };
    let params: Vec<Param> = table.iter().copied().flatten().map(nested).collect();
    Box::leak(Box::new([&*params.leak()]))
}

/// The name of the argument.
pub(super) const ARGUMENT: &str = "readahead";

fn settings(spec: &Spec, index: usize) -> Result<Settings, SpecError> {
    let row = &readahead::TABLE[index];
    let signature = Signature { unnamed: &[], tables: TABLES[index], devices: 0..=0 };
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
        for (name, table) in NAMES.iter().zip(TABLES.iter()) {
            check_table(table).unwrap();
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
