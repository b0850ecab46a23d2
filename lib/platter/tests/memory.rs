//! A program without unsafe code cannot make the library use memory that is not its own. What does not compile is tested
//! where it is documented: `Bio::push_segment`, `Bio::extend`, `IoBuf::add_segments`, `Builder::add`, `Pool::region`,
//! `BioView`.

#![forbid(unsafe_code)]

use platter::block::fault::{Fault, Status};
use platter::block::time::Time;
use platter::stack::{LayerType, filter};
use platter::{Access, Bio, Device, Flags, Kind, Op, Pool, open, register_layer};
use std::sync::Mutex;

/// Disks of which every byte is 0xAA: one that shows its memory, some with layers that copy, split and queue.
fn disks() -> Vec<Device> {
    let specs = [
        "ram(1M)",
        "ram(1M, elevator=deadline)",
        "cache(ram(1M), size=256K)",
        "raid0(ram(512K), ram(512K), chunk=4K)",
        "verify(ram(1M))",
        "delay(ram(1M))",
    ];
    let filled = |spec: &&str| {
        let disk = open(spec, Access::read_write()).expect("a device");
        disk.write_at(&vec![0xAA; 1 << 20], 0).expect("a write");
        disk
    };
    specs.iter().map(filled).collect()
}

/// Submits a bio and waits for it.
fn carried_out(disk: &Device, bio: Bio) -> Bio {
    let mut channel = disk.channel(1).expect("a channel");
    assert!(channel.submit(bio).is_ok(), "there is room for a bio");
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    done.pop().expect("the bio")
}

fn kind(status: Status) -> Option<Kind> {
    status.err().map(|fault| fault.kind)
}

#[test]
fn a_bio_that_is_longer_than_its_memory_is_refused_and_its_memory_left_alone() {
    for disk in disks() {
        for op in [Op::Read, Op::Write] {
            let mut bio = match op {
                Op::Read => Bio::read(0, vec![7u8; 4096]),
                _ => Bio::write(0, vec![7u8; 4096]),
            }
            .expect("a bio");
            bio.rewind(0, 8192);
            let mut bio = carried_out(&disk, bio);
            assert_eq!(kind(bio.status()), Some(Kind::BadSegments), "{op} of {}", disk.name());
            assert_eq!(bio.take_buffer(), Some(vec![7u8; 4096]), "{op} of {}", disk.name());
            let mut data = [0; 8192];
            disk.read_at(&mut data, 0).expect("a read");
            assert!(data.iter().all(|byte| *byte == 0xAA), "{op} of {}", disk.name());
        }
    }
}

#[test]
fn a_bio_whose_buffer_was_taken_out_is_refused() {
    for disk in disks() {
        let mut bio = Bio::read(0, vec![7u8; 4096]).expect("a bio");
        let mine: Vec<u8> = bio.take_buffer().expect("the vector");
        let bio = carried_out(&disk, bio);
        assert_eq!(kind(bio.status()), Some(Kind::BadSegments), "{}", disk.name());
        assert_eq!(mine, vec![7; 4096]);
        let mut bio = Bio::write(0, vec![vec![7u8; 512]; 8]).expect("a bio");
        assert!(bio.take_buffer::<Vec<Vec<u8>>>().is_some());
        assert_eq!(kind(carried_out(&disk, bio).status()), Some(Kind::BadSegments), "{}", disk.name());
    }
}

/// A buffer comes back by its type only, and a bio whose buffer was not taken keeps it.
#[test]
fn a_buffer_of_another_type_is_not_taken() {
    let disk = open("ram(1M)", Access::read_write()).expect("a device");
    disk.write_at(&[0xAA; 4096], 0).expect("a write");
    let mut bio = Bio::read(0, vec![0u8; 4096]).expect("a bio");
    assert!(bio.take_buffer::<Box<[u8]>>().is_none());
    let mut bio = carried_out(&disk, bio);
    assert_eq!((bio.status(), bio.take_buffer()), (Ok(()), Some(vec![0xAAu8; 4096])));
}

#[test]
fn a_pool_shows_where_its_memory_is_and_nothing_is_read_into_it() {
    let pool = Pool::new(1, 4096, 4096).expect("a pool");
    let (shown, buffer) = (pool.region().memory, pool.take().expect("a buffer"));
    assert_eq!((shown.addr().addr(), shown.len()), (buffer.as_ptr().addr(), 4096));
}

/// Changes what it may of each bio, and remembers where the memory was.
#[derive(Clone)]
struct Meddler;

static SEEN: Mutex<Vec<(usize, u32, Flags)>> = Mutex::new(Vec::new());

static MEDDLER: LayerType = LayerType {
    name: "meddler",
    summary: "a layer that changes all that it can",
    params: &[],
    members: 1..=1,
    build: |values, below| filter::build(&MEDDLER, values, below, Meddler),
};

impl filter::Filter for Meddler {
    fn start(&mut self, now: Time, _: usize, bio: &mut filter::BioView<'_>) -> Result<Time, Fault> {
        bio.remove_flags(Flags::BORROWED | Flags::SYNC);
        bio.add_flags(Flags::NOMERGE);
        let segment = bio.single_segment().expect("one segment");
        SEEN.lock().expect("a lock").push((segment.addr().addr(), segment.len(), bio.flags()));
        Ok(now)
    }

    fn end(&mut self, _: usize, bio: &mut filter::BioView<'_>) {
        if bio.op() == Op::Read {
            bio.fail_at(1024, Fault::from_errno(5));
        }
    }
}

/// The memory of a call is lent for the call: a filter that takes the mark of this away does not end the wait for it.
#[test]
fn a_filter_cannot_say_how_memory_is_lent() {
    register_layer(&MEDDLER).expect("a new name");
    let disk = open("meddler(ram(1M))", Access::read_write()).expect("a device");
    let mut buffer = vec![0xAA; 4096];
    disk.write_at(&buffer, 0).expect("a write");
    buffer.fill(0);
    let error = disk.read_at(&mut buffer, 512).expect_err("the filter fails it");
    assert!(error.to_string().contains("512"), "{error}");
    assert_eq!(buffer[..3584], [0xAA; 3584]);
    let seen = SEEN.lock().expect("a lock");
    assert_eq!(
        seen.iter().map(|seen| (seen.0, seen.1)).collect::<Vec<_>>(),
        [(buffer.as_ptr().addr(), 4096); 2]
    );
    let kept = Flags::BORROWED.union(Flags::NOMERGE);
    assert!(seen.iter().all(|seen| seen.2.contains(kept) && !seen.2.contains(Flags::SYNC)), "{seen:?}");
    drop(seen);
    // A bio that owns its memory tells how much of it was done.
    let mut bio = carried_out(&disk, Bio::read(512, vec![0u8; 4096]).expect("a bio"));
    assert_eq!((bio.pos(), bio.done(), bio.len()), (1024, 512, 3584));
    assert_eq!(
        (kind(bio.status()), bio.take_buffer::<Vec<u8>>().map(|data| data.len())),
        (Some(Kind::Io), Some(4096))
    );
}
