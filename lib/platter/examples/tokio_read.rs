//! Reads a device from end to end under tokio, in tasks that each have several reads in flight:
//! `tokio_read SPEC`

use futures::future::join_all;
use platter::{Access, Device, Error, open};

const BLOCK: u64 = 64 << 10;
const TASKS: u64 = 4;
const IN_FLIGHT: u64 = 8;

/// Sums the bytes of every `TASKS`-th group of blocks, from group `first` on.
async fn sum_share(disk: Device, first: u64) -> Result<u64, Error> {
    let mut sum = 0;
    let group = BLOCK * IN_FLIGHT;
    for start in (first * group..disk.size()).step_by((group * TASKS) as usize) {
        let end = disk.size().min(start + group);
        let blocks = (start..end).step_by(BLOCK as usize);
        let reads = blocks.map(|pos| disk.read(pos, vec![0u8; BLOCK.min(end - pos) as usize]));
        for (result, buffer) in join_all(reads).await {
            result?;
            sum += buffer.iter().flatten().map(|&byte| u64::from(byte)).sum::<u64>();
        }
    }
    Ok(sum)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let spec = std::env::args().nth(1).ok_or("usage: tokio_read SPEC")?;
    let disk = open(&spec, Access::read())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let tasks: Vec<_> = (0..TASKS).map(|first| runtime.spawn(sum_share(disk.clone(), first))).collect();
    let mut sum = 0;
    for task in tasks {
        sum += runtime.block_on(task)??;
    }
    println!("{} bytes, their sum is {sum}", disk.size());
    Ok(())
}
