//! A running array: what its superblocks say, and that what a crash leaves of them assembles as it should.

use platter_md::Uuid;
use platter_md::assembly::{self, Candidate, Options};
use platter_md::create::{NewArray, NewDevice, plan};
use platter_md::superblock::{self, Level, Name, Place, Role, Superblock, Time, feature};
use platter_md::update::{Added, Running};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SIZE: u64 = 16 << 20;

fn new_array(level: Level, members: u8, spares: u8) -> NewArray {
    let device = |at| NewDevice { size: SIZE, uuid: Uuid([at; 16]) };
    NewArray {
        place: Place::Offset4K,
        level,
        layout: None,
        chunk: (level != Level::Raid1).then_some(65536),
        name: Name::new("a").unwrap(),
        array: Uuid([0xaa; 16]),
        members: (0..members).map(device).collect(),
        spares: (members..members + spares).map(device).collect(),
        has_bitmap: true,
        is_clean: true,
        created: Time { s: 1000, us: 0 },
        block: 512,
    }
}

/// The devices of an array, by number of the device, as they lie on disks.
struct Disks {
    running: Running,
    slots: BTreeMap<u32, Superblock>,
}

impl Disks {
    fn new(level: Level, members: u8, spares: u8) -> Disks {
        let planned = plan(&new_array(level, members, spares)).unwrap();
        let all: Vec<Superblock> = planned.devices.into_iter().map(|device| device.superblock).collect();
        let slots = (0..).zip(all.clone()).collect();
        Disks { running: Running::new(all, 0).unwrap(), slots }
    }

    fn write(&mut self, numbers: &[u32]) {
        for &number in numbers {
            let (at, bytes) = self.running.superblock_of(number).unwrap();
            assert_eq!(at, 4096);
            let read = superblock::parse(Place::Offset4K, SIZE, &bytes).unwrap();
            assert_eq!((Some(&read), read.number), (self.running.superblock(number).as_ref(), number));
            self.slots.insert(number, read);
        }
    }

    fn write_all(&mut self) {
        let all = self.running.devices();
        self.write(&all);
    }

    fn events(&self) -> Vec<u64> {
        self.slots.values().map(|own| own.events).collect()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let candidate = |(number, superblock): (&u32, &Superblock)| Candidate {
            name: format!("d{number}"),
            size: SIZE,
            superblock: superblock.clone(),
            bad: Vec::new(),
            bitmap: None,
            ppl: None,
            journal: None,
        };
        self.slots.iter().map(candidate).collect()
    }
}

#[test]
fn clean_and_dirty_go_back_and_forth_by_one_event_and_leave_spares_alone() {
    let mut disks = Disks::new(Level::Raid1, 2, 1);
    assert_eq!(disks.running.mark_clean(), [], "it is clean");
    for _ in 0..3 {
        let dirty = disks.running.mark_dirty();
        assert_eq!((&dirty[..], disks.running.is_dirty()), (&[0, 1][..], true));
        disks.write(&dirty);
        assert_eq!(disks.slots[&0].resync_offset, 0);
        assert_eq!(disks.running.mark_dirty(), [], "it is dirty");
        let clean = disks.running.mark_clean();
        disks.write(&clean);
        assert_eq!((disks.slots[&1].resync_offset, disks.slots[&2].resync_offset), (u64::MAX, u64::MAX));
    }
    // Event 1 is not taken back to 0: then the superblock would be that of a new array.
    assert_eq!(disks.events(), [2, 2, 0]);
    disks.write_all();
    let dirty = disks.running.mark_dirty();
    disks.write(&dirty);
    assert_eq!(disks.events(), [3, 3, 2]);
    let clean = disks.running.mark_clean();
    disks.write(&clean);
    assert_eq!(disks.events(), [2, 2, 2]);
    // Anything else goes on, and writes all.
    assert_eq!(disks.running.resync_at(u64::MAX), [0, 1, 2]);
    assert_eq!(disks.running.events(), 3);
    disks.running.mark_dirty();
    disks.running.mark_clean();
    assert_eq!(disks.running.events(), 3);
}

