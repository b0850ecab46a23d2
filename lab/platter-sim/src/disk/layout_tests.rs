//! Layouts: every sector at one place, in order, and none on a spare or a defect.

use super::layout::{Layout, Place};
use super::params::{LayoutParams, Mapping, Skew, Sparing, ZoneParams};
use super::zones::REVOLUTION;
use proptest::prelude::*;

const SCHEMES: [Sparing; 11] = [
    Sparing::None,
    Sparing::Tracks,
    Sparing::CylinderEnd,
    Sparing::TrackEnd,
    Sparing::CylinderEndSlipPast,
    Sparing::CylinderFront,
    Sparing::CylinderFrontSlipPast,
    Sparing::DiskEnd,
    Sparing::Range(2),
    Sparing::ZoneEnd,
    Sparing::ZoneEndSlipPast,
];

fn zone(first: u32, last: u32, sectors_per_track: u32) -> ZoneParams {
    ZoneParams {
        first_cylinder: first,
        last_cylinder: last,
        sectors_per_track,
        first_offset: Skew::Sectors(0),
        reserved: 0,
        track_skew: Skew::Sectors(2),
        cylinder_skew: Skew::Sectors(3),
        spares: 0,
        slips: Vec::new(),
        remaps: Vec::new(),
    }
}

fn two_zones(sparing: Sparing) -> LayoutParams {
    LayoutParams {
        heads: 3,
        cylinders: 12,
        mapping: Mapping::Ascending,
        sparing,
        zones: vec![zone(0, 5, 20), zone(7, 11, 16)],
        sectors: None,
    }
}

fn layout(params: &LayoutParams) -> Layout {
    Layout::new(params, 6000).unwrap()
}

/// Each sector has a place of its own that leads back to it, and runs say the same as single look-ups.
fn check(params: &LayoutParams) {
    let layout = layout(params);
    let mut before = None;
    let mut next_of_run = None;
    let remapped = params.zones.iter().any(|zone| !zone.remaps.is_empty());
    for sector in 0..layout.sectors() {
        let place = layout.place(sector).unwrap();
        assert_eq!(layout.sector_at(place), Some(sector), "{place:?} in {params:?}");
        let order = order(params, place);
        if !remapped {
            assert!(before < Some(order), "{sector} at {place:?} comes before its predecessor in {params:?}");
        }
        before = Some(order);
        if let Some(expected) = next_of_run.take() {
            assert_eq!(place, expected, "run before {sector} in {params:?}");
        }
        let run = layout.run(sector);
        assert!(run.len >= 1 && run.len <= run.to_track_end);
        if run.len > 1 {
            next_of_run = Some(Place { sector: place.sector + 1, ..place });
        }
        let (first, end) = layout.track(sector);
        assert!(
            remapped || (first <= sector && sector < end),
            "track of {sector}: {first}..{end} in {params:?}"
        );
    }
    assert_eq!(layout.place(layout.sectors()), None);
}

/// Physical order: cylinder, then the head's turn in it, then sector.
fn order(params: &LayoutParams, place: Place) -> (u32, u32, u32) {
    let zone = params.zones.iter().rfind(|zone| zone.first_cylinder <= place.cylinder).unwrap();
    let back = match params.mapping {
        Mapping::Ascending => false,
        Mapping::SerpentineZone => (place.cylinder - zone.first_cylinder) % 2 == 1,
        Mapping::SerpentineDisk => place.cylinder % 2 == 1,
    };
    let turn = if back { params.heads - 1 - place.head } else { place.head };
    (place.cylinder, turn, place.sector)
}

#[test]
fn plain_zones_count_along_tracks_and_cylinders() {
    let layout = layout(&two_zones(Sparing::ZoneEnd));
    assert_eq!(layout.sectors(), 6 * 60 + 5 * 48);
    for (sector, cylinder, head, at) in
        [(0, 0, 0, 0), (19, 0, 0, 19), (20, 0, 1, 0), (60, 1, 0, 0), (359, 5, 2, 19), (360, 7, 0, 0)]
    {
        assert_eq!(layout.place(sector), Some(Place { cylinder, head, sector: at }));
    }
}

#[test]
fn slips_reserved_space_and_spares_by_hand() {
    let mut params = two_zones(Sparing::ZoneEnd);
    params.zones[0].reserved = 25;
    params.zones[0].spares = 4;
    params.zones[0].slips = vec![30, 31, 10];
    let layout = layout(&params);
    // Sector 0 is the 25th numbered place; one slip lies before it. The two at 30 and 31 come before sector 4.
    for (sector, place) in [(0, 26), (3, 29), (4, 32), (330, 358)] {
        let found = layout.place(sector).unwrap();
        assert_eq!(found.cylinder * 60 + found.head * 20 + found.sector, place, "sector {sector}");
    }
    let unused = |cylinder, head, sector| layout.sector_at(Place { cylinder, head, sector });
    assert_eq!(unused(0, 0, 10), None);
    assert_eq!(unused(0, 1, 10), None);
    assert_eq!(unused(0, 0, 5), None);
    assert_eq!(unused(5, 2, 19), None);
    assert_eq!(unused(6, 0, 0), None);
    assert_eq!(layout.sectors(), 360 - 25 - 4 + 240);
}

