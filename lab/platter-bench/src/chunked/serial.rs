//! A device that is given one bio at a time, as glibc's POSIX aio does: it has one thread for each file.

use platter_block::backend::Backend;
use platter_stack::filter::{Filter, Filtered};
use std::sync::Arc;

/// Each lane passes on one bio at a time, in order of arrival.
#[derive(Clone, Default)]
struct Serial {
    /// Whether the device has a bio of this lane.
    busy: bool,
}

impl Filter for Serial {
    fn admits(&mut self) -> bool {
        !std::mem::replace(&mut self.busy, true)
    }

    fn release(&mut self) -> bool {
        self.busy = false;
        false
    }
}

/// `below`, which gets one bio at a time from each lane.
pub(super) fn serial(below: Arc<dyn Backend>) -> Arc<dyn Backend> {
    Arc::new(Filtered::new("serial", "", below, Serial::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::backend::LaneUse;
    use platter_block::bio::Bio;
    use platter_block::fault::Kind;
    use platter_block::lane::Cancel;
    use platter_block::time::Time;
    use platter_disk::device::Device;

    /// Bios that wait for an earlier one can be taken back, as cancelled or as late.
    #[test]
    fn bios_that_wait_can_end() {
        let serial = serial(Arc::clone(Device::ram(1 << 20).unwrap().backend()));
        let mut lane = serial.open_lane(LaneUse::Exclusive).unwrap();
        let mut late = 0;
        for token in 0..4 {
            let mut bio = Bio::write(0, vec![1u8; 512]).unwrap();
            bio.set_token(token);
            late = if token == 2 { bio.identity() } else { late };
            lane.submit(Time(0), bio);
        }
        lane.cancel(Time(0), &Cancel::token(1));
        lane.cancel(Time(0), &Cancel::late(late));
        let mut done = Vec::new();
        lane.take_done(&mut done);
        while !lane.is_idle() {
            lane.run(Time(2048));
            lane.take_done(&mut done);
        }
        done.sort_by_key(Bio::token);
        let kinds: Vec<_> = done.iter().map(|bio| bio.status().err().map(|fault| fault.kind)).collect();
        assert_eq!(kinds, [None, Some(Kind::Cancelled), Some(Kind::TimedOut), None]);
    }
}
