//! Which points the figures of the paper have.

use super::{Cell, ChunkedError, Pattern, Personality};

/// The points to measure. [`cells`](Plan::cells) lists them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The sources of requests.
    pub personalities: Vec<Personality>,
    /// Numbers of disks.
    pub disks: Vec<usize>,
    /// Sizes of requests.
    pub requests: Vec<u64>,
    /// Stripe of arrays over which requests vary.
    pub stripe: u64,
    /// Stripes over which arrays vary, on the most disks.
    pub stripes: Vec<u64>,
    /// Sizes of requests while stripes vary.
    pub stripe_requests: Vec<u64>,
    /// Bytes of a chunk; `None`: each request is one.
    pub chunk: Option<u64>,
    /// No chunks: from the beginning to the end.
    pub stream: bool,
    /// Write instead of read.
    pub write: bool,
    /// Requests at once of asynchronous personalities.
    pub depth: usize,
    /// Bytes that `kernel-2.4` reads ahead; `None`: a stripe.
    pub readahead: Option<u64>,
    /// Whether its readahead continues past the end of a request.
    pub overrun: bool,
}

/// Powers of two from one to another.
fn powers(from: u64, to: u64) -> Vec<u64> {
    (from.trailing_zeros()..=to.trailing_zeros()).map(|shift| 1 << shift).collect()
}

impl Plan {
    /// The paper's figures on up to `disks` disks.
    pub fn paper(disks: usize) -> Plan {
        let cell = Cell::new(Personality::Jbod, 1, 4096);
        Plan {
            personalities: super::PERSONALITIES
                .iter()
                .map(|row| row.personality)
                .filter(|personality| personality.is_simulated())
                .collect(),
            disks: (1..=disks).collect(),
            requests: powers(4 << 10, 64 << 20),
            stripe: cell.stripe,
            stripes: powers(4 << 10, 1 << 20),
            stripe_requests: vec![1 << 20, 16 << 20],
            chunk: None,
            stream: false,
            write: false,
            depth: cell.depth,
            readahead: None,
            overrun: true,
        }
    }

    /// A few points of each figure.
    pub fn quick(disks: usize) -> Plan {
        Plan {
            disks: if disks > 1 { vec![1, disks] } else { vec![1] },
            requests: vec![4 << 10, 64 << 10, 1 << 20, 16 << 20],
            stripes: vec![64 << 10, 512 << 10],
            stripe_requests: vec![1 << 20],
            ..Plan::paper(disks)
        }
    }

    /// A point of it.
    pub fn cell(&self, personality: Personality, disks: usize, request: u64) -> Cell {
        let pattern = match self.stream {
            true => Pattern::Stream,
            false => Pattern::Chunks(self.chunk.unwrap_or(request)),
        };
        Cell {
            personality,
            disks,
            stripe: self.stripe,
            request,
            pattern,
            write: self.write,
            depth: self.depth,
            readahead: self.readahead,
            overrun: self.overrun,
        }
    }

    /// All points, each once.
    ///
    /// # Errors
    /// A point that makes no sense, or none at all.
    pub fn cells(&self) -> Result<Vec<Cell>, ChunkedError> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut add = |cell: Cell| {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        };
        for &personality in &self.personalities {
            for &disks in &self.disks {
                self.requests.iter().for_each(|&request| add(self.cell(personality, disks, request)));
            }
            let most = self.disks.iter().max().copied().unwrap_or(0);
            for &request in self.stripe_requests.iter().filter(|_| personality.has_stripe()) {
                for &stripe in &self.stripes {
                    add(Cell { stripe, ..self.cell(personality, most, request) });
                }
            }
        }
        if cells.is_empty() {
            return Err(ChunkedError::Option("nothing to measure: no sizes are given".to_owned()));
        }
        cells.iter().try_for_each(Cell::check)?;
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_comes_once() {
        let plan = Plan::paper(3);
        let cells = plan.cells().unwrap();
        // 6 personalities on 1 to 3 disks at 15 sizes; 4 with a stripe at 9 stripes, one of which is included
        // already, at 2 sizes.
        assert_eq!(cells.len(), 6 * 3 * 15 + 4 * 8 * 2);
        assert!(Plan { personalities: vec![], ..plan }.cells().is_err());
        assert!(Plan::quick(1).cells().unwrap().len() < 40);
    }
}
