//! Compares two sets of service times.

/// Means, and the distance of two distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// Requests.
    pub requests: usize,
    /// Mean of the real disk in milliseconds.
    pub real_mean_ms: f64,
    /// Mean of the model in milliseconds.
    pub sim_mean_ms: f64,
    /// Root mean square of the horizontal distance between the two distributions, in milliseconds.
    pub rms_ms: f64,
    /// The same divided by the real mean: the demerit figure of Ruemmler and Wilkes (1994).
    pub demerit: f64,
}

impl Compared {
    /// The error of the model's mean in percent of the real mean; positive: the model is slower.
    pub fn mean_error_pct(&self) -> f64 {
        if self.real_mean_ms == 0.0 { 0.0 } else { (self.sim_mean_ms / self.real_mean_ms - 1.0) * 100.0 }
    }
}

/// Compares service times in nanoseconds, pair by pair of two equally long lists. Both are sorted.
pub fn compare(real: &mut [u64], sim: &mut [u64]) -> Compared {
    let requests = real.len().min(sim.len());
    if requests == 0 {
        return Compared::default();
    }
    real.sort_unstable();
    sim.sort_unstable();
    let mean = |times: &[u64]| times.iter().map(|&time| time as f64).sum::<f64>() / requests as f64;
    let (real_mean, sim_mean) = (mean(real), mean(sim));
    let square = |(&real, &sim): (&u64, &u64)| {
        let distance = real as f64 - sim as f64;
        distance * distance
    };
    let squares: f64 = real.iter().zip(sim.iter()).map(square).sum();
    let rms = (squares / requests as f64).sqrt();
    Compared {
        requests,
        real_mean_ms: real_mean / 1e6,
        sim_mean_ms: sim_mean / 1e6,
        rms_ms: rms / 1e6,
        demerit: if real_mean == 0.0 { 0.0 } else { rms / real_mean },
    }
}

/// Pearson's correlation of two equally long lists; 0 if one of them is constant.
pub fn correlation(real: &[u64], sim: &[u64]) -> f64 {
    let count = real.len().min(sim.len()) as f64;
    if count == 0.0 {
        return 0.0;
    }
    let mean = |times: &[u64]| times.iter().map(|&time| time as f64).sum::<f64>() / count;
    let (real_mean, sim_mean) = (mean(real), mean(sim));
    let (mut both, mut of_real, mut of_sim) = (0.0, 0.0, 0.0);
    for (&real, &sim) in real.iter().zip(sim) {
        let (real, sim) = (real as f64 - real_mean, sim as f64 - sim_mean);
        both += real * sim;
        of_real += real * real;
        of_sim += sim * sim;
    }
    if of_real == 0.0 || of_sim == 0.0 { 0.0 } else { both / (of_real * of_sim).sqrt() }
}
