//! Tests a storage engine against power cuts: a log that flushes in the right places, and one that does not.

use platter::Device;
use platter_kit::{Kit, Outcome};
use std::error::Error;

/// Appends five blocks. A block counts as stored when the number in block 0 covers it.
fn append(disk: &Device, stored: &mut u8, careful: bool) -> Outcome {
    for n in 1..=5u8 {
        disk.write_at(&[n; 512], u64::from(n) * 512)?;
        if careful {
            disk.flush()?;
        }
        disk.write_at(&[n; 512], 0)?;
        disk.flush()?;
        *stored = n;
    }
    Ok(())
}

/// The stored blocks must be there, and so must those that block 0 counts.
fn check(disk: &Device, stored: &u8) -> Outcome {
    let read = |n: u8| {
        let mut block = [0; 512];
        disk.read_at(&mut block, u64::from(n) * 512)?;
        Ok::<u8, Box<dyn Error>>(block[0])
    };
    let count = read(0)?;
    if count < *stored {
        return Err(format!("{stored} blocks were stored, {count} are there").into());
    }
    (1..=count)
        .try_for_each(|n| if read(n)? == n { Ok(()) } else { Err(format!("block {n} is lost").into()) })
}

fn main() {
    let kit = Kit::new(1);
    for careful in [true, false] {
        println!("A log {} a flush between block and number:", if careful { "with" } else { "without" });
        match kit.run(|disk, stored| append(disk, stored, careful), check) {
            Ok(summary) => println!("{} I/Os, {} power cuts, nothing lost", summary.ios, summary.cuts),
            Err(failure) => println!("{failure}"),
        }
    }
}
