use super::*;
use crate::event::Direction;

fn add(stages: &mut Stages, steps: &[(u64, Action, u64, u64)]) {
    for &(us, action, sector, count) in steps {
        let event =
            Event::arrival(us * 1000, Direction::Write, sector * SECTOR, count * SECTOR, Device::Number(1));
        stages.add(&Event { action, ..event });
    }
}

/// Means in us and numbers of the stages that there are.
fn shown(stages: &Stages) -> Vec<(&'static str, f64, u64)> {
    let rows = STAGES.iter().zip(stages.spreads());
    rows.filter_map(|((name, _), spread)| spread.map(|s| (*name, s.mean / 1000.0, s.n))).collect()
}

#[test]
fn merged_ios_end_with_their_request() {
    use Action::{BackMerge, Complete, FrontMerge, GetRequest, Insert, Issue, Queue};
    let mut stages = Stages::default();
    let steps = [
        (0, Queue, 800, 8),
        (1, GetRequest, 800, 8),
        (2, Queue, 808, 8),
        (4, BackMerge, 808, 8),
        (5, Queue, 792, 8),
        (6, FrontMerge, 792, 8),
        (8, Insert, 792, 24),
        (20, Issue, 792, 24),
        (500, Complete, 792, 24),
    ];
    add(&mut stages, &steps);
    let mean = (500.0 + 498.0 + 495.0) / 3.0;
    let expected = [
        ("q2q", 2.5, 2),
        ("q2g", 1.0, 1),
        ("q2m", 1.5, 2),
        ("g2i", 7.0, 1),
        ("i2d", 12.0, 1),
        ("m2d", 15.0, 2),
        ("d2c", 480.0, 3),
        ("q2c", mean, 3),
    ];
    for (found, expected) in shown(&stages).iter().zip(&expected) {
        assert!(
            found.0 == expected.0 && found.2 == expected.2 && (found.1 - expected.1).abs() < 1e-9,
            "{found:?}"
        );
    }
    assert_eq!((stages.unfinished(), stages.under_way), (0, 0));
}

#[test]
fn splits_requeues_and_parts_are_followed() {
    use Action::{Complete, GetRequest, Issue, Queue, Requeue, Split};
    let mut stages = Stages::default();
    add(&mut stages, &[(0, Queue, 0, 16)]);
    let cut = Event::arrival(1000, Direction::Write, 0, 16 * SECTOR, Device::Number(1));
    stages.add(&Event { action: Split, extra: Extra::Cut(8), ..cut });
    let steps = [
        (2, GetRequest, 0, 8),
        (3, GetRequest, 8, 8),
        (4, Issue, 0, 8),
        (5, Requeue, 0, 8),
        (9, Issue, 0, 8),
        (10, Issue, 8, 8),
        (19, Complete, 0, 4),
        (29, Complete, 4, 4),
        (30, Complete, 8, 8),
    ];
    add(&mut stages, &steps);
    assert_eq!(shown(&stages), [("q2g", 2.5, 2), ("d2c", 20.0, 2), ("q2c", 29.5, 2)]);
    assert_eq!((stages.unfinished(), stages.under_way), (0, 0));
}

#[test]
fn what_never_ends_takes_bounded_memory() {
    let mut stages = Stages::default();
    for n in 0..3 * MOST as u64 {
        stages.add(&Event::arrival(n, Direction::Read, n * SECTOR, SECTOR, Device::Number(1)));
    }
    assert!(stages.under_way <= MOST + 1);
    assert_eq!(stages.unfinished(), 0);
    // One that ends shows that the others could have.
    add(&mut stages, &[(9000, Action::Queue, 8, 8), (9001, Action::Complete, 8, 8)]);
    assert_eq!(stages.unfinished(), 3 * MOST as u64);
}
