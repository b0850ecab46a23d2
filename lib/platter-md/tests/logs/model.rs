//! Arrays in memory.

use platter_md::Uuid;
use platter_md::geometry::{Geometry, Shape};
use platter_md::gf::{self, Block};
use platter_md::sources::{Source, Sources, Way};
use platter_md::superblock::Level;

pub(crate) const ARRAY: Uuid = Uuid([0x5a; 16]);
pub(crate) const BLOCK: usize = 4096;
pub(crate) const SECTOR: usize = 512;
/// Bytes of each device before the data.
pub(crate) const FRONT: usize = 128 << 10;

/// Random numbers from a seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.any() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    /// A block whose sectors are unlike all others.
    pub(crate) fn block(&mut self) -> Vec<u8> {
        (0..BLOCK / SECTOR).flat_map(|_| self.any().to_le_bytes().repeat(SECTOR / 8)).collect()
    }
}

/// An array and what is on its devices. A row is 4 KiB of each member here.
pub(crate) struct Model {
    pub(crate) geometry: Geometry,
    pub(crate) members: usize,
    /// Blocks of data in a row.
    pub(crate) data: usize,
    pub(crate) rows: usize,
    pub(crate) devices: Vec<Vec<u8>>,
    /// What each block of data has, by row and number.
    pub(crate) truth: Vec<Vec<Vec<u8>>>,
}

impl Model {
    /// An array that is in sync.
    pub(crate) fn new(rng: &mut Rng, level: Level, layout: u32, members: usize) -> Model {
        let chunk = BLOCK * (1 + rng.below(2));
        let rows = chunk / BLOCK * (2 + rng.below(4));
        let shape = Shape {
            level,
            layout,
            has_raid0_layout: false,
            chunk: chunk as u64,
            members: vec![(rows * BLOCK) as u64; members],
        };
        let geometry = Geometry::new(&shape).unwrap();
        let data = geometry.row(0).unwrap().exponents().len();
        let truth: Vec<Vec<Vec<u8>>> = (0..rows).map(|_| (0..data).map(|_| rng.block()).collect()).collect();
        let devices = vec![vec![0; FRONT + rows * BLOCK]; members];
        let mut model = Model { geometry, members, data, rows, devices, truth };
        for row in 0..rows {
            for number in 0..data {
                let block = model.truth[row][number].clone();
                model.put(row, Block::Data(number as u32), &block);
            }
            for (block, bytes) in model.parities(row, &model.truth[row]) {
                model.put(row, block, &bytes);
            }
        }
        model
    }

    pub(crate) fn member(&self, row: usize, block: Block) -> usize {
        self.geometry.row((row * BLOCK) as u64).unwrap().member(block).unwrap() as usize
    }

    /// Writes a block of a row.
    pub(crate) fn put(&mut self, row: usize, block: Block, bytes: &[u8]) {
        let member = self.member(row, block);
        self.devices[member][FRONT + row * BLOCK..][..BLOCK].copy_from_slice(bytes);
    }

    /// Writes any sectors of a block of a row.
    pub(crate) fn put_some(&mut self, rng: &mut Rng, row: usize, block: Block, bytes: &[u8]) {
        let member = self.member(row, block);
        let all = rng.below(3);
        for at in (0..BLOCK).step_by(SECTOR) {
            if all == 0 || all == 1 && rng.one_in(2) {
                let place = FRONT + row * BLOCK + at;
                self.devices[member][place..place + SECTOR].copy_from_slice(&bytes[at..at + SECTOR]);
            }
        }
    }

    /// The parities of data.
    pub(crate) fn parities(&self, row: usize, data: &[Vec<u8>]) -> Vec<(Block, Vec<u8>)> {
        let of = self.geometry.row((row * BLOCK) as u64).unwrap();
        let exponents = of.exponents();
        let sum = |factor: &dyn Fn(usize) -> u8| {
            let mut sum = vec![0; BLOCK];
            data.iter().enumerate().for_each(|(at, block)| gf::add_multiple(&mut sum, factor(at), block));
            sum
        };
        let mut all = vec![(Block::P, sum(&|_| 1))];
        if of.has_q() {
            all.push((Block::Q, sum(&|at| gf::power(exponents[at]))));
        }
        all
    }

    /// The members that are there.
    pub(crate) fn sources(&self, lost: &[usize]) -> Sources {
        let source = |device: usize| Source {
            device,
            data_offset: FRONT as u64,
            until: u64::MAX,
            bad: Vec::new(),
            write_mostly: false,
        };
        let members = (0..self.members)
            .map(|member| if lost.contains(&member) { Vec::new() } else { vec![source(member)] });
        Sources { members: members.collect(), ..Sources::default() }
    }

    /// Reads a sector of a block of data; `None` if it is an error.
    pub(crate) fn read(&self, sources: &Sources, row: usize, number: usize, at: usize) -> Option<Vec<u8>> {
        let begin = self.geometry.whence((row * BLOCK) as u64, Block::Data(number as u32)).unwrap();
        let pos = begin + at as u64;
        let (way, len) = sources.way(&self.geometry, pos, SECTOR as u64, &[]);
        assert_eq!(len, SECTOR as u64, "row {row}, block {number}, byte {at}");
        let terms = match way {
            Way::Any(extents) => vec![(extents[0], 1)],
            Way::Sum(terms) => terms,
            Way::Lost(_) | Way::Doubtful => return None,
        };
        let mut sum = vec![0; SECTOR];
        for (extent, factor) in terms {
            let bytes = &self.devices[extent.device][extent.pos as usize..][..SECTOR];
            gf::add_multiple(&mut sum, factor, bytes);
        }
        Some(sum)
    }
}
