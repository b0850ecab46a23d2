//! Mappings and parity against small slow models and against rows that are written out.

use platter_md::geometry::{Geometry, Shape, Spot};
use platter_md::gf::{self, Block};
use platter_md::rows::Layout;
use platter_md::superblock::Level;
use proptest::prelude::*;
use std::collections::HashSet;

const RAID6: [u32; 14] = [0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20];

fn parity_layouts() -> Vec<(Level, u32)> {
    let five = (0..6).map(|layout| (Level::Raid5, layout));
    [(Level::Raid4, 0)].into_iter().chain(five).chain(RAID6.map(|layout| (Level::Raid6, layout))).collect()
}

fn picture(level: Level, number: u32, members: u32, rows: u64) -> String {
    let layout = Layout::new(level, number, members).unwrap();
    let row = |row: u64| {
        let row = layout.row(row);
        let name = |member: u32| match row.block(member) {
            Block::P => "P".to_owned(),
            Block::Q => "Q".to_owned(),
            Block::Data(data) => data.to_string(),
        };
        (0..members).map(name).collect::<Vec<_>>().join("")
    };
    (0..rows).map(row).collect::<Vec<_>>().join(" ")
}

#[test]
fn first_rows_are_those_of_the_format() {
    for (level, number, members, rows) in [
        (Level::Raid4, 0, 3, "01P 01P 01P"),
        (Level::Raid5, 0, 4, "012P 01P2 0P12 P012"),
        (Level::Raid5, 1, 4, "P012 0P12 01P2 012P"),
        (Level::Raid5, 2, 4, "012P 12P0 2P01 P012"),
        (Level::Raid5, 3, 4, "P012 2P01 12P0 012P"),
        (Level::Raid5, 4, 4, "P012 P012"),
        (Level::Raid5, 5, 4, "012P 012P"),
        (Level::Raid6, 0, 5, "Q012P 012PQ 01PQ2 0PQ12 PQ012"),
        (Level::Raid6, 1, 5, "PQ012 0PQ12 01PQ2 012PQ Q012P"),
        (Level::Raid6, 2, 5, "Q012P 012PQ 12PQ0 2PQ01 PQ012"),
        (Level::Raid6, 3, 5, "PQ012 2PQ01 12PQ0 012PQ Q012P"),
        (Level::Raid6, 4, 5, "PQ012 PQ012"),
        (Level::Raid6, 5, 5, "012PQ 012PQ"),
        (Level::Raid6, 8, 5, "PQ012 0PQ12 01PQ2 012PQ Q012P"),
        (Level::Raid6, 9, 5, "012PQ 01PQ2"),
        (Level::Raid6, 10, 5, "012QP 12QP0"),
        (Level::Raid6, 16, 5, "012PQ 01P2Q"),
        (Level::Raid6, 17, 5, "P012Q 0P12Q"),
        (Level::Raid6, 18, 5, "012PQ 12P0Q"),
        (Level::Raid6, 19, 5, "P012Q 2P01Q"),
        (Level::Raid6, 20, 5, "P012Q P012Q"),
    ] {
        let count = rows.split(' ').count() as u64;
        assert_eq!(picture(level, number, members, count), rows, "{level} layout {number}");
    }
}

#[test]
fn each_row_has_every_member_once() {
    for (level, number) in parity_layouts() {
        for members in 4..=9 {
            let layout = Layout::new(level, number, members).unwrap();
            for row in 0..40 {
                let row = layout.row(row);
                let data = (0..layout.data()).map(Block::Data);
                let blocks = data.chain([Block::P]).chain(row.has_q().then_some(Block::Q));
                let places: Vec<u32> = blocks.map(|block| row.member(block).unwrap()).collect();
                let set: HashSet<u32> = places.iter().copied().collect();
                assert!(
                    places.len() == members as usize && set.len() == places.len(),
                    "{level} {number}: {places:?}"
                );
                assert!(places.iter().all(|&member| member < members), "{level} {number}: {places:?}");
                if !row.has_q() {
                    continue;
                }
                let mut exponents = row.exponents();
                exponents.sort_unstable();
                exponents.dedup();
                assert_eq!(exponents.len(), layout.data() as usize, "{level} {number}");
            }
        }
    }
}

