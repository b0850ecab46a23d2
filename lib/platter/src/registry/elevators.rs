//! Elevators in specs: `elevator=deadline(read_expire=250ms)`.

use super::params::{convert, value};
use crate::spec::{Args, Argument, Signature, Spec, SpecError};
use platter_block::elevator::Elevator;
use platter_block::elevator::ElevatorType;
use platter_disk::elevators::{self, RegisterError};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

const NONE: &str = "none";

/// The names known so far. Rows are only added, and kept for the life of the process.
struct Known {
    names: &'static [&'static str],
    /// The parameters of each.
    tables: Vec<&'static [&'static [Argument]]>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { names: &[NONE], tables: Vec::new() });

// The elevators that are known from the start: without the feature those of the core.
#[cfg(feature = "elevators")]
use platter_elevators::TABLE;
#[cfg(not(feature = "elevators"))]
static TABLE: &[ElevatorType] = {
    use platter_block::elevator::{DEADLINE, MQ_DEADLINE, NOOP};
    &[NOOP, DEADLINE, MQ_DEADLINE]
};

/// Registers the elevators of the library, so that they are known wherever an elevator can be named.
pub(super) fn register_own() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| elevators::register_table(TABLE));
}

/// Registers an elevator of the program under its name. From then on it can be named wherever an elevator can: in
/// device specs, in [`Device::set_elevator`](crate::Device::set_elevator), in lists.
///
/// # Errors
/// The name is taken or cannot be written in a device spec, the row makes an elevator of another name or with
/// other parameters, or a parameter has no valid name, range or help.
pub fn register_elevator(row: &'static ElevatorType) -> Result<(), RegisterError> {
    register_own();
    elevators::register(row)
}

/// Everything that can be named by now.
fn known() -> MutexGuard<'static, Known> {
    register_own();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let rows = elevators::all();
    if known.names.len() != 1 + rows.len() {
        known.names = [NONE].into_iter().chain(rows.iter().map(|row| row.name)).collect::<Vec<_>>().leak();
    }
    let converted = known.tables.len();
    known.tables.extend(rows[converted..].iter().map(|row| convert(row.params)));
    known
}

/// Valid values of `elevator=`: `none`, the names of the table of elevators, and those that were
/// [registered](crate::register_elevator).
pub fn elevator_names() -> &'static [&'static str] {
    known().names
}

/// The parameters of an elevator, as specs have them; `none` has none.
pub fn elevator_params(name: &str) -> impl Iterator<Item = &'static Argument> + use<> {
    tables(name).unwrap_or_default().iter().copied().flatten()
}

pub(super) fn tables(name: &str) -> Option<&'static [&'static [Argument]]> {
    let known = known();
    match known.names.iter().position(|known| *known == name)? {
        0 => Some(&[]),
        at => known.tables.get(at - 1).copied(),
    }
}

/// Makes the elevator that `spec` names with its parameters; `None` is no elevator.
pub(super) fn make(spec: &Spec) -> Result<Option<Box<dyn Elevator>>, SpecError> {
    let Some(tables) = tables(spec.name()) else {
        return Err(spec.reject(format!("there is no elevator `{}`", spec.name())));
    };
    let mut given = Args::new(spec, &Signature { unnamed: &[], tables, devices: 0..=0 })?;
    let Some(row) = elevators::by_name(spec.name()) else { return Ok(None) };
    let mut elevator = (row.make)();
    // Defaults are not set explicitly: a parameter that selects a group of values (the kernel to follow) sets
    // others.
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
        assert_eq!(elevator_names().len(), 1 + platter_elevators::TABLE.len());
        for name in elevator_names() {
            check_table(tables(name).unwrap()).unwrap();
        }
    }
}
