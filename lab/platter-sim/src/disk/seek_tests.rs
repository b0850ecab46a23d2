//! Seek curves against values worked out by hand.

use super::params::{Hpl, SeekCurve, ThreePoint};
use super::seek::seek_table;

const POINTS: ThreePoint = ThreePoint { one: 1_000_000, average: 5_000_000, full: 10_000_000 };

fn table(curve: SeekCurve) -> Vec<u64> {
    seek_table(&curve, 901).unwrap()
}

#[test]
fn a_table_is_straight_in_between_and_past_its_end() {
    let table = table(SeekCurve::Table(vec![(1, 800), (10, 1700), (12, 1600), (100, 10_400), (200, 15_400)]));
    for (distance, time) in [
        (0, 0),
        (1, 800),
        (2, 900),
        (10, 1700),
        (11, 1650),
        (12, 1600),
        (13, 1700),
        (150, 12_900),
        (300, 20_400),
    ] {
        assert_eq!(table[distance], time, "distance {distance}");
    }
}

#[test]
fn a_table_that_begins_late_is_straight_from_nothing() {
    assert_eq!(table(SeekCurve::Table(vec![(10, 1000), (20, 1500)]))[5], 500);
    assert_eq!(table(SeekCurve::Table(vec![(10, 1000)]))[20], 2000);
}

#[test]
fn a_table_must_rise() {
    let error = seek_table(&SeekCurve::Table(vec![(3, 1), (3, 2)]), 10).unwrap_err();
    assert_eq!(
        error.to_string(),
        "distance of the seek table is 3: expected more than 3, the distance before it"
    );
    assert!(seek_table(&SeekCurve::Table(Vec::new()), 10).is_err());
}

#[test]
fn three_points_are_met() {
    let line = table(SeekCurve::Linear(POINTS));
    assert_eq!((line[0], line[1]), (0, 1_000_000));
    assert!(line[300].abs_diff(5_000_000) < 20_000, "{}", line[300]);
    assert!(line[900].abs_diff(10_000_000) < 20_000, "{}", line[900]);
    // a = (-10 + 75 - 50) / (3 · √901), b = (7 - 75 + 80) / (3 · 901) milliseconds.
    let curve = table(SeekCurve::Curve(POINTS));
    assert_eq!(curve[1], 1_000_000);
    let expected =
        |d: f64| 1e6 + 15e6 / (3.0 * 901_f64.sqrt()) * (d - 1.0).sqrt() + 12e6 / 2703.0 * (d - 1.0);
    for distance in [2, 50, 300, 900] {
        let time = curve[distance] as f64;
        assert!((time - expected(distance as f64)).abs() < 200.0, "distance {distance}: {time}");
    }
}

#[test]
fn a_curve_that_would_fall_is_straight() {
    let points = ThreePoint { one: 1_000_000, average: 9_000_000, full: 10_000_000 };
    assert_eq!(table(SeekCurve::Curve(points)), table(SeekCurve::Linear(points)));
}

#[test]
fn the_curve_of_two_parts() {
    let hpl = Hpl {
        divide: 400,
        root_base: 3_000_000_000,
        root_factor: 500_000_000,
        line_base: 8_000_000_000,
        line_factor: 10_000_000,
        one: None,
    };
    let times = table(SeekCurve::Hpl(hpl));
    assert_eq!((times[1], times[4], times[100], times[400]), (3_500_000, 4_000_000, 8_000_000, 12_000_000));
    assert_eq!(table(SeekCurve::Hpl(Hpl { one: Some(7), ..hpl }))[1], 7);
    let ten = table(SeekCurve::FirstTenHpl([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], hpl));
    assert_eq!((ten[0], ten[1], ten[10], ten[11]), (0, 1, 10, times[11]));
    assert_eq!(table(SeekCurve::Constant(5))[..3], [0, 5, 5]);
}

#[test]
fn no_seek_takes_longer_than_1000_seconds() {
    let hpl = Hpl {
        divide: 4,
        root_base: u64::MAX,
        root_factor: u64::MAX,
        line_base: u64::MAX,
        line_factor: u64::MAX,
        one: None,
    };
    for curve in [SeekCurve::Hpl(hpl), SeekCurve::Constant(1_000_000_000_001)] {
        let error = seek_table(&curve, 100).unwrap_err();
        assert_eq!(error.what, "time of a seek over 1 cylinders");
    }
    let late = Hpl { root_base: 0, root_factor: 0, line_base: 0, line_factor: 20_000_000_000_000, ..hpl };
    let error = seek_table(&SeekCurve::Hpl(late), 100).unwrap_err();
    assert_eq!(
        error.to_string(),
        "time of a seek over 51 cylinders is 1020000000000 ns: expected at most 1000 seconds"
    );
}
