//! The replacement order against a model of plain lists.

use super::super::ghost::Ghosts;
use super::super::queues::{List, Standing};
use super::super::{FRESH_SHARE, LOOKS, MOST_USES, Replacement, SETTLED_AT_ONCE, SMALL_SHARE};
use proptest::prelude::*;
use std::collections::VecDeque;

const FRAMES: u32 = 40;
const LISTS: [List; 5] = [List::Fresh, List::Small, List::Main, List::Cold, List::Parked];

#[derive(Clone, Debug)]
enum Step {
    Insert(u32),
    Evict,
    Forget(u32),
    Cold(u32),
    Ready(u32),
    Rename(u32, u32),
    Uses(u32, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let frame = 0..FRAMES;
    prop_oneof![
        6 => frame.clone().prop_map(Step::Insert),
        4 => Just(Step::Evict),
        1 => frame.clone().prop_map(Step::Forget),
        1 => frame.clone().prop_map(Step::Cold),
        1 => frame.clone().prop_map(Step::Ready),
        1 => (frame.clone(), frame.clone()).prop_map(|(frame, to)| Step::Rename(frame, to)),
        6 => (frame, prop::option::weighted(0.7, 0..=MOST_USES)).prop_map(|(frame, uses)| Step::Uses(frame, uses)),
    ]
}

/// The same order with a queue per list; no page comes back.
#[derive(Default)]
struct Model {
    /// Frames with their standing, oldest first.
    lists: [VecDeque<(u32, Standing)>; 5],
    uses: Vec<Option<u8>>,
}

impl Model {
    fn take(&mut self, frame: u32) -> Option<(List, Standing)> {
        LISTS.into_iter().find_map(|list| {
            let frames = &mut self.lists[list as usize];
            let at = frames.iter().position(|&(other, _)| other == frame)?;
            frames.remove(at).map(|(_, standing)| (list, standing))
        })
    }

    fn push(&mut self, frame: u32, standing: Standing) {
        self.lists[standing as usize - 1].push_back((frame, standing));
    }

    fn cold(&mut self, frame: u32) {
        match self.take(frame) {
            None => {}
            Some((List::Parked, _)) => unreachable!("parked frames are changed in place"),
            Some(_) => self.push(frame, Standing::Cold),
        }
    }

    fn apply(&mut self, step: &Step) -> Option<u32> {
        match *step {
            Step::Insert(frame) => {
                self.take(frame);
                self.uses[frame as usize] = Some(0);
                self.push(frame, Standing::Fresh);
                if self.lists[0].len() > self.quota() / FRESH_SHARE as usize * 2 {
                    let (oldest, _) = self.lists[0].pop_front().expect("one was pushed");
                    self.push(oldest, Standing::Small);
                }
            }
            Step::Evict => return self.evict(),
            Step::Forget(frame) => drop(self.take(frame)),
            Step::Cold(frame) => {
                let parked = &mut self.lists[List::Parked as usize];
                match parked.iter_mut().find(|(other, _)| *other == frame) {
                    Some((_, standing)) => *standing = Standing::Cold,
                    None => self.cold(frame),
                }
            }
            Step::Ready(frame) => {
                let parked = &mut self.lists[List::Parked as usize];
                if let Some(at) = parked.iter().position(|&(other, _)| other == frame) {
                    let (_, standing) = parked.remove(at).expect("it is there");
                    self.lists[standing as usize - 1].push_front((frame, standing));
                }
            }
            Step::Rename(frame, to) => self.rename(frame, to),
            Step::Uses(frame, uses) => self.uses[frame as usize] = uses,
        }
        None
    }

    fn rename(&mut self, frame: u32, to: u32) {
        if self.lists.iter().flatten().all(|&(other, _)| other != to)
            && let Some(place) = self.lists.iter_mut().flatten().find(|(other, _)| *other == frame)
        {
            place.0 = to;
        }
    }

    fn quota(&self) -> usize {
        self.lists[..3].iter().map(VecDeque::len).sum::<usize>() / SMALL_SHARE as usize
    }

