use super::*;
use crate::power::{Lost, Survivors};
use proptest::prelude::*;

const SECTORS: u64 = 12;

fn bytes(version: u8, count: u64) -> Vec<u8> {
    vec![version; count as usize * SECTOR]
}

fn look(medium: &Medium) -> Vec<u8> {
    let mut all = vec![0; SECTORS as usize * SECTOR];
    medium.read(0, &mut all);
    all.chunks(SECTOR).map(|sector| sector[0]).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Write { sector: u64, count: u64, durable: bool, zero: bool },
    Mark,
    Flushed,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..SECTORS, 1..4u64, proptest::bool::weighted(0.2), proptest::bool::weighted(0.2));
    prop_oneof![
        4 => write.prop_map(|(sector, count, durable, zero)| {
            Step::Write { sector, count: count.min(SECTORS - sector), durable, zero }
        }),
        1 => Just(Step::Mark),
        1 => Just(Step::Flushed),
    ]
}

/// A model with plain lists: all versions of each sector, and how many of them are durable.
#[derive(Clone)]
struct Model {
    versions: Vec<Vec<u8>>,
    durable: Vec<usize>,
    mark: Vec<usize>,
}

impl Model {
    fn new() -> Model {
        let none = vec![1; SECTORS as usize];
        Model { versions: vec![vec![0]; SECTORS as usize], durable: none.clone(), mark: none }
    }

    fn permitted(&self, sector: usize) -> &[u8] {
        &self.versions[sector][self.durable[sector] - 1..]
    }
}

fn play(steps: &[Step]) -> (Medium, Volatile, Model) {
    let (mut medium, mut volatile, mut model) = (Medium::new(), Volatile::default(), Model::new());
    let mut mark = 0;
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Write { sector, count, durable, zero } => {
                let version = if zero { 0 } else { i as u8 + 1 };
                let data = if zero { Vec::new() } else { bytes(version, count) };
                if !durable {
                    volatile.record(&mut medium, i as u64, sector, count, &data);
                }
                if zero {
                    medium.zero(sector, count)
                } else {
                    medium.write(sector, &data)
                }
                if durable {
                    volatile.durable(sector, count);
                }
                for at in sector as usize..(sector + count) as usize {
                    model.versions[at].push(version);
                    if durable {
                        model.durable[at] = model.versions[at].len();
                    }
                }
            }
            Step::Mark => {
                mark = volatile.mark();
                model.mark = model.versions.iter().map(Vec::len).collect();
            }
            Step::Flushed => {
                volatile.flushed(mark);
                for at in 0..SECTORS as usize {
                    model.durable[at] = model.durable[at].max(model.mark[at]);
                }
            }
        }
    }
    (medium, volatile, model)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_cut_leaves_what_a_model_of_lists_permits(steps in proptest::collection::vec(step(), 0..40), seed: u64) {
        let (mut medium, mut volatile, model) = play(&steps);
        let newest: Vec<u8> = model.versions.iter().map(|all| *all.last().unwrap()).collect();
        prop_assert_eq!(look(&medium), newest);
        let survivors = Survivors::Seeded(seed);
        volatile.cut(&mut medium, &mut Judge::new(&survivors, 0), &mut CutReport::default());
        for (sector, left) in look(&medium).into_iter().enumerate() {
            prop_assert!(model.permitted(sector).contains(&left), "{sector}: {left} of {:?}", model.permitted(sector));
        }
        prop_assert_eq!((volatile.len(), volatile.held), (0, 0));
    }

    #[test]
    fn what_could_be_lost_is_just_what_the_model_says(steps in proptest::collection::vec(step(), 0..40)) {
        for (survivors, oldest) in [(Survivors::None, true), (Survivors::All, false)] {
            let (mut medium, mut volatile, model) = play(&steps);
            let mut report = CutReport::default();
            volatile.cut(&mut medium, &mut Judge::new(&survivors, 0), &mut report);
            for (sector, left) in look(&medium).into_iter().enumerate() {
                let permitted = model.permitted(sector);
                prop_assert_eq!(Some(&left), if oldest { permitted.first() } else { permitted.last() });
            }
            prop_assert_eq!(report.torn, 0);
            prop_assert_eq!(report.lost.is_empty(), !oldest || report.could.is_empty());
        }
    }
}

#[test]
fn every_subset_of_small_writes_can_survive() {
    // Two overlapping writes of two sectors each: each permitted outcome occurs.
    let mut seen = BTreeSet::new();
    for lost in 0..16u32 {
        let (mut medium, mut volatile) = (Medium::new(), Volatile::default());
        for write in 0..2u64 {
            volatile.record(&mut medium, write, write, 2, &bytes(write as u8 + 1, 2));
            medium.write(write, &bytes(write as u8 + 1, 2));
        }
        let sectors = [(0, 0), (0, 1), (1, 1), (1, 2)].into_iter().enumerate();
        let lost: Lost =
            sectors.filter(|(i, _)| lost >> i & 1 == 1).map(|(_, (write, at))| (0, write, at)).collect();
        let survivors = Survivors::Except(lost.clone());
        let mut report = CutReport::default();
        volatile.cut(&mut medium, &mut Judge::new(&survivors, 0), &mut report);
        assert_eq!(report.lost, lost);
        seen.insert(look(&medium)[..3].to_vec());
    }
    let all: BTreeSet<Vec<u8>> =
        (0..12u8).map(|i| vec![i % 2, i / 2 % 3, [0, 2][usize::from(i / 6)]]).collect();
    assert_eq!(seen, all);
}

#[test]
fn a_cache_that_is_full_writes_its_oldest_versions_back() {
    let (mut medium, mut volatile) = (Medium::new(), Volatile { capacity: 4, ..Volatile::default() });
    for write in 0..6u64 {
        volatile.record(&mut medium, write, write, 1, &bytes(9, 1));
        medium.write(write, &bytes(9, 1));
    }
    volatile.cut(&mut medium, &mut Judge::new(&Survivors::None, 0), &mut CutReport::default());
    assert_eq!(look(&medium)[..6], [9, 9, 0, 0, 0, 0]);
}

#[test]
fn versions_that_are_overwritten_by_durable_ones_are_forgotten() {
    let (mut medium, mut volatile) = (Medium::new(), Volatile { capacity: 4, ..Volatile::default() });
    for write in 0..100u64 {
        volatile.record(&mut medium, write, 0, 1, &bytes(1, 1));
        medium.write(0, &bytes(2, 1));
        volatile.durable(0, 1);
    }
    assert!(volatile.ages.len() <= 9, "{}", volatile.ages.len());
}
