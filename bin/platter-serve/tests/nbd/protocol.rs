//! Requests and replies, byte by byte.

use crate::client::{Client, attach, connect, contexts};
use crate::{open, serve, serve_with};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{
    BASE_ALLOCATION, OptionHeader, Request, allocation, command, command_flag, error, option, option_reply,
    transmission_flag,
};
use platter_serve::export::Options;
use platter_serve::served::Served;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) | 1).collect()
}

#[test]
fn every_command_works_over_both_kinds_of_sockets_and_replies() {
    let fixture = serve(Device::ram(4 << 20).unwrap());
    for (address, structured) in
        [(&fixture.unix, false), (&fixture.unix, true), (&fixture.tcp, false), (&fixture.tcp, true)]
    {
        let mut client = attach(address, "disk", structured);
        assert_eq!(client.size, 4 << 20);
        assert_ne!(client.flags & transmission_flag::CAN_MULTI_CONN, 0);
        let data = pattern(10 << 10, structured.into());
        client.write(512, &data);
        assert_eq!(client.read(512, 10 << 10), data);
        assert_eq!(client.read(0, 1024), [vec![0; 512], data[..512].to_vec()].concat());
        let fua = command_flag::FUA;
        assert_eq!(client.call(command::WRITE, fua, 0, 512, &pattern(512, 9)).error, 0);
        assert_eq!(client.call(command::WRITE_ZEROES, fua, 512, 4096, b"").error, 0);
        assert_eq!(client.read(512, 4096), vec![0; 4096]);
        assert_eq!(client.call(command::WRITE_ZEROES, command_flag::NO_HOLE, 4096, 1 << 20, b"").error, 0);
        assert_eq!(client.read(4096, 10 << 10), vec![0; 10 << 10]);
        assert_eq!(client.call(command::TRIM, 0, 0, 4096, b"").error, 0);
        assert_eq!(client.call(command::CACHE, 0, 0, 4096, b"").error, error::EINVAL, "it is not offered");
        client.flush();
        for kind in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(client.call(kind, 0, 512, 0, b"").error, 0, "no bytes: {kind}");
        }
        client.disconnect();
    }
}

/// Changes without data that end at the last byte, behind it, and where no number reaches.
#[test]
fn changes_without_data_end_at_the_last_byte() {
    const SIZE: u64 = 1 << 20;
    let fixture = serve(Device::ram(SIZE).unwrap());
    for structured in [false, true] {
        let mut client = attach(&fixture.unix, "disk", structured);
        for kind in [command::TRIM, command::WRITE_ZEROES] {
            client.write(SIZE - 1024, &[7; 1024]);
            for (offset, length) in [
                (SIZE - 512, 513),
                (SIZE - 512, 1024),
                (SIZE, 512),
                (u64::MAX - 511, 512),
                (u64::MAX - 511, 1024),
            ] {
                let number = client.call(kind, 0, offset, length, b"").error;
                assert!([error::EINVAL, error::ENOSPC].contains(&number), "{kind} at {offset}: {number}");
            }
            assert_eq!(client.read(SIZE - 1024, 1024), [7; 1024], "{kind}: what was refused left a trace");
            assert_eq!(client.call(kind, 0, SIZE - 512, 512, b"").error, 0);
            assert_eq!(client.read(SIZE - 1024, 1024), [[7; 512], [0; 512]].concat(), "{kind}");
        }
        client.disconnect();
    }
}

