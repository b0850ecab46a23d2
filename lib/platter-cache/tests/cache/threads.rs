//! Real threads on one small cache, using all kinds of calls at once.

use crate::rig::{self, small};
use crate::stamp::{self, SECTOR};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::resident::PAGE;
use platter_cache::{Settings, Write};
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::sync_io::IoOptions;
use platter_sim::rng::Rng;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Sectors of each thread, and of the region that all threads read.
const REGION: u64 = 256;
const ROUNDS: u64 = 400;

/// The versions of the sectors of one thread, which only it writes.
struct Region {
    first: u64,
    versions: Vec<u64>,
    rng: Rng,
    next: u64,
}

/// A piece of a region: first sector and count.
type Piece = (u64, u64);

impl Region {
    fn new(number: u64) -> Region {
        let versions = vec![0; REGION as usize];
        Region { first: number * REGION, versions, rng: Rng::new(number), next: number << 32 | 1 }
    }

    fn piece(&mut self) -> Piece {
        let count = 1 + self.rng.below(20);
        (self.first + self.rng.below(REGION - count), count)
    }

    fn write(&mut self, (first, count): Piece) -> Vec<u8> {
        self.next += 1;
        let at = (first - self.first) as usize;
        self.versions[at..at + count as usize].fill(self.next);
        stamp::sectors(self.next, first, count)
    }

    fn check(&self, (first, count): Piece, data: &[u8]) {
        let at = (first - self.first) as usize;
        assert_eq!(
            stamp::versions(data, first),
            self.versions[at..at + count as usize],
            "from sector {first}"
        );
    }
}

fn pos((first, _): Piece) -> u64 {
    first * SECTOR as u64
}

fn space((_, count): Piece) -> Vec<u8> {
    vec![0; count as usize * SECTOR]
}

fn synchronous(device: &Device, region: &mut Region) {
    let handle = device.handle();
    for round in 0..ROUNDS {
        let piece = region.piece();
        let options = match round % 40 {
            0 => IoOptions::flags(Flags::HARD_BARRIER),
            10 => IoOptions::flags(Flags::SOFT_BARRIER),
            20 => IoOptions::flags(Flags::FUA),
            _ => IoOptions::default(),
        };
        let data = region.write(piece);
        device.write_at_with(&data, pos(piece), options).unwrap();
        if round % 16 == 5 {
            handle.flush().unwrap();
        }
        let piece = region.piece();
        let mut data = space(piece);
        handle.read_at(&mut data, pos(piece)).unwrap();
        region.check(piece, &data);
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn finish<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

fn futures(device: &Device, region: &mut Region) {
    for round in 0..ROUNDS {
        let piece = region.piece();
        let data = region.write(piece);
        finish(device.write(pos(piece), data)).0.unwrap();
        // A write whose future is dropped.
        let dropped = region.piece();
        drop(device.read(pos(dropped), space(dropped)));
        let piece = region.piece();
        let (result, data) = finish(device.read(pos(piece), space(piece)));
        result.unwrap();
        region.check(piece, &data.unwrap());
        if round % 32 == 7 {
            finish(device.submit::<Vec<u8>>(Bio::flush())).0.unwrap();
        }
    }
}

fn polled(device: &Device, region: &mut Region) {
    let mut channel = device.channel(8).unwrap();
    let mut done = Vec::new();
    for round in 0..ROUNDS {
        let writes = [region.piece(), region.piece()];
        for piece in writes {
            let mut bio = Bio::write(pos(piece), region.write(piece)).unwrap();
            if round % 25 == 3 {
                bio.add_flags(Flags::SOFT_BARRIER);
            }
            assert!(channel.submit(bio).is_ok());
            // They may overlap, so the second waits.
            while channel.outstanding() > 0 {
                channel.wait(&mut done, None);
            }
        }
        let pieces = [region.piece(), region.piece(), region.piece()];
        for (token, &piece) in (0..).zip(&pieces) {
            let mut bio = Bio::read(pos(piece), space(piece)).unwrap();
            bio.set_token(token);
            assert!(channel.submit(bio).is_ok());
        }
        if round % 20 == 9 {
            assert!(channel.submit(Bio::flush()).is_ok());
        }
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
        for mut bio in done.drain(..) {
            assert_eq!(bio.status(), Ok(()));
            if bio.op() == Op::Read {
                let data: Vec<u8> = bio.take_buffer().unwrap();
                region.check(pieces[bio.token() as usize], &data);
            }
        }
    }
}

/// Reads a region that is not written to, by copy and by reference, until all other threads are done.
fn shared(device: &Device, over: &AtomicBool) {
    let handle = device.handle();
    let mut rng = Rng::new(99);
    let mut held = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let first = rng.below(REGION - 16);
        let mut data = space((first, 16));
        handle.read_at(&mut data, first * SECTOR as u64).unwrap();
        assert_eq!(stamp::versions(&data, first), [7; 16]);
        if held.len() == 3 {
            held.remove(0);
        }
        held.push(handle.page(rng.below(REGION / 8) * PAGE).unwrap());
        for page in &held {
            assert_eq!(stamp::versions(page, page.pos() / SECTOR as u64), [7; 8]);
        }
    }
}

fn together(device: &Device) {
    device.write_at(&stamp::sectors(7, 0, REGION), 0).unwrap();
    let over = AtomicBool::new(false);
    let over = &over;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || shared(device, over));
        let ways: [fn(&Device, &mut Region); 3] = [synchronous, futures, polled];
        let workers: Vec<_> = (1..)
            .zip(ways)
            .map(|(number, work)| {
                scope.spawn(move || {
                    let mut region = Region::new(number);
                    work(device, &mut region);
                    region
                })
            })
            .collect();
        let regions: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        device.flush().unwrap();
        // All data is on the disk.
        let below = Device::new(Arc::clone(&device.backend().below()[0]));
        for region in regions.into_iter().map(Result::unwrap) {
            let mut data = space((0, REGION));
            below.read_at(&mut data, pos((region.first, 0))).unwrap();
            region.check((region.first, REGION), &data);
        }
    });
}

