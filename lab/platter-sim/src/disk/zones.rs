//! One zone: from a sector's number within the zone to its physical place, and back.
//!
//! A zone's physical sectors are counted along its tracks in the order in which they are numbered. Reserved
//! sectors at the front, spares, slipped and remapped sectors are then a matter of counting, by binary search.
//! The schemes are those of DiskSim 4.0; where its two directions disagree, slips use the spares of their unit.

use super::error::ParamsError;
use super::params::{LayoutParams, Mapping, Skew, Sparing, ZoneParams};

/// Units of angle in a revolution: at `rpm` revolutions a minute a nanosecond is exactly `rpm` units.
pub(crate) const REVOLUTION: u64 = 60_000_000_000;
/// Fraction bits of angles and times per sector.
pub(crate) const FINE: u32 = 20;

/// How numbered places lie among physical ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// Slips shift all following places.
    Whole,
    /// As `Whole`, in whole tracks.
    Tracks,
    /// Spares in each unit are left out; slips shift all following places.
    Skipping { unit: u32, usable: u32, front: u32 },
    /// Slips shift the following places of the same unit, into its spares.
    Units { unit: u32, usable: u32, front: bool },
}

/// A slipped place.
#[derive(Clone, Copy, Debug)]
struct Slip {
    /// Physical place.
    at: u32,
    /// First numbered place that it shifts.
    from: u32,
    /// Its unit, and the index of the first slip of that unit.
    unit: u32,
    unit_first: u32,
}

/// A zone, prepared for looking up.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// First sector number of the disk in this zone.
    pub(crate) start: u64,
    /// Sectors of the host in this zone.
    pub(crate) sectors: u64,
    /// Sectors of a track.
    pub(crate) per_track: u32,
    /// Nanoseconds of a sector, with [`FINE`] fraction bits.
    pub(crate) sector_time: u64,
    first_cylinder: u32,
    last_cylinder: u32,
    per_cylinder: u32,
    heads: u32,
    reserved: u32,
    scheme: Scheme,
    slips: Vec<Slip>,
    remaps: Vec<(u32, u32)>,
    serpentine: Option<u32>,
    /// Angle of a sector, with [`FINE`] fraction bits.
    sector_angle: u64,
    first: u32,
    track_skew: u32,
    cylinder_step: u32,
    /// The same three values, for skews in parts of a revolution, in units of angle.
    fine: Option<(u64, u64, u64)>,
    slips_turn: Option<u32>,
}

/// Sectors that lie on one track without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Cylinder.
    pub(crate) cylinder: u32,
    /// Head.
    pub(crate) head: u32,
    /// Physical sector on the track of the first.
    pub(crate) sector: u32,
    /// How many.
    pub(crate) len: u32,
    /// Angle at which the first begins.
    pub(crate) angle: u64,
    /// Nanoseconds of a sector, with [`FINE`] fraction bits.
    pub(crate) sector_time: u64,
    /// Sectors from the first to the end of its track.
    pub(crate) to_track_end: u32,
}

impl Zone {
    pub(crate) fn new(
        params: &ZoneParams,
        number: usize,
        layout: &LayoutParams,
        rpm: u32,
        start: u64,
    ) -> Result<Zone, ParamsError> {
        let physical = u64::from(params.last_cylinder - params.first_cylinder + 1)
            * u64::from(layout.heads)
            * u64::from(params.sectors_per_track);
        let physical = u32::try_from(physical).map_err(|_| {
            ParamsError::new(format!("size of zone {number}"), physical, "at most 4294967295 sectors")
        })?;
        let per_cylinder = layout.heads * params.sectors_per_track;
        let scheme = scheme(params, number, layout, per_cylinder)?;
        let (slips, remaps) = prepare_defects(params, number, layout, scheme, physical)?;
        let sectors = capacity(params, number, layout, physical, slips.len() as u64)?;
        let spt = u64::from(params.sectors_per_track);
        let mut zone = Zone {
            start,
            sectors,
            per_track: params.sectors_per_track,
            sector_time: (REVOLUTION << FINE) / u64::from(rpm) / spt,
            first_cylinder: params.first_cylinder,
            last_cylinder: params.last_cylinder,
            per_cylinder,
            heads: layout.heads,
            reserved: params.reserved,
            scheme,
            slips,
            remaps,
            serpentine: match layout.mapping {
                Mapping::Ascending => None,
                Mapping::SerpentineZone => Some(params.first_cylinder % 2),
                Mapping::SerpentineDisk => Some(0),
            },
            sector_angle: (REVOLUTION << FINE) / spt,
            first: 0,
            track_skew: 0,
            cylinder_step: 0,
            fine: None,
            slips_turn: match layout.sparing {
                Sparing::CylinderEnd
                | Sparing::CylinderEndSlipPast
                | Sparing::CylinderFront
                | Sparing::CylinderFrontSlipPast => Some(per_cylinder),
                Sparing::TrackEnd => Some(params.sectors_per_track),
                _ => None,
            },
        };
        zone.set_skews(params);
        Ok(zone)
    }

