//! What a unit says about itself, as the geometry of a disk.

use crate::host::found::{Found, Inquirer, Refused};
use crate::unit::{Response, Status};
use platter_block::driver::Geometry;
use platter_block::limits::Limits;
use std::borrow::ToOwned;
use std::format;
use std::string::String;

/// Asks a unit by `ask`. `local` are limits of the memory of transfers, which no page has.
///
/// # Errors
/// The unit does not tell its capacity, or one that no disk has.
pub(super) fn geometry(
    ask: &mut dyn FnMut(&[u8]) -> Option<Response>,
    local: Limits,
) -> Result<Geometry, String> {
    let found = answers(Inquirer::of_disk(), ask)?;
    let limits = found.limits(local.with_atomic_write(0).with_chunk(0));
    Ok(Geometry::new(found.size(), limits).with_features(found.features(true)))
}

/// The same for its size only: each failed I/O on a disk that is away asks for it.
///
/// # Errors
/// As above.
pub(super) fn size(ask: &mut dyn FnMut(&[u8]) -> Option<Response>) -> Result<u64, String> {
    Ok(answers(Inquirer::of_size(), ask)?.size())
}

fn answers(mut inquirer: Inquirer, ask: &mut dyn FnMut(&[u8]) -> Option<Response>) -> Result<Found, String> {
    while let Some((cdb, _)) = inquirer.next() {
        let name = cdb.command().name;
        let response = ask(cdb.bytes()).ok_or_else(|| format!("{name} is not answered"))?;
        let taken = match response.status {
            Status::Good => inquirer.take(Ok(&response.data_in)),
            Status::CheckCondition => inquirer.take(Err(&response.sense)),
            Status::ReservationConflict => inquirer.take_conflict(),
            status => Err(Refused::NotReady(status.name().to_owned())),
        };
        taken.map_err(|refused| match refused {
            Refused::NotReady(why) => format!("{name}: not ready: {why}"),
            Refused::NoUnit => "there is no logical unit".to_owned(),
            Refused::Unfit(why) => format!("{name}: {why}"),
        })?;
    }
    Ok(inquirer.into_found().0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{Identity, Plan, Unit};
    use platter_block::driver::Features;

    fn unit(geometry: Geometry) -> Unit {
        let text = String::from("t");
        let identity =
            Identity { vendor: text.clone(), product: text.clone(), revision: text.clone(), serial: text };
        Unit::new(identity, geometry)
    }

    fn found(geometry: Geometry) -> Geometry {
        let unit = unit(geometry);
        let mut ask = |cdb: &[u8]| match unit.plan(cdb, &[]) {
            Plan::Done(response) => Some(response),
            Plan::Steps(_) => None,
        };
        super::geometry(&mut ask, geometry.limits).unwrap()
    }

    #[test]
    fn a_disk_is_as_its_pages_say() {
        let limits = Limits::unlimited(4096).with_physical_block(8192).with_discard_granularity(16384);
        let features = Features::NONE.with_write_cache(true);
        let geometry = Geometry::new((1 << 30) + 512, limits.with_max_discard(1 << 20));
        let seen = found(geometry.with_features(features));
        assert_eq!(seen.size, 1 << 30, "SCSI knows whole blocks only");
        let unit = unit(geometry);
        let mut ask = |cdb: &[u8]| match unit.plan(cdb, &[]) {
            Plan::Done(response) => Some(response),
            Plan::Steps(_) => None,
        };
        assert_eq!(super::size(&mut ask), Ok(1 << 30));
        let (limits, own) = (seen.limits, geometry.limits);
        assert_eq!((limits.logical_block, limits.physical_block), (4096, 8192));
        assert_eq!((limits.discard_granularity, limits.max_discard), (16384, own.max_discard));
        assert_eq!((limits.max_transfer, limits.write_zeroes), (64 << 20, true));
        assert!(seen.features.write_cache && seen.features.fua && !seen.features.read_only);
    }

    #[test]
    fn a_disk_without_discards_and_cache_has_none() {
        let limits = Limits::unlimited(512).with_discard_granularity(0);
        let features = Features::NONE.with_read_only(true);
        let seen = found(Geometry::new(1 << 20, limits).with_features(features));
        assert_eq!((seen.limits.discard_granularity, seen.features.write_cache), (0, false));
        assert!(seen.features.read_only);
    }

    #[test]
    fn nonsense_is_refused_with_the_value() {
        let told = |bytes: [u8; 32]| {
            let mut ask = |cdb: &[u8]| {
                let is_capacity = cdb.first() == Some(&crate::cdb::READ_CAPACITY_16.opcode);
                let data_in = if is_capacity { bytes.to_vec() } else { [0; 96].to_vec() };
                Some(Response { data_in, ..Response::of(Status::Good) })
            };
            super::geometry(&mut ask, Limits::unlimited(512)).map(|_| ()).unwrap_err()
        };
        let mut bytes = [0; 32];
        bytes[10..12].copy_from_slice(&[2, 8]);
        assert!(told(bytes).contains("520 bytes"), "{}", told(bytes));
        bytes[..12].copy_from_slice(&[255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 2, 0]);
        assert!(told(bytes).contains("18446744073709551615"), "{}", told(bytes));
        assert!(super::geometry(&mut |_| None, Limits::unlimited(512)).is_err());
    }

    #[test]
    fn a_reservation_of_another_initiator_hides_only_what_a_disk_can_do_without() {
        let unit = unit(Geometry::new(1 << 20, Limits::unlimited(512)));
        let told = |hidden: u8| {
            let mut ask = |cdb: &[u8]| match unit.plan(cdb, &[]) {
                _ if cdb.first() == Some(&hidden) => Some(Response::of(Status::ReservationConflict)),
                Plan::Done(response) => Some(response),
                Plan::Steps(_) => None,
            };
            super::geometry(&mut ask, Limits::unlimited(512))
        };
        let without_modes = told(crate::cdb::MODE_SENSE_10.opcode).unwrap();
        assert_eq!(without_modes.size, 1 << 20);
        assert!(without_modes.features.write_cache, "a cache that is not known is flushed");
        let without_capacity = told(crate::cdb::READ_CAPACITY_16.opcode).unwrap_err();
        assert!(without_capacity.contains("RESERVATION CONFLICT"), "{without_capacity}");
    }
}