#[test]
fn a_member_that_fails_is_stale_at_once_even_when_the_array_turns_clean() {
    let mut disks = Disks::new(Level::Raid5, 3, 0);
    let dirty = disks.running.mark_dirty();
    disks.write(&dirty);
    let rest = disks.running.fail(1).unwrap();
    assert_eq!(rest, [0, 2]);
    disks.write(&rest);
    assert_eq!((disks.running.degraded(), disks.running.superblock_of(1)), (vec![1], None));
    let clean = disks.running.mark_clean();
    assert_eq!(clean, [0, 2]);
    disks.write(&clean);
    assert_eq!(disks.events(), [3, 1, 3], "no going back while a member is missing");
    let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
    assert_eq!((array.missing, array.left_out.len()), (vec![1], 1));
    // Also right after the failure, one event behind.
    disks.slots.values_mut().filter(|own| own.events == 3).for_each(|own| own.events = 2);
    disks.slots.values_mut().for_each(|own| own.resync_offset = u64::MAX);
    let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
    assert_eq!(array.missing, [1]);
    assert!(array.left_out[0].why.contains("it had failed"), "{:?}", array.left_out);
    assert!(disks.running.fail(1).unwrap_err().contains("member 1 is missing"));
    assert!(disks.running.fail(7).unwrap_err().contains("no member 7; it has 0 to 2"));
}

/// A disk that is dead is often found by the write that says that the array is clean.
#[test]
fn a_member_that_did_not_take_its_superblock_is_older_than_the_others() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    disks.running.resync_at(u64::MAX);
    disks.write_all();
    let dirty = disks.running.mark_dirty();
    disks.write(&dirty);
    assert_eq!(disks.running.mark_clean(), [0, 1]);
    disks.write(&[0]);
    assert_eq!(disks.events(), [1, 2]);
    let rest = disks.running.fail(1).unwrap();
    disks.write(&rest);
    assert_eq!(disks.events(), [3, 2]);
    let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
    assert_eq!((array.missing, array.is_dirty), (vec![1], false));
}

#[test]
fn the_last_member_in_sync_is_not_given_up() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    disks.running.fail(0).unwrap();
    assert!(disks.running.fail(1).unwrap_err().contains("the last that is in sync"));
    let number = disks.running.add(Added { size: SIZE, uuid: Uuid([9; 16]) }).unwrap();
    assert!(disks.running.fail(1).is_err(), "member 0 is not rebuilt");
    assert_eq!(number, 2, "a number that no device ever had");
    disks.running.fail(0).unwrap();
    assert_eq!(disks.running.devices(), [1]);
}

#[test]
fn a_spare_takes_the_place_of_a_member_and_is_rebuilt() {
    let mut disks = Disks::new(Level::Raid5, 3, 1);
    assert_eq!(disks.running.take_spare(), None, "no member is missing");
    disks.running.fail(0).unwrap();
    assert_eq!(disks.running.take_spare(), Some((3, 0)));
    disks.write_all();
    let own = &disks.slots[&3];
    assert_eq!((own.role(), own.has(feature::RECOVERY), own.recovery_offset), (Role::Member(0), true, 0));
    assert_eq!(disks.running.degraded(), [0]);
    let to_write = disks.running.recovered_to(0, 4096).unwrap();
    disks.write(&to_write);
    assert_eq!((disks.slots[&3].recovery_offset, disks.running.in_sync(0)), (4096, Some(4096)));
    assert!(!disks.slots[&1].has(feature::RECOVERY), "that is of one member");
    let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
    assert_eq!((array.missing, array.sources.members[0][0].until), (vec![0], 4096 * 512));
    let to_write = disks.running.recovered(0).unwrap();
    disks.write(&to_write);
    assert!(!disks.slots[&3].has(feature::RECOVERY) && disks.running.degraded().is_empty());
    assert!(disks.running.recovered(0).unwrap_err().contains("in sync"));
    assert!(disks.running.recovered_to(3, 1).unwrap_err().contains("no member 3"));
    let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
    assert_eq!(array.missing, []);
}