    fn set_skews(&mut self, params: &ZoneParams) {
        let spt = self.per_track;
        let split = |skew: Skew| match skew {
            Skew::Sectors(n) => (n % spt, 0),
            Skew::Revolution(part) => (0, ((u128::from(part) * u128::from(REVOLUTION)) >> 32) as u64),
        };
        let ((first, fine_first), (track, fine_track), (cylinder, fine_cylinder)) =
            (split(params.first_offset), split(params.track_skew), split(params.cylinder_skew));
        let tracks = u64::from(self.heads - 1);
        self.first = first;
        self.track_skew = track;
        let step = (tracks * u64::from(track) + u64::from(cylinder)) % u64::from(spt);
        self.cylinder_step = step as u32;
        if fine_first | fine_track | fine_cylinder != 0 {
            self.fine = Some((fine_first, fine_track, (tracks * fine_track + fine_cylinder) % REVOLUTION));
        }
    }

    /// Where a sector of the zone lies, and how many follow it without a gap.
    pub(crate) fn run(&self, within: u64) -> Run {
        let (mut place, mut len) = self.physical(within as u32 + self.reserved);
        len = len.min((self.sectors - within).min(u64::from(u32::MAX)) as u32);
        if !self.remaps.is_empty() {
            (place, len) = self.remapped(place, len);
        }
        let cylinder = place / self.per_cylinder;
        let rest = place % self.per_cylinder;
        let surface = rest / self.per_track;
        let sector = rest % self.per_track;
        let to_track_end = self.per_track - sector;
        Run {
            cylinder: self.first_cylinder + cylinder,
            head: self.head(cylinder, surface),
            sector,
            len: len.min(to_track_end),
            angle: self.angle(place, cylinder, surface, sector),
            sector_time: self.sector_time,
            to_track_end,
        }
    }

    /// The sectors of the zone on the same track, without spares and slips: first, and the one after the
    /// last.
    pub(crate) fn track(&self, within: u64) -> (u64, u64) {
        let (place, _) = self.physical(within as u32 + self.reserved);
        let front = place - place % self.per_track;
        let number = |place: u32| {
            u64::from(self.numbered_before(place).saturating_sub(self.reserved)).min(self.sectors)
        };
        (number(front), number(front + self.per_track))
    }

    /// The sector of the zone at a physical place; `None` for spares, defects and what is reserved.
    pub(crate) fn sector_at(&self, cylinder: u32, head: u32, sector: u32) -> Option<u64> {
        if cylinder < self.first_cylinder || cylinder > self.last_cylinder {
            return None;
        }
        let relative = cylinder - self.first_cylinder;
        let surface = self.head(relative, head);
        let mut place = relative * self.per_cylinder + surface * self.per_track + sector;
        let unit = if self.scheme == Scheme::Tracks { self.per_track } else { 1 };
        for &(defect, spare) in &self.remaps {
            if place / unit == defect {
                return None;
            }
            if place / unit == spare {
                place = defect * unit + place % unit;
                break;
            }
        }
        let number = self.numbered_before(place);
        let within = u64::from(number.checked_sub(self.reserved)?);
        (within < self.sectors && self.physical(number).0 == place).then_some(within)
    }

    fn head(&self, cylinder: u32, surface: u32) -> u32 {
        match self.serpentine {
            Some(even) if (cylinder + self.first_cylinder + even) % 2 == 1 => self.heads - 1 - surface,
            _ => surface,
        }
    }

    fn angle(&self, place: u32, cylinder: u32, surface: u32, sector: u32) -> u64 {
        let mut steps = u64::from(self.first)
            + u64::from(surface) * u64::from(self.track_skew)
            + u64::from(cylinder) * u64::from(self.cylinder_step)
            + u64::from(sector);
        if let Some(unit) = self.slips_turn
            && !self.slips.is_empty()
        {
            let front = place - place % unit;
            steps += self.slips.partition_point(|slip| slip.at < front) as u64;
        }
        let angle = ((steps % u64::from(self.per_track)) * self.sector_angle) >> FINE;
        match self.fine {
            None => angle,
            Some((first, track, step)) => {
                (angle + first + u64::from(surface) * track + u64::from(cylinder) * step) % REVOLUTION
            }
        }
    }

