//! The parameters of elevators and layers, which have tables of their own, as arguments of specs.

use crate::spec::{Param, ParamKind, format_size};
use platter_block::params::{self, Unit};

/// The tables of a signature, made once for each row of a table and kept as long as the process lives.
pub(super) fn convert(table: &'static [params::Param]) -> &'static [&'static [Param]] {
    let params: Vec<Param> = table.iter().map(one).collect();
    Box::leak(Box::new([&*params.leak()]))
}

fn one(param: &'static params::Param) -> Param {
    Param {
        name: param.name,
        kind: ParamKind::Number { unit: param.unit, min: param.min, max: param.max },
        default: written(param.unit, param.default).leak(),
        help: param.help,
    }
}

/// A value as a user would write it.
fn written(unit: Unit, value: i64) -> String {
    match unit {
        Unit::Millis | Unit::Micros => format!("{value}{unit}"),
        Unit::Bytes => format_size(value.unsigned_abs()),
        Unit::Switch => (if value == 0 { "off" } else { "on" }).to_owned(),
        Unit::Requests | Unit::Count | Unit::Word => value.to_string(),
    }
}