#[test]
fn remapped_sectors_lie_on_their_spares() {
    let mut params = two_zones(Sparing::ZoneEnd);
    params.zones[0].spares = 2;
    params.zones[0].remaps = vec![(45, 359), (7, 358)];
    let layout = layout(&params);
    assert_eq!(layout.place(7), Some(Place { cylinder: 5, head: 2, sector: 18 }));
    assert_eq!(layout.place(45), Some(Place { cylinder: 5, head: 2, sector: 19 }));
    assert_eq!(layout.sector_at(Place { cylinder: 0, head: 0, sector: 7 }), None);
    assert_eq!((layout.run(0).len, layout.run(7).len, layout.run(8).len), (7, 1, 12));
    check(&params);
}

#[test]
fn slipped_tracks_are_left_out_whole() {
    let mut params = two_zones(Sparing::Tracks);
    params.zones[0].spares = 3;
    params.zones[0].slips = vec![1];
    params.zones[0].remaps = vec![(4, 17)];
    let layout = layout(&params);
    assert_eq!(layout.place(20), Some(Place { cylinder: 0, head: 2, sector: 0 }));
    assert_eq!(layout.place(65), Some(Place { cylinder: 5, head: 2, sector: 5 }));
    check(&params);
}

#[test]
fn skews_turn_each_track_and_cylinder() {
    let layout = layout(&two_zones(Sparing::ZoneEnd));
    let step = REVOLUTION / 20;
    // Tracks 2 sectors on, cylinders 3 more than the two tracks.
    for (sector, steps) in [(0, 0), (1, 1), (20, 2), (40, 4), (60, 7), (120, 14), (180, 1)] {
        assert_eq!(layout.run(sector).angle / step, steps, "sector {sector}");
    }
    let mut params = two_zones(Sparing::ZoneEnd);
    params.zones[0].track_skew = Skew::Revolution(1 << 31);
    params.zones[0].first_offset = Skew::Revolution(1 << 30);
    let layout = Layout::new(&params, 6000).unwrap();
    assert_eq!(layout.run(0).angle, REVOLUTION / 4);
    assert_eq!(layout.run(20).angle, REVOLUTION * 3 / 4);
}

#[test]
fn wrong_zones_are_named() {
    let broken = |change: fn(&mut LayoutParams)| {
        let mut params = two_zones(Sparing::ZoneEnd);
        change(&mut params);
        Layout::new(&params, 6000).unwrap_err().to_string()
    };
    for (error, part) in [
        (broken(|p| p.zones.clear()), "list of zones is empty"),
        (broken(|p| p.zones[1].first_cylinder = 5), "first cylinder of zone 1 is 5: expected 6 or more"),
        (broken(|p| p.zones[1].last_cylinder = 12), "last cylinder of zone 1 is 12: expected 7"),
        (broken(|p| p.zones[0].spares = 360), "reserved and spare space of zone 0 is 360 sectors"),
        (broken(|p| p.zones[0].slips = vec![360]), "a slip of zone 0 is 360: expected a sector of the zone"),
        (broken(|p| p.zones[0].remaps = vec![(1, 400)]), "a replacement of zone 0 is 400"),
        (broken(|p| p.heads = 0), "number of data surfaces is 0: expected 1 to 1000"),
        (broken(|p| p.sectors = Some(601)), "number of sectors is 601: expected 1 to 600"),
        (
            broken(|p| {
                p.sparing = Sparing::Tracks;
                p.zones[0].slips = vec![1, 2];
                p.zones[0].spares = 1;
            }),
            "number of defects of zone 0 is 2: expected at most the 1 spare tracks",
        ),
    ] {
        assert!(error.contains(part), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_layout_has_a_place_for_each_sector(
        scheme in 0..SCHEMES.len(),
        mapping in 0..3_usize,
        spares in 0..6_u32,
        reserved in 0..30_u32,
        offset in 0..40_u32,
        slips in proptest::collection::btree_set(0..360_u64, 0..9),
    ) {
        let mut params = two_zones(SCHEMES[scheme]);
        params.mapping = [Mapping::Ascending, Mapping::SerpentineZone, Mapping::SerpentineDisk][mapping];
        let zone = &mut params.zones[0];
        (zone.spares, zone.reserved) = (spares, reserved);
        zone.first_offset = Skew::Sectors(offset);
        let unit = match params.sparing {
            Sparing::CylinderEnd | Sparing::CylinderFront => 60,
            Sparing::TrackEnd => 20,
            Sparing::Range(_) => 120,
            _ => 360,
        };
        // No unit has more slips than spares where they must fit.
        let bounded = !matches!(
            params.sparing,
            Sparing::None | Sparing::DiskEnd | Sparing::CylinderEndSlipPast
                | Sparing::CylinderFrontSlipPast | Sparing::ZoneEndSlipPast
        );
        let places = if params.sparing == Sparing::Tracks { 18 } else { 360 };
        let mut used = std::collections::BTreeMap::new();
        for slip in slips.into_iter().map(|slip| slip % places) {
            let count = used.entry(slip / unit).or_insert(0);
            if (!bounded || *count < spares) && !zone.slips.contains(&slip) {
                *count += 1;
                zone.slips.push(slip);
            }
        }
        check(&params);
    }
}