    /// From a numbered place (the reserved ones included) to a physical one, and how many follow it.
    fn physical(&self, number: u32) -> (u32, u32) {
        let passed = |number: u32| self.slips.partition_point(|slip| slip.from <= number);
        match self.scheme {
            Scheme::Whole => {
                let slipped = passed(number);
                let place = number + slipped as u32;
                (place, self.slips.get(slipped).map_or(u32::MAX, |next| next.at - place))
            }
            Scheme::Tracks => {
                let track = number / self.per_track;
                let place = (track + passed(track) as u32) * self.per_track + number % self.per_track;
                (place, u32::MAX)
            }
            Scheme::Skipping { unit, usable, front } => {
                let slipped = passed(number);
                let pushed = number + slipped as u32;
                let place = pushed / usable * unit + front + pushed % usable;
                let to_slip = self.slips.get(slipped).map_or(u32::MAX, |next| next.from - number);
                (place, to_slip.min(usable - pushed % usable))
            }
            Scheme::Units { unit, usable, front } => {
                let (which, within) = (number / usable, number % usable);
                let all = passed(number);
                let slipped = match all.checked_sub(1).map(|last| &self.slips[last]) {
                    Some(last) if last.unit == which => all as u32 - last.unit_first,
                    _ => 0,
                };
                let shift = if front { self.front_spares(which, unit - usable) } else { 0 };
                let place = which * unit + within + slipped + shift;
                let to_slip = match self.slips.get(all) {
                    Some(next) if next.unit == which => next.at - place,
                    _ => u32::MAX,
                };
                (place, to_slip.min(usable - within))
            }
        }
    }

    /// Spares left at the front of a unit: its slips have used the others.
    fn front_spares(&self, unit: u32, spares: u32) -> u32 {
        let from = self.slips.partition_point(|slip| slip.unit < unit);
        let to = self.slips.partition_point(|slip| slip.unit <= unit);
        spares.saturating_sub((to - from) as u32)
    }

    /// Numbered places before a physical one.
    fn numbered_before(&self, place: u32) -> u32 {
        let slipped = |place: u32| self.slips.partition_point(|slip| slip.at < place) as u32;
        match self.scheme {
            Scheme::Whole => place - slipped(place),
            Scheme::Tracks => {
                let track = place / self.per_track;
                (track - slipped(track)) * self.per_track + place % self.per_track
            }
            Scheme::Skipping { unit, usable, front } => {
                let within = (place % unit).saturating_sub(front).min(usable);
                (place / unit * usable + within).saturating_sub(slipped(place))
            }
            Scheme::Units { unit, usable, front } => {
                let which = place / unit;
                let before = self.slips.partition_point(|slip| slip.unit < which) as u32;
                let within = place % unit - (slipped(place) - before);
                let shift = if front { self.front_spares(which, unit - usable) } else { 0 };
                which * usable + within.saturating_sub(shift).min(usable)
            }
        }
    }

    fn remapped(&self, place: u32, len: u32) -> (u32, u32) {
        if self.scheme == Scheme::Tracks {
            let track = place / self.per_track;
            return match self.remaps.binary_search_by_key(&track, |remap| remap.0) {
                Ok(at) => (self.remaps[at].1 * self.per_track + place % self.per_track, len),
                Err(_) => (place, len),
            };
        }
        let next = self.remaps.partition_point(|remap| remap.0 < place);
        match self.remaps.get(next) {
            Some(&(defect, spare)) if defect == place => (spare, 1),
            Some(&(defect, _)) => (place, len.min(defect - place)),
            None => (place, len),
        }
    }
}

fn scheme(
    params: &ZoneParams,
    number: usize,
    layout: &LayoutParams,
    per_cylinder: u32,
) -> Result<Scheme, ParamsError> {
    let spares = params.spares;
    let usable = |unit: u32| {
        unit.checked_sub(spares).filter(|&usable| usable > 0).ok_or_else(|| {
            ParamsError::new(
                format!("number of spares of zone {number}"),
                spares,
                format!("less than {unit}"),
            )
        })
    };
    Ok(match layout.sparing {
        Sparing::None | Sparing::DiskEnd | Sparing::ZoneEnd | Sparing::ZoneEndSlipPast => Scheme::Whole,
        Sparing::Tracks => Scheme::Tracks,
        Sparing::CylinderEndSlipPast => {
            Scheme::Skipping { unit: per_cylinder, usable: usable(per_cylinder)?, front: 0 }
        }
        Sparing::CylinderFrontSlipPast => {
            Scheme::Skipping { unit: per_cylinder, usable: usable(per_cylinder)?, front: spares }
        }
        Sparing::CylinderEnd => {
            Scheme::Units { unit: per_cylinder, usable: usable(per_cylinder)?, front: false }
        }
        Sparing::CylinderFront => {
            Scheme::Units { unit: per_cylinder, usable: usable(per_cylinder)?, front: true }
        }
        Sparing::TrackEnd => {
            let unit = params.sectors_per_track;
            Scheme::Units { unit, usable: usable(unit)?, front: false }
        }
        Sparing::Range(cylinders) => {
            let unit = cylinders.checked_mul(per_cylinder).filter(|&unit| unit > 0).ok_or_else(|| {
                ParamsError::new("range size for sparing", cylinders, "1 to the cylinders of the disk")
            })?;
            Scheme::Units { unit, usable: usable(unit)?, front: false }
        }
    })
}

