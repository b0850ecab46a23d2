//! Decaying means in fixed point.

/// One, in fixed point.
pub(super) const ONE: u64 = 256;

/// A mean in which each new sample reduces the weight of the old ones by an eighth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    /// 0 until the first sample.
    pub(super) samples: u64,
    pub(super) total: u64,
    pub(super) mean: u64,
}

impl Mean {
    pub(super) fn add(&mut self, sample: u64) {
        self.samples = (7 * self.samples + ONE) / 8;
        self.total = (7 * self.total + ONE * sample) / 8;
        self.mean = (self.total + 128) / self.samples;
    }
}

/// A mean over the first samples of processes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstMean {
    total: u64,
    pub(super) mean: u64,
}

impl FirstMean {
    pub(super) fn add(&mut self, sample: u64) {
        self.total = (7 * self.total + ONE * sample) / 8;
        self.mean = self.total / ONE;
    }
}
