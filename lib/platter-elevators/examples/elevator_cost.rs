//! Measures the cost of elevators: nanoseconds for one insert, dispatch and completion, for each elevator of
//! the table, at several numbers of queued requests. Random positions, seven reads to three writes; the best
//! of several runs.
//!
//!     cargo run --release -p platter-elevators --example elevator_cost

use platter_block::bio::{Context, IoPrio, Op};
use platter_block::elevator::{Dir, Elevator, RequestId, RequestInfo};
use platter_block::time::Time;
use platter_elevators::TABLE;
use std::time::Instant;

const RUNS: usize = 7;
const OPERATIONS: u64 = 500_000;

/// Xorshift: the same positions on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn request(&mut self) -> RequestInfo {
        let bits = self.next();
        let dir = if bits % 10 < 7 { Dir::Read } else { Dir::Write };
        RequestInfo {
            pos: (bits >> 16) % (1 << 28) * 4096,
            len: 4096,
            dir,
            op: if dir == Dir::Read { Op::Read } else { Op::Write },
            sync: dir == Dir::Read,
            ioprio: IoPrio::NONE,
            context: Context::new((bits >> 8) as u32 % 4),
        }
    }
}

/// Nanoseconds per request, with `depth` requests queued at all times.
fn measure(elevator: &mut dyn Elevator, depth: usize, random: &mut Random) -> f64 {
    elevator.reserve(depth);
    let mut now = Time(0);
    let mut infos: Vec<RequestInfo> = (0..depth).map(|_| random.request()).collect();
    for (index, info) in infos.iter().enumerate() {
        elevator.insert(now, RequestId { index: index as u32, generation: 0 }, info);
    }
    let fresh: Vec<RequestInfo> = (0..4096).map(|_| random.request()).collect();
    let start = Instant::now();
    for i in 0..OPERATIONS {
        now = Time(now.0 + 10_000);
        let Some(id) = elevator.dispatch(now, true) else { break };
        let slot = id.index as usize;
        elevator.completed(now, id, &infos[slot]);
        infos[slot] = fresh[i as usize % fresh.len()];
        elevator.insert(now, RequestId { index: id.index, generation: id.generation + 1 }, &infos[slot]);
    }
    start.elapsed().as_nanos() as f64 / OPERATIONS as f64
}

fn main() {
    let depths = [1, 32, 128, 1024, 16384];
    println!("ns per request   queued: {depths:>7?}");
    for row in TABLE {
        print!("{:<16}        ", row.name);
        for depth in depths {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let best = (0..RUNS)
                .map(|_| measure((row.make)().as_mut(), depth, &mut random))
                .fold(f64::INFINITY, f64::min);
            print!(" {best:>7.1}");
        }
        println!();
    }
}