#[test]
fn errors_do_not_end_the_connection_and_a_refused_payload_is_dropped() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    for structured in [false, true] {
        let mut client = attach(&fixture.unix, "disk", structured);
        let past = client.call(command::WRITE, 0, (1 << 20) - 512, 300 << 10, &pattern(300 << 10, 1));
        assert_eq!(past.error, error::ENOSPC);
        assert_eq!(past.message.is_empty(), !structured);
        assert_eq!(client.call(command::READ, 0, 1 << 20, 512, b"").error, error::EINVAL);
        assert_eq!(client.call(command::WRITE, 0, 7, 512, &[1; 512]).error, error::EINVAL);
        assert_eq!(client.call(99, 0, 0, 512, b"").error, error::EINVAL);
        assert_eq!(client.call(command::READ, 0x80, 0, 512, b"").error, error::EINVAL);
        let large = (32 << 20) + 512;
        assert_eq!(client.call(command::WRITE, 0, 0, large, &vec![1; large as usize]).error, error::ENOSPC);
        assert_eq!(client.read((1 << 20) - 512, 512), vec![0; 512]);
        client.disconnect();
    }
}

/// A client that reads replies only after it has sent a request, and compares their cookies, would be lost.
#[test]
fn a_refused_write_is_answered_behind_its_payload() {
    const LARGE: usize = 1 << 20;
    let fixture = serve(Device::ram(1 << 20).unwrap());
    for structured in [false, true] {
        let mut client = attach(&fixture.unix, "disk", structured);
        client.write(0, &pattern(64 << 10, 1));
        let cookie = client.request(command::WRITE, 0, (1 << 20) - 512, LARGE as u32);
        let data = pattern(LARGE, 2);
        for piece in data[..LARGE - 1].chunks(100 << 10) {
            client.send(piece);
            attach(&fixture.unix, "disk", false).disconnect();
            let errors =
                |client: &Arc<platter_serve::clients::Client>| client.counts.errors.load(Ordering::Relaxed);
            assert_eq!(fixture.server().clients().list().iter().map(errors).max(), Some(0));
        }
        client.send(&data[LARGE - 1..]);
        let answer = client.answer(0);
        assert_eq!((answer.cookie, answer.error), (cookie, error::ENOSPC));
        assert_eq!(client.read(0, 64 << 10), pattern(64 << 10, 1));
        // It ends in the middle of a payload that is refused.
        client.request(command::WRITE, 0, 7, 512);
        client.send(&[1; 100]);
        client.stream.half_close();
        assert!(client.is_closed());
    }
}

#[test]
fn payloads_of_all_sizes_arrive_in_any_pieces() {
    let fixture = serve(Device::ram(64 << 20).unwrap());
    let mut client = attach(&fixture.tcp, "disk", true);
    for size in [512, 4096, 32 << 10, 100 << 10, 128 << 10, 1 << 20, 32 << 20] {
        let data = pattern(size, 3);
        client.write(1 << 20, &data);
        assert!(client.read(1 << 20, size as u32) == data, "{size}");
    }
    // A header in two pieces, and a payload in three.
    let request =
        Request { kind: command::WRITE, cookie: 7, offset: 0, length: 100 << 10, ..Request::default() }
            .to_bytes();
    let data = pattern(100 << 10, 4);
    for piece in [&request[..13], &request[13..], &data[..1], &data[1..50_000], &data[50_000..]] {
        client.send(piece);
        // The reply to another request says that the piece before it has been received.
        attach(&fixture.unix, "disk", false).disconnect();
    }
    assert_eq!(client.answer(0).cookie, 7);
    assert_eq!(client.read(0, 100 << 10), data);
}

#[test]
fn more_requests_than_the_depth_are_all_answered_once() {
    let mut options = Options::default();
    options.depth = 4;
    for spec in ["ram(1M)", "sim(nvme_ssd)"] {
        let fixture = serve_with(vec![("disk", open(spec))], 100, &options);
        let mut client = attach(&fixture.unix, "disk", false);
        for at in 0..64u64 {
            client.write(at * 4096, &[at as u8 + 1; 4096]);
        }
        let mut batch = Vec::new();
        for cookie in 0..640u64 {
            let offset = cookie % 64 * 4096;
            batch.extend(Request { cookie, offset, length: 4096, ..Request::default() }.to_bytes());
        }
        client.send(&batch);
        let mut answered = vec![false; 640];
        for _ in 0..640 {
            let answer = client.answer(4096);
            assert_eq!(answer.error, 0);
            assert_eq!(answer.data, [(answer.cookie % 64) as u8 + 1; 4096]);
            assert!(!std::mem::replace(&mut answered[answer.cookie as usize], true), "answered twice");
        }
    }
}