#[test]
fn layouts_that_do_not_exist_are_refused() {
    for (level, number, members, told) in [
        (Level::Raid5, 6, 4, "0 to 5"),
        (Level::Raid6, 6, 4, "16 to 20"),
        (Level::Raid6, 21, 4, "layout 21"),
        (Level::Raid4, 1, 4, "layout 1"),
        (Level::Raid6, 2, 2, "2 members"),
        (Level::Raid6, 2, 258, "257"),
        (Level::Raid1, 0, 2, "no parity"),
    ] {
        let said = Layout::new(level, number, members).unwrap_err();
        assert!(said.contains(told), "{said}");
    }
}

/// Multiplication by long division, slowly.
fn slow_mul(a: u8, b: u8) -> u8 {
    let mut product: u16 = 0;
    for bit in 0..8 {
        if b >> bit & 1 != 0 {
            product ^= u16::from(a) << bit;
        }
    }
    for bit in (8..15).rev() {
        if product >> bit & 1 != 0 {
            product ^= 0x11d << (bit - 8);
        }
    }
    product as u8
}

#[test]
fn the_field_is_that_of_the_polynomial() {
    for a in 0..=255u8 {
        for b in 0..=255u8 {
            assert_eq!(gf::mul(a, b), slow_mul(a, b), "{a} · {b}");
        }
        assert_eq!(gf::mul(a, gf::inverse(a)), u8::from(a != 0));
    }
    assert_eq!(gf::log(0), None);
    let data = [0x01, 0x80, 0xff, 0x3cu8];
    let p = data.iter().fold(0, |sum, byte| sum ^ byte);
    let q = (0..).zip(data).fold(0, |sum, (at, byte)| sum ^ gf::mul(gf::power(at), byte));
    assert_eq!((p, q), (0x42, 0x3a));
}

/// P and Q by Horner's rule, from the highest exponent down.
fn slow_parity(data: &[u8], exponents: &[u32]) -> (u8, u8) {
    let top = exponents.iter().copied().max().unwrap_or(0);
    let mut q = 0;
    for exponent in (0..=top).rev() {
        q = slow_mul(q, 2);
        for (byte, own) in data.iter().zip(exponents) {
            if *own == exponent {
                q ^= byte;
            }
        }
    }
    (data.iter().fold(0, |sum, byte| sum ^ byte), q)
}

proptest! {
    #[test]
    fn any_two_blocks_come_back(layout in 0..RAID6.len(), members in 4u32..12, row in 0u64..64, data in any::<[u8; 12]>()) {
        let layout = Layout::new(Level::Raid6, RAID6[layout], members).unwrap();
        let row = layout.row(row);
        let exponents = row.exponents();
        let data = &data[..exponents.len()];
        let (p, q) = slow_parity(data, &exponents);
        let value = |block: Block| match block {
            Block::P => p,
            Block::Q => q,
            Block::Data(at) => data[at as usize],
        };
        let blocks: Vec<Block> = (0..data.len() as u32).map(Block::Data).chain([Block::P, Block::Q]).collect();
        for &wanted in &blocks {
            for &other in &blocks {
                let sum = gf::recover(wanted, &[other], &exponents, true).unwrap();
                prop_assert!(sum.0.iter().all(|&(block, _)| block != wanted && block != other));
                let computed = sum.0.iter().fold(0, |sum, &(block, factor)| sum ^ slow_mul(factor, value(block)));
                prop_assert_eq!(computed, value(wanted), "{:?} without {:?}", wanted, other);
                if data.len() > 2 {
                    let third = blocks.iter().find(|&&block| block != wanted && block != other).unwrap();
                    if wanted != other {
                        prop_assert!(gf::recover(wanted, &[other, *third], &exponents, true).is_none());
                    }
                }
            }
            // Which block is wrong is found by what it does to both parities.
            for error in [1u8, 0x80, 0xff] {
                let mut bad = data.to_vec();
                let (mut stored_p, mut stored_q) = (p, q);
                match wanted {
                    Block::P => stored_p ^= error,
                    Block::Q => stored_q ^= error,
                    Block::Data(at) => bad[at as usize] ^= error,
                }
                let (p, q) = slow_parity(&bad, &exponents);
                prop_assert_eq!(gf::wrong_block(p ^ stored_p, q ^ stored_q, &exponents), Some(wanted));
            }
        }
    }
}

#[test]
fn one_block_comes_back_by_p_alone() {
    let exponents = [0, 0, 0];
    let sum = gf::recover(Block::Data(1), &[], &exponents, false).unwrap();
    assert_eq!(sum.0, [(Block::P, 1), (Block::Data(0), 1), (Block::Data(2), 1)]);
    assert_eq!(gf::recover(Block::Data(1), &[Block::P], &exponents, false), None);
    assert_eq!(gf::recover(Block::Data(1), &[Block::Data(0)], &exponents, false), None);
    assert_eq!(gf::recover(Block::Q, &[], &exponents, false), None);
}