type Defects = (Vec<Slip>, Vec<(u32, u32)>);

fn prepare_defects(
    params: &ZoneParams,
    number: usize,
    layout: &LayoutParams,
    scheme: Scheme,
    physical: u32,
) -> Result<Defects, ParamsError> {
    let (word, places) = match scheme {
        Scheme::Tracks => ("track", physical / params.sectors_per_track),
        _ => ("sector", physical),
    };
    let check = |what: &str, at: u64| match u32::try_from(at) {
        Ok(at) if at < places => Ok(at),
        _ => Err(ParamsError::new(
            format!("{what} of zone {number}"),
            at,
            format!("a {word} of the zone, less than {places}"),
        )),
    };
    let mut places = params.slips.iter().map(|&at| check("a slip", at)).collect::<Result<Vec<_>, _>>()?;
    places.sort_unstable();
    places.dedup();
    let used = places.len() + params.remaps.len();
    if layout.sparing == Sparing::Tracks && used > params.spares as usize {
        let expected = format!("at most the {} spare tracks", params.spares);
        return Err(ParamsError::new(format!("number of defects of zone {number}"), used, expected));
    }
    let mut remaps = params
        .remaps
        .iter()
        .map(|&(from, to)| Ok((check("a defect", from)?, check("a replacement", to)?)))
        .collect::<Result<Vec<_>, _>>()?;
    remaps.sort_unstable();
    Ok((slips(&places, scheme), remaps))
}

/// Prepares the slips, which rise.
fn slips(places: &[u32], scheme: Scheme) -> Vec<Slip> {
    let mut slips: Vec<Slip> = Vec::with_capacity(places.len());
    for &at in places {
        let count = slips.len() as u32;
        match scheme {
            Scheme::Whole | Scheme::Tracks => {
                slips.push(Slip { at, from: at - count, unit: 0, unit_first: 0 });
            }
            Scheme::Skipping { unit, usable, front } => {
                // A slip among the spares shifts nothing.
                if let Some(within) = (at % unit).checked_sub(front).filter(|&within| within < usable) {
                    let from = (at / unit * usable + within) - count;
                    slips.push(Slip { at, from, unit: 0, unit_first: 0 });
                }
            }
            Scheme::Units { unit, usable, front } => {
                let which = at / unit;
                let unit_first = match slips.last() {
                    Some(last) if last.unit == which => last.unit_first,
                    _ => count,
                };
                let in_unit = places.iter().filter(|&&other| other / unit == which).count() as u32;
                let shift = if front { (unit - usable).saturating_sub(in_unit) } else { 0 };
                let within = (at % unit - (count - unit_first)).saturating_sub(shift).min(usable);
                slips.push(Slip { at, from: which * usable + within, unit: which, unit_first });
            }
        }
    }
    slips
}

/// Sectors of the host in the zone, as DiskSim 4.0 counts them.
fn capacity(
    params: &ZoneParams,
    number: usize,
    layout: &LayoutParams,
    physical: u32,
    slips: u64,
) -> Result<u64, ParamsError> {
    let cylinders = u64::from(params.last_cylinder - params.first_cylinder + 1);
    let spares = u64::from(params.spares);
    let lost = match layout.sparing {
        Sparing::None => slips,
        Sparing::Tracks => spares * u64::from(params.sectors_per_track),
        Sparing::TrackEnd => spares * cylinders * u64::from(layout.heads),
        Sparing::DiskEnd => slips,
        Sparing::ZoneEnd => spares,
        Sparing::ZoneEndSlipPast => spares + slips,
        Sparing::CylinderEnd | Sparing::CylinderFront => spares * cylinders,
        Sparing::CylinderEndSlipPast | Sparing::CylinderFrontSlipPast => spares * cylinders + slips,
        Sparing::Range(range) => spares * (cylinders / u64::from(range)),
    } + u64::from(params.reserved);
    u64::from(physical).checked_sub(lost).filter(|&left| left > 0).ok_or_else(|| {
        let what = format!("reserved and spare space of zone {number}");
        ParamsError::new(what, format!("{lost} sectors"), format!("less than the zone's {physical}"))
    })
}