#[test]
fn a_disconnect_comes_after_the_answers_to_all_requests_before_it() {
    let fixture = serve(open("sim(nvme_ssd)"));
    let mut client = attach(&fixture.unix, "disk", false);
    for _ in 0..50 {
        client.request(command::READ, 0, 0, 65536);
    }
    client.request(command::DISC, 0, 0, 0);
    client.request(command::READ, 0, 0, 65536);
    for _ in 0..50 {
        assert_eq!(client.answer(65536).data.len(), 65536);
    }
    assert!(client.is_closed(), "what follows a disconnect is not answered");
}

fn extents(client: &mut Client, flags: u16, offset: u64, length: u32) -> Vec<(u32, u32)> {
    let answer = client.call(command::BLOCK_STATUS, flags, offset, length, b"");
    assert_eq!(answer.error, 0, "{answer:?}");
    answer.extents
}

#[test]
fn the_allocation_status_follows_writes_and_zeroes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::File::create(&path).unwrap().set_len(16 << 20).unwrap();
    let fixture = serve(open(path.to_str().unwrap()));
    let mut client = attach(&fixture.unix, "disk", true);
    let hole = allocation::HOLE | allocation::ZERO;
    assert_eq!(extents(&mut client, 0, 0, 16 << 20), [(16 << 20, hole)]);
    client.write(1 << 20, &pattern(1 << 20, 1));
    client.write(8 << 20, &pattern(1 << 20, 1));
    let all = extents(&mut client, 0, 0, 16 << 20);
    assert_eq!(all, [(1 << 20, hole), (1 << 20, 0), (6 << 20, hole), (1 << 20, 0), (7 << 20, hole)]);
    assert_eq!(extents(&mut client, command_flag::REQ_ONE, 512 << 10, 4 << 20), [(512 << 10, hole)]);
    assert_eq!(extents(&mut client, command_flag::REQ_ONE, 1 << 20, 4096), [(4096, 0)]);
    client.call(command::WRITE_ZEROES, 0, 1 << 20, 1 << 20, b"");
    assert_eq!(extents(&mut client, 0, 0, 4 << 20), [(4 << 20, hole)]);
    client.call(command::WRITE_ZEROES, command_flag::NO_HOLE, 1 << 20, 1 << 20, b"");
    assert_eq!(extents(&mut client, 0, 1 << 20, 1 << 20), [(1 << 20, 0)], "zeroes that keep their space");
    assert_eq!(client.read(1 << 20, 4096), [0; 4096]);
    assert_eq!(client.call(command::BLOCK_STATUS, 0, 16 << 20, 512, b"").error, error::EINVAL);
    let mut plain = attach(&fixture.unix, "disk", false);
    assert_eq!(
        plain.call(command::BLOCK_STATUS, 0, 0, 512, b"").error,
        error::EINVAL,
        "no context was chosen"
    );
}

#[test]
fn holes_are_sent_as_holes_only_if_that_is_asked_for() {
    let mut options = Options::default();
    for sparse in [false, true] {
        options.sparse_reads = sparse;
        let fixture = serve_with(vec![("disk", Device::ram(4 << 20).unwrap())], 9, &options);
        let mut client = attach(&fixture.unix, "disk", true);
        client.write(2 << 20, &pattern(4096, 1));
        let mut read = |flags, offset| client.call(command::READ, flags, offset, 256 << 10, b"");
        assert_eq!(read(0, 1 << 20).hole, sparse);
        assert_eq!(read(0, 1 << 20).data, vec![0; 256 << 10]);
        assert!(!read(command_flag::DF, 1 << 20).hole, "not to be split");
        assert!(!read(0, (2 << 20) - 4096).hole, "partly data");
        assert_eq!(read(0, 2 << 20).data[..4096], pattern(4096, 1));
    }
}