    fn settle(&mut self) -> u32 {
        let mut looks = 0;
        for _ in 0..SETTLED_AT_ONCE {
            if self.lists[0].len() < self.quota() / FRESH_SHARE as usize {
                break;
            }
            let Some((frame, _)) = self.lists[0].pop_front() else { break };
            match &mut self.uses[frame as usize] {
                None => {
                    looks += 1;
                    self.lists[List::Parked as usize].push_back((frame, Standing::Fresh));
                }
                Some(uses) => {
                    looks += u32::from((*uses).max(1));
                    *uses = 0;
                    self.push(frame, Standing::Small);
                }
            }
        }
        looks
    }

    fn next(&mut self, recheck: bool, parked: &mut usize) -> Option<(u32, Standing)> {
        let many = self.lists[0].len() + self.lists[1].len() > self.quota();
        let first = if many { List::Small } else { List::Main };
        let mut order = vec![List::Cold, first, List::Small, List::Main, List::Fresh];
        if *parked > 0 {
            order.insert(if recheck { 0 } else { 5 }, List::Parked);
        }
        let list = order.into_iter().find(|&list| !self.lists[list as usize].is_empty())?;
        *parked -= usize::from(list == List::Parked);
        self.lists[list as usize].pop_front()
    }

    fn evict(&mut self) -> Option<u32> {
        let mut parked = self.lists[List::Parked as usize].len();
        let mut used: Vec<(u8, u32)> = Vec::new();
        let looks = self.settle();
        for look in looks..LOOKS {
            let Some((frame, standing)) = self.next(look == looks, &mut parked) else { break };
            let Some(uses) = self.uses[frame as usize] else {
                self.lists[List::Parked as usize].push_back((frame, standing));
                continue;
            };
            self.uses[frame as usize] = Some(uses.saturating_sub(1));
            match standing {
                _ if uses == 0 => return Some(frame),
                Standing::Cold => self.push(frame, Standing::Small),
                _ => self.push(frame, Standing::Main),
            }
            used.push((uses, frame));
        }
        let &(_, frame) = used.iter().min_by_key(|&&(uses, _)| uses)?;
        self.take(frame);
        Some(frame)
    }
}

fn apply(
    order: &mut Replacement,
    uses: &mut [Option<u8>],
    pages: &mut [u64],
    step: &Step,
    page: u64,
) -> Option<u32> {
    match *step {
        Step::Insert(frame) => {
            uses[frame as usize] = Some(0);
            pages[frame as usize] = page;
            order.insert(frame, page);
        }
        Step::Evict => return super::evict_page(order, uses, &|frame| pages[frame as usize]).0,
        Step::Forget(frame) => order.forget(frame),
        Step::Cold(frame) => order.cold_hint(frame),
        Step::Ready(frame) => order.ready(frame),
        Step::Rename(frame, to) => {
            if !LISTS.iter().any(|&list| order.queues.frames(list).contains(&to)) {
                pages[to as usize] = pages[frame as usize];
            }
            order.rename(frame, to);
        }
        Step::Uses(frame, count) => uses[frame as usize] = count,
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// After every step each list equals the model's, so no frame is duplicated or lost.
    #[test]
    fn the_lists_are_those_of_the_model(steps in prop::collection::vec(step(), 1..400)) {
        let mut order = Replacement::new(FRAMES);
        let mut uses = vec![Some(0); FRAMES as usize];
        let mut pages = vec![0; FRAMES as usize];
        let mut model = Model { uses: uses.clone(), ..Model::default() };
        for (page, step) in steps.iter().enumerate() {
            prop_assert_eq!(apply(&mut order, &mut uses, &mut pages, step, page as u64), model.apply(step));
            for list in LISTS {
                let frames: Vec<_> = model.lists[list as usize].iter().map(|&(frame, _)| frame).collect();
                prop_assert_eq!(order.queues.frames(list), frames);
            }
            prop_assert_eq!(order.len(), model.lists.iter().map(VecDeque::len).sum::<usize>());
            prop_assert_eq!(&uses, &model.uses);
        }
    }

    /// Pages come back, so that ghosts have an effect: an evicted frame was in the order and not busy, and no
    /// other is lost.
    #[test]
    fn what_goes_was_in_and_could_go(steps in prop::collection::vec((step(), 0..200u64), 1..400)) {
        let mut order = Replacement::new(FRAMES);
        let mut uses = vec![Some(0); FRAMES as usize];
        let mut pages = vec![0; FRAMES as usize];
        let mut held = std::collections::BTreeSet::new();
        for (step, page) in &steps {
            let chosen = apply(&mut order, &mut uses, &mut pages, step, *page);
            match *step {
                Step::Insert(frame) => drop(held.insert(frame)),
                Step::Forget(frame) => drop(held.remove(&frame)),
                Step::Rename(frame, to) if !held.contains(&to) && held.remove(&frame) => drop(held.insert(to)),
                Step::Evict => match chosen {
                    Some(frame) => prop_assert!(held.remove(&frame) && uses[frame as usize].is_some()),
                    None => prop_assert!(held.iter().all(|&frame| uses[frame as usize].is_none())),
                },
                _ => {}
            }
            let mut listed: Vec<_> = LISTS.iter().flat_map(|&list| order.queues.frames(list)).collect();
            listed.sort_unstable();
            prop_assert_eq!(listed, held.iter().copied().collect::<Vec<_>>());
        }
    }
}

#[test]
fn ghosts_are_known_for_about_as_many_pages_as_there_are_frames() {
    let frames = 100_000u64;
    let mut ghosts = Ghosts::new(frames as u32).unwrap();
    for page in 0..frames * 5 {
        ghosts.add(page);
    }
    let last = frames * 5;
    let mut known = |pages: std::ops::Range<u64>| {
        let count = (pages.end - pages.start) as usize;
        pages.filter(|&page| ghosts.take(page)).count() * 1000 / count
    };
    assert!(known(last - frames / 2..last) >= 980);
    assert!(known(last - frames * 8 / 10..last - frames / 2) >= 700);
    assert!(known(0..last - frames) <= 1);
    assert!(known(last..last + frames) <= 1);
    assert_eq!(known(last - frames / 2..last), 0, "what was taken is not known again");
}

/// With 4 million entries, a hash of 28 bits would mistake one page in 64 for an evicted one.
#[test]
fn a_page_that_never_went_is_hardly_ever_known_however_many_did() {
    let frames = 1u64 << 22;
    let mut ghosts = Ghosts::new(frames as u32).unwrap();
    (0..frames).for_each(|page| ghosts.add(page));
    let looked = 4_000_000;
    let wrong = ((1 << 40)..(1 << 40) + looked).filter(|&page| ghosts.take(page)).count();
    // At most 8 in 2^20: 31 are expected.
    assert!(wrong < 100, "{wrong} of {looked}");
}

/// The largest cache has 2^28 buckets: each is used, and the bucket number is independent of the tag.
#[test]
fn the_place_of_a_fingerprint_says_nothing_of_its_tag() {
    let buckets = 1u64 << 28;
    let mut tags = std::collections::BTreeMap::<u64, std::collections::BTreeSet<u32>>::new();
    let (mut lowest, mut highest) = (u64::MAX, 0);
    for page in 0..1 << 20 {
        let (bucket, tag) = Ghosts::place(page, buckets);
        (lowest, highest) = (lowest.min(bucket), highest.max(bucket));
        // A sixteenth of the buckets, by any of their bits.
        tags.entry(bucket % 16).or_default().insert(tag);
        tags.entry(16 + bucket * 16 / buckets).or_default().insert(tag);
    }
    assert!(lowest < buckets / 10_000 && highest > buckets - buckets / 10_000 && highest < buckets);
    // 65,536 draws of 2^20 tags: about 63,500 different ones are expected.
    assert!(
        tags.len() == 32 && tags.values().all(|tags| tags.len() > 62_000),
        "{:?}",
        tags.values().map(|t| t.len()).min()
    );
}
