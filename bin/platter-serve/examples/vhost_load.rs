//! A virtual machine in miniature that loads a vhost-user-blk server, for `scripts/compare-vhost`: prints requests per
//! second and the processor time of the server for each request.

#[allow(dead_code, reason = "the suite of the export uses more of it")]
#[path = "../tests/vhost/guest.rs"]
mod guest;

use guest::{Guest, IN, OUT};
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests between two looks at the clock.
const BATCH: u64 = 64;

/// Places of requests, in blocks.
const PLACES: u64 = 4096;

/// Processor time of a process: all its threads, in the system and outside.
fn processor_time(pid: &str) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process of the server");
    let fields: Vec<u64> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse().expect("a number of ticks"))
        .collect();
    // A tick of this interface is 10 ms on Linux.
    Duration::from_millis(10 * fields.iter().sum::<u64>())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, pid, kind, bytes, depth, seconds] = &arguments[..] else {
        eprintln!("vhost_load SOCKET PID read|write BYTES DEPTH SECONDS");
        std::process::exit(2);
    };
    let bytes: usize = bytes.parse().expect("BYTES");
    let depth: u64 = depth.parse().expect("DEPTH");
    let limit = Duration::from_secs(seconds.parse().expect("SECONDS"));
    let kind = if kind == "read" { IN } else { OUT };
    let mut guest = Guest::new(1, u64::MAX);
    guest.connect(Path::new(socket));
    let mut place = 1u64;
    let mut submit = |guest: &mut Guest| {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sector = (place >> 33) % PLACES * (bytes as u64 / 512);
        guest.submit(0, kind, sector, &[], bytes, 0);
    };
    let (cpu, begun) = (processor_time(pid), Instant::now());
    let mut done = 0u64;
    let mut in_flight = 0;
    while begun.elapsed() < limit {
        for _ in 0..BATCH {
            let before = guest.available(0);
            while in_flight < depth {
                submit(&mut guest);
                in_flight += 1;
            }
            guest.kick(0, before);
            let status = guest.wait_status(0);
            assert_eq!(status, 0, "a request failed");
            (done, in_flight) = (done + 1, in_flight - 1);
            // What else is complete is taken before more is sent, as a guest's interrupt does.
            while let Some(status) = guest.take_status(0) {
                assert_eq!(status, 0, "a request failed");
                (done, in_flight) = (done + 1, in_flight - 1);
            }
        }
    }
    let (elapsed, used) = (begun.elapsed(), processor_time(pid).saturating_sub(cpu));
    println!("{:.0} {:.3}", done as f64 / elapsed.as_secs_f64(), used.as_secs_f64() * 1e6 / done as f64);
}
