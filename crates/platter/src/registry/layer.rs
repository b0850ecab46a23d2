//! Layers: devices made of devices, from the table of the stack.

use super::memory;
use super::params::{convert, value};
use super::table::{Build, Row, Shape};
use super::{OpenError, Opening, open_part, readaheads};
use crate::spec::Args;
use platter_disk::device::Device;
use platter_stack::LayerError;
use std::sync::Arc;

/// Every layer as a row of the table of devices.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    platter_stack::TABLE.iter().map(|layer| {
        let members: Vec<&str> = ["a.img", "b.img"].into_iter().take(*layer.members.end()).collect();
        Row {
            name: layer.name,
            summary: layer.summary,
            shape: Shape::Layer,
            example: format!("{}({})", layer.name, members.join(", ")),
            unnamed: &[],
            tables: readaheads::nest(convert(layer.params)),
            devices: layer.members.clone(),
            build: Build::Layer(layer),
        }
    })
}

/// Opens the devices of a layer and makes it.
pub(super) fn open(
    layer: &platter_stack::Row,
    args: &mut Args<'_>,
    opening: &Opening,
) -> Result<Device, OpenError> {
    let (mut values, mut policy) = (Vec::with_capacity(layer.params.len()), Vec::new());
    for param in layer.params {
        let value = match param.name {
            readaheads::ARGUMENT => {
                let (place, parameters) = readaheads::read(args)?;
                policy = parameters;
                place as i64
            }
            _ => value(args, param)?,
        };
        values.push((param.name, value));
    }
    let members = args.devices();
    args.check_all_read()?;
    let size = values.iter().find(|(name, _)| layer.name == "cache" && *name == "size");
    if let Some(&(_, size)) = size {
        let wrong = |why| OpenError::Spec(args.spec().reject(format!("cache: {why}")));
        memory::check(size.unsigned_abs()).map_err(wrong)?;
    }
    let members: Result<Vec<Device>, OpenError> =
        members.iter().map(|member| open_part(member, opening)).collect();
    let backends = members?.iter().map(|member| Arc::clone(member.backend())).collect();
    let backend = layer.make_with(&values, &policy, backends).map_err(|error| match error {
        LayerError::Device(error) => OpenError::Device(error),
        wrong => OpenError::Spec(args.spec().reject(wrong.to_string())),
    })?;
    Ok(Device::new(backend))
}
