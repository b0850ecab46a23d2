//! Layers: devices built on other devices, from the table of the stack.

#[cfg(feature = "cache")]
use super::params::READAHEAD;
use super::params::{convert, value};
use super::row::{DeviceType, Shape};
use super::{OpenError, Opening, open_part};
#[cfg(feature = "cache")]
use super::{memory, readaheads};
use crate::spec::{Args, SpecError};
use platter_block::params::{Param, Unit};
use platter_disk::device::Device;
use platter_stack::LayerError;
use std::sync::Arc;

/// Every layer as a row of the table of devices.
pub(super) fn rows() -> impl Iterator<Item = DeviceType> {
    #[cfg(feature = "cache")]
    let layers = platter_cache::layers();
    #[cfg(not(feature = "cache"))]
    let layers = platter_stack::TABLE.iter();
    layers.map(row)
}

/// A layer as a row of the table of devices.
pub(super) fn row(layer: &'static platter_stack::LayerType) -> DeviceType {
    let members: Vec<&str> = ["a.img", "b.img"].into_iter().take(*layer.members.end()).collect();
    let tables = convert(layer.params);
    #[cfg(feature = "cache")]
    let tables = readaheads::nest(tables);
    DeviceType {
        name: layer.name,
        summary: layer.summary,
        shape: Shape::Layer,
        example: format!("{}({})", layer.name, members.join(", ")),
        unnamed: &[],
        tables,
        devices: layer.members.clone(),
        open: Box::new(move |args, opening| open(layer, args, opening)),
    }
}

/// Opens the devices of a layer and makes it.
pub(super) fn open(
    layer: &platter_stack::LayerType,
    args: &mut Args<'_>,
    opening: &Opening,
) -> Result<Device, OpenError> {
    let mut values = Vec::with_capacity(layer.params.len());
    #[cfg_attr(not(feature = "cache"), expect(unused_mut, reason = "only the cache has a policy"))]
    let mut policy = Vec::new();
    for param in layer.params {
        let value = match param.name {
            #[cfg(feature = "cache")]
            READAHEAD => {
                let (place, parameters) = readaheads::read(args)?;
                policy = parameters;
                place as i64
            }
            _ => {
                check_unit(args, param)?;
                value(args, param)?
            }
        };
        values.push((param.name, value));
    }
    let members = args.devices();
    args.check_all_read()?;
    #[cfg(feature = "cache")]
    if layer.name == "cache" {
        let size = size_of_cache(args, &mut values);
        memory::check(size.unsigned_abs()).map_err(|why| {
            let why = as_typed(args, &[("size", size)], &why).map_or(why, |(_, said)| said);
            args.unfit("size", format!("cache: {why}"))
        })?;
    }
    // A snapshot's other device holds its own records, never what clients have written at the same place.
    let own = opening.with(super::Access { served: false, ..opening.access });
    // A signature as a member is expected, and nothing is written to a device that is no member.
    let member = opening.with(super::Access { force: true, ..opening.access });
    let of = |number: usize| match layer.name {
        "snapshot" if number > 0 => &own,
        "raid1" => &member,
        _ => opening,
    };
    let members: Result<Vec<Device>, OpenError> =
        members.iter().enumerate().map(|(number, member)| open_part(member, of(number))).collect();
    let backends = members?.iter().map(|member| Arc::clone(member.backend())).collect();
    let backend =
        layer.make_with(&values, &policy, backends).map_err(|error| explain(args, &values, error))?;
    Ok(Device::new(backend))
}

/// A time has a unit: only parameters of elevators may be plain numbers, as in kernels.
fn check_unit(args: &Args<'_>, param: &Param) -> Result<(), SpecError> {
    let is_time = matches!(param.unit, Unit::Millis | Unit::Micros | Unit::Nanos);
    let typed = args.typed(param.name).filter(|_| is_time).unwrap_or_default();
    // Nothing is as much in any unit.
    if !typed.bytes().all(|byte| byte.is_ascii_digit()) || typed.bytes().all(|byte| byte == b'0') {
        return Ok(());
    }
    let example = format!("write {typed}s or {typed}{}", param.unit);
    Err(args.reject(param.name, format!("the time {typed} has no unit (ns, us, ms or s); {example}")))
}

/// The size of a cache. If none was given, it is what the other values need.
#[cfg(feature = "cache")]
fn size_of_cache(args: &Args<'_>, values: &mut [(&str, i64)]) -> i64 {
    let of = |name: &str| values.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value);
    let size = match args.typed("size") {
        Some(_) => of("size"),
        None => {
            let [shards, extent, window] = ["shards", "extent", "window"].map(|name| of(name).unsigned_abs());
            platter_cache::usual_size(shards, extent, window).cast_signed()
        }
    };
    values.iter_mut().filter(|(name, _)| *name == "size").for_each(|(_, value)| *value = size);
    size
}

/// The error of a layer that could not be made, at the argument that it is about.
fn explain(args: &Args<'_>, values: &[(&str, i64)], error: LayerError) -> OpenError {
    let (message, alone) = match error {
        LayerError::Device(error) => return OpenError::Device(error),
        LayerError::Param(error) => (error.0, true),
        other => (other.to_string(), false),
    };
    let spec = args.spec();
    OpenError::Spec(match (as_typed(args, values, &message), alone) {
        (Some((name, message)), true) => args.reject(name, message),
        (Some((name, message)), false) => args.unfit(name, message),
        (None, true) => spec.reject(message),
        (None, false) => spec.unfit(message),
    })
}

/// Replaces a value in a layer's error message by what the user typed; also returns the name of that
/// argument. A layer only gets numbers: its message has `offset=2097152` where the user wrote `2M`.
fn as_typed<'v>(args: &Args<'_>, values: &[(&'v str, i64)], message: &str) -> Option<(&'v str, String)> {
    values.iter().find_map(|&(name, value)| {
        let number = format!("{name}={value}");
        let (before, after) = message.split_once(&number)?;
        if after.starts_with(|next: char| next.is_ascii_digit()) {
            return None;
        }
        Some((name, format!("{before}{name}={}{after}", args.typed(name)?)))
    })
}
