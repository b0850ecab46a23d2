//! Layers refuse invalid I/O as disks do.

use crate::callers::Style;
use crate::kinds::{SIZE, on_all};
use crate::memory::{aligned, part};
use crate::rig::makes_copies;
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;

#[test]
fn bad_ranges_and_segments_are_refused_alike() {
    on_all(|name, device| {
        let before = device.counters();
        for style in Style::ALL {
            let mut caller = style.caller(device);
            for op in [Op::Read, Op::Write] {
                let mut kind = |pos, len| {
                    let (result, memory) = caller.transfer(op, pos, aligned(len), Default::default());
                    assert!(memory.is_some(), "{name} {style:?}: the buffer comes back");
                    result.unwrap_err().kind
                };
                assert_eq!(kind(0, 0), Kind::ZeroLength, "{name} {style:?} {op}");
                assert_eq!(kind(SIZE, 4096), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(SIZE - 4096, 8192), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(u64::MAX - 4095, 4096), Kind::OutOfRange, "{name} {style:?} {op}");
            }
            for op in [Op::Discard, Op::WriteZeroes] {
                let mut kind = |pos, len| caller.operate(op, pos, len).unwrap_err().kind;
                assert_eq!(kind(0, 0), Kind::ZeroLength, "{name} {style:?} {op}");
                assert_eq!(kind(1 << 63, 1 << 63), Kind::OutOfRange, "{name} {style:?} {op}");
                assert_eq!(kind(1, 4096), Kind::Misaligned, "{name} {style:?} {op}");
            }
            if style != Style::Synchronous {
                assert_eq!(caller.write(100, aligned(100)).0.unwrap_err().kind, Kind::Misaligned, "{name}");
                for len in [4096, SIZE] {
                    let none = caller.submit(Bio::new(Op::Read, 0, len)).0;
                    assert_eq!(none.unwrap_err().kind, Kind::BadSegments, "{name} {style:?}");
                }
                let mut longer = Bio::read(0, vec![part(4096, 0), part(4096, 0)]).unwrap();
                longer.rewind(0, SIZE / 2);
                assert_eq!(caller.submit(longer).0.unwrap_err().kind, Kind::BadSegments, "{name} {style:?}");
            }
        }
        if !makes_copies(device) {
            assert_eq!(device.counters().since(&before).dispatches, 0, "{name}: none of it came to a disk");
        }
    });
}
