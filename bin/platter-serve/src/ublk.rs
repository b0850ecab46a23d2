//! A device as a block device of the kernel, `/dev/ublkbN`, by the driver ublk.
//!
//! Each queue of the block device has a thread with a ring and a channel of its own. The block device outlives its
//! server: if that dies, I/O waits until the next one takes the block device over, and what was not answered is carried
//! out then.

mod abi;
mod address;
mod attach;
mod control_ring;
mod manager;
mod params;
mod port;
mod queue_ring;
mod shared;
mod worker;

use crate::clients::{Clients, Connected};
use crate::error::ServeError;
use crate::events::{Event, Log};
use crate::export::{Export, ExportType, Start};
use crate::served::{Devices, Served};
use abi::{DeviceInfo, feature};
use address::Address;
use attach::{Attached, Command, Control, Surroundings, Wanted};
use control_ring::ControlRing;
use manager::{Job, Manager, Resizes, path};
use platter_block::event::Watcher;
use platter_wait::EventFd;
use queue_ring::QueueRing;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use shared::Shared;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use worker::{KIND, Worker};

/// The row of the table.
pub const TYPE: ExportType =
    ExportType { name: KIND, summary: "a block device of the kernel", address: address::FORM, start };

/// Most queues, unless told otherwise.
const MAX_QUEUES: usize = 4;

/// Least memory of a queue, in bytes: for one request.
const LEAST_MEMORY: usize = params::MAX_TRANSFER as usize;

/// How long the kernel may take to notice that the server before is dead.
const BURIAL: Duration = Duration::from_secs(30);

/// Time that the removal has after the deadline of its users.
const REMOVAL: Duration = Duration::from_secs(5);

/// How long to wait until the same is asked again.
const RETRY: Duration = Duration::from_millis(20);

struct UblkExport {
    id: u32,
    jobs: Sender<Job>,
    manager: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// The device holds it weakly.
    _resizes: Arc<dyn Watcher>,
    clients: Arc<Clients>,
}

/// The processes and the time of this system.
struct System {
    until: Instant,
}

impl Surroundings for System {
    fn is_alive(&self, pid: i32) -> bool {
        // A process that was killed and not reaped counts as dead; its name may contain anything but is in brackets.
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        let state = status.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        !matches!(state, Some('Z' | 'X'))
    }

    fn pause(&mut self) -> bool {
        thread::sleep(RETRY);
        Instant::now() < self.until
    }
}

fn start(start: &Start<'_>) -> Result<Box<dyn Export>, ServeError> {
    let address = address::parse(start.address)?;
    if start.options.client_memory_bytes < LEAST_MEMORY {
        let (given, least) = (start.options.client_memory_bytes, LEAST_MEMORY);
        return Err(ServeError::usage(format!("{given} bytes of memory for requests: at least {least}")));
    }
    let served = find(&start.devices, &address)?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let wanted = Wanted {
        id: address.id,
        recover: address.recover,
        buffers: address.buffers,
        queues: address.queues.unwrap_or(processors.min(MAX_QUEUES) as u16),
        depth: start.options.depth.min(4096) as u16,
        identity: attach::identity(served.about()),
        params: params::of(&served)?,
    };
    let mut control = ControlRing::open()?;
    let around = &mut System { until: Instant::now() + BURIAL };
    let attached = attach::attach(&mut control, &wanted, around)?;
    let first_flush = if attached.recovered { served.survivor() } else { served.acquainted() };
    let log = Arc::clone(&start.log);
    let shared = Shared::new(served, start.options.client_memory_bytes, log, first_flush);
    let (jobs, received) = channel();
    let begin = Begin {
        attached: &attached,
        shared: &shared,
        devices: &start.devices,
        clients: &start.clients,
        jobs: &jobs,
    };
    let manager = begin.run(&mut control, address.keep)?;
    let id = attached.info.id;
    let builder = thread::Builder::new().name("ublk-manager".to_owned());
    let manager = builder.spawn(move || manager.run(&received));
    let manager = Some(manager.map_err(no_thread)?);
    let resizes: Arc<dyn Watcher> = Arc::new(Resizes(jobs.clone()));
    shared.served.device().watch(Arc::downgrade(&resizes));
    if attached.has_grown {
        // The manager receives it before anything else.
        let _ = jobs.send(Job::Resized);
    }
    let clients = Arc::clone(&start.clients);
    Ok(Box::new(UblkExport { id, jobs, manager, shared, _resizes: resizes, clients }))
}

