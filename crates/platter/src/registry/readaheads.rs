//! Readahead policies in specs: `platter(streams=8)`, `2.6.7(runs=2.6.8)`.

use super::params::{convert, value};
use crate::spec::{self, Args, Param, Signature, SpecError};
use platter_block::readahead::{self, Row, Settings};
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

/// Reads a policy with its parameters, such as `2.6.11(same_page=on)`. The sizes in the settings are the defaults.
///
/// # Errors
/// What is wrong with the syntax, the name or a parameter.
pub fn parse_readahead(text: &str) -> Result<(&'static Row, Settings), SpecError> {
    let spec = spec::parse(text, &NAMES)?;
    let Some(index) = NAMES.iter().position(|known| *known == spec.name()) else {
        return Err(spec.reject(format!("there is no readahead policy `{}`", spec.name())));
    };
    let row = &readahead::TABLE[index];
    let signature = Signature { unnamed: &[], tables: TABLES[index], devices: 0..=0 };
    let mut given = Args::new(&spec, &signature)?;
    let mut settings = Settings::default();
    for param in row.params {
        let value = value(&mut given, param)?;
        settings.set(row, param.name, value).map_err(|error| given.reject(param.name, error.0))?;
    }
    given.finish()?;
    Ok((row, settings))
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
}