#[test]
fn a_device_is_added_with_what_the_others_have_beside_their_data() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    let spare = disks.running.add(Added { size: SIZE + 100 * 512, uuid: Uuid([8; 16]) }).unwrap();
    disks.write_all();
    let like = disks.slots[&0].clone();
    let own = disks.running.superblock(spare).unwrap();
    assert_eq!((own.role(), own.device, own.events), (Role::Spare, Uuid([8; 16]), 1));
    assert_eq!(
        (own.data_offset, own.data_size, own.bitmap_offset, own.bad_offset),
        (like.data_offset, like.data_size + 100, like.bitmap_offset, like.bad_offset)
    );
    let needed = (like.data_offset + like.component) * 512;
    let said = disks.running.add(Added { size: needed - 512, uuid: Uuid([7; 16]) }).unwrap_err();
    assert!(said.contains(&format!("this array needs {needed}")), "{said}");
    assert!(disks.running.add(Added { size: needed, uuid: Uuid([7; 16]) }).is_ok());
    assert!(disks.running.remove_spare(0).unwrap_err().contains("no spare"));
    assert!(!disks.running.remove_spare(spare).unwrap().contains(&spare));
    // 1.0: the bitmap lies between the data and the superblock.
    let planned = plan(&NewArray { place: Place::End, ..new_array(Level::Raid1, 2, 0) }).unwrap();
    let all: Vec<Superblock> = planned.devices.into_iter().map(|device| device.superblock).collect();
    let like = all[0].clone();
    let mut running = Running::new(all, 0).unwrap();
    let number = running.add(Added { size: SIZE, uuid: Uuid([8; 16]) }).unwrap();
    let own = running.superblock(number).unwrap();
    assert_eq!((own.super_offset, own.data_size), (like.super_offset, like.data_size));
    let least = running.add(Added { size: 1 << 20, uuid: Uuid([8; 16]) }).unwrap_err();
    let least: u64 = least.rsplit("needs ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(running.add(Added { size: least, uuid: Uuid([8; 16]) }).is_ok());
    assert!(running.add(Added { size: least - 4096, uuid: Uuid([8; 16]) }).is_err());
}

#[test]
fn a_member_comes_back_by_the_bitmap() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    disks.running.fail(1).unwrap();
    disks.write_all();
    let left = disks.slots[&1].clone();
    let number = disks.running.add_back(left.clone()).unwrap();
    disks.write_all();
    let own = &disks.slots[&1];
    assert_eq!((number, own.role(), own.events), (1, Role::Member(1), disks.running.events()));
    assert!(own.has(feature::RECOVERY) && own.has(feature::BITMAP_RECOVERY));
    assert!(disks.running.add_back(left.clone()).unwrap_err().contains("member 1 is there"));
    disks.running.recovered(1).unwrap();
    let own = disks.running.superblock(1).unwrap();
    assert!(!own.has(feature::RECOVERY) && !own.has(feature::BITMAP_RECOVERY));
    disks.running.fail(1).unwrap();
    for (wrong, why) in [
        (Superblock { array: Uuid([1; 16]), ..left.clone() }, "from the array"),
        (Superblock { component: 8, ..left.clone() }, "another level"),
        (Superblock { features: left.features | feature::RECOVERY, ..left.clone() }, "recovery"),
        (Superblock { roles: Vec::new(), ..left.clone() }, "no member"),
    ] {
        let said = disks.running.add_back(wrong).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn bad_blocks_are_those_of_one_member() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    assert_eq!(disks.running.set_bad_blocks(1, true), Ok(vec![0, 1]));
    let has = |disks: &Disks, number| disks.running.superblock(number).unwrap().has(feature::BAD_BLOCKS);
    assert!(has(&disks, 1) && !has(&disks, 0));
    disks.running.set_bad_blocks(1, false).unwrap();
    assert!(!has(&disks, 1));
    assert!(disks.running.set_bad_blocks(9, true).unwrap_err().contains("no device 9"));
}

#[test]
fn resync_is_said_only_while_nothing_is_being_written() {
    let mut disks = Disks::new(Level::Raid1, 2, 0);
    disks.running.resync_at(2048);
    assert_eq!(disks.running.superblock(0).unwrap().resync_offset, 2048);
    disks.running.mark_dirty();
    assert_eq!(disks.running.superblock(0).unwrap().resync_offset, 0);
    disks.running.resync_at(4096);
    assert_eq!((disks.running.superblock(0).unwrap().resync_offset, disks.running.synced()), (0, 4096));
    disks.running.mark_clean();
    assert_eq!(disks.running.superblock(0).unwrap().resync_offset, 4096);
}

#[test]
fn members_that_are_missing_at_the_start_fail_with_the_first_change() {
    let planned = plan(&new_array(Level::Raid6, 5, 0)).unwrap();
    let mut all: Vec<Superblock> = planned.devices.into_iter().map(|device| device.superblock).collect();
    all.remove(3);
    let mut running = Running::new(all.clone(), 0).unwrap();
    assert_eq!((running.events(), running.degraded()), (0, vec![3]));
    assert_eq!(running.mark_dirty(), [0, 1, 2, 4]);
    assert_eq!((running.events(), running.superblock(0).unwrap().roles[3]), (1, Role::Faulty));
    running.mark_clean();
    assert_eq!(running.events(), 2);
    let two = vec![all[0].clone(), all[0].clone()];
    assert!(Running::new(two, 0).unwrap_err().contains("two devices have the number 0"));
    let reshaped = Superblock { features: feature::RESHAPE, ..all[0].clone() };
    assert!(Running::new(vec![reshaped], 0).unwrap_err().contains("a reshape in progress"));
    let other = Superblock { array: Uuid([1; 16]), ..all[1].clone() };
    assert!(Running::new(vec![all[0].clone(), other], 0).unwrap_err().contains("two arrays"));
    assert!(Running::new(all, 9).is_err());
}

