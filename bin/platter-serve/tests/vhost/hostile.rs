//! Guests and front ends that break the rules. The session ends with one line in the log, and the next guest is served.

use crate::guest::{BASE, Guest, IN, OUT, SIZE, SLOTS};
use crate::rig::Rig;
use platter_disk::device::Device;
use platter_serve::served::Served;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;
use vm_memory::Bytes;
use vm_memory::VolatileMemory;

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// A guest that has written something into queue 0; whether the session must end, with this in its log.
type Attack = (&'static str, fn(&mut Guest), &'static str);

/// Offers the chain of descriptor 100, and notifies.
fn offer(guest: &mut Guest) {
    guest.offer(0, 100);
    guest.kick_always(0);
}

/// Writes a descriptor into an indirect table at the beginning of the data.
fn indirect(guest: &mut Guest, descriptors: &[(u64, u32, u16, u16)], len: u32) {
    let at = guest.data(0, 0);
    for (index, (address, bytes, flags, next)) in descriptors.iter().enumerate() {
        let entry =
            [&address.to_le_bytes()[..], &bytes.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()];
        guest.memory.as_volatile_slice().write_slice(&entry.concat(), at + 16 * index).unwrap();
    }
    guest.describe(0, 100, BASE + at as u64, len, INDIRECT, 0);
    offer(guest);
}

const ATTACKS: &[Attack] = &[
    ("an index far ahead", |guest| guest.jump(0, SIZE + 1), "ahead in a queue of 128"),
    (
        "a head that is no descriptor",
        |guest| {
            guest.offer(0, SIZE);
            guest.kick_always(0);
        },
        "names descriptor 128 of 128",
    ),
    (
        "a chain in a circle",
        |guest| {
            guest.describe(0, 100, BASE, 16, NEXT, 101);
            guest.describe(0, 101, BASE, 16, NEXT, 100);
            offer(guest);
        },
        "longer than its table",
    ),
    (
        "a chain out of its table",
        |guest| {
            guest.describe(0, 100, BASE, 16, NEXT, 60000);
            offer(guest);
        },
        "goes on at descriptor 60000",
    ),
    (
        "no room for a status",
        |guest| {
            guest.describe(0, 100, BASE, 16, 0, 0);
            offer(guest);
        },
        "without room for its status",
    ),
    (
        "a short header",
        |guest| {
            guest.describe(0, 100, BASE, 15, NEXT, 101);
            guest.describe(0, 101, BASE, 1, WRITE, 0);
            offer(guest);
        },
        "a request of 15 bytes",
    ),
    (
        "reads after writes",
        |guest| {
            guest.describe(0, 100, BASE, 1, WRITE | NEXT, 101);
            guest.describe(0, 101, BASE, 16, 0, 0);
            offer(guest);
        },
        "memory to read after memory to write",
    ),
    (
        "memory of the server",
        |guest| {
            guest.describe(0, 100, 0x1000, 16, NEXT, 101);
            guest.describe(0, 101, BASE, 1, WRITE, 0);
            offer(guest);
        },
        "is not in the guest's memory",
    ),
    (
        "memory that wraps around",
        |guest| {
            guest.describe(0, 100, u64::MAX - 7, 16, NEXT, 101);
            guest.describe(0, 101, BASE, 1, WRITE, 0);
            offer(guest);
        },
        "is not in the guest's memory",
    ),
    (
        "memory that ends early",
        |guest| {
            guest.describe(0, 100, BASE, u32::MAX, NEXT, 101);
            guest.describe(0, 101, BASE, 1, WRITE, 0);
            offer(guest);
        },
        "is not in the guest's memory",
    ),
    ("an indirect table of no entries", |guest| indirect(guest, &[], 0), "an indirect table of 0 bytes"),
    ("an indirect table of half an entry", |guest| indirect(guest, &[], 24), "an indirect table of 24 bytes"),
    ("a huge indirect table", |guest| indirect(guest, &[], 16 << 20), "an indirect table of"),
    (
        "an indirect table in another one",
        |guest| indirect(guest, &[(BASE, 16, INDIRECT, 0)], 16),
        "an indirect table inside",
    ),
    (
        "a circle in an indirect table",
        |guest| indirect(guest, &[(BASE, 16, NEXT, 0)], 16),
        "longer than its table of 1",
    ),
];

