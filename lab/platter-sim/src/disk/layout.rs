//! The whole disk: which zone a sector lies in, and where.

use super::error::ParamsError;
use super::params::{LayoutParams, Sparing};
use super::zones::{Run, Zone};

/// A physical place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Cylinder.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sector on the track, in the order in which they are numbered.
    pub sector: u32,
}

/// Where the sectors of a disk lie.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<Zone>,
    starts: Vec<u64>,
    sectors: u64,
    cylinders: u32,
}

impl Layout {
    /// Prepares a layout for a disk of `rpm` revolutions a minute.
    ///
    /// # Errors
    /// Zones that are missing, overlap, run backwards or past the disk; defects outside their zone; more
    /// spares than space; more sectors than the zones hold.
    pub fn new(params: &LayoutParams, rpm: u32) -> Result<Layout, ParamsError> {
        check_zones(params)?;
        let mut zones = Vec::with_capacity(params.zones.len());
        let mut start = 0;
        for (number, zone) in params.zones.iter().enumerate() {
            let zone = Zone::new(zone, number, params, rpm, start)?;
            start += zone.sectors;
            zones.push(zone);
        }
        let sectors = params.sectors.unwrap_or(start);
        if sectors == 0 || sectors > start {
            let expected = format!("1 to {start}, what the zones hold");
            return Err(ParamsError::new("number of sectors", sectors, expected));
        }
        let starts = zones.iter().skip(1).map(|zone| zone.start).collect();
        Ok(Layout { zones, starts, sectors, cylinders: params.cylinders })
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders of the disk.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Where a sector lies. `None` past the end.
    pub fn place(&self, sector: u64) -> Option<Place> {
        (sector < self.sectors).then(|| {
            let run = self.run(sector);
            Place { cylinder: run.cylinder, head: run.head, sector: run.sector }
        })
    }

    /// The sector at a place; `None` for spares, defects, reserved space and places that the disk has not.
    pub fn sector_at(&self, place: Place) -> Option<u64> {
        self.zones
            .iter()
            .filter(|zone| place.sector < zone.per_track)
            .find_map(|zone| {
                zone.sector_at(place.cylinder, place.head, place.sector).map(|within| zone.start + within)
            })
            .filter(|&sector| sector < self.sectors)
    }

    /// Where a sector of the disk lies, and how many follow it on the track without a gap.
    #[inline]
    pub(crate) fn run(&self, sector: u64) -> Run {
        let zone = self.zone(sector);
        zone.run(sector - zone.start)
    }

    /// The sectors on the track of this one: first, and the one after the last.
    pub(crate) fn track(&self, sector: u64) -> (u64, u64) {
        let zone = self.zone(sector);
        let (first, end) = zone.track(sector - zone.start);
        (zone.start + first, (zone.start + end).min(self.sectors))
    }

    /// Sectors of a track where this one lies.
    pub(crate) fn per_track(&self, sector: u64) -> u32 {
        self.zone(sector).per_track
    }

    #[inline]
    fn zone(&self, sector: u64) -> &Zone {
        &self.zones[self.starts.partition_point(|&start| start <= sector)]
    }
}

fn check_zones(params: &LayoutParams) -> Result<(), ParamsError> {
    let range = |what: &str, value: u32, most: u32| match value {
        0 => Err(ParamsError::new(what, value, format!("1 to {most}"))),
        _ if value > most => Err(ParamsError::new(what, value, format!("1 to {most}"))),
        _ => Ok(()),
    };
    range("number of data surfaces", params.heads, 1000)?;
    range("number of cylinders", params.cylinders, 10_000_000)?;
    if let Sparing::Range(size) = params.sparing {
        range("range size for sparing", size, params.cylinders)?;
    }
    if params.zones.is_empty() {
        return Err(ParamsError::new("list of zones", "empty", "at least one zone"));
    }
    let mut next = 0;
    for (number, zone) in params.zones.iter().enumerate() {
        let (first, last) = (zone.first_cylinder, zone.last_cylinder);
        if first < next {
            let expected = format!("{next} or more: zones rise and do not overlap");
            return Err(ParamsError::new(format!("first cylinder of zone {number}"), first, expected));
        }
        if last < first || last >= params.cylinders {
            let expected = format!("{first} (its first) to {} (the disk's last)", params.cylinders - 1);
            return Err(ParamsError::new(format!("last cylinder of zone {number}"), last, expected));
        }
        range(&format!("blocks per track of zone {number}"), zone.sectors_per_track, 1_000_000)?;
        next = last + 1;
    }
    Ok(())
}