#[test]
fn an_array_with_a_journal_stays_in_sync_while_it_is_written() {
    let planned = plan(&NewArray { has_bitmap: false, ..new_array(Level::Raid5, 3, 1) }).unwrap();
    let mut all: Vec<Superblock> = planned.devices.into_iter().map(|device| device.superblock).collect();
    for own in &mut all {
        own.features |= feature::JOURNAL;
        own.roles[3] = Role::Journal;
    }
    let mut running = Running::new(all, 0).unwrap();
    running.mark_dirty();
    assert_eq!(running.superblock(0).unwrap().resync_offset, u64::MAX);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Dirty,
    Clean,
    Fail(u32),
    Add,
    Take,
    Recovered(u32),
    Resync(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Dirty),
        3 => Just(Event::Clean),
        1 => (0u32..4).prop_map(Event::Fail),
        1 => Just(Event::Add),
        2 => Just(Event::Take),
        2 => (0u32..4).prop_map(Event::Recovered),
        1 => prop_oneof![Just(u64::MAX), Just(128u64)].prop_map(Event::Resync),
    ]
}

proptest! {
    /// Whatever happens, and whichever of the last superblocks a crash leaves unwritten, a member that was not in sync is not taken as one that is.
    #[test]
    fn no_member_that_failed_is_ever_used(events in prop::collection::vec(event(), 1..40), lost in any::<u32>()) {
        let mut disks = Disks::new(Level::Raid1, 4, 1);
        for (turn, event) in (0u32..).zip(&events) {
            let before = disks.slots.clone();
            let was = disks.running.clone();
            let to_write = match *event {
                Event::Dirty => disks.running.mark_dirty(),
                Event::Clean => disks.running.mark_clean(),
                Event::Fail(role) => disks.running.fail(role).unwrap_or_default(),
                Event::Add if disks.slots.len() < 12 => {
                    disks.running.add(Added { size: SIZE, uuid: Uuid([100 + turn as u8; 16]) }).unwrap();
                    disks.running.devices()
                }
                Event::Add => Vec::new(),
                Event::Take => disks.running.take_spare().map(|_| disks.running.devices()).unwrap_or_default(),
                Event::Recovered(role) => disks.running.recovered(role).unwrap_or_default(),
                Event::Resync(sector) => disks.running.resync_at(sector),
            };
            disks.write(&to_write);
            let whole = disks.slots.clone();
            // A crash in the middle: some are as before.
            let comes = |number: &u32| {
                let is_member = |running: &Running| matches!(running.role(*number), Role::Member(_));
                is_member(&disks.running) && !is_member(&was)
            };
            // What becomes a member is durable before the others are written.
            let first: Vec<u32> = to_write.iter().copied().filter(comes).collect();
            let is_first_lost = first.iter().any(|_| lost >> 31 & 1 != 0);
            for (at, number) in (0..).zip(&to_write) {
                let is_lost = is_first_lost || (!first.contains(number) && lost >> (at + turn % 8) & 1 != 0);
                if is_lost {
                    match before.get(number) {
                        Some(own) => disks.slots.insert(*number, own.clone()),
                        None => disks.slots.remove(number),
                    };
                }
            }
            let array = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
            let candidates = disks.candidates();
            for (role, sources) in (0u32..).zip(&array.sources.members) {
                for source in sources {
                    let number = candidates[source.device].superblock.number;
                    let is_good = |running: &Running| {
                        running.role(number) == Role::Member(role) && running.in_sync(role).is_some_and(|until| source.until <= until.saturating_mul(512))
                    };
                    // As before the change or as after it.
                    prop_assert!(is_good(&was) || is_good(&disks.running), "{event:?}: device {number} as member {role}");
                }
            }
            disks.slots = whole;
            let again = assembly::assemble(&disks.candidates(), &Options::default()).unwrap();
            prop_assert_eq!(again.missing, disks.running.degraded());
            prop_assert_eq!(again.events, disks.running.events());
            prop_assert_eq!(!again.is_dirty, !disks.running.is_dirty() && disks.running.synced() == u64::MAX);
        }
    }
}
