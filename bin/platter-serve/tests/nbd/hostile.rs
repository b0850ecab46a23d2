//! Clients that break the protocol, stop in the middle or take no replies. Each is bounded, the server lives on, and
//! another client goes on meanwhile.

use crate::client::{Client, attach, connect};
use crate::{Fixture, open, serve, serve_with};
use platter_disk::device::Device;
use platter_remote::nbd::wire::{Request, command, option};
use platter_serve::export::Options;
use platter_serve::server::Server;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A client that is there all the time, and must not notice anything.
struct Bystander(Client, u8);

impl Bystander {
    fn new(fixture: &Fixture) -> Bystander {
        Bystander(attach(&fixture.unix, "disk", true), 1)
    }

    fn is_undisturbed(&mut self) {
        self.1 = self.1.wrapping_add(1).max(1);
        self.0.write(0, &[self.1; 4096]);
        self.0.flush();
        assert_eq!(self.0.read(0, 4096), [self.1; 4096]);
    }
}

#[test]
fn nonsense_in_the_handshake_ends_only_that_connection() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut bystander = Bystander::new(&fixture);
    let option =
        |number: u32, length: u32| [&b"IHAVEOPT"[..], &number.to_be_bytes(), &length.to_be_bytes()].concat();
    for (bytes, why) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "unknown client flags"),
        ([&[0, 0, 0, 3][..], &[0xff; 64]].concat(), "magic number of an option"),
        ([&[0, 0, 0, 3][..], &option(option::EXPORT_NAME, u32::MAX)].concat(), "too long"),
        ([&[0, 0, 0, 3][..], &option(99, 0).repeat(2000)].concat(), "too many options"),
    ] {
        let mut client = connect(&fixture.tcp);
        client.receive(18);
        client.send(&bytes);
        fixture.events.await_text(why);
        bystander.is_undisturbed();
    }
    // An option of four gigabytes is dropped as it comes, and the next one is answered.
    let mut client = connect(&fixture.tcp);
    client.receive(18);
    client.send(&[&[0, 0, 0, 3][..], &option(option::LIST, 1 << 20)].concat());
    client.send(&vec![0; 1 << 20]);
    assert_eq!(client.receive(20)[12..16], 0x8000_0009u32.to_be_bytes());
    bystander.is_undisturbed();
}

#[test]
fn a_handshake_that_never_ends_is_ended() {
    let mut options = Options::default();
    options.handshake_timeout = Duration::from_millis(50);
    let fixture = serve_with(vec![("disk", Device::ram(1 << 20).unwrap())], 10, &options);
    for sent in [&b""[..], &[0, 0], &[0, 0, 0, 3], b"\0\0\0\x03IHAVEOPT"] {
        let mut client = connect(&fixture.tcp);
        client.receive(18);
        client.send(sent);
        assert!(client.is_closed());
    }
    fixture.events.await_text("took too long");
}

#[test]
fn a_client_that_takes_no_replies_stops_itself_and_nobody_else() {
    let mut options = Options::default();
    options.depth = 16;
    options.client_memory_bytes = 32 << 20;
    for spec in ["ram(64M)", "sim(nvme_ssd)"] {
        let fixture = serve_with(vec![("disk", open(spec))], 10, &options);
        let mut bystander = Bystander::new(&fixture);
        let mut slow = attach(&fixture.tcp, "disk", false);
        for at in 0..500u64 {
            slow.request(command::READ, 0, (at % 16) << 20, 1 << 20);
        }
        fixture.events.await_text("client 2 ");
        let other = || fixture.server().clients().list().into_iter().find(|client| client.id == 2).unwrap();
        for _ in 0..100 {
            bystander.is_undisturbed();
            assert!(other().counts.in_flight.load(Ordering::Relaxed) <= 16);
        }
        for _ in 0..500 {
            assert_eq!(slow.answer(1 << 20).data.len(), 1 << 20);
        }
    }
}

