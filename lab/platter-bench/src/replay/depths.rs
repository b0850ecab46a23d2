//! How many I/Os are in flight, over time.

/// Most parts of the time.
const MOST: u64 = 240;
/// The shortest part.
const SHORTEST_NS: u64 = 1_000_000;

/// How many I/Os were in flight, over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Depths {
    /// Length of a part of the time.
    pub span_ns: u64,
    /// The mean of each part.
    pub mean: Vec<f64>,
    /// The most of each part.
    pub most: Vec<u32>,
}

impl Depths {
    /// The most of all.
    pub fn max(&self) -> u32 {
        self.most.iter().copied().max().unwrap_or(0)
    }
}

/// Follows how many are in flight.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    span_ns: u64,
    now_ns: u64,
    depth: u32,
    /// I/Os in flight times ns.
    areas: Vec<u128>,
    most: Vec<u32>,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter { span_ns: SHORTEST_NS, now_ns: 0, depth: 0, areas: Vec::new(), most: Vec::new() }
    }

    /// One starts, at this time since the beginning.
    pub(super) fn start(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.depth += 1;
        self.touch();
    }

    /// One ends.
    pub(super) fn end(&mut self, at_ns: u64) {
        self.pass(at_ns);
        self.depth = self.depth.saturating_sub(1);
    }

    /// The depth of the present part counts.
    fn touch(&mut self) {
        let part = (self.now_ns / self.span_ns) as usize;
        if self.areas.len() <= part {
            self.areas.resize(part + 1, 0);
            self.most.resize(part + 1, 0);
        }
        self.most[part] = self.most[part].max(self.depth);
    }

    fn pass(&mut self, at_ns: u64) {
        while at_ns / self.span_ns >= MOST {
            self.coarsen();
        }
        while self.now_ns < at_ns {
            self.touch();
            let part = self.now_ns / self.span_ns;
            let end = ((part + 1) * self.span_ns).min(at_ns);
            self.areas[part as usize] += u128::from(self.depth) * u128::from(end - self.now_ns);
            self.now_ns = end;
        }
    }

    /// Makes one part of each two.
    fn coarsen(&mut self) {
        self.span_ns *= 2;
        self.areas = self.areas.chunks(2).map(|two| two.iter().sum()).collect();
        self.most = self.most.chunks(2).map(|two| two.iter().copied().max().unwrap_or(0)).collect();
    }

    /// What was followed.
    pub(super) fn depths(&self) -> Depths {
        let length =
            |part: usize| self.now_ns.saturating_sub(part as u64 * self.span_ns).clamp(1, self.span_ns);
        let mean = |(part, area): (usize, &u128)| *area as f64 / length(part) as f64;
        Depths {
            span_ns: self.span_ns,
            mean: self.areas.iter().enumerate().map(mean).collect(),
            most: self.most.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_by_time_and_parts_become_longer() {
        let mut meter = Meter::new();
        meter.start(0);
        meter.start(500_000);
        meter.end(1_000_000);
        meter.end(2_000_000);
        meter.start(3_000_000);
        meter.end(3_500_000);
        let depths = meter.depths();
        assert_eq!(depths.most, [2, 1, 0, 1]);
        assert_eq!(depths.mean, [1.5, 1.0, 0.0, 1.0]);
        // A year later.
        meter.start(365 * 86_400_000_000_000);
        let depths = meter.depths();
        assert!(depths.most.len() as u64 <= MOST && depths.most.len() as u64 >= MOST / 2);
        assert_eq!((depths.most[0], depths.most.last(), depths.max()), (2, Some(&1), 2));
    }
}
