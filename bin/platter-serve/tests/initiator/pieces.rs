//! Requests of more pieces of memory than one system call takes.

use crate::callers::Style;
use crate::kinds::{SIZE, Serving, ways};
use crate::memory::{Memory, part};
use platter_block::bio::{Flags, Op};
use platter_disk::device::Device;

const BLOCK: usize = 512;
const PIECES: usize = 1000;

#[test]
fn requests_of_a_thousand_pieces_arrive() {
    for (elevator, options) in ways() {
        let serving = Serving::new(Device::ram(SIZE).unwrap());
        let Some(device) = serving.open(elevator, options) else { return };
        for style in Style::ALL {
            let mut caller = style.caller(&device);
            let mut written: Memory = (0..PIECES).map(|_| part(BLOCK, 0)).collect();
            written.iter_mut().enumerate().for_each(|(n, piece)| piece.fill(n as u8 ^ 0x5a));
            assert_eq!(caller.transfer(Op::Write, 0, written, Flags::NONE).0, Ok(()), "{elevator} {style:?}");
            let room = (0..PIECES).map(|_| part(BLOCK, 0)).collect();
            let (result, read) = caller.transfer(Op::Read, 0, room, Flags::NONE);
            assert_eq!(result, Ok(()), "{elevator} {style:?}");
            let mut all = vec![0; PIECES * BLOCK];
            device.read_at(&mut all, 0).unwrap();
            for (n, piece) in read.unwrap().iter().enumerate() {
                assert!(piece.iter().all(|byte| *byte == n as u8 ^ 0x5a), "{elevator} {style:?} {n}");
            }
            assert!(all.chunks(BLOCK).enumerate().all(|(n, piece)| piece[0] == n as u8 ^ 0x5a));
            device.write_zeroes(0, SIZE).unwrap();
        }
    }
}