#[test]
fn a_malformed_ring_ends_only_its_session() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    for (what, attack, why) in ATTACKS {
        let mut guest = rig.guest(2);
        assert_eq!(guest.write(0, &[9; 512]), 0, "{what}");
        attack(&mut guest);
        rig.await_event(why);
        let lines = rig.events.lock().unwrap().drain(..).filter(|line| line.contains("gone")).count();
        assert_eq!(lines, 1, "{what}");
        drop(guest);
        let mut next = rig.guest(1);
        assert_eq!(next.read(0, 512), (0, vec![9; 512]), "{what}");
        drop(next);
        rig.await_event("the peer closed");
        rig.events.lock().unwrap().clear();
    }
}

#[test]
fn a_request_may_be_cut_anywhere_and_come_indirectly() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    assert_eq!(guest.write(3, &[5; 512]), 0);
    // Descriptor 100 is the first one of slot 25.
    guest.queues[0].free.retain(|slot| *slot != 25);
    let (table, header, data) = (guest.data(0, 0), guest.data(0, 1), guest.data(0, 2));
    let bytes = [&IN.to_le_bytes()[..], &[0; 4], &3u64.to_le_bytes()].concat();
    guest.memory.as_volatile_slice().write_slice(&bytes, header).unwrap();
    let at = |offset: usize| BASE + offset as u64;
    // The header in three parts, one of them empty; the status in one part with data.
    let parts: Vec<(u64, u32, u16)> = vec![
        (at(header), 3, 0),
        (at(header), 0, 0),
        (at(header + 3), 12, 0),
        (at(header + 15), 1, 0),
        (at(data), 100, WRITE),
        (at(data + 100), 413, WRITE),
    ];
    let last = parts.len() as u16 - 1;
    let entries: Vec<(u64, u32, u16, u16)> = (0u16..)
        .zip(parts)
        .map(|(index, (address, len, flags))| (address, len, flags | u16::from(index < last), index + 1))
        .collect();
    guest.memory.as_volatile_slice().write_slice(&[0xff; 513], data).unwrap();
    indirect(&mut guest, &entries, 16 * entries.len() as u32);
    assert!(table < header);
    while guest.take(0).is_none() {
        guest.sleep(0);
    }
    let mut read = [0; 513];
    guest.memory.as_volatile_slice().read_slice(&mut read, data).unwrap();
    assert_eq!((&read[..512], read[512]), (&[5; 512][..], 0));
}

/// A front end's mistakes: each gets a line in the log that names it.
#[test]
fn impossible_messages_end_only_their_session() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let raw = |bytes: &[u8], why: &str| {
        let mut stream = UnixStream::connect(&rig.path).unwrap();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        rig.await_event(why);
        rig.events.lock().unwrap().clear();
    };
    let message = |request: u32, flags: u32, body: &[u8]| {
        [&request.to_ne_bytes()[..], &flags.to_ne_bytes(), &(body.len() as u32).to_ne_bytes(), body].concat()
    };
    raw(b"GET / HTTP/1.1\r\n\r\n", "does not speak version 1");
    raw(&message(1, 1, &[])[..5], "inside a message");
    raw(&[message(2, 1, &[0; 8]), vec![5, 0]].concat(), "inside a message");
    raw(&message(77, 1, &[]), "message 77 is not supported");
    raw(&message(2, 1, &u64::MAX.to_ne_bytes()), "were not offered");
    raw(&message(2, 1, &[0; 3]), "too short");
    raw(&message(8, 1, &[0xff; 8]), "queue 4294967295");
    raw(&message(12, 1, &0u64.to_ne_bytes()), "without its descriptor");
    raw(&message(5, 1, &[&1u32.to_ne_bytes()[..], &[0; 36]].concat()), "1 memory regions and 0 descriptors");
    raw(&message(31, 1, &[0xff; 24]), "requests in flight of 65535 queues");
    raw(&message(32, 1, &[0xff; 24]), "is missing");
    raw(&[1u32.to_ne_bytes(), 1u32.to_ne_bytes(), 5000u32.to_ne_bytes()].concat(), "a message of 5000 bytes");
    let mut guest = rig.guest(1);
    assert_eq!(guest.flush(), 0);
}