fn shape(level: Level, layout: u32, chunk: u64, members: Vec<u64>) -> Shape {
    Shape { level, layout, has_raid0_layout: level == Level::Raid0, chunk, members }
}

/// raid0 as it is filled: row by row, on the members that reach to this row.
#[test]
fn unequal_members_of_a_raid0_are_filled_row_by_row() {
    for chunk in [512u64, 1536, 4096] {
        let sizes = [7, 3, 5, 3, 9, 5].map(|chunks| chunks * chunk + 512 % chunk);
        let geometry = Geometry::new(&shape(Level::Raid0, 2, chunk, sizes.to_vec())).unwrap();
        let mut places = Vec::new();
        for row in 0..9 {
            for (member, size) in (0..).zip(sizes) {
                if (row + 1) * chunk <= size {
                    places.push((member, row * chunk));
                }
            }
        }
        // With other chunks the kernel presents less.
        let most = places.len() as u64 * chunk;
        assert!(geometry.size() == most || (!chunk.is_power_of_two() && geometry.size() < most));
        for (at, &(member, pos)) in places.iter().enumerate() {
            let (Spot::Copies(found), _) = geometry.find(at as u64 * chunk + 17) else { panic!("one copy") };
            assert_eq!((found.len(), found[0].member, found[0].pos), (1, member, pos + 17), "chunk {at}");
        }
        // The original layout has the same rows, each turned by the number of its first chunk.
        let original = Geometry::new(&shape(Level::Raid0, 1, chunk, sizes.to_vec())).unwrap();
        let (mut at, mut row) = (0, 0);
        while at < places.len() {
            let of_row: Vec<u32> =
                places.iter().filter(|place| place.1 == row * chunk).map(|place| place.0).collect();
            for (turn, _) in of_row.iter().enumerate() {
                let number = at + turn;
                let (Spot::Copies(found), _) = original.find(number as u64 * chunk) else {
                    panic!("one copy")
                };
                let member = of_row[number % of_row.len()];
                assert_eq!((found[0].member, found[0].pos), (member, row * chunk), "chunk {number}");
            }
            (at, row) = (at + of_row.len(), row + 1);
        }
    }
}

#[test]
fn a_raid0_that_does_not_say_how_it_is_striped_is_refused_if_that_matters() {
    let unsaid = |sizes: &[u64]| {
        let shape = shape(Level::Raid0, 0, 512, sizes.iter().map(|chunks| chunks * 512).collect());
        Geometry::new(&Shape { has_raid0_layout: false, ..shape })
    };
    assert!(unsaid(&[4, 4, 4]).is_ok() && unsaid(&[4, 4, 6]).is_ok());
    assert!(unsaid(&[3, 4, 4]).unwrap_err().contains("layout=original"));
    let shape = shape(Level::Raid0, 3, 512, vec![1024, 512]);
    assert!(Geometry::new(&shape).unwrap_err().contains("layout 3"));
}

#[test]
fn linear_members_follow_each_other() {
    let geometry =
        Geometry::new(&shape(Level::Linear, 0, 4096, vec![4096 * 2 + 512, 4096, 4096 * 3])).unwrap();
    assert_eq!(geometry.size(), 6 * 4096);
    for (pos, member, at, len) in
        [(0, 0, 0, 8192), (8191, 0, 8191, 1), (8192, 1, 0, 4096), (20000, 2, 7712, 4576)]
    {
        let (Spot::Copies(found), left) = geometry.find(pos) else { panic!("one copy") };
        assert_eq!((found[0].member, found[0].pos, left), (member, at, len), "byte {pos}");
    }
}

