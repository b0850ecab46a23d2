//! The allocation status of a range.

use super::Session;
use super::outbox::Reply;
use crate::nbd::negotiation::ALLOCATION_CONTEXT;
use crate::nbd::terms::range;
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, allocation};
use std::ops::Range;

/// Most extents of one reply. The client asks again for the rest.
const MAX_EXTENTS: usize = 1024;

/// Most times that the device is asked for one reply.
const MAX_QUERIES: usize = 4096;

impl Session<'_> {
    /// Answers a request for the allocation status.
    pub(super) fn report_status(&mut self, slot: u16, request: &Request, one: bool) {
        let most = if one { 1 } else { MAX_EXTENTS };
        let extents = extents(self.served.device(), range(request), u64::from(self.terms.device_block), most);
        self.answered(slot);
        self.outbox.push(Reply::status(slot, request.cookie, ALLOCATION_CONTEXT, extents));
    }
}

/// The extents of a range as descriptors of the protocol, at least one and at most `most`. Holes are reported in
/// multiples of `block`.
fn extents(device: &Device, range: Range<u64>, block: u64, most: usize) -> Vec<u8> {
    let mut list: Vec<(u32, u32)> = Vec::new();
    let mut pos = range.start;
    for _ in 0..MAX_QUERIES {
        if pos >= range.end {
            break;
        }
        let left = range.end - pos;
        // The request may begin inside a block.
        let before = pos % block;
        // Of a device that cannot tell, everything is data.
        let (len, hole) =
            device.allocation(pos, left).map_or((left, false), |found| (found.len, found.is_hole()));
        let (len, status) = match hole {
            // The end of the device may lie inside a block.
            true if len >= left || before + len >= block => {
                let whole = len - (before + len) % block;
                (if len >= left { left } else { whole }, allocation::HOLE | allocation::ZERO)
            }
            true => ((block - before).min(left), 0),
            false => (((before + len).next_multiple_of(block) - before).min(left), 0),
        };
        // The range is that of a request, whose length has 32 bits.
        let len = len as u32;
        let full = list.len() == most;
        match list.last_mut() {
            Some((sum, last)) if *last == status => *sum += len,
            _ if full => break,
            _ => list.push((len, status)),
        }
        pos += u64::from(len);
    }
    list.iter().flat_map(|(len, status)| [len.to_be_bytes(), status.to_be_bytes()]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(device: &Device, range: Range<u64>, block: u64, most: usize) -> Vec<(u32, u32)> {
        let bytes = extents(device, range, block, most);
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        bytes.chunks(8).map(|pair| (number(&pair[..4]), number(&pair[4..]))).collect()
    }

    #[test]
    fn extents_are_consecutive_merged_and_bounded() {
        let device = Device::ram(1 << 20).unwrap();
        assert_eq!(of(&device, 0..1 << 20, 512, 10), [(1 << 20, 3)]);
        device.write_at(&[1; 4096], 8192).unwrap();
        device.write_at(&[1; 4096], 12288).unwrap();
        device.write_at(&[1; 4096], 65536).unwrap();
        let all = of(&device, 0..1 << 20, 512, 10);
        assert_eq!(all.iter().map(|(len, _)| u64::from(*len)).sum::<u64>(), 1 << 20);
        assert!(all.windows(2).all(|pair| pair[0].1 != pair[1].1), "{all:?}");
        assert_eq!(all[0].1, 3);
        assert_eq!(of(&device, 0..1 << 20, 512, 1), all[..1]);
        assert_eq!(of(&device, 8192..8704, 512, 10), [(512, 0)]);
        // A part of a block is what its block is, and the next extent begins at a block.
        assert_eq!(of(&device, 8193..8200, 512, 10), [(7, 0)]);
        assert_eq!(of(&device, 8191..8193, 512, 10), [(1, 3), (1, 0)]);
    }
}
