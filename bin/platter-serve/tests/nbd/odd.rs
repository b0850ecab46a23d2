//! Devices whose size is no multiple of their block: every byte can be reached.

use crate::client::{Client, attach, connect};
use crate::{Fixture, open, serve};
use platter_remote::nbd::wire::{command, command_flag, info, option};
use std::sync::Barrier;
use tempfile::NamedTempFile;

const SIZE: usize = 5000;

/// What a client does in a round.
type Work = Box<dyn Fn(&mut Client, u8) + Send>;

fn file() -> (NamedTempFile, Fixture) {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE as u64).unwrap();
    let fixture = serve(open(&format!("file({})", file.path().display())));
    (file, fixture)
}

/// Size, smallest, preferred and largest block, as a client is told that asks for them.
fn sizes(fixture: &Fixture) -> [u64; 4] {
    let mut client = connect(&fixture.unix);
    client.greet();
    let data =
        [&4u32.to_be_bytes()[..], b"disk", &1u16.to_be_bytes(), &info::BLOCK_SIZE.to_be_bytes()].concat();
    let replies = client.option(option::GO, &data);
    let size = u64::from_be_bytes(replies[0].1[2..10].try_into().unwrap());
    let blocks = &replies[1].1[2..14];
    let block = |at: usize| u64::from(u32::from_be_bytes(blocks[at..at + 4].try_into().unwrap()));
    [size, block(0), block(4), block(8)]
}

#[test]
fn the_smallest_block_is_one_byte_where_the_size_is_odd() {
    let (_file, fixture) = file();
    assert_eq!(sizes(&fixture), [5000, 1, 4096, 32 << 20]);
    let even = serve(open("ram(1M)"));
    assert_eq!(sizes(&even), [1 << 20, 512, 4096, 32 << 20]);
}

#[test]
fn every_byte_is_read_written_and_zeroed() {
    let (file, fixture) = file();
    let mut model = vec![0u8; SIZE];
    let mut random = {
        let mut state = 3u64;
        move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        }
    };
    for structured in [false, true] {
        let mut client = attach(&fixture.unix, "disk", structured);
        for round in 0..400 {
            let start = random(SIZE);
            let len = 1 + random([7, 600, SIZE][round % 3].min(SIZE - start));
            let (range, offset, length) = (start..start + len, start as u64, len as u32);
            let fua = if random(3) == 0 { command_flag::FUA } else { 0 };
            let answer = match random(6) {
                0 | 1 => {
                    let data: Vec<u8> = (0..len).map(|at| (at + round) as u8).collect();
                    model[range].copy_from_slice(&data);
                    client.call(command::WRITE, fua, offset, length, &data)
                }
                2 => {
                    model[range].fill(0);
                    client.call(command::WRITE_ZEROES, fua, offset, length, b"")
                }
                3 => {
                    model[range].fill(0);
                    client.call(command::WRITE_ZEROES, fua | command_flag::NO_HOLE, offset, length, b"")
                }
                4 if structured => {
                    let answer = client.call(command::BLOCK_STATUS, 0, offset, length, b"");
                    let mut at = start;
                    for (extent, state) in &answer.extents {
                        let end = at + *extent as usize;
                        assert!(*state == 0 || model[at..end].iter().all(|byte| *byte == 0), "{at}..{end}");
                        at = end;
                    }
                    assert_eq!(at, start + len);
                    answer
                }
                _ => {
                    let answer = client.call(command::READ, 0, offset, length, b"");
                    assert!(answer.data == model[range], "{len} at {start} in round {round}");
                    answer
                }
            };
            assert_eq!(answer.error, 0, "{answer:?}: {len} at {start} in round {round}");
        }
        // What is discarded is whole blocks only.
        model[513..5000].fill(7);
        client.write(513, &[7; 4487]);
        assert_eq!(client.call(command::TRIM, 0, 514, 1000, b"").error, 0);
        let read = client.read(0, SIZE as u32);
        assert!(read[..1024] == model[..1024] && read[1536 - 22..] == model[1536 - 22..]);
        client.write(1, &read[1..]);
        model = read;
        assert_eq!(client.call(command::WRITE, 0, 4990, 11, &[1; 11]).error, 28, "past the end");
        client.flush();
        client.disconnect();
    }
    assert!(std::fs::read(file.path()).unwrap() == model);
}

/// What one client writes is not undone by another that writes beside it in the same block.
#[test]
fn clients_that_write_parts_of_one_block_do_not_undo_each_other() {
    let (_file, fixture) = file();
    const CLIENTS: usize = 4;
    let barrier = Barrier::new(CLIENTS + 1);
    std::thread::scope(|scope| {
        let start = |work: Work| {
            let (mut client, barrier) = (attach(&fixture.unix, "disk", false), &barrier);
            scope.spawn(move || {
                for round in 0..200u32 {
                    work(&mut client, round as u8);
                    barrier.wait();
                    barrier.wait();
                }
            });
        };
        for number in 0..CLIENTS as u64 - 1 {
            start(Box::new(move |client, round| client.write(number * 3 + 1, &[round; 3])));
        }
        // All of the block, and what is around.
        start(Box::new(|client, round| client.write(0, &[round; 1024])));
        let mut client = attach(&fixture.unix, "disk", false);
        for round in 0..200u32 {
            barrier.wait();
            assert_eq!(client.read(0, 1024), [round as u8; 1024], "round {round}");
            barrier.wait();
        }
    });
}

/// Requests of one client that are in work at once.
#[test]
fn a_client_that_does_not_wait_for_replies_gets_all_of_them() {
    let (file, fixture) = file();
    let mut client = attach(&fixture.unix, "disk", true);
    for round in 0..50u8 {
        for at in 0..20u64 {
            client.request(command::WRITE, 0, at * 100, 100);
            client.send(&[round; 100]);
            client.request(command::WRITE, 0, 4608, 392);
            client.send(&[round; 392]);
            client.request(command::WRITE_ZEROES, 0, 2048 + at, 512 + at as u32);
        }
        (0..60).for_each(|_| assert_eq!(client.answer(0).error, 0));
        assert_eq!(client.read(0, 2000), [round; 2000]);
    }
    client.disconnect();
    assert_eq!(std::fs::read(file.path()).unwrap()[4608..], [49; 392]);
}

#[test]
fn a_disk_of_this_library_reaches_the_end() {
    let (_file, fixture) = file();
    let socket = fixture.unix.strip_prefix("unix:").unwrap();
    let disk = open(&format!("nbd(nbd+unix:///disk?socket={socket})"));
    assert_eq!(disk.size(), 5000);
    disk.write_at(b"end", 4997).unwrap();
    disk.flush().unwrap();
    assert_eq!(attach(&fixture.unix, "disk", false).read(4990, 10), b"\0\0\0\0\0\0\0end");
}
