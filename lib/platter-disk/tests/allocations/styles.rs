//! The same I/Os in each way to call.

use crate::devices::{BAD, Kind};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{self, Status};
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::pool::{Pool, PoolBuf};
use platter_disk::sync_io::IoOptions;
use std::future::Future;
use std::io::IoSliceMut;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

const BLOCK: usize = 4096;
/// More than the disk with small requests takes at once.
const LARGE: usize = 256 << 10;
/// Neighbours that can be merged.
const NEIGHBOURS: usize = 8;
const SEGMENTS: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Synchronous,
    Futures,
    Polled,
}

impl Style {
    pub(crate) const ALL: [Style; 3] = [Style::Synchronous, Style::Futures, Style::Polled];

    pub(crate) fn caller(self, kind: &Kind) -> Box<dyn Caller> {
        match self {
            Style::Synchronous => Box::new(Synchronous::new(kind)),
            Style::Futures => Box::new(Futures::new(kind)),
            Style::Polled => Box::new(Polled::new(kind)),
        }
    }
}

pub(crate) trait Caller {
    fn round(&mut self);
}

fn buffers(count: usize, len: usize) -> Vec<PoolBuf> {
    let pool = Pool::new(count, len, BLOCK).unwrap();
    (0..count).map(|_| pool.take().unwrap()).collect()
}

fn buffer(len: usize) -> PoolBuf {
    buffers(1, len).remove(0)
}

struct Synchronous {
    device: Device,
    is_flawed: bool,
    block: PoolBuf,
    large: PoolBuf,
    parts: Vec<PoolBuf>,
}

impl Synchronous {
    fn new(kind: &Kind) -> Synchronous {
        Synchronous {
            device: kind.handle.clone(),
            is_flawed: kind.is_flawed,
            block: buffer(BLOCK),
            large: buffer(LARGE),
            parts: buffers(SEGMENTS, BLOCK),
        }
    }
}