#[test]
fn exports_are_chosen_by_name_and_keep_apart() {
    let devices = vec![("a", Device::ram(1 << 20).unwrap()), ("b", Device::ram(2 << 20).unwrap())];
    let fixture = serve_with(devices, 10, &Options::default());
    fixture.server().devices().add(Served::new("r", open("ram(1M)")).unwrap().read_only()).unwrap();
    let (mut a, mut b) = (attach(&fixture.unix, "a", true), attach(&fixture.unix, "b", true));
    let mut default = attach(&fixture.unix, "", true);
    a.write(0, &[1; 512]);
    b.write(0, &[2; 512]);
    assert_eq!((default.size, default.read(0, 512)), (1 << 20, vec![1; 512]));
    assert_eq!((b.size, b.read(0, 512)), (2 << 20, vec![2; 512]));
    let mut read_only = attach(&fixture.unix, "r", true);
    assert_ne!(read_only.flags & transmission_flag::READ_ONLY, 0);
    assert_eq!(read_only.call(command::WRITE, 0, 0, 512, &[1; 512]).error, error::EPERM);
    assert_eq!(read_only.read(0, 512), [0; 512]);
    read_only.flush();
    let mut other = connect(&fixture.unix);
    other.greet();
    assert_eq!(other.option(option::GO, b"\0\0\0\x01c\0\0")[0].0, option_reply::ERR_UNKNOWN);
    assert_eq!(other.option(option::LIST, b"").len(), 4);
    other.option(option::STRUCTURED_REPLY, b"");
    let set = other.option(option::SET_META_CONTEXT, &contexts("c", &[BASE_ALLOCATION]));
    assert_eq!(set[0].0, option_reply::ERR_UNKNOWN);
    other.send(&OptionHeader { option: option::ABORT, length: 0 }.to_bytes());
    assert_eq!(other.receive(20)[12..16], option_reply::ACK.to_be_bytes());
    assert!(other.is_closed());
    let names: Vec<String> = fixture.server().clients().list().iter().map(|c| c.device.clone()).collect();
    assert_eq!(names, ["a", "b", "a", "r"]);
}

#[test]
fn a_new_connection_sees_a_new_size_and_an_old_one_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 20).unwrap();
    let device = open(path.to_str().unwrap());
    let fixture = serve(device.clone());
    let mut old = attach(&fixture.unix, "disk", false);
    file.set_len(2 << 20).unwrap();
    device.refresh().unwrap();
    let mut new = attach(&fixture.unix, "disk", false);
    assert_eq!((old.size, new.size), (1 << 20, 2 << 20));
    new.write((2 << 20) - 512, &[5; 512]);
    assert_eq!(old.call(command::READ, 0, 1 << 20, 512, b"").error, error::EINVAL);
    file.set_len(1 << 20).unwrap();
    device.refresh().unwrap();
    assert_ne!(new.call(command::READ, 0, (2 << 20) - 512, 512, b"").error, 0, "cut off");
    assert_eq!(old.read(0, 512), [0; 512]);
}

#[test]
fn what_one_client_has_done_is_counted() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut client = attach(&fixture.unix, "disk", true);
    client.write(0, &[1; 4096]);
    client.read(0, 8192);
    client.flush();
    client.call(command::TRIM, 0, 0, 4096, b"");
    client.call(command::READ, 0, 1 << 30, 4096, b"");
    let all = fixture.server().clients().list();
    let counts = &all[0].counts;
    let get = |count: &std::sync::atomic::AtomicU64| count.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((get(&counts.writes), get(&counts.written_bytes)), (1, 4096));
    assert_eq!((get(&counts.reads), get(&counts.read_bytes)), (1, 8192));
    assert_eq!((get(&counts.flushes), get(&counts.discards), get(&counts.errors)), (1, 1, 1));
    all[0].disconnect();
    assert!(client.is_closed());
    fixture.events.await_text("is gone");
}
