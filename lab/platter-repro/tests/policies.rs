//! Every readahead policy, those of past kernels included, with reads at the limits of its parameters.

use platter_cache::readahead::{Access, Call, PAGE, Pages, Settings, TABLE, Window, all};

/// A device of which either no page or every page is cached.
struct Device {
    end: u64,
    cached: bool,
    windows: Vec<Window>,
}

impl Pages for Device {
    fn is_cached(&self, _page: u64) -> bool {
        self.cached
    }

    fn end(&self) -> u64 {
        self.end
    }

    fn is_congested(&self) -> bool {
        false
    }

    fn cached_before(&self, page: u64, most: u32) -> u32 {
        if self.cached { page.min(u64::from(most)) as u32 } else { 0 }
    }

    fn first_missing(&self, from: u64, most: u32) -> Option<u64> {
        (!self.cached && most > 0).then_some(from)
    }

    fn read(&mut self, window: Window) -> u32 {
        self.windows.push(window);
        if self.cached { 0 } else { window.count }
    }
}

#[test]
fn no_read_is_too_large_or_too_far() {
    let far = u64::MAX / PAGE;
    let reads = [
        (0, u64::MAX),
        (0, 1),
        (far * PAGE, 4096),
        ((far - 1) * PAGE, 4096),
        ((far - 2) * PAGE, 4096),
        (u64::MAX, u64::MAX),
        (0, u64::MAX),
        (1 << 63, 1 << 62),
        (1 << 62, 1 << 62),
        (0, 1 << 62),
    ];
    platter_repro::policies::register_readahead();
    let rows = all();
    assert!(rows.len() > TABLE.len());
    for row in rows {
        for (end, cached, max) in [(1, false, 32), (far, false, 32), (far, true, 32), (far, false, 1)] {
            let mut device = Device { end, cached, windows: Vec::new() };
            let settings = Settings { max, optimal: u32::MAX, ..Settings::default() };
            let mut policy = (row.make)(&settings);
            for (pos, len) in reads {
                let mut call = Call::new(Access::new(pos, len));
                policy.begin(&mut call, &mut device);
                for page in [call.access.first, call.access.first.saturating_add(1)] {
                    policy.page(&mut call, page, &mut device);
                    policy.missing(&mut call, page, &mut device);
                    policy.found(&mut call, page, false, true, &mut device);
                    policy.found(&mut call, page, true, false, &mut device);
                }
                policy.end(&mut call);
            }
            let inside = |window: &Window| window.count > 0 && window.first + u64::from(window.count) <= end;
            // A requested page may lie past the end; pages read ahead may not.
            let ahead = device.windows.iter().filter(|window| !window.sync);
            assert!(ahead.clone().all(inside), "{}: {:?}", row.name, device.windows);
        }
    }
}