impl Caller for Synchronous {
    fn round(&mut self) {
        let device = &self.device;
        device.write_at(&self.block, 8192).unwrap();
        device.read_at(&mut self.block, 8192).unwrap();
        device.write_at(&self.large, 65536).unwrap();
        device.read_at(&mut self.large, 65536 + 512 * 8).unwrap();
        let mut parts = self.parts.iter_mut();
        let mut parts: [IoSliceMut<'_>; SEGMENTS] =
            std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap()));
        device.read_vectored_at(&mut parts, 131_072).unwrap();
        device.write_at(&self.large[1..BLOCK + 1], 8192).unwrap();
        device.read_at(&mut self.large[1..BLOCK + 1], 8192).unwrap();
        device.read_at(&mut self.block[..100], 1000).unwrap();
        device.write_at(&self.block[..100], 1000).unwrap();
        device.flush().unwrap();
        // With a deadline, over a lane of the futures.
        let options = IoOptions::timeout(Span::from_secs(60));
        device.write_at_with(&self.block, 8192, options).unwrap();
        device.read_at_with(&mut self.block, 8192, options).unwrap();
        device.flush_with(options).unwrap();
        if self.is_flawed {
            let error = device.read_at(&mut self.block, BAD).unwrap_err();
            assert_eq!(error.fault.kind, fault::Kind::Io);
            // Split, and a piece of it fails.
            assert!(device.read_at(&mut self.large, BAD + BLOCK as u64 - LARGE as u64).is_err());
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn finish<F: Future + Unpin>(waker: &Waker, mut future: F) -> F::Output {
    let mut context = Context::from_waker(waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

#[repr(align(4096))]
struct Page([u8; BLOCK]);

static GIVEN_UP: Page = Page([9; BLOCK]);

struct Futures {
    device: Device,
    is_flawed: bool,
    waker: Waker,
    blocks: Vec<PoolBuf>,
    large: Option<PoolBuf>,
    parts: Option<Vec<PoolBuf>>,
}

impl Futures {
    fn new(kind: &Kind) -> Futures {
        Futures {
            device: kind.handle.clone(),
            is_flawed: kind.is_flawed,
            waker: Waker::from(Arc::new(Unpark(std::thread::current()))),
            blocks: buffers(NEIGHBOURS, BLOCK),
            large: Some(buffer(LARGE)),
            parts: Some(buffers(SEGMENTS, BLOCK)),
        }
    }

    fn read(&mut self, pos: u64) -> bool {
        let (result, block) = finish(&self.waker, self.device.read(pos, self.blocks.pop().unwrap()));
        self.blocks.push(block.unwrap());
        result.is_ok()
    }
}

impl Caller for Futures {
    fn round(&mut self) {
        let mut blocks = self.blocks.drain(..).enumerate();
        let neighbours: [_; NEIGHBOURS] = std::array::from_fn(|_| {
            let (i, block) = blocks.next().unwrap();
            self.device.write((i * BLOCK) as u64, block)
        });
        drop(blocks);
        for future in neighbours {
            let (result, block) = finish(&self.waker, future);
            result.unwrap();
            self.blocks.push(block.unwrap());
        }
        assert!(self.read(8192));
        let (result, large) = finish(&self.waker, self.device.write(65536, self.large.take().unwrap()));
        result.unwrap();
        self.large = large;
        let (result, parts) = finish(&self.waker, self.device.read(65536, self.parts.take().unwrap()));
        result.unwrap();
        self.parts = parts;
        // Cancelled before and after it was submitted.
        drop(self.device.write(1 << 20, GIVEN_UP.0.as_slice()));
        let mut given_up = self.device.write(1 << 20, GIVEN_UP.0.as_slice());
        let _ = Pin::new(&mut given_up).poll(&mut Context::from_waker(&self.waker));
        drop(given_up);
        if self.is_flawed {
            assert!(!self.read(BAD));
        }
    }
}

struct Polled {
    channel: Channel,
    /// Bios with their buffers, and the range of each.
    bios: Vec<Bio>,
    done: Vec<Bio>,
}

impl Polled {
    fn new(kind: &Kind) -> Polled {
        let mut bios = Vec::new();
        let mut add = |bio: Bio, flags: Flags| {
            let mut bio = bio;
            bio.add_flags(flags);
            // Start and length of the bio, for rewinding it.
            bio.set_token(bio.pos() << 32 | bio.len());
            bios.push(bio);
        };
        for (i, block) in buffers(NEIGHBOURS, BLOCK).into_iter().enumerate() {
            add(Bio::write((i * BLOCK) as u64, block).unwrap(), Flags::NONE);
        }
        add(Bio::write(65536, buffer(LARGE)).unwrap(), Flags::NONE);
        add(Bio::read(65536, buffers(SEGMENTS, BLOCK)).unwrap(), Flags::NONE);
        add(Bio::write(1 << 20, buffer(BLOCK)).unwrap(), Flags::FUA);
        add(Bio::flush(), Flags::NONE);
        add(Bio::write(2 << 20, buffer(BLOCK)).unwrap(), Flags::HARD_BARRIER);
        add(Bio::new(Op::Discard, 3 << 20, 65536), Flags::NONE);
        if kind.is_flawed {
            // Merged with a neighbour, or alone: only the bad block fails.
            add(Bio::read(BAD - BLOCK as u64, buffer(BLOCK)).unwrap(), Flags::NONE);
            add(Bio::read(BAD, buffer(BLOCK)).unwrap(), Flags::NONE);
        }
        Polled { channel: kind.handle.channel(64).unwrap(), bios, done: Vec::new() }
    }

    fn check(bio: &Bio) {
        let is_bad = bio.op() == Op::Read && bio.token() >> 32 == BAD;
        let status: Status = bio.status();
        assert!(status.is_ok() || is_bad && status.is_err_and(|f| f.kind == fault::Kind::Io), "{bio:?}");
    }
}

impl Caller for Polled {
    fn round(&mut self) {
        for mut bio in self.bios.drain(..) {
            bio.rewind(bio.token() >> 32, bio.token() & 0xffff_ffff);
            assert!(self.channel.submit(bio).is_ok());
        }
        while self.channel.outstanding() > 0 {
            self.channel.wait(&mut self.done, None);
            self.done.iter().for_each(Polled::check);
            self.bios.append(&mut self.done);
        }
    }
}