fn settings() -> [Settings; 3] {
    let base = Settings { background: 5, dirty: 20, gather: 4, ..small(48) };
    let through = Settings { write: Write::Through, ..base.clone() };
    let aside = Settings { readahead: &platter_cache::readahead::TABLE[0], ..base.clone() };
    [base, through, aside]
}

#[test]
fn threads_see_their_writes_over_memory() {
    for settings in settings() {
        let below = Device::ram(4 * REGION * SECTOR as u64).unwrap();
        together(&rig::cached(Arc::clone(below.backend()), &settings));
    }
}

#[test]
fn threads_see_their_writes_over_a_file() {
    for settings in settings() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4 * REGION * SECTOR as u64).unwrap();
        let below = Device::open(file.path(), DiskOptions::read_write()).unwrap();
        together(&rig::cached(Arc::clone(below.backend()), &settings));
    }
}

/// A reference to a page shows its contents at that time; all other readers see what is written later.
#[test]
fn a_page_that_is_held_stays_as_it_was() {
    let below = Device::ram(1 << 20).unwrap();
    let device = rig::cached(Arc::clone(below.backend()), &small(16));
    let handle = device.handle();
    handle.write_at(&[1; 4096], 0).unwrap();
    let old = handle.page(0).unwrap();
    handle.write_at(&[2; 512], 512).unwrap();
    let newer = handle.page(0).unwrap();
    handle.write_at(&[3; 512], 0).unwrap();
    // All other I/O goes through the other frames meanwhile.
    let mut page = [0; 4096];
    for at in 1..200u64 {
        handle.write_at(&[at as u8; 4096], at * 4096).unwrap();
        handle.read_at(&mut page, (at * 7 % 200 + 20) * 4096).unwrap();
    }
    assert_eq!(old[..], [1; 4096]);
    assert_eq!((newer[0], newer[512], newer[1024]), (1, 2, 1));
    drop((old, newer));
    device.flush().unwrap();
    below.read_at(&mut page, 0).unwrap();
    assert_eq!((page[0], page[512], page[1024]), (3, 2, 1));
}

/// A cache with references to all of its pages returns an error instead of waiting forever, and works again
/// when one is released.
#[test]
fn a_cache_of_which_all_is_held_says_so() {
    let below = Device::ram(1 << 20).unwrap();
    let device = rig::cached(Arc::clone(below.backend()), &small(16));
    let handle = device.handle();
    let mut held = Vec::new();
    let refused = (0..17).find_map(|page| match handle.page(page * PAGE) {
        Ok(page) => {
            held.push(page);
            None
        }
        Err(error) => Some(error),
    });
    let refused = refused.expect("there are 16 frames");
    assert_eq!(refused.fault.kind, platter_block::fault::Kind::NoMemory, "{refused}");
    assert!(handle.write_at(&[1; 512], 0).is_err());
    held.pop();
    handle.write_at(&[1; 512], 0).unwrap();
    assert_eq!(held[0][..], [0; 4096]);
}
