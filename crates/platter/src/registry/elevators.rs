//! Elevators in specs: `elevator=deadline(read_expire=250ms)`.

use crate::spec::{Args, Param, ParamKind, Signature, SpecError};
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

/// The arguments of each of [`ELEVATORS`], made once from its own table of parameters.
static SIGNATURES: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    let tables = std::iter::once(&[] as &[_]).chain(elevator::TABLE.iter().map(|row| row.params));
    tables.map(signature).collect()
});

fn signature(params: &'static [platter_block::params::Param]) -> Signature {
    let params: Vec<Param> = params
        .iter()
        .map(|param| Param {
            name: param.name,
            kind: ParamKind::Number { unit: param.unit, min: param.min, max: param.max },
            default: "",
            help: param.help,
        })
        .collect();
    // Signatures point to tables that live as long as the process; so does this one.
    Signature { unnamed: &[], tables: Box::leak(Box::new([&*params.leak()])), devices: 0..=0 }
}

/// Reads the argument `elevator` and makes what it says; `None` is no elevator.
pub(super) fn read(args: &mut Args<'_>) -> Result<Option<Box<dyn Elevator>>, SpecError> {
    let spec = args.nested("elevator")?;
    let at = ELEVATORS.iter().position(|name| *name == spec.name());
    let Some(signature) = at.and_then(|at| SIGNATURES.get(at)) else {
        return Err(args.reject("elevator", format!("there is no elevator `{}`", spec.name())));
    };
    let mut given = Args::new(&spec, signature)?;
    let Some(row) = elevator::by_name(spec.name()) else { return Ok(None) };
    let mut elevator = (row.make)();
    for param in row.params {
        if let Some(value) = given.optional(param.name, Args::number)? {
            elevator.set(param.name, value).map_err(|error| given.reject(param.name, error.0))?;
        }
    }
    given.finish()?;
    Ok(Some(elevator))
}