fn no_thread(error: std::io::Error) -> ServeError {
    ServeError::system(format!("no thread can be started: {error}"))
}

/// The device that the address names.
fn find(devices: &Devices, address: &Address) -> Result<Arc<Served>, ServeError> {
    let list = devices.list();
    let names = || list.iter().map(|served| format!("{:?}", served.name())).collect::<Vec<_>>().join(", ");
    match &address.device {
        Some(name) => list.iter().find(|served| served.name() == name).cloned().ok_or_else(|| {
            ServeError::usage(format!("there is no device {name:?} for ublk; there are {}", names()))
        }),
        None if list.len() == 1 => Ok(Arc::clone(&list[0])),
        None => Err(ServeError::usage(format!(
            "a ublk export serves one device: add device=NAME to its address; there are {}",
            names()
        ))),
    }
}

/// What a block device begins with.
struct Begin<'a> {
    attached: &'a Attached,
    shared: &'a Arc<Shared>,
    devices: &'a Arc<Devices>,
    clients: &'a Arc<Clients>,
    jobs: &'a Sender<Job>,
}

impl Begin<'_> {
    /// Starts the threads, and has the kernel show the block device or go on with it.
    fn run(&self, control: &mut dyn Control, keep: bool) -> Result<Manager, ServeError> {
        let info = &self.attached.info;
        let mut workers = Vec::new();
        let started = open(info.id).and_then(|device| {
            let device = Arc::new(device);
            self.start_workers(&device, &mut workers)?;
            let command = if self.attached.recovered { Command::EndRecovery } else { Command::Start };
            let shown = control.command(command, info.id, u64::from(std::process::id()));
            shown.map(|()| device).map_err(|error| {
                ServeError::system(format!("the kernel does not start {}: {error}", path(info.id)))
            })
        });
        match started {
            Ok(device) => {
                let (id, flags, shared) = (info.id, info.flags, Arc::clone(self.shared));
                Ok(Manager { id, flags, keep, device: Some(device), workers, shared })
            }
            Err(error) => {
                self.shared.hand_on();
                workers.into_iter().for_each(|worker| drop(worker.join()));
                if !self.attached.recovered {
                    // It was never shown.
                    let _ = control.command(Command::Delete, info.id, 0);
                }
                Err(error)
            }
        }
    }

    fn start_workers(
        &self,
        device: &Arc<OwnedFd>,
        workers: &mut Vec<JoinHandle<()>>,
    ) -> Result<(), ServeError> {
        let info = &self.attached.info;
        let (ready, readies) = channel();
        for queue in 0..info.queues {
            let recovered = if self.attached.recovered { ", taken over" } else { "" };
            let queue = Queue {
                device: Arc::clone(device),
                info: info.clone(),
                queue,
                shared: Arc::clone(self.shared),
                devices: Arc::clone(self.devices),
                clients: Arc::clone(self.clients),
                peer: format!("{} queue {queue}{recovered}", path(info.id)),
                jobs: self.jobs.clone(),
            };
            let ready = ready.clone();
            let builder = thread::Builder::new().name(format!("ublk{}-{}", info.id, queue.queue));
            workers.push(builder.spawn(move || queue.serve(&ready)).map_err(no_thread)?);
        }
        drop(ready);
        wait_for(info.queues, &readies)
    }
}

/// Waits until all queues are ready.
fn wait_for(queues: u16, readies: &Receiver<Result<(), String>>) -> Result<(), ServeError> {
    for _ in 0..queues {
        match readies.recv() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(ServeError::system(why)),
            Err(mpsc::RecvError) => return Err(ServeError::system("a thread of a ublk queue has ended")),
        }
    }
    Ok(())
}

