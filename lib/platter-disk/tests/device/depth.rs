//! How lanes with their own queues share the device's depth.

use crate::fake::{Fake, Options};
use crate::kinds::make;
use crate::rig::submit;
use platter_block::bio::{Bio, Flags};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;

const DEPTH: u32 = 16;
/// Distance from one request to the next, so that nothing merges, and from one lane to the next.
const APART: u64 = 1 << 12;
const AREA: u64 = 1 << 20;
/// Completions until the shares are stable, and those that are counted.
const SETTLING: u32 = 400;
const COUNTED: u32 = 800;

/// A program that always wants `want` requests in flight.
struct User {
    channel: Channel,
    base: u64,
    want: u64,
    done: Vec<Bio>,
    completed: u32,
    in_flight: usize,
}

impl User {
    fn submit_first(&mut self) {
        for at in 0..self.want {
            let mut bio = Bio::read(self.base + at * APART, vec![0; 512]).unwrap();
            bio.add_flags(Flags::NOMERGE);
            bio.set_token(at);
            submit(&mut self.channel, bio);
        }
        self.channel.poll(&mut self.done);
    }

    fn submit_again(&mut self) {
        for mut bio in std::mem::take(&mut self.done) {
            bio.rewind(self.base + bio.token() * APART, 512);
            submit(&mut self.channel, bio);
        }
        self.channel.poll(&mut self.done);
    }
}

/// The result for users who each want a number of requests in flight, on a disk that completes them in the order of
/// their start: completions and average requests in flight.
fn shares(wants: &[u64]) -> Vec<(u32, f64)> {
    let size = AREA * wants.len() as u64;
    let (fake, device) = Fake::open(Options { depth: DEPTH, size, ..Options::default() });
    fake.hold();
    let user = |(at, &want): (usize, &u64)| {
        let channel = device.channel(want as usize).unwrap();
        User { channel, base: at as u64 * AREA, want, done: Vec::new(), completed: 0, in_flight: 0 }
    };
    let mut users: Vec<User> = wants.iter().enumerate().map(user).collect();
    users.iter_mut().for_each(User::submit_first);
    for round in 0..SETTLING + COUNTED {
        fake.release_oldest();
        for user in &mut users {
            user.channel.poll(&mut user.done);
            if round >= SETTLING {
                user.completed += user.done.len() as u32;
                user.in_flight += fake.held_in(user.base..user.base + AREA);
            }
        }
        users.iter_mut().for_each(User::submit_again);
    }
    fake.release();
    users
        .into_iter()
        .map(|mut user| {
            while user.channel.outstanding() > 0 {
                user.channel.wait(&mut user.done, None);
            }
            (user.completed, user.in_flight as f64 / f64::from(COUNTED))
        })
        .collect()
}

/// Requests in flight and completions are what each lane needs of the depth or, if lanes need more than there is, an
/// equal share of what the others leave. A lane's first request does not count against the depth, so each lane has
/// one in flight.
#[test]
fn lanes_that_go_short_share_the_depth() {
    let cases: [(&[u64], &[f64]); 6] = [
        (&[128, 16], &[8.0, 8.0]),
        (&[12, 16], &[8.0, 8.0]),
        (&[128, 4], &[13.0, 4.0]),
        (&[128, 128, 2], &[8.0, 8.0, 2.0]),
        (&[128, 16, 16, 16], &[4.0, 4.0, 4.0, 4.0]),
        (&[128, 2, 2, 2, 2], &[12.0, 2.0, 2.0, 2.0, 2.0]),
    ];
    for (wants, expected) in cases {
        let all: f64 = expected.iter().sum();
        let got = shares(wants);
        for (&(completed, in_flight), expected) in got.iter().zip(expected) {
            let fair = f64::from(COUNTED) * expected / all;
            assert!((in_flight - expected).abs() < 0.5, "{wants:?}: {got:?}");
            assert!((f64::from(completed) / fair - 1.0).abs() < 0.2, "{wants:?}: {got:?}");
        }
    }
}

/// The queue holds a request back for merging, but not while the disk is idle and the program waits. So each I/O takes its lock once:
/// a second round to start the request doubled the cost of an I/O at depth 1.
#[test]
fn a_polling_program_starts_an_idle_disk_in_the_round_that_takes_its_bio() {
    for elevator in ["noop", "deadline"] {
        let device = Device::ram_with(AREA, DiskSettings::default(), make(elevator)).unwrap();
        let mut channel = device.channel(1).unwrap();
        let mut done = vec![Bio::read(0, vec![0; 512]).unwrap()];
        for at in 0..64 {
            let mut bio = done.pop().unwrap();
            bio.rewind(at * APART, 512);
            let before = device.counters().lock_acquisitions;
            submit(&mut channel, bio);
            assert_eq!(channel.poll(&mut done), 1, "{elevator}");
            assert_eq!(device.counters().lock_acquisitions, before + 1, "{elevator}: I/O {at}");
        }
    }
}