#[test]
fn first_chunks_of_raid10_are_those_of_the_format() {
    let copies = |layout: u32, members: u32, rows: u64, chunk: u64| {
        let geometry =
            Geometry::new(&shape(Level::Raid10, layout, 512, vec![512 * rows; members as usize])).unwrap();
        let (Spot::Copies(found), _) = geometry.find(chunk * 512) else { panic!("copies") };
        found.iter().map(|place| (place.member, place.pos / 512)).collect::<Vec<_>>()
    };
    assert_eq!(copies(0x102, 4, 8, 0), [(0, 0), (1, 0)]);
    assert_eq!(copies(0x102, 4, 8, 1), [(2, 0), (3, 0)]);
    assert_eq!(copies(0x102, 3, 8, 1), [(2, 0), (0, 1)]);
    assert_eq!(copies(0x102, 3, 8, 2), [(1, 1), (2, 1)]);
    assert_eq!(copies(0x1_0201, 4, 8, 0), [(0, 0), (1, 1)]);
    assert_eq!(copies(0x1_0201, 4, 8, 3), [(3, 0), (0, 1)]);
    assert_eq!(copies(0x1_0201, 4, 8, 4), [(0, 2), (1, 3)]);
    assert_eq!(copies(0x201, 4, 24, 0), [(0, 0), (1, 12)]);
    assert_eq!(copies(0x201, 4, 24, 3), [(3, 0), (0, 12)]);
}

/// No two chunks of a raid10 are in one place, and all copies of a chunk are on different members.
#[test]
fn chunks_of_raid10_have_places_of_their_own() {
    for members in 2..=8u32 {
        for near in 1..=3u32 {
            for far in 1..=3u32 {
                for bits in [0, 1 << 16, 1 << 17, 1 << 18] {
                    for rows in [6u64, 7, 12, 13] {
                        let layout = bits | far << 8 | near;
                        let geometry = Geometry::new(&shape(
                            Level::Raid10,
                            layout,
                            1024,
                            vec![1024 * rows; members as usize],
                        ));
                        let Ok(geometry) = geometry else { continue };
                        let mut taken = HashSet::new();
                        for chunk in 0..geometry.size() / 1024 {
                            let (Spot::Copies(found), _) = geometry.find(chunk * 1024) else {
                                panic!("copies")
                            };
                            assert_eq!(found.len(), (near * far) as usize);
                            let on: HashSet<u32> = found.iter().map(|place| place.member).collect();
                            assert_eq!(
                                on.len(),
                                found.len(),
                                "{layout:#x} over {members}: chunk {chunk} {found:?}"
                            );
                            for place in found {
                                assert!(
                                    place.pos < rows * 1024,
                                    "{layout:#x} over {members}, {rows}: {place:?}"
                                );
                                assert!(taken.insert(place), "{layout:#x} over {members}: {place:?} twice");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_a_level_survives() {
    let survives = |level: Level, layout: u32, members: usize, lost: &[u32]| {
        let geometry = Geometry::new(&shape(level, layout, 512, vec![8192; members])).unwrap();
        geometry.survives(|member| lost.contains(&member))
    };
    assert!(survives(Level::Raid1, 0, 3, &[0, 2]) && !survives(Level::Raid1, 0, 2, &[0, 1]));
    assert!(survives(Level::Raid5, 2, 3, &[1]) && !survives(Level::Raid5, 2, 4, &[1, 2]));
    assert!(survives(Level::Raid6, 2, 4, &[1, 3]) && !survives(Level::Raid6, 2, 5, &[1, 2, 4]));
    assert!(survives(Level::Raid10, 0x102, 4, &[0, 2]) && !survives(Level::Raid10, 0x102, 4, &[0, 1]));
    assert!(survives(Level::Raid10, 0x201, 4, &[0, 2]) && !survives(Level::Raid10, 0x201, 4, &[0, 3]));
    assert!(!survives(Level::Raid0, 2, 3, &[1]) && survives(Level::Raid0, 2, 3, &[]));
}

#[test]
fn impossible_shapes_are_named() {
    let said = |shape: Shape| Geometry::new(&shape).unwrap_err();
    assert!(said(shape(Level::Raid5, 2, 0, vec![4096; 3])).contains("no chunk"));
    assert!(said(shape(Level::Raid5, 2, 700, vec![4096; 3])).contains("700 bytes"));
    assert!(said(shape(Level::Raid5, 2, 8192, vec![4096; 3])).contains("empty"));
    assert!(said(shape(Level::Raid1, 0, 0, vec![1 << 63; 2])).contains("2^62"));
    assert!(said(shape(Level::Raid1, 0, 0, vec![])).contains("0 members"));
    assert!(said(shape(Level::Other(7), 0, 0, vec![512])).contains("level 7"));
    assert!(said(shape(Level::Raid10, 0x103, 512, vec![4096; 2])).contains("3 copies"));
    assert!(said(shape(Level::Raid10, 0x1_0202, 512, vec![4096; 5])).contains("offset"));
    assert!(said(shape(Level::Raid10, 1 << 19, 512, vec![4096; 5])).contains("unknown bits"));
}