/// Opens the driver's device for requests.
fn open(id: u32) -> Result<OwnedFd, ServeError> {
    let path = format!("/dev/ublkc{id}");
    let until = Instant::now() + BURIAL;
    loop {
        match rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(device) => return Ok(device),
            // Whatever looks after /dev is about to make it.
            Err(Errno::NOENT | Errno::ACCESS) if Instant::now() < until => thread::sleep(RETRY),
            Err(error) => {
                return Err(ServeError::system(format!("cannot open {path}: {error}; is /dev a devtmpfs?")));
            }
        }
    }
}

/// What the thread of a queue is started with.
struct Queue {
    device: Arc<OwnedFd>,
    info: DeviceInfo,
    queue: u16,
    shared: Arc<Shared>,
    devices: Arc<Devices>,
    clients: Arc<Clients>,
    peer: String,
    jobs: Sender<Job>,
}

impl Queue {
    fn serve(self, ready: &Sender<Result<(), String>>) {
        let (log, peer) = (Arc::clone(&self.shared.log), self.peer.clone());
        match self.worker() {
            Err(why) => {
                // The receiver is gone if another queue has failed already.
                let _ = ready.send(Err(format!("{peer}: {why}")));
            }
            Ok(mut worker) => {
                log(&Event::Connected(worker.client()));
                let _ = ready.send(Ok(()));
                let why = match worker.run() {
                    Ok(()) => "the block device is left".to_owned(),
                    Err(error) => format!("the kernel takes no answers: {error}"),
                };
                worker.end();
                log(&Event::Disconnected(worker.client(), &why));
            }
        }
    }

    fn worker(self) -> Result<Worker<QueueRing>, String> {
        let Queue { device, info, queue, shared, devices, clients, peer, jobs } = self;
        let depth = usize::from(info.depth);
        let channel = shared.served.device().channel(depth).map_err(|error| error.to_string())?;
        let client = connect((&*devices, &clients), &shared, &peer, jobs)?;
        let wake = EventFd::new().map(Arc::new).map_err(|error| error.to_string())?;
        shared.bells.add(&wake);
        let copies = info.flags & feature::USER_COPY != 0;
        let port = QueueRing::new(device, queue, info.depth, info.max_io_bytes as usize, copies)
            .map_err(|error| format!("the driver does not give out requests: {error}"))?;
        Ok(Worker::new(port, channel, client, wake, shared, info.depth))
    }
}

fn connect(
    (devices, clients): (&Devices, &Arc<Clients>),
    shared: &Shared,
    peer: &str,
    jobs: Sender<Job>,
) -> Result<Connected, String> {
    let disconnect = move || {
        // It is being removed if nothing receives it.
        let _ = jobs.send(Job::Disconnect);
    };
    clients.connect_to((devices, &shared.served), KIND, peer, disconnect).map_err(|why| {
        let (log, why): (&Log, String) = (&shared.log, why.to_string());
        log(&Event::Refused { export: KIND, peer, why: &why });
        why
    })
}

impl Export for UblkExport {
    fn address(&self) -> String {
        path(self.id)
    }

    fn begin_stop(&mut self) {
        // All of it happens at the deadline's side: users of the block device have until then to close it.
    }

    fn finish_stop(&mut self, until: Instant) -> Result<(), String> {
        let (reply, result) = channel();
        if self.jobs.send(Job::Stop { until, reply }).is_err() {
            return Ok(());
        }
        let left = until.saturating_duration_since(Instant::now()) + REMOVAL;
        match result.recv_timeout(left) {
            Ok(result) => {
                self.manager.take().into_iter().for_each(|manager| drop(manager.join()));
                result
            }
            // An operator has removed it.
            Err(mpsc::RecvTimeoutError::Disconnected) => Ok(()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let name = self.shared.served.name();
                let of_this =
                    |client: &Arc<crate::clients::Client>| client.export == KIND && client.device == name;
                let count = |client: Arc<crate::clients::Client>| {
                    client.counts.in_flight.load(std::sync::atomic::Ordering::Relaxed)
                };
                let in_flight: u64 = self.clients.list().into_iter().filter(of_this).map(count).sum();
                Err(format!("{in_flight} requests are not answered; the block device stays"))
            }
        }
    }
}
