//! Clients of an arbiter on a simulated device, in virtual time.

use platter::registry::{self, Access};
use platter_block::bio::Bio;
use platter_block::lane::Bell;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_serve::qos::{Admit, Arbiter, ClientLimits, DeviceLimits, Share};
use platter_sim::World;
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) struct Silent;

impl Bell for Silent {
    /// All clients ask in every round.
    fn ring(&self) {}
}

/// A client that keeps `depth` reads of `bytes` in the device, as an export does for a connection.
pub(crate) struct Client {
    pub(crate) share: Share,
    channel: Channel,
    depth: usize,
    bytes: usize,
    at: u64,
    next_token: u64,
    arrived: HashMap<u64, Time>,
    /// Of the request that waits for admission.
    asked: Option<Time>,
    ask_again: Option<Time>,
    pub(crate) latencies: Vec<u64>,
    done_bytes: u64,
}

impl Client {
    pub(crate) fn new(
        arbiter: &Arc<Arbiter>,
        id: u64,
        device: &Device,
        depth: usize,
        bytes: usize,
    ) -> Client {
        Client {
            share: arbiter.join(id, Arc::new(Silent)),
            channel: device.channel(depth).unwrap(),
            depth,
            bytes,
            at: id * 37,
            next_token: 0,
            arrived: HashMap::new(),
            asked: None,
            ask_again: None,
            latencies: Vec::new(),
            done_bytes: 0,
        }
    }

    /// Submits what may start, and collects what has completed. Returns whether anything happened.
    fn turn(&mut self, now: Time, size: u64) -> bool {
        let mut done = Vec::new();
        let mut moved = false;
        self.ask_again = None;
        while self.channel.outstanding() < self.depth {
            let asked = *self.asked.get_or_insert(now);
            match self.share.admit(now, self.bytes as u64) {
                Admit::Now => {
                    self.at = self.at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let pos = (self.at >> 20) % (size / self.bytes as u64) * self.bytes as u64;
                    let mut bio = Bio::read(pos, vec![0u8; self.bytes]).unwrap();
                    bio.set_token(self.next_token);
                    self.arrived.insert(self.next_token, asked);
                    self.next_token += 1;
                    self.asked = None;
                    self.channel.submit(bio).unwrap();
                    moved = true;
                }
                Admit::At(at) => {
                    self.ask_again = Some(at);
                    break;
                }
                Admit::OnBell => break,
            }
        }
        self.channel.poll_at(now, &mut done);
        for bio in done {
            assert!(bio.status().is_ok());
            self.share.complete(now);
            let arrived = self.arrived.remove(&bio.token()).unwrap();
            self.latencies.push(now.since(arrived).0);
            self.done_bytes += self.bytes as u64;
            moved = true;
        }
        moved
    }
}

pub(crate) fn open(world: &Arc<World>, spec: &str) -> Device {
    registry::open_in(world, &registry::parse(spec).unwrap(), Access::read_write()).unwrap()
}

/// Runs the clients for a virtual time; `change` is called once, in the middle.
pub(crate) fn run(
    world: &Arc<World>,
    device: &Device,
    clients: &mut [Client],
    span: Span,
    change: impl FnOnce(&mut [Client]),
) {
    let end = world.clock().now() + span;
    let middle = world.clock().now() + Span(span.0 / 2);
    let mut change = Some(change);
    while world.clock().now() < end {
        let now = world.clock().now();
        if now >= middle
            && let Some(change) = change.take()
        {
            change(clients);
        }
        let mut moved = false;
        for client in &mut *clients {
            moved |= client.turn(now, device.size());
        }
        if moved {
            continue;
        }
        clients.iter_mut().for_each(|client| client.channel.unplug());
        let wakes = clients.iter().flat_map(|client| [client.channel.next_wakeup(), client.ask_again]);
        let next = wakes.flatten().chain(world.next_event()).filter(|at| *at > now).min();
        world.clock().advance_to(next.expect("a client waits for nothing").min(end));
    }
}

fn weight(weight: u32) -> Option<ClientLimits> {
    Some(ClientLimits { weight, ..ClientLimits::default() })
}

pub(crate) fn share_of_first(device_limits: DeviceLimits, depths: [usize; 2], sizes: [usize; 2]) -> f64 {
    let world = World::by_hand(1);
    let device = open(&world, "limit(bw=100M, sim(nvme_ssd))");
    let arbiter = Arbiter::new();
    arbiter.set_device(device_limits).unwrap();
    let mut clients = [
        Client::new(&arbiter, 1, &device, depths[0], sizes[0]),
        Client::new(&arbiter, 2, &device, depths[1], sizes[1]),
    ];
    arbiter.set_client(1, weight(1)).unwrap();
    arbiter.set_client(2, weight(3)).unwrap();
    run(&world, &device, &mut clients, Span::from_secs(2), |_| {});
    clients[1].done_bytes as f64 / clients[0].done_bytes as f64
}