#[test]
fn a_write_whose_payload_does_not_arrive_is_not_carried_out() {
    let fixture = serve(Device::ram(4 << 20).unwrap());
    let mut bystander = Bystander::new(&fixture);
    for sent in [0, 1, 4096, (1 << 20) - 1] {
        let mut client = attach(&fixture.tcp, "disk", false);
        client.request(command::WRITE, 0, 1 << 20, 1 << 20);
        client.send(&vec![0xee; sent]);
        if sent == 4096 {
            // The peer closes its side and waits for what is left.
            client.stream.half_close();
            assert!(client.is_closed());
        }
        drop(client);
        bystander.is_undisturbed();
    }
    fixture.events.await_text("client 5");
    while fixture.server().clients().list().len() > 1 {
        std::thread::yield_now();
    }
    assert_eq!(bystander.0.read(1 << 20, 1 << 20), vec![0; 1 << 20]);
}

#[test]
fn a_stream_out_of_step_is_cut_after_what_was_valid() {
    let fixture = serve(Device::ram(1 << 20).unwrap());
    let mut bystander = Bystander::new(&fixture);
    let mut client = attach(&fixture.tcp, "disk", true);
    client.request(command::READ, 0, 0, 4096);
    client.send(&[0x55; 28]);
    assert_eq!(client.answer(4096).data.len(), 4096);
    assert!(client.is_closed());
    fixture.events.await_text("magic number of a request");
    bystander.is_undisturbed();
}

#[test]
fn huge_lengths_take_no_memory() {
    let fixture = serve(open("null(1T)"));
    let mut client = attach(&fixture.unix, "disk", true);
    for kind in
        [command::READ, command::TRIM, command::WRITE_ZEROES, command::BLOCK_STATUS, command::CACHE, 99]
    {
        for offset in [0, u64::MAX - 511, 1 << 39] {
            for length in [u32::MAX, u32::MAX - 511, 1 << 31] {
                client.request(kind, 0, offset, length);
                assert!(client.answer(0).data.is_empty());
            }
        }
    }
    client.flush();
}

#[test]
fn more_connections_than_allowed_are_refused_and_places_come_free() {
    let options = Options::default();
    let fixture = serve_with(vec![("disk", Device::ram(1 << 20).unwrap())], 3, &options);
    let mut bystander = Bystander::new(&fixture);
    let first = attach(&fixture.unix, "disk", false);
    let second = attach(&fixture.tcp, "disk", false);
    let mut third = connect(&fixture.tcp);
    third.greet();
    third.send(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    assert!(third.is_closed());
    fixture.events.await_text("as many as allowed");
    bystander.is_undisturbed();
    // Connections that say nothing are bounded too: 3 clients and 64 handshakes for each listener.
    let silent: Vec<Client> = (0..80).map(|_| connect(&fixture.tcp)).collect();
    fixture.events.await_text("connections already");
    bystander.is_undisturbed();
    drop((first, second, silent));
    while fixture.server().clients().list().len() > 1 {
        std::thread::yield_now();
    }
    attach(&fixture.unix, "disk", false).disconnect();
}

#[test]
fn a_connection_that_vanishes_with_requests_in_work_leaves_nothing_behind() {
    let fixture = serve(open("sim(nvme_ssd)"));
    let mut bystander = Bystander::new(&fixture);
    for _ in 0..20 {
        let mut client = attach(&fixture.unix, "disk", false);
        let read = Request { length: 1 << 20, ..Request::default() }.to_bytes();
        client.send(&read.repeat(100));
        drop(client);
    }
    bystander.is_undisturbed();
    while fixture.server().clients().list().len() > 1 {
        std::thread::yield_now();
    }
    bystander.is_undisturbed();
}

/// One that asks for much and reads nothing takes what there is for all; the other goes on, with one request at a time.
#[test]
fn memory_of_all_clients_is_bounded_and_no_client_starves() {
    const ALL: usize = 8 << 20;
    const ONE: u32 = 1 << 20;
    let disk = vec![("disk", Device::ram(1 << 20).unwrap())];
    let fixture = crate::serve_from(Server::with_memory(2, ALL), disk, &Options::default());
    let used = || fixture.server().clients().memory_bytes();
    let mut greedy = attach(&fixture.unix, "disk", false);
    for _ in 0..64 {
        greedy.request(command::READ, 0, 0, ONE);
    }
    while used() < ALL {
        std::thread::yield_now();
    }
    let mut other = attach(&fixture.unix, "disk", false);
    for _ in 0..16 {
        assert_eq!(other.read(0, ONE).len(), ONE as usize);
        assert!(used() <= ALL + ONE as usize, "{}", used());
    }
    for _ in 0..64 {
        assert_eq!(greedy.answer(ONE).data.len(), ONE as usize);
    }
}
