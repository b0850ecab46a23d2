//! The parameters of elevators and layers, which have tables of their own, as arguments of specs.

use crate::spec::Param;
use platter_block::params;

/// The tables of a signature, made once for each row of a table and kept as long as the process lives.
pub(super) fn convert(table: &'static [params::Param]) -> &'static [&'static [Param]] {
    let params: Vec<Param> = table.iter().map(Param::of).collect();
    Box::leak(Box::new([&*params.leak()]))
}
