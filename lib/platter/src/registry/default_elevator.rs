//! Reads `elevator=` and elevators that are named alone, and keeps the default elevator for disks whose spec does not have it.

use super::elevators;
use crate::spec::{self, Args, Spec, SpecError};
use platter_block::elevator::Elevator;
use std::sync::{PoisonError, RwLock};

/// The environment variable with the default elevator.
pub const DEFAULT_ELEVATOR_VARIABLE: &str = "PLATTER_ELEVATOR";

/// The choice of the program.
static CHOSEN: RwLock<Option<Spec>> = RwLock::new(None);

/// Sets the elevator of disks that are opened by a spec from now on and do not have `elevator=`, with its parameters if
/// it needs any: `deadline(read_expire=250ms)`. `none` is no elevator. The call takes precedence over the environment
/// variable `PLATTER_ELEVATOR`; disks that are open keep their elevators.
///
/// # Errors
/// There is no such elevator, or a parameter is invalid. The default stays as it was.
pub fn set_default_elevator(elevator: &str) -> Result<(), SpecError> {
    let chosen = parse(elevator, None)?;
    *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = Some(chosen);
    Ok(())
}

/// An elevator that was chosen, and where the choice came from if not from the spec.
pub(super) type Chosen = (Option<Box<dyn Elevator>>, Option<&'static str>);

/// Reads the argument `elevator` and makes the elevator, or the process's default one if the argument is not given.
pub(super) fn read(args: &mut Args<'_>) -> Result<Chosen, SpecError> {
    let given = args.nested("elevator")?;
    if !args.is_given("elevator")
        && let Some((spec, from)) = get()?
    {
        return Ok((elevators::make(&spec)?, Some(from)));
    }
    if elevators::tables(given.name()).is_none() {
        return Err(args.reject("elevator", format!("there is no elevator `{}`", given.name())));
    }
    Ok((elevators::make(&given)?, None))
}

/// The default elevator and where it was set; `None`: nowhere.
pub(super) fn get() -> Result<Option<(Spec, &'static str)>, SpecError> {
    if let Some(chosen) = CHOSEN.read().unwrap_or_else(PoisonError::into_inner).clone() {
        return Ok(Some((chosen, "set_default_elevator")));
    }
    let value = std::env::var_os(DEFAULT_ELEVATOR_VARIABLE).filter(|value| !value.is_empty());
    let Some(value) = value else { return Ok(None) };
    let from = format!("the environment variable {DEFAULT_ELEVATOR_VARIABLE}");
    let chosen = parse(&value.to_string_lossy(), Some(&from))?;
    Ok(Some((chosen, DEFAULT_ELEVATOR_VARIABLE)))
}

/// Parses and checks the name of an elevator with its parameters. Errors tell where the text is `from`.
fn parse(elevator: &str, from: Option<&str>) -> Result<Spec, SpecError> {
    let names = elevators::elevator_names();
    let name = elevator.split('(').next().unwrap_or_default().trim();
    if !names.contains(&name) {
        let shown = spec::parse_from(&spec::quote(elevator), &["file"], from)?;
        let error = shown.reject(format!("there is no elevator `{name}`"));
        let error = match spec::closest(name, names.iter().copied()) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None => error,
        };
        return Err(error.with_help(format!("the elevators are {}", names.join(", "))));
    }
    let chosen = spec::parse_from(elevator, names, from)?;
    elevators::make(&chosen)?;
    Ok(chosen)
}

/// An elevator, and the values of parameters that were given, in the units of [`Elevator::set`].
pub type ElevatorValues = (&'static str, Vec<(&'static str, i64)>);

/// Reads an elevator with parameters, as specs have it: `deadline(read_expire=250ms)`.
///
/// # Errors
/// There is no such elevator, or a parameter is invalid.
pub fn elevator_values(text: &str) -> Result<ElevatorValues, SpecError> {
    let spec = parse(text, None)?;
    let made = elevators::make(&spec)?;
    let row = platter_disk::elevators::by_name(spec.name());
    let (Some(made), Some(row)) = (made, row) else { return Ok(("none", Vec::new())) };
    let given = |name: &str| spec.args().iter().any(|arg| arg.name() == Some(name));
    let params = row.params.iter().filter(|param| given(param.name));
    Ok((row.name, params.filter_map(|param| Some((param.name, made.get(param.name)?))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_that_are_given_are_those_that_are_set() {
        assert_eq!(elevator_values("deadline").unwrap(), ("deadline", vec![]));
        let (name, values) = elevator_values("deadline(fifo_batch=4, read_expire=250ms)").unwrap();
        let row = platter_elevators::by_name(name).unwrap();
        let mut elevator = (row.make)();
        for (name, value) in &values {
            elevator.set(name, *value).unwrap();
        }
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        assert_eq!((names.len(), elevator.get("fifo_batch")), (2, Some(4)));
        assert_eq!(elevator.get("read_expire"), Some(250));
        for (text, part) in
            [("dedline", "did you mean `deadline`?"), ("deadline(fifo_batch=-1)", "fifo_batch")]
        {
            assert!(elevator_values(text).unwrap_err().to_string().contains(part), "{text}");
        }
    }
}