/// What a front end does, and what the log says of it.
type Mistake = (fn(&mut Guest), &'static str);

#[test]
fn impossible_queues_and_memory_are_refused() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let attacks: [Mistake; 4] = [
        (
            |guest| {
                let mut region = guest.region();
                region.memory_size += 1;
                assert!(guest.frontend().set_mem_table(&[region]).is_err());
            },
            "its file has",
        ),
        (
            |guest| {
                let region = guest.region();
                assert!(guest.frontend().add_mem_region(&region).is_err());
            },
            "overlap",
        ),
        (
            |guest| {
                let mut at = guest.addresses(0);
                at.desc_table_addr += 8;
                let _ = guest.frontend().set_vring_addr(0, &at);
            },
            "the table of a queue",
        ),
        (
            |guest| {
                let _ = guest.frontend().set_vring_num(0, 127);
            },
            "a queue of 127 entries",
        ),
    ];
    for (attack, why) in attacks {
        let mut guest = rig.guest(1);
        attack(&mut guest);
        rig.await_event(why);
        drop(guest);
    }
    let mut guest = rig.guest(1);
    assert_eq!(guest.flush(), 0);
    assert!(guest.messages.as_ref().unwrap().as_raw_fd() >= 0);
}

/// Front ends that begin and do not go on: at most one is served at a time, so each would keep the next one waiting.
#[test]
fn a_front_end_that_does_not_go_on_is_ended() {
    let mut rig = Rig::of(Device::ram(1 << 20).unwrap());
    rig.stop().unwrap();
    rig.options.handshake_timeout = Duration::from_millis(50);
    rig.serve(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap());
    let header = [1u32.to_ne_bytes(), 1u32.to_ne_bytes(), 8u32.to_ne_bytes()].concat();
    for (sent, why) in [
        (&[][..], "it sent nothing"),
        (&header[..5], "has begun and does not end"),
        (&header, "has begun and does not end"),
    ] {
        let mut stream = UnixStream::connect(&rig.path).unwrap();
        stream.write_all(sent).unwrap();
        rig.await_event(why);
        rig.events.lock().unwrap().clear();
        // The peer sees the end, and the next one is served.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
    let mut guest = rig.guest(1);
    assert_eq!(guest.write(0, &[3; 512]), 0);
    assert_eq!(guest.flush(), 0);
}

/// One that is silent does not keep the server from its end, and an operator can end it.
#[test]
fn a_silent_front_end_keeps_nobody() {
    let mut rig = Rig::of(Device::ram(1 << 20).unwrap());
    let silent = UnixStream::connect(&rig.path).unwrap();
    rig.await_event("client 1 ");
    rig.server().clients().list()[0].disconnect();
    rig.await_event("is gone");
    drop(silent);
    let mut silent = UnixStream::connect(&rig.path).unwrap();
    silent.write_all(&[1, 0, 0]).unwrap();
    rig.await_event("client 2 ");
    rig.stop().unwrap();
}

/// A flood of connections waits in the queue of the socket; each is a client when its turn comes.
#[test]
fn a_flood_of_front_ends_ends_and_the_guest_goes_on() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    let mut guest = rig.guest(1);
    let flood: Vec<UnixStream> = (0..50).map(|_| UnixStream::connect(&rig.path).unwrap()).collect();
    for round in 0..20u8 {
        assert_eq!(guest.write(0, &[round; 512]), 0);
        assert_eq!(guest.read(0, 512), (0, vec![round; 512]));
        assert_eq!(rig.server().clients().list().len(), 1);
    }
    drop(flood);
    drop(guest);
    let mut next = rig.guest(1);
    assert_eq!(next.read(0, 512), (0, vec![19; 512]));
}

#[test]
fn a_guest_that_vanishes_with_requests_in_work_leaves_nothing_behind() {
    let rig = Rig::of(Device::ram(1 << 20).unwrap());
    for round in 0..20u8 {
        let mut guest = rig.guest(2);
        for slot in 0..SLOTS {
            guest.submit(usize::from(slot % 2), OUT, u64::from(slot) * 8, &[round; 4096], 4096, 100);
        }
        guest.kick_always(0);
        guest.kick_always(1);
    }
    let mut next = rig.guest(1);
    assert_eq!(rig.server().clients().list().len(), 1);
    // Each sector is as one of the writes has left it, or as it was.
    for slot in 0..SLOTS {
        let (status, data) = next.read(u64::from(slot) * 8, 4096);
        assert!(status == 0 && data.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    }
}
