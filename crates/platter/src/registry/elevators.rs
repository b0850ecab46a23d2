//! Elevators in specs: `elevator=deadline(read_expire=250ms)`.

use super::params::{convert, value};
use crate::spec::{Args, Param, Signature, SpecError};
use platter_block::elevator::{self, Elevator};
use std::sync::LazyLock;

/// What `elevator=` may be: `none` and the names of the table of elevators.
pub static ELEVATORS: &[&str] = &{
    let mut names = ["none"; 1 + elevator::TABLE.len()];
    let mut row = 0;
    while row < elevator::TABLE.len() {
        names[1 + row] = elevator::TABLE[row].name;
        row += 1;
    }
    names
};

/// The parameters of each of [`ELEVATORS`].
static TABLES: LazyLock<Vec<&'static [&'static [Param]]>> = LazyLock::new(|| {
    let of_none: &'static [&'static [Param]] = &[];
    std::iter::once(of_none).chain(elevator::TABLE.iter().map(|row| convert(row.params))).collect()
});

/// The parameters of an elevator, as specs have them; `none` has none.
pub fn elevator_params(name: &str) -> impl Iterator<Item = &'static Param> + use<> {
    tables(name).unwrap_or_default().iter().copied().flatten()
}

fn tables(name: &str) -> Option<&'static [&'static [Param]]> {
    let at = ELEVATORS.iter().position(|known| *known == name)?;
    TABLES.get(at).copied()
}

/// Reads the argument `elevator` and makes what it says; `None` is no elevator.
pub(super) fn read(args: &mut Args<'_>) -> Result<Option<Box<dyn Elevator>>, SpecError> {
    let spec = args.nested("elevator")?;
    let Some(tables) = tables(spec.name()) else {
        return Err(args.reject("elevator", format!("there is no elevator `{}`", spec.name())));
    };
    let mut given = Args::new(&spec, &Signature { unnamed: &[], tables, devices: 0..=0 })?;
    let Some(row) = elevator::by_name(spec.name()) else { return Ok(None) };
    let mut elevator = (row.make)();
    // Defaults stay unsaid: a parameter that stands for several (the kernel whose values to take) sets others.
    for param in row.params {
        if !given.is_given(param.name) {
            continue;
        }
        let value = value(&mut given, param)?;
        elevator.set(param.name, value).map_err(|error| given.reject(param.name, error.0))?;
    }
    Ok(Some(elevator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::check_table;

    #[test]
    fn every_elevator_has_arguments_that_can_be_written() {
        assert_eq!(ELEVATORS.len(), 1 + elevator::TABLE.len());
        for name in ELEVATORS {
            check_table(tables(name).unwrap()).unwrap();
        }
    }
}
